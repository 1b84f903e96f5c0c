package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
	"foundry/plan"
)

// Bounds on what is read. The largest policy that the benchmarks compile has
// 10,000 phase blocks in under 2 MiB.
const (
	maxFileBytes  = 16 << 20
	maxTotalBytes = 64 << 20
	maxFiles      = 1000
)

// source is one parsed file.
type source struct {
	name string // as the user named it
	dir  string // path.Dir(name)
	body *hclsyntax.Body
	// broken are the places of syntax errors: what is missing may stand there,
	// and what stands there may be half of it.
	broken []diag.Range
}

// reader reads the policy's files, each once, includes first met first.
type reader struct {
	fsys    fs.FS
	dir     string // the folder that fsys is, as the user named it
	files   map[string][]byte
	sources []*source
	bytes   int
	words   int
	diags   *diag.List
	stack   []string        // files whose includes are being followed
	done    map[string]bool // names in fsys
}

// locate finds out whether name is a policy file or a folder of them and
// returns the folder with the files' names in it, sorted.
func locate(name string, open func(string) (fs.FS, error)) (dir string, fsys fs.FS, names []string, d diag.List) {
	clean := path.Clean(name)
	at := diag.Range{File: clean}
	if isJSON(clean) {
		d.Errorat(at, "JSON is no policy", "A policy is written in HCL's native syntax, not in its JSON form. Write the same words as a file that ends in .hcl.")
		return "", nil, nil, d
	}
	parent, base := path.Dir(clean), path.Base(clean)
	var statErr error
	if fs.ValidPath(base) && base != "." {
		pf, err := open(parent)
		if err == nil {
			var info fs.FileInfo
			info, err = fs.Stat(pf, base)
			if err == nil && !info.IsDir() {
				if !strings.HasSuffix(base, ".hcl") {
					d.Errorat(at, "Not a policy file", fmt.Sprintf("A policy is a file that ends in .hcl, or a folder with such files; %q is neither.", clean))
					return "", nil, nil, d
				}
				return parent, pf, []string{base}, nil
			}
		}
		statErr = err
	}
	// A folder, perhaps one that is reached through a link, which the folder
	// above must not follow but its own Open may.
	ff, err := open(clean)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = fs.ReadDir(ff, ".")
	}
	if err != nil {
		if statErr != nil {
			err = statErr
		}
		d.Errorat(at, "Policy cannot be read", fmt.Sprintf("There is no policy at %q: %s. Name a file that ends in .hcl or a folder that holds such files.", clean, reason(err)))
		return "", nil, nil, d
	}
	for _, e := range entries {
		switch n := e.Name(); {
		case e.IsDir() || strings.HasPrefix(n, "."):
		case strings.HasSuffix(n, ".hcl.json"):
			d.Errorat(diag.Range{File: path.Join(clean, n)}, "JSON is no policy", "A policy is written in HCL's native syntax, not in its JSON form. Write the same words as a file that ends in .hcl, or move this file elsewhere.")
		case strings.HasSuffix(n, ".hcl"):
			names = append(names, n)
		}
	}
	if len(names) == 0 && len(d) == 0 {
		d.Errorat(at, "Empty policy", fmt.Sprintf("The folder %q holds no file that ends in .hcl, so nothing would be checked or run.", clean))
	}
	slices.Sort(names)
	return clean, ff, names, d
}

// isJSON reports whether a name is one of HCL's JSON form.
func isJSON(name string) bool { return strings.HasSuffix(name, ".json") }

// reason is an error of a file system without the path, which the message
// already has, and which may be the host's.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// load reads, parses and remembers one file and the files it includes. from is
// the place of the include, zero for the policy's own files.
func (r *reader) load(name string, from diag.Range) {
	full := path.Join(r.dir, name)
	if i := slices.Index(r.stack, name); i >= 0 {
		cycle := append(slices.Clone(r.stack[i:]), name)
		r.diags.Errorat(from, "Include cycle", fmt.Sprintf("These files include each other: %s. Take one of the includes out; what they share can stand in a third file.", strings.Join(cycle, " → ")))
		return
	}
	if r.done[name] {
		return
	}
	r.done[name] = true
	at := from
	if at == (diag.Range{}) {
		at.File = full
	}
	if len(r.done) > maxFiles {
		if len(r.done) == maxFiles+1 {
			r.diags.Errorat(at, "Too many files", fmt.Sprintf("A policy may have at most %d files.", maxFiles))
		}
		return
	}
	src, err := readBounded(r.fsys, name)
	if err != nil {
		r.diags.Errorat(at, "File cannot be read", fmt.Sprintf("%q: %s.", full, reason(err)))
		return
	}
	if r.bytes += len(src); r.bytes > maxTotalBytes {
		r.diags.Errorat(at, "Policy too large", fmt.Sprintf("All files of a policy may have at most %d MiB together.", maxTotalBytes>>20))
		return
	}
	src = normalise(src)
	r.files[full] = src
	before := len(*r.diags)
	body, ok := parse(full, src, &r.words, r.diags)
	if !ok {
		return
	}
	s := &source{name: full, dir: path.Dir(full), body: body}
	for _, x := range (*r.diags)[before:] {
		s.broken = append(s.broken, x.Subject)
	}
	r.sources = append(r.sources, s)
	if attr := body.Attributes["include"]; attr != nil {
		r.stack = append(r.stack, name)
		r.include(name, attr)
		r.stack = r.stack[:len(r.stack)-1]
	}
}

// include follows one include attribute of the file name.
func (r *reader) include(name string, attr *hclsyntax.Attribute) {
	list, ok := attr.Expr.(*hclsyntax.TupleConsExpr)
	if !ok {
		r.diags.Errorat(At(attr.Expr.Range()), "Invalid include", `An include is a list of file names, such as include = ["defaults.hcl"].`)
		return
	}
	for _, e := range list.Exprs {
		at := At(e.Range())
		inc, ok := literal(e)
		if !ok {
			r.diags.Errorat(at, "Invalid include", "An included file is named by a plain string: variables and functions are not known yet when files are read.")
			continue
		}
		switch {
		case isJSON(inc):
			r.diags.Errorat(at, "JSON is no policy", "A policy is written in HCL's native syntax, not in its JSON form.")
		case !fs.ValidPath(inc) || inc == "." || strings.Contains(inc, `\`):
			r.diags.Errorat(at, "Include outside the folder", fmt.Sprintf("An included file lies beneath the folder of the file that includes it, and is named by a plain relative path; %q is not. Move the file there, or make the folder above the policy.", inc))
		case !strings.HasSuffix(inc, ".hcl"):
			r.diags.Errorat(at, "Not a policy file", fmt.Sprintf("An included file ends in .hcl; %q does not.", inc))
		default:
			r.load(path.Join(path.Dir(name), inc), at)
		}
	}
}

// readBounded reads a file of at most maxFileBytes.
func readBounded(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // before it is opened: a pipe would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(src) > maxFileBytes {
		return nil, fmt.Errorf("it has more than %d MiB, the bound of one policy file", maxFileBytes>>20)
	}
	return src, nil
}

// normalise drops a byte order mark at the start and makes CRLF a line feed,
// so that neither an editor nor a checkout's line endings change the plan.
func normalise(src []byte) []byte {
	src = bytes.TrimPrefix(src, []byte("\uFEFF"))
	if bytes.IndexByte(src, '\r') < 0 {
		return src
	}
	return bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n"))
}

// parse checks the bounds and parses. ok is false when there is no body.
func parse(name string, src []byte, words *int, d *diag.List) (body *hclsyntax.Body, ok bool) {
	if !prescan(name, src, words, d) {
		return nil, false
	}
	defer func() {
		// The parser asserts its own bookkeeping by panics.
		if p := recover(); p != nil {
			d.Errorat(diag.Range{File: name}, "Unreadable file", "The HCL parser gave up on this file. Check its brackets and quotes.")
			body, ok = nil, false
		}
	}()
	file, hd := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	addHCL(d, hd)
	body, ok = file.Body.(*hclsyntax.Body)
	return body, ok
}

// maxHCLDiags bounds what one file's syntax errors print.
const maxHCLDiags = 100

// addHCL converts the parser's diagnostics.
func addHCL(d *diag.List, hd hcl.Diagnostics) {
	for i, h := range hd {
		var at diag.Range
		if h.Subject != nil {
			at = At(*h.Subject)
		}
		if i == maxHCLDiags {
			d.Errorat(at, "Too many syntax errors", fmt.Sprintf("%d more are not shown.", len(hd)-i))
			return
		}
		detail := h.Detail
		if strings.Contains(h.Summary, "interpolation") && !strings.Contains(detail, "$${") {
			detail += " To keep ${ as it is, for a shell or for the worker, write $${."
		}
		if h.Severity == hcl.DiagWarning {
			d.Warnat(at, h.Summary, detail)
		} else {
			d.Errorat(at, h.Summary, detail)
		}
	}
}

// At converts a place.
func At(r hcl.Range) diag.Range {
	return diag.Range{
		File:  r.Filename,
		Start: diag.Pos{Line: r.Start.Line, Column: r.Start.Column, Byte: r.Start.Byte},
		End:   diag.Pos{Line: r.End.Line, Column: r.End.Column, Byte: r.End.Byte},
	}
}

// literal returns the text of a plain quoted string or a one-line heredoc.
func literal(e hclsyntax.Expression) (string, bool) {
	if t, ok := e.(*hclsyntax.TemplateExpr); ok && len(t.Parts) == 1 {
		if l, ok := t.Parts[0].(*hclsyntax.LiteralValueExpr); ok && l.Val.Type() == cty.String {
			return l.Val.AsString(), true
		}
	}
	return "", false
}

// badText returns what a text may not hold, or "". Line feeds and tabs are
// allowed in prose and never in a name or path.
func badText(s string, prose bool) string {
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch {
		case prose && (r == '\n' || r == '\t'):
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			return fmt.Sprintf("the control character U+%04X", r)
		case isBidi(r):
			return fmt.Sprintf("the invisible character U+%04X, which changes the order in which text is shown", r)
		case r == 0xFEFF:
			return "a byte order mark (U+FEFF)"
		}
	}
	return ""
}

// isBidi reports the characters that reorder what a reviewer sees.
func isBidi(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F || r == 0x061C
}

// validName is plan.ValidID, with #N for the N-th node of one skill.
func validName(s string) bool {
	base, n, found := strings.Cut(s, "#")
	if !found {
		return plan.ValidID(s)
	}
	if n == "" || len(n) > 5 || n[0] == '0' || n == "1" {
		return false
	}
	for i := range len(n) {
		if n[i] < '0' || n[i] > '9' {
			return false
		}
	}
	return plan.ValidID(base)
}
