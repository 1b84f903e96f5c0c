package bundle

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// bundleFolders are the folders of a bundle that a code span may name a file of.
var bundleFolders = []string{"references", "scripts", "assets", "build", "bin", "dist", "templates", "examples"}

// mention is a file that SKILL.md names.
type mention struct {
	path   string // cleaned; may start with ".."
	offset int    // in the text
}

// mentions reports every file that SKILL.md names and the bundle lacks:
// packers drop links and ignored folders without a word.
func (s *source) mentions(sk *Skill, body int) {
	for _, m := range findMentions(s.data[body:]) {
		at := s.place(body + m.offset)
		switch {
		case m.path == ".." || strings.HasPrefix(m.path, "../"):
			s.problems.Errorat(at, "File outside the bundle", fmt.Sprintf("SKILL.md names %q, which lies outside the bundle: a worker gets the bundle alone. Copy the file into it.", m.path))
		case m.path == ".", hasFolder(sk, m.path):
		default:
			if _, ok := sk.Data[m.path]; !ok {
				s.problems.Errorat(at, "File missing from the bundle", fmt.Sprintf("SKILL.md names %q, but the bundle has no such file or folder. Was it dropped when the skill was packed? Publish it again with the file, or remove the mention.", m.path))
			}
		}
	}
}

// hasFolder reports whether the bundle has a folder of this path.
func hasFolder(sk *Skill, name string) bool {
	files := sk.Bundle.Files
	i, exact := slices.BinarySearchFunc(files, name+"/", byPath)
	if !exact && i < len(files) && strings.HasPrefix(files[i].Path, name+"/") {
		return true
	}
	i, exact = slices.BinarySearchFunc(files, name, byPath)
	return exact && files[i].Digest == ""
}

// findMentions finds relative link targets, and code spans that start with a
// folder of a bundle.
func findMentions(body []byte) []mention {
	var found []mention
	root := goldmark.DefaultParser().Parse(text.NewReader(body))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var name string
		var ok bool
		switch n := n.(type) {
		case *ast.Link:
			name, ok = linkTarget(string(n.Destination))
		case *ast.Image:
			name, ok = linkTarget(string(n.Destination))
		case *ast.CodeSpan:
			name, ok = codeTarget(spanText(n, body))
		}
		if ok && !placeholder(name) {
			found = append(found, mention{path.Clean(name), max(n.Pos(), 0)})
		}
		return ast.WalkContinue, nil
	})
	return found
}

func spanText(n *ast.CodeSpan, body []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(body))
		}
	}
	return b.String()
}

// linkTarget returns the path that a relative link names.
func linkTarget(dest string) (string, bool) {
	if strings.ContainsAny(dest, "{}<>") { // a placeholder need not be a URL
		return "", false
	}
	u, err := url.Parse(dest)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || strings.HasPrefix(u.Path, "/") {
		return "", false
	}
	return u.Path, true
}

// codeTarget returns the file that a code span names: its first word, without
// a fragment. A bare folder of the known ones is a way of speaking.
func codeTarget(code string) (string, bool) {
	fields := strings.Fields(code)
	if len(fields) == 0 {
		return "", false
	}
	name, _, _ := strings.Cut(fields[0], "#")
	name = strings.TrimRight(strings.TrimPrefix(name, "./"), ".,;:")
	folder, rest, ok := strings.Cut(name, "/")
	return name, ok && rest != "" && slices.Contains(bundleFolders, folder)
}

// placeholder reports a path that stands for many.
func placeholder(name string) bool {
	return strings.ContainsAny(name, "<>{}*$") || strings.Contains(name, "…") || strings.Contains(name, "...")
}
