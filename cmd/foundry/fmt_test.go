package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"foundry/compile"
)

// TestFmtKeepsPlans: of every example the plan is the same, byte for byte,
// whether its files are laid out, in disorder, or with another editor's line
// ends; and the examples are laid out as fmt does it.
func TestFmtKeepsPlans(t *testing.T) {
	root := filepath.Join(repository(t), "examples")
	type example struct {
		policy string
		args   []string
	}
	examples := []example{{"quickstart/quickstart.hcl", nil}}
	if dir := corpus(t); dir != "" {
		for _, name := range append(galaxyPipelines, "cwl-to-galaxy.replay") {
			examples = append(examples, example{"galaxy/" + name + ".hcl", []string{"--var", "corpus=" + dir}})
		}
	}
	indent := regexp.MustCompile(`(?m)^ +`)
	edits := map[string]func(s string) string{
		"as it is":      func(s string) string { return s },
		"no indents":    func(s string) string { return indent.ReplaceAllString(s, "") },
		"CR LF, a mark": func(s string) string { return "\uFEFF" + strings.ReplaceAll(s, "\n", "\r\n") },
		"wide": func(s string) string {
			return indent.ReplaceAllString(strings.ReplaceAll(s, " = ", "   =    "), "\t\t ")
		},
	}
	for name, edit := range edits {
		dir := filepath.Join(t.TempDir(), "examples")
		if err := os.CopyFS(dir, os.DirFS(root)); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(p) != ".hcl" {
				return err
			}
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, []byte(edit(string(data))), 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
		before := map[string]string{}
		for _, e := range examples {
			before[e.policy] = planOf(t, filepath.Join(dir, filepath.FromSlash(e.policy)), e.args)
		}
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"fmt", dir}, strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", name, code, stderr.Bytes())
		}
		if changed := stdout.Len() > 0; changed != (name != "as it is") {
			t.Errorf("%s: files that fmt changes:\n%s", name, stdout.Bytes())
		}
		for _, e := range examples {
			if planOf(t, filepath.Join(dir, filepath.FromSlash(e.policy)), e.args) != before[e.policy] {
				t.Errorf("%s: %s has another plan after fmt", name, e.policy)
			}
		}
	}
}

// planOf is the plan of a policy, byte for byte.
func planOf(t *testing.T, policy string, args []string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append([]string{"plan", policy, "--json"}, args...), strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("%s: exit code %d: %s", policy, code, stderr.Bytes())
	}
	return stdout.String()
}

// What fmt writes is what Format gives, and twice is as once.
func TestFmtTwice(t *testing.T) {
	err := filepath.WalkDir(filepath.Join(repository(t), "examples"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(p) != ".hcl" {
			return err
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		once, ds := compile.Format(p, src)
		if twice, _ := compile.Format(p, once); once == nil || !bytes.Equal(once, twice) {
			t.Errorf("%s: twice is not as once: %+v", p, ds)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
