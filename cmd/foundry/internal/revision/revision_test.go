package revision

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// repository makes a repository with one commit of what is written into it.
func repository(t *testing.T, write func(dir string)) (string, *git.Repository) {
	t.Helper()
	dir := t.TempDir()
	repo, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, dir, repo, write)
	return dir, repo
}

func commit(t *testing.T, dir string, repo *git.Repository, write func(dir string)) string {
	t.Helper()
	write(dir)
	w, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1_700_000_000, 0)
	hash, err := w.Commit("a change", &git.CommitOptions{Author: &object.Signature{Name: "n", Email: "n@example.com", When: when}})
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func put(t *testing.T, dir, name, text string, mode fs.FileMode) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, dir, name, target string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestFolderIsAFileSystem(t *testing.T) {
	dir, _ := repository(t, func(dir string) {
		put(t, dir, "skills/a/SKILL.md", "text", 0o644)
		put(t, dir, "skills/a/run", "#!", 0o755)
		link(t, filepath.Join(dir, "skills"), "same", "a")
		link(t, filepath.Join(dir, "skills", "a"), "also.md", "SKILL.md")
	})
	tree, err := Open(filepath.Join(dir, "skills"), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	f, err := tree.Folder("skills")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(f, "a/SKILL.md", "a/run", "a/also.md"); err != nil {
		t.Error(err)
	}
	info, err := fs.Stat(f, "a/run")
	if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	for _, name := range []string{"same/also.md", "a/SKILL.md"} {
		if data, err := fs.ReadFile(f, name); err != nil || string(data) != "text" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if target, err := fs.ReadLink(f, "same"); err != nil || target != "a" {
		t.Errorf("%q, %v", target, err)
	}
	for name, want := range map[string]string{"policy.hcl": "policy.hcl", "./policy.hcl": "skills/policy.hcl", "../x": "x", ".": "skills"} {
		if got := tree.Name(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if _, err := tree.Folder(filepath.Join(dir, "skills", "a")); err != nil {
		t.Errorf("an absolute path in the working tree: %v", err)
	}
}

// TestNothingElseIsReached: neither the disk nor another folder of the commit,
// by whatever path or link.
func TestNothingElseIsReached(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "secret", "secret", 0o644)
	dir, _ := repository(t, func(dir string) {
		put(t, dir, "other/secret", "secret", 0o644)
		put(t, dir, "in/file", "text", 0o644)
		link(t, filepath.Join(dir, "in"), "absolute", filepath.Join(outside, "secret"))
		link(t, filepath.Join(dir, "in"), "up", "../other/secret")
		link(t, filepath.Join(dir, "in"), "round", "circle")
		link(t, filepath.Join(dir, "in"), "circle", "round")
		link(t, filepath.Join(dir, "in"), "gone", "nothing")
		link(t, dir, "away", outside)
	})
	// What is in the folder and in no commit is not seen.
	put(t, dir, "in/uncommitted", "text", 0o644)
	tree, err := Open(dir, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{outside, "..", "../" + filepath.Base(outside), "away", "in/file", "missing", ".git"} {
		if _, err := tree.Folder(name); err == nil {
			t.Errorf("the folder %s is opened", name)
		}
	}
	f, err := tree.Folder("in")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"absolute", "up", "round", "gone", "uncommitted", "../other/secret", "/in/file", "file/x", ""} {
		if data, err := fs.ReadFile(f, name); err == nil {
			t.Errorf("%q is read: %q", name, data)
		}
	}
	if _, err := fs.ReadFile(f, "file"); err != nil {
		t.Error(err)
	}
}

func TestRevisions(t *testing.T) {
	dir, repo := repository(t, func(dir string) { put(t, dir, "f", "one", 0o644) })
	second := commit(t, dir, repo, func(dir string) { put(t, dir, "f", "two", 0o644) })
	head, err := repo.Head()
	if err != nil {
		t.Fatal(err)
	}
	for rev, want := range map[string]string{"HEAD~1": "one", "HEAD": "two", second: "two", head.Name().Short(): "two", second[:8]: "two"} {
		tree, err := Open(dir, rev)
		if err != nil {
			t.Errorf("%s: %v", rev, err)
			continue
		}
		f, err := tree.Folder(".")
		if err != nil {
			t.Fatal(err)
		}
		if data, err := fs.ReadFile(f, "f"); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", rev, data, err)
		}
	}
	if _, err := Open(dir, "nothing"); err == nil || !strings.Contains(err.Error(), `no revision "nothing"`) {
		t.Error(err)
	}
	if _, err := Open(t.TempDir(), "HEAD"); err == nil || !strings.Contains(err.Error(), "in no git repository") {
		t.Error(err)
	}
}
