package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"foundry/compile/internal/diag"
	"foundry/plan"
)

// Limits bounds one tree. A zero field means its default.
type Limits struct {
	Files int   // files and folders; default 10,000
	Bytes int64 // of all files together; default 256 MiB, since they are held in memory
	Depth int   // folders inside folders; default 32
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Files: cmp.Or(l.Files, 10_000),
		Bytes: cmp.Or(l.Bytes, 256<<20),
		Depth: cmp.Or(l.Depth, 32),
	}
}

// ReadTree reads the folder dir of fsys, or the single file dir, whole: its
// files and empty folders sorted by path bytes, and the bytes of each file by
// path. The path of a single file is its base name. Display is how the user
// named dir; the problems use it.
//
// A link is replaced by what it leads to, which must lie inside the folder;
// dir itself may be a link to something beside it. Refused are links that leave
// the folder, are absolute, dangle or go in a circle, files that are neither
// regular nor folders, names that another system could not keep apart or hold,
// and ".git". No ignore file is honoured. When problems has errors, files and
// data are incomplete.
func ReadTree(fsys fs.FS, dir, display string, limits Limits) (files []plan.BundleFile, data map[string][]byte, problems diag.List) {
	w := &walker{fsys: fsys, display: display, limits: limits.withDefaults(), data: map[string][]byte{}, blobs: map[string]blob{}}
	real, info, err := locate(fsys, dir)
	if err != nil {
		w.unresolved("", display, err)
		return nil, nil, w.problems
	}
	switch {
	case info.IsDir():
		w.root = real
		w.walk(real, "", 0)
		if len(w.files) == 0 && len(w.problems) == 0 {
			w.problem("", "Empty folder", fmt.Sprintf("%q holds nothing.", display))
		}
	case info.Mode().IsRegular():
		if name := path.Base(dir); w.nameOK(name, name) {
			w.file(real, name, info)
		}
	default:
		w.problem("", "Special file", fmt.Sprintf("%q is neither a regular file nor a folder.", display))
	}
	slices.SortFunc(w.files, func(a, b plan.BundleFile) int { return strings.Compare(a.Path, b.Path) })
	w.problems.Sort()
	return w.files, w.data, w.problems
}

// locate finds dir in fsys. Its parent is looked up below fsys' root, its last
// name below that parent.
func locate(fsys fs.FS, dir string) (string, fs.FileInfo, error) {
	if !fs.ValidPath(dir) {
		return "", nil, fmt.Errorf("%q is no clean relative path", dir)
	}
	parent, _, err := resolve(fsys, ".", path.Dir(dir))
	if err != nil {
		return "", nil, err
	}
	real, info, err := resolve(fsys, parent, path.Base(dir))
	if err != nil {
		return "", nil, err
	}
	return path.Join(parent, real), info, nil
}

type blob struct {
	data   []byte
	digest string
}

// walker reads one tree. Real paths are paths in fsys without links; the other
// ones are paths in the bundle.
type walker struct {
	fsys     fs.FS
	root     string // real
	display  string
	limits   Limits
	files    []plan.BundleFile
	data     map[string][]byte
	blobs    map[string]blob // by real path: a file that links lead to is read and hashed once
	problems diag.List
	open     []string // real folders around the one being walked
	entries  int
	bytes    int64
	full     bool // a limit is reached
}

func (w *walker) problem(at, summary, detail string) {
	file := w.display
	if at != "" {
		file = path.Join(w.display, at)
	}
	w.problems.Errorat(diag.Range{File: file}, summary, detail)
}

func (w *walker) limit(detail string) {
	if !w.full {
		w.problem("", "Bundle too large", detail+" Keep what belongs to no skill out of the folder.")
	}
	w.full = true
}

func (w *walker) walk(real, rel string, depth int) {
	if depth > w.limits.Depth {
		w.limit(fmt.Sprintf("%q is more than %d folders deep.", rel, w.limits.Depth))
		return
	}
	list, err := fs.ReadDir(w.fsys, real)
	if err != nil {
		w.problem(rel, "Unreadable folder", fmt.Sprintf("The folder %q cannot be read: %s.", cmp.Or(rel, "."), reason(err)))
		return
	}
	if len(list) == 0 && rel != "" {
		w.files = append(w.files, plan.BundleFile{Path: rel, Mode: plan.ModeDir})
	}
	w.open = append(w.open, real)
	defer func() { w.open = w.open[:len(w.open)-1] }()
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	seen := make(map[string]string, len(list))
	for _, entry := range list {
		if w.full {
			return
		}
		if w.entries++; w.entries > w.limits.Files {
			w.limit(fmt.Sprintf("There are more than %d files and folders.", w.limits.Files))
			return
		}
		name := entry.Name()
		at := path.Join(rel, name)
		if !w.nameOK(name, at) {
			continue
		}
		key := foldName(name)
		if first, ok := seen[key]; ok {
			w.problem(at, "Names that collide", fmt.Sprintf("%+q and %+q differ only by letter case or Unicode form: some systems keep only one of them. Rename one.", path.Join(rel, first), at))
			continue
		}
		seen[key] = name
		w.entry(path.Join(real, name), at, depth)
	}
}

// entry adds what stands at a real path that may be a link.
func (w *walker) entry(real, at string, depth int) {
	info, err := fs.Lstat(w.fsys, real)
	target := ""
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		target, info, err = resolve(w.fsys, w.root, strings.TrimPrefix(real, strings.TrimPrefix(w.root+"/", "./")))
		real = path.Join(w.root, target)
	}
	if err != nil {
		w.unresolved(at, at, err)
		return
	}
	switch {
	case info.IsDir():
		if slices.Contains(w.open, real) {
			w.problem(at, "Refused link", fmt.Sprintf("The link %q leads to %q, a folder that it stands in: the tree would never end. Remove it.", at, target))
			return
		}
		w.walk(real, at, depth+1)
	case info.Mode().IsRegular():
		w.file(real, at, info)
	default:
		w.problem(at, "Special file", fmt.Sprintf("%q is neither a regular file nor a folder (%s). Remove it.", at, info.Mode().Type()))
	}
}

// unresolved reports a name that leads nowhere it may lead.
func (w *walker) unresolved(at, name string, err error) {
	if le, ok := errors.AsType[*linkError](err); ok && le.first.link != "" {
		w.problem(at, "Refused link", fmt.Sprintf("%q cannot be followed: %s. A link must lead to something in its own folder: put a copy in its place.", name, le))
		return
	}
	w.problem(at, "Unreadable file", fmt.Sprintf("%q cannot be read: %s.", name, reason(err)))
}

func (w *walker) file(real, at string, info fs.FileInfo) {
	b, ok := w.blobs[real]
	if !ok {
		data, err := w.read(real)
		if err != nil {
			w.problem(at, "Unreadable file", fmt.Sprintf("%q cannot be read: %s.", at, reason(err)))
			return
		}
		b = blob{data, plan.Digest(data)}
		w.blobs[real] = b
	}
	w.bytes += int64(len(b.data))
	if w.bytes > w.limits.Bytes {
		w.limit(fmt.Sprintf("The files have more than %d bytes together.", w.limits.Bytes))
		return
	}
	mode := plan.ModeRegular
	if info.Mode()&0o100 != 0 {
		mode = plan.ModeExecutable
	}
	w.files = append(w.files, plan.BundleFile{Path: at, Mode: mode, Bytes: int64(len(b.data)), Digest: b.digest})
	w.data[at] = b.data
}

// read reads a regular file, at most one byte more than the limit allows.
func (w *walker) read(real string) ([]byte, error) {
	f, err := w.fsys.Open(real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// It was a regular file a moment ago; a pipe in its place would never end.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no longer a regular file")
	}
	left := w.limits.Bytes - w.bytes + 1
	data := make([]byte, 0, min(max(info.Size(), 0), left)+1)
	r := io.LimitReader(f, left)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, 512)
		}
	}
}

// nameOK refuses a name that another system could not hold, or that a reviewer
// could not read as it is.
func (w *walker) nameOK(name, at string) bool {
	switch {
	case !utf8.ValidString(name):
		w.problem(strings.ToValidUTF8(at, "\uFFFD"), "Bad file name", fmt.Sprintf("%q is not valid UTF-8. Rename it.", at))
	case strings.ContainsFunc(name, unprintable):
		w.problem(strings.Map(visible, at), "Bad file name", fmt.Sprintf("%+q has characters that cannot be seen. Rename it.", at))
	case strings.Contains(name, `\`):
		w.problem(at, "Bad file name", fmt.Sprintf("%q has a backslash, which divides folders on other systems. Rename it.", at))
	case !plan.ValidPath(at):
		w.problem(at, "Bad file name", fmt.Sprintf("%q is too long a path, or absolute on another system. Rename it.", at))
	case foldName(name) == ".git":
		w.problem(at, "Repository in a bundle", fmt.Sprintf("%q is a repository's administration and no part of a bundle. Remove it, or name the folder without it.", at))
	default:
		return true
	}
	return false
}

// unprintable reports control characters, and those that end a line or turn
// the direction of text around without being seen.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' ||
		r == '\u200E' || r == '\u200F' || r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069' || r == '\uFEFF'
}

func visible(r rune) rune {
	if unprintable(r) {
		return '\uFFFD'
	}
	return r
}

// foldName maps names that a file system without letter case, or with another
// Unicode form, would take for one to one string.
func foldName(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(s)))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
