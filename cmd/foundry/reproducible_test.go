package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"foundry/plan"
)

var pipelines = []string{
	"cwl-to-galaxy", "interview-to-galaxy", "nextflow-to-cwl", "nextflow-to-galaxy",
	"paper-to-cwl", "paper-to-galaxy", "update-interview-to-galaxy",
}

// foundry is a copy of this test binary under the program's own name.
func foundry(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "foundry")
	if err := os.WriteFile(name, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// copyTree copies a folder, readable as before, whatever the umask.
func copyTree(t testing.TB, src, dst string) {
	t.Helper()
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReproducible compiles each pipeline in two folders, time zones, locales,
// homes, umasks and numbers of processors, once through a symbolic link: the
// bytes are the same, and none of them is a path of this machine (A4).
func TestReproducible(t *testing.T) {
	real := needCorpus(t)
	exe := foundry(t)
	base := t.TempDir()
	one := filepath.Join(base, "one")
	two := filepath.Join(base, "two words", "ü")
	linked := filepath.Join(base, "linked")
	for _, dir := range []string{one, two} {
		copyTree(t, filepath.Join(repository(t), "examples", "galaxy"), filepath.Join(dir, "galaxy"))
		copyTree(t, real, filepath.Join(dir, "corpus"))
	}
	if err := os.Symlink(two, linked); err != nil {
		t.Fatal(err)
	}
	compile := func(dir, pipeline, umask string, env ...string) []byte {
		t.Helper()
		// The shell only sets the umask; the program gets its arguments as they are.
		cmd := exec.Command("/bin/sh", "-c", `umask "$1"; shift; exec "$@"`, "sh", umask, exe, "plan", "--json", "-var", "corpus=corpus", filepath.Join("galaxy", pipeline+".hcl"))
		cmd.Dir = dir
		cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", pipeline, err, stderr.String())
		}
		return stdout.Bytes()
	}
	for _, p := range pipelines {
		a := compile(one, p, "022", "TZ=UTC", "LANG=C", "HOME=/root", "GOMAXPROCS=1")
		b := compile(two, p, "077", "TZ=Asia/Tokyo", "LANG=de_DE.UTF-8", "HOME=/nowhere", "GOMAXPROCS=16", "USER=somebody")
		c := compile(linked, p, "000", "TZ=America/Lima", "LANG=tr_TR.UTF-8", "GOMAXPROCS=4", "GOGC=10")
		if !bytes.Equal(a, b) || !bytes.Equal(a, c) {
			t.Errorf("%s: the plans differ: %s %s %s", p, plan.Digest(a), plan.Digest(b), plan.Digest(c))
		}
		for _, host := range []string{base, "two words", "ü", repository(t), "/nowhere", "somebody", "galaxy/inputs", "corpus/skills"} {
			if bytes.Contains(a, []byte(host)) {
				t.Errorf("%s: the plan holds %q", p, host)
			}
		}
	}
}

// TestSameWords compiles a policy with fifteen warnings and errors in five files
// many times: standard error is always the same bytes (A2).
func TestSameWords(t *testing.T) {
	exe := foundry(t)
	seen := map[string]int{}
	for i := range 40 {
		dir := t.TempDir()
		copyTree(t, filepath.Join(repository(t), "examples", "quickstart"), dir)
		names := []string{"e", "c", "a", "d", "b"}
		if i%2 == 1 {
			names = []string{"b", "a", "e", "d", "c"}
		}
		for _, n := range names {
			text := ""
			for k := range 3 {
				text += fmt.Sprintf("input \"%s%d\" { path = \"inputs/changes\" }\n", n, k)
			}
			if err := os.WriteFile(filepath.Join(dir, n+".hcl"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(exe, "plan", ".")
		cmd.Dir = dir
		cmd.Env = []string{fmt.Sprintf("GOMAXPROCS=%d", 1+15*(i%2))}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if n := strings.Count(string(out), "warning: Input is not read"); n != 15 {
			t.Fatalf("%d warnings, want 15:\n%s", n, out)
		}
		seen[fmt.Sprintf("%x", sha256.Sum256(out))]++
	}
	if len(seen) != 1 {
		t.Errorf("%d different outputs of one input", len(seen))
	}
}

// treeDigest is one digest over the names and bytes of a folder.
func treeDigest(t testing.TB, dir string) string {
	t.Helper()
	h := sha256.New()
	n := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		data, err := os.ReadFile(p)
		rel, rerr := filepath.Rel(dir, p)
		fmt.Fprintf(h, "%s %d\n", rel, len(data))
		h.Write(data)
		return errors.Join(err, rerr)
	})
	if err != nil || n == 0 {
		t.Fatalf("%s: %d files, %v", dir, n, err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
