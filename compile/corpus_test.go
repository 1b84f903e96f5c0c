package compile_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"foundry/compile"
	"foundry/harness"
	"foundry/harness/pi"
	"foundry/harness/scripted"
	"foundry/plan"
)

var pipelines = []string{
	"cwl-to-galaxy", "interview-to-galaxy", "nextflow-to-cwl", "nextflow-to-galaxy",
	"paper-to-cwl", "paper-to-galaxy", "update-interview-to-galaxy",
}

func adapters() map[string]harness.Adapter {
	return map[string]harness.Adapter{scripted.Name: scripted.Adapter{}, pi.Name: pi.Adapter{}}
}

// needCorpus is the corpus beside the checkout.
func needCorpus(t testing.TB) string {
	t.Helper()
	dir := filepath.Join("..", "..", "shared", "corpus", "galaxy-foundry")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the corpus ../shared/corpus/galaxy-foundry is not beside this checkout")
	}
	return filepath.ToSlash(dir)
}

// overlay opens folders of a map of files below "policy", and real ones
// otherwise.
func overlay(files fstest.MapFS) func(string) (fs.FS, error) {
	return func(dir string) (fs.FS, error) {
		if dir == "policy" || strings.HasPrefix(dir, "policy/") {
			if _, err := fs.Stat(files, dir); err != nil {
				return nil, err
			}
			return fs.Sub(files, dir)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		return root.FS(), nil
	}
}

// galaxy is examples/galaxy as a map of files.
func galaxy(t testing.TB) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	base := filepath.Join("..", "examples", "galaxy")
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, rerr := filepath.Rel(base, p)
		if rerr != nil {
			return rerr
		}
		files["policy/"+filepath.ToSlash(rel)] = &fstest.MapFile{Data: data, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func compileGalaxy(t testing.TB, files fstest.MapFS, name string) *compile.Result {
	t.Helper()
	return compile.Compile(context.Background(), "policy/"+name+".hcl", compile.Options{
		Open: overlay(files), Adapters: adapters(),
		Vars: []compile.Assignment{{Name: "corpus", Value: needCorpus(t)}},
	})
}

func show(ds []compile.Diagnostic) string {
	var b strings.Builder
	for _, d := range ds {
		word := "error"
		if d.Severity == compile.Warning {
			word = "warning"
		}
		fmt.Fprintf(&b, "%s: %s at %s:%d:%d\n  %s\n", word, d.Summary, d.Subject.File, d.Subject.Start.Line, d.Subject.Start.Column, d.Detail)
	}
	return b.String()
}

func TestAllSevenPipelinesCompile(t *testing.T) {
	needCorpus(t)
	files := galaxy(t)
	for _, name := range pipelines {
		res := compileGalaxy(t, files, name)
		if res.Plan == nil {
			t.Errorf("%s:\n%s", name, show(res.Diagnostics))
			continue
		}
		if lines := bytes.Count(files["policy/"+name+".hcl"].Data, []byte("\n")); lines > 60 {
			t.Errorf("%s has %d lines, more than 60", name, lines)
		}
		again, err := plan.Decode(res.Encoded)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if problems := plan.Validate(again); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		for _, p := range res.Plan.Bundles {
			for _, f := range p.Files {
				if f.Mode != plan.ModeDir && plan.Digest(res.Blobs[f.Digest]) != f.Digest {
					t.Errorf("%s: the bytes of %s %s are not in the blobs", name, p.ID, f.Path)
				}
			}
		}
		// The one real case of drift.
		wantDrift := 0
		if name == "cwl-to-galaxy" {
			wantDrift = 1
		}
		drift := strings.Count(show(res.Diagnostics), "warning: Bundle drift")
		if drift != wantDrift {
			t.Errorf("%s: %d warnings of drift, want %d:\n%s", name, drift, wantDrift, show(res.Diagnostics))
		}
	}
}

func TestLoopsOverThreePhases(t *testing.T) {
	needCorpus(t)
	for _, name := range []string{"nextflow-to-cwl", "paper-to-cwl"} {
		res := compileGalaxy(t, galaxy(t), name)
		if res.Plan == nil {
			t.Fatalf("%s:\n%s", name, show(res.Diagnostics))
		}
		if len(res.Plan.Loops) != 1 {
			t.Fatalf("%s has %d loops, want 1", name, len(res.Plan.Loops))
		}
		l := res.Plan.Loops[0]
		if got, want := strings.Join(l.Body, " "), "summarize-cwl-tool implement-cwl-tool-step validate-cwl tools.valid"; got != want {
			t.Errorf("%s: body %q, want %q", name, got, want)
		}
		if got := strings.Join(l.Carries, " "); got != "cwl-workflow-draft" {
			t.Errorf("%s carries %q", name, got)
		}
		ids := map[string]bool{}
		for _, n := range res.Plan.Nodes {
			ids[n.ID] = true
		}
		if !ids["validate-cwl"] || !ids["validate-cwl#2"] {
			t.Errorf("%s lacks validate-cwl or validate-cwl#2: %v", name, ids)
		}
	}
}

// TestOneThingRemoved is the list: each policy with one thing removed
// fails, and the message names the thing and its place.
func TestOneThingRemoved(t *testing.T) {
	needCorpus(t)
	cases := []struct {
		name, policy, file, old, new, summary, detail, at string
	}{
		{"until", "cwl-to-galaxy", "", "  until          = check.next-step.json.draft == false\n", "", "Missing attribute", "The loop \"advance-galaxy-draft-step\" needs \"until\"", "policy/cwl-to-galaxy.hcl:22"},
		{"max_iterations", "cwl-to-galaxy", "", "  max_iterations = 40\n", "", "Missing attribute", "The loop \"advance-galaxy-draft-step\" needs \"max_iterations\"", "policy/cwl-to-galaxy.hcl:22"},
		{"loop", "nextflow-to-galaxy", "", `loop "advance-galaxy-draft-step" {`, `loop "advance-galaxy-draft-stop" {`, "Unknown phase", "Did you mean \"advance-galaxy-draft-step\"?", "policy/nextflow-to-galaxy.hcl"},
		{"inputs", "cwl-to-galaxy", "", "  inputs = [\"cwl-source\"] # the skill declares none\n  task   = \"Summarize the workflow in {in:cwl-source}.\"\n", "", "Inputs are not declared", "Phase 1: the skill `summarize-cwl` declares nothing", "_assembly.json:"},
		{"not_applicable", "cwl-to-galaxy", "", `"freeform-summary", `, "", "Artifact without a producer", "(`test-data-resolution/find-test-data`) reads `freeform-summary`", "find-test-data/_provenance.json:"},
		{"check", "cwl-to-galaxy", "", "  check \"validates\" {\n    tool   = \"gxwf\"\n    argv   = [\"gxwf\", \"validate\", \"{in:galaxy-workflow}\"]\n    assert = check.validates.exit_code == 0\n  }\n", "", "Phase proves nothing", "(`validate-galaxy-workflow`) declares no output and has no check", "_assembly.json:"},
		{"image by tag", "cwl-to-galaxy", "defaults", `image  = "builtin"`, `image  = "registry.example/worker:latest"`, "Invalid value", "an image is named by digest", "policy/defaults.hcl:51"},
		{"unknown model", "cwl-to-galaxy", "defaults", `model     = "claude-sonnet-5"`, `model     = "claude-sonet-5"`, "Unknown model", "Did you mean \"claude-sonnet-5\"?", "policy/defaults.hcl:37"},
		{"gap of paper-to-cwl", "paper-to-cwl", "", "input \"cwl-test-plan\" { # a gap of the pipeline: no phase of it produces this\n  path = \"inputs/line-count.cwl-test-plan.md\"\n}\n", "", "Artifact without a producer", "Phase 8 (`implement-cwl-workflow-test`) reads `cwl-test-plan`", "implement-cwl-workflow-test/_provenance.json:"},
		{"gap of update-interview-to-galaxy", "update-interview-to-galaxy", "", "input \"test-data-refs\" { # a gap of the pipeline: no phase of it produces this\n  path = \"inputs/line-count.test-data-refs.json\"\n}\n", "", "Artifact without a producer", "Phase 6 (`implement-galaxy-workflow-test`) reads `test-data-refs`", "implement-galaxy-workflow-test/_provenance.json:"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files := galaxy(t)
			file := "policy/" + c.policy + ".hcl"
			if c.file != "" {
				file = "policy/" + c.file + ".hcl"
			}
			before := string(files[file].Data)
			if strings.Count(before, c.old) != 1 {
				t.Fatalf("%s holds %q %d times", file, c.old, strings.Count(before, c.old))
			}
			files[file] = &fstest.MapFile{Data: []byte(strings.Replace(before, c.old, c.new, 1)), Mode: 0o644}
			res := compileGalaxy(t, files, c.policy)
			if res.Plan != nil {
				t.Fatal("it compiled")
			}
			for _, d := range res.Diagnostics {
				place := fmt.Sprintf("%s:%d", d.Subject.File, d.Subject.Start.Line)
				if d.Severity == compile.Error && d.Summary == c.summary && strings.Contains(d.Detail, c.detail) && strings.Contains(place, c.at) {
					return
				}
			}
			t.Errorf("no error %q with %q at %s in\n%s", c.summary, c.detail, c.at, show(res.Diagnostics))
		})
	}
}
