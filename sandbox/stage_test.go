package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"foundry/plan"
)

func TestCheckPath(t *testing.T) {
	for _, good := range []string{"a", "a/b", "a b/ü.md", ".hidden", "..a", "a..", "日本/語", strings.Repeat("n", 255)} {
		if err := CheckPath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/.", "../a", "a/..", "a/../b", "a\x00b", "a\nb", "a\x7f", "a\u0085", "a\u202eb", "a\u2028", "\xff", "a/\xc0\xaf", strings.Repeat("n", 256), strings.Repeat("n/", 600) + "n"} {
		if CheckPath(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "/etc", "a//b", "a/./b", "\x00", "a\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		if !fs.ValidPath(p) || p == "." || !filepath.IsLocal(p) || path.Join("/root", p) != "/root/"+p || strings.ContainsRune(p, 0) {
			t.Errorf("%q was accepted", p)
		}
	})
}

// file puts bytes into the store and returns their entry.
func file(t testing.TB, s *Store, p, mode, content string) plan.BundleFile {
	t.Helper()
	digest, err := s.Put([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return plan.BundleFile{Path: p, Mode: mode, Bytes: int64(len(content)), Digest: digest}
}

// list is a tree as a bundle's file list.
func list(t testing.TB, root string) []plan.BundleFile {
	t.Helper()
	var files []plan.BundleFile
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			if inside, err := os.ReadDir(p); err != nil || len(inside) > 0 {
				return err
			}
			files = append(files, plan.BundleFile{Path: rel, Mode: plan.ModeDir})
			return nil
		}
		data, err := os.ReadFile(p)
		mode := plan.ModeRegular
		if info.Mode()&0o100 != 0 {
			mode = plan.ModeExecutable
		}
		files = append(files, plan.BundleFile{Path: rel, Mode: mode, Bytes: info.Size(), Digest: plan.Digest(data)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b plan.BundleFile) int { return strings.Compare(a.Path, b.Path) })
	return files
}

func TestMaterialize(t *testing.T) {
	// Another umask must not change the modes.
	defer syscall.Umask(syscall.Umask(0o077))
	s := newStore(t)
	files := []plan.BundleFile{
		file(t, s, "SKILL.md", plan.ModeRegular, "# skill\n"),
		{Path: "empty", Mode: plan.ModeDir},
		file(t, s, "scripts/run", plan.ModeExecutable, "#!/bin/true\n"),
	}
	dst := filepath.Join(t.TempDir(), "dst")
	if err := Materialize(t.Context(), s, files, dst); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, list(t, dst)); diff != "" {
		t.Error(diff)
	}
	for p, want := range map[string]fs.FileMode{".": 0o555, "empty": 0o555, "scripts": 0o555, "SKILL.md": 0o444, "scripts/run": 0o555} {
		info, err := os.Stat(filepath.Join(dst, p))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", p, info.Mode(), want, err)
		}
	}
	if err := RemoveTree(dst); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
}

func TestMaterializeRefuses(t *testing.T) {
	s := newStore(t)
	ok := file(t, s, "ok", plan.ModeRegular, "ok")
	with := func(change func(*plan.BundleFile)) plan.BundleFile {
		f := ok
		f.Path = "bad"
		change(&f)
		return f
	}
	for name, bad := range map[string]plan.BundleFile{
		"dots":        with(func(f *plan.BundleFile) { f.Path = "../bad" }),
		"absolute":    with(func(f *plan.BundleFile) { f.Path = "/tmp/bad" }),
		"empty":       with(func(f *plan.BundleFile) { f.Path = "" }),
		"nul":         with(func(f *plan.BundleFile) { f.Path = "a\x00" }),
		"mode":        with(func(f *plan.BundleFile) { f.Mode = "4755" }),
		"too short":   with(func(f *plan.BundleFile) { f.Bytes = 1 }),
		"too long":    with(func(f *plan.BundleFile) { f.Bytes = 3 }),
		"unknown":     with(func(f *plan.BundleFile) { f.Digest = plan.Digest([]byte("nobody has this")) }),
		"twice":       ok,
		"below file":  with(func(f *plan.BundleFile) { f.Path = "ok/below" }),
		"folder file": {Path: "ok", Mode: plan.ModeDir},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dst := filepath.Join(parent, "dst")
			if err := Materialize(t.Context(), s, []plan.BundleFile{ok, bad}, dst); err == nil {
				t.Fatal("it was written")
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Materialize(cancelled, s, []plan.BundleFile{ok}, filepath.Join(t.TempDir(), "dst")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Materialize(t.Context(), s, []plan.BundleFile{ok}, full); err == nil {
		t.Error("a folder that is not empty was written to")
	}
	if _, err := os.Stat(filepath.Join(full, "mine")); err != nil {
		t.Error("what was there before is gone")
	}
}

// TestTreeRoundTrip: what is materialized, copied and collected is the same
// tree, whatever its names and bytes.
func TestTreeRoundTrip(t *testing.T) {
	s := newStore(t)
	name := rapid.StringMatching(`[a-z][a-z0-9 ._é日-]{0,6}[a-z0-9]`)
	rapid.Check(t, func(rt *rapid.T) {
		base, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		taken := map[string]bool{}
		var files []plan.BundleFile
		for _, parts := range rapid.SliceOfN(rapid.SliceOfN(name, 1, 3), 0, 8).Draw(rt, "paths") {
			p := strings.Join(parts, "/")
			if clashes(taken, p) {
				continue
			}
			taken[p] = true
			mode := rapid.SampledFrom([]string{plan.ModeRegular, plan.ModeExecutable, plan.ModeDir}).Draw(rt, "mode")
			if mode == plan.ModeDir {
				files = append(files, plan.BundleFile{Path: p, Mode: mode})
				continue
			}
			files = append(files, file(t, s, p, mode, rapid.StringN(0, 50, -1).Draw(rt, "bytes")))
		}
		slices.SortFunc(files, func(a, b plan.BundleFile) int { return strings.Compare(a.Path, b.Path) })
		out := filepath.Join(base, "out")
		must(rt, os.Mkdir(out, 0o700))
		must(rt, Materialize(t.Context(), s, files, filepath.Join(base, "m")))
		must(rt, CopyTree(filepath.Join(base, "m"), filepath.Join(out, "tree"), false))
		outputs := []plan.NodeOutput{{Artifact: "tree", Filename: "tree", Kind: plan.KindDirectory}}
		got, err := Collect(t.Context(), out, outputs, Limits{Bytes: 1 << 20, Files: 100}, filepath.Join(base, "frozen"))
		must(rt, err)
		if len(got.Refusals) > 0 || len(got.Collected) != 1 {
			rt.Fatalf("refused: %+v", got)
		}
		if diff := cmp.Diff(files, got.Collected[0].Files); diff != "" {
			rt.Error(diff)
		}
		if diff := cmp.Diff(files, list(t, got.Collected[0].Path)); diff != "" {
			rt.Error(diff)
		}
		want, err := plan.TreeDigest(files)
		must(rt, err)
		if got.Collected[0].Digest != want {
			rt.Errorf("digest %s, want %s", got.Collected[0].Digest, want)
		}
		must(rt, RemoveTree(base))
	})
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clashes says that p cannot be beside what is taken.
func clashes(taken map[string]bool, p string) bool {
	f := newFolder()
	for q := range taken {
		for i := range strings.Split(p, "/") {
			for j := range strings.Split(q, "/") {
				a, b := strings.Join(strings.Split(p, "/")[:i+1], "/"), strings.Join(strings.Split(q, "/")[:j+1], "/")
				if a != b && f.key(a) == f.key(b) || a == b && (a == p || b == q) {
					return true
				}
			}
		}
	}
	return false
}

func TestCopyTreeRefusesLinks(t *testing.T) {
	for name, make := range map[string]func(string) error{
		"link": func(p string) error { return os.Symlink("/etc/passwd", p) },
		"fifo": func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		src := t.TempDir()
		if err := make(filepath.Join(src, "x")); err != nil {
			t.Fatal(err)
		}
		dst := filepath.Join(t.TempDir(), "dst")
		if err := CopyTree(src, dst, true); err == nil {
			t.Errorf("%s was copied", name)
		}
		if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: left behind: %v", name, err)
		}
	}
}

func TestRemoveTree(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "keep"), nil, 0o644))

	dir := filepath.Join(base, "dir")
	must(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(dir, "a/b/link")))
	must(t, os.WriteFile(filepath.Join(dir, ".lifted-1"), nil, 0o644))
	must(t, os.MkdirAll(filepath.Join(dir, ".lifted-2/full"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a/b/c/f"), nil, 0))
	for _, d := range []string{"a/b/c", "a/b", "a"} {
		must(t, os.Chmod(filepath.Join(dir, d), 0))
	}
	must(t, RemoveTree(dir))
	must(t, RemoveTree(dir)) // nothing there is no error

	link := filepath.Join(base, "link")
	must(t, os.Symlink(outside, link))
	must(t, RemoveTree(link))
	left := list(t, base)
	if len(left) != 1 || left[0].Path != "outside/keep" {
		t.Errorf("left: %v", left)
	}
	for _, bad := range []string{"", ".", "..", "/", "a/.."} {
		if RemoveTree(bad) == nil {
			t.Errorf("RemoveTree(%q) did something", bad)
		}
	}
}
