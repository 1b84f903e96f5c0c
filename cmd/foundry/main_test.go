package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/rogpeppe/go-internal/testscript"

	"foundry/sandbox"
	"foundry/sandbox/containerd"
)

var update = flag.Bool("update", false, "rewrite golden files and scripts")

func TestMain(m *testing.M) {
	// A copy of this test binary is also the daemon, the shim and the worker.
	if containerd.Main() {
		return
	}
	if len(os.Args) == 5 && os.Args[1] == "hostile" {
		hostile(os.Args[2], os.Args[3], os.Args[4] == "true")
		return
	}
	testscript.Main(cleaning{m}, map[string]func(){"foundry": main})
}

// cleaning removes what tests share.
type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	code := c.M.Run()
	if agents.state != "" {
		if err := sandbox.RemoveTree(agents.state); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// repository is the root of this checkout.
func repository(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("no caller")
	}
	// Under -trimpath the path is no path of this machine; tests run in their
	// package's folder either way.
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("%s (%s): %v", dir, file, err)
	}
	return dir
}

// corpus is the real input beside the checkout, "" where it is absent.
func corpus(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(repository(t), "..", "shared", "corpus", "galaxy-foundry")
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// needCorpus skips a test where the corpus is absent.
func needCorpus(t testing.TB) string {
	t.Helper()
	dir := corpus(t)
	if dir == "" {
		t.Skip("the corpus ../shared/corpus/galaxy-foundry is not beside this checkout")
	}
	return dir
}

// canContain reports whether this machine runs containers. In CI that is a
// must: a skipped container test there is a failure.
func canContain(t testing.TB) bool {
	t.Helper()
	_, err := exec.LookPath("runc")
	ok := runtime.GOOS == "linux" && os.Geteuid() == 0 && err == nil
	if !ok && os.Getenv("CI") == "true" {
		t.Fatal("containers need Linux, root and runc, and in CI they must be tested")
	}
	return ok
}

func needContainers(t testing.TB) {
	t.Helper()
	if !canContain(t) {
		t.Skip("containers need Linux, root and runc")
	}
}

// commitAll is the script command `commit`: it makes the current folder a git
// repository where it is none, and commits everything in it. No git is run.
func commitAll(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: commit")
	}
	dir := ts.MkAbs(".")
	repo, err := git.PlainOpen(dir)
	if errors.Is(err, git.ErrRepositoryNotExists) {
		repo, err = git.PlainInit(dir, false)
	}
	ts.Check(err)
	w, err := repo.Worktree()
	ts.Check(err)
	ts.Check(w.AddWithOptions(&git.AddOptions{All: true}))
	author := &object.Signature{Name: "author", Email: "author@example.com", When: time.Unix(1_700_000_000, 0)}
	_, err = w.Commit("a change", &git.CommitOptions{Author: author, AllowEmptyCommits: true})
	ts.Check(err)
}

// TestScripts runs the command line as a user does. Scripts in testdata/script
// may ask [corpus] and [containers].
func TestScripts(t *testing.T) {
	containers := canContain(t)
	state := t.TempDir()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "corpus":
				return corpus(t) != "", nil
			case "containers":
				return containers, nil
			}
			return false, os.ErrInvalid
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"commit": commitAll},
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPO", repository(t))
			env.Setenv("CORPUS", corpus(t))
			env.Setenv("FOUNDRY_STATE_DIR", state)
			env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		},
	})
}
