package bundle

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"foundry/plan"
)

// tree writes files (a name that ends in "/" is a folder, a text that starts
// with "-> " a link, "x " an executable) below a new folder.
func tree(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	for name, text := range files {
		if err := root.MkdirAll(filepath.Dir(strings.TrimSuffix(name, "/")), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = root.Symlink(target, name)
		} else if strings.HasSuffix(name, "/") {
			err = root.MkdirAll(strings.TrimSuffix(name, "/"), 0o755)
		} else if script, ok := strings.CutPrefix(text, "x "); ok {
			err = root.WriteFile(name, []byte(script), 0o700)
		} else {
			err = root.WriteFile(name, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func listing(files []plan.BundleFile, data map[string][]byte) []string {
	var lines []string
	for _, f := range files {
		line := f.Path + " " + f.Mode
		if f.Mode != plan.ModeDir {
			line += fmt.Sprintf(" %d %q", f.Bytes, data[f.Path])
			if f.Digest != plan.Digest(data[f.Path]) {
				line += " WRONG DIGEST"
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestReadTree(t *testing.T) {
	root := tree(t, map[string]string{
		"skills/a/b.txt": "b", "skills/a/b/c": "c", "skills/a/b-c": "x run", "skills/a/empty/": "", "skills/a/.ignore": "build\n",
		"skills/a/build/run.sh": "x #!", "skills/a/link": "-> b/../build/run.sh", "skills/a/folder": "-> build", "skills/a/chain": "-> link",
		"skills/alias": "-> ./a", "skills/deep": "-> ../skills/a/b", "one": "1", "to-one": "-> one",
	})
	want := []string{
		`.ignore 0644 6 "build\n"`, `b-c 0755 3 "run"`, `b.txt 0644 1 "b"`, `b/c 0644 1 "c"`, `build/run.sh 0755 2 "#!"`, `chain 0755 2 "#!"`,
		`empty dir`, `folder/run.sh 0755 2 "#!"`, `link 0755 2 "#!"`,
	}
	for _, dir := range []string{"skills/a", "skills/alias"} {
		files, data, problems := ReadTree(root.FS(), dir, "shown", Limits{})
		if d := cmp.Diff(want, listing(files, data)); d != "" || len(problems) > 0 {
			t.Errorf("%s: %+v (-want +got):\n%s", dir, problems, d)
		}
	}
	sub, err := root.OpenRoot("skills/a")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if files, data, problems := ReadTree(sub.FS(), ".", "shown", Limits{}); len(problems) > 0 || !slices.Equal(want, listing(files, data)) {
		t.Errorf("own root: %+v %q", problems, listing(files, data))
	}
	for _, name := range []string{"one", "to-one"} {
		files, data, problems := ReadTree(root.FS(), name, "shown", Limits{})
		if got := listing(files, data); len(problems) > 0 || !slices.Equal(got, []string{name + ` 0644 1 "1"`}) {
			t.Errorf("%s: %+v %q", name, problems, got)
		}
	}
	// The target of "deep" is inside the file system, but not beside the link.
	if _, _, problems := ReadTree(root.FS(), "skills/deep", "shown", Limits{}); !problems.HasErrors() {
		t.Error("a link that leaves the folder it stands in was followed")
	}
}

func TestTreeProblems(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a file system that keeps any two names apart")
	}
	var g golden
	cases := []struct {
		name  string
		files map[string]string
	}{
		{"outside", map[string]string{"s/a": "-> ../../secret", "s/b": "-> ../secret", "secret": "x"}},
		{"outside and back", map[string]string{"s/a": "-> ../s/b", "s/b": "x"}},
		{"outside through a folder", map[string]string{"s/d": "-> .", "s/a": "-> d/../../secret", "secret": "x"}},
		{"absolute", map[string]string{"s/a": "-> /etc/passwd"}},
		{"dangling", map[string]string{"s/a": "-> b"}},
		{"file as folder", map[string]string{"s/a": "-> b/c", "s/b": "x"}},
		{"circle", map[string]string{"s/a": "-> b", "s/b": "-> a"}},
		{"itself", map[string]string{"s/a": "-> a"}},
		{"endless folder", map[string]string{"s/d/a": "-> ..", "s/d/b": "-> ."}},
		{"mutual folders", map[string]string{"s/d/a": "-> ../e", "s/e/b": "-> ../d"}},
		{"case", map[string]string{"s/Report.md": "1", "s/report.md": "2"}},
		{"case of a folder", map[string]string{"s/D/a": "1", "s/d/b": "2"}},
		{"form", map[string]string{"s/\u00e9": "1", "s/e\u0301": "2"}},
		{"sharp s", map[string]string{"s/stra\u00dfe": "1", "s/STRASSE": "2"}},
		{"control", map[string]string{"s/a\nb": "1", "s/c\u202ed": "2"}},
		{"not utf-8", map[string]string{"s/a\xff": "1"}},
		{"backslash", map[string]string{"s/a\\b": "1"}},
		{"repository", map[string]string{"s/.git/config": "1", "s/d/.GIT": "2"}},
		{"empty", map[string]string{"s/": ""}},
		{"missing", map[string]string{"t/": ""}},
		{"folder link outside", map[string]string{"t/s/a": "1", "s": "-> ../s"}},
		{"folder link absolute", map[string]string{"s": "-> /tmp"}},
	}
	for _, c := range cases {
		root := tree(t, c.files)
		_, _, problems := ReadTree(root.FS(), "s", "shown/s", Limits{})
		if !problems.HasErrors() {
			t.Errorf("%s: no error", c.name)
		}
		g.add(c.name, problems)
	}
	root := tree(t, map[string]string{"s/a": "1"})
	if err := syscall.Mkfifo(filepath.Join(root.Name(), "s", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, problems := ReadTree(root.FS(), "s", "shown/s", Limits{})
	g.add("pipe", problems)
	_, _, problems = ReadTree(root.FS(), "s/pipe", "shown/s/pipe", Limits{})
	g.add("only a pipe", problems)
	_, _, problems = ReadTree(root.FS(), "../s", "../s", Limits{})
	g.add("not clean", problems)
	g.check(t, "tree.golden")
}

func TestTreeLimits(t *testing.T) {
	fsys := fstest.MapFS{"s/a": {Data: []byte("12345")}, "s/b": {Data: []byte("12345")}, "s/d/e/f": {Data: []byte("1")}}
	cases := []struct {
		limits Limits
		want   string // "" = fine
	}{
		{Limits{Files: 5, Bytes: 11, Depth: 2}, ""},
		{Limits{Files: 4}, "more than 4 files"},
		{Limits{Bytes: 10}, "more than 10 bytes"},
		{Limits{Bytes: 9}, "more than 9 bytes"},
		{Limits{Bytes: 1}, "more than 1 bytes"},
		{Limits{Depth: 1}, "more than 1 folders deep"},
	}
	for _, c := range cases {
		_, _, problems := ReadTree(fsys, "s", "s", c.limits)
		if c.want == "" && len(problems) > 0 || c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Detail, c.want)) {
			t.Errorf("%+v: %+v, want %q", c.limits, problems, c.want)
		}
	}
}

// Links that multiply are stopped by the limits.
func TestTreeOfManyLinks(t *testing.T) {
	files := map[string]string{"s/d00/x": "1"}
	for i := 1; i < 30; i++ {
		files[fmt.Sprintf("s/d%02d/a", i)] = fmt.Sprintf("-> ../d%02d", i-1)
		files[fmt.Sprintf("s/d%02d/b", i)] = fmt.Sprintf("-> ../d%02d", i-1)
	}
	_, _, problems := ReadTree(tree(t, files).FS(), "s", "s", Limits{})
	if len(problems) != 1 || problems[0].Summary != "Bundle too large" {
		t.Errorf("%+v", problems)
	}
}

// countFS counts how often each file is opened.
type countFS struct {
	fs.FS
	opened map[string]int
}

func (c countFS) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.FS.Open(name)
}
func (c countFS) ReadLink(name string) (string, error)   { return fs.ReadLink(c.FS, name) }
func (c countFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(c.FS, name) }

func TestEachFileIsReadOnce(t *testing.T) {
	root := tree(t, map[string]string{"s/a": "1", "s/b": "-> a", "s/c": "-> b"})
	c := countFS{root.FS(), map[string]int{}}
	if files, _, problems := ReadTree(c, "s", "s", Limits{}); len(problems) > 0 || len(files) != 3 || c.opened["s/a"] != 1 {
		t.Errorf("%+v, %d files, opened %v", problems, len(files), c.opened)
	}
}

// The same files give the same list, in whatever order and place they were
// made, and the list passes for sorted and free of collisions.
func TestTreeIsAFunctionOfItsFiles(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "a-b", "a.b", "A1", "é", "z z"})
	rapid.Check(t, func(t *rapid.T) {
		fsys, moved := fstest.MapFS{}, fstest.MapFS{}
		for range rapid.IntRange(1, 8).Draw(t, "files") {
			p := name.Draw(t, "folder") + "/" + name.Draw(t, "name") + ".f"
			file := &fstest.MapFile{Data: []byte(rapid.String().Draw(t, "text")), Mode: fs.FileMode(rapid.SampledFrom([]int{0o600, 0o644, 0o755, 0o777}).Draw(t, "mode"))}
			fsys["s/"+p], moved["other/place/"+p] = file, file
		}
		files, data, problems := ReadTree(fsys, "s", "s", Limits{})
		again, _, _ := ReadTree(moved, "other/place", "s", Limits{})
		if len(problems) > 0 || len(files) != len(fsys) || len(data) != len(fsys) {
			t.Fatalf("%d files of %d: %+v", len(files), len(fsys), problems)
		}
		if !slices.Equal(files, again) {
			t.Fatalf("%+v and %+v", files, again)
		}
		if !slices.IsSortedFunc(files, func(a, b plan.BundleFile) int { return strings.Compare(a.Path, b.Path) }) {
			t.Fatalf("not sorted: %+v", files)
		}
	})
}

func TestSkillLinks(t *testing.T) {
	root := tree(t, map[string]string{
		"skills/demo/docs/skill.txt": goodHeader, "skills/demo/SKILL.md": "-> docs/skill.txt",
		"skills/linked": "-> real/linked", "skills/real/linked/SKILL.md": strings.Replace(goodHeader, "demo", "linked", 1),
		"skills/out/SKILL.md": "-> ../../secret", "secret": goodHeader, "skills/gone": "-> nowhere", "skills/loop": "-> loop",
		"skills/away": "-> ../elsewhere", "elsewhere/SKILL.md": goodHeader,
	})
	for _, name := range []string{"demo", "linked"} {
		s, problems := ReadSkill(root.FS(), "skills", name, "skills")
		if s == nil {
			t.Errorf("%s: %+v", name, problems)
		} else if s.Description != "Sums numbers up." || s.Bundle.Files[0].Path != "SKILL.md" {
			t.Errorf("%s: %+v", name, s.Bundle)
		}
	}
	var g golden
	for _, name := range []string{"out", "gone", "loop", "away"} {
		s, problems := ReadSkill(root.FS(), "skills", name, "skills")
		if s != nil {
			t.Errorf("%s was read", name)
		}
		g.add(name, problems)
	}
	g.check(t, "links.golden")
}
