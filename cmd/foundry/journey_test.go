package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"foundry/exec/record"
)

// needBusybox is a static program for checks in a container.
func needBusybox(t testing.TB) string {
	t.Helper()
	for _, p := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("busybox-static is not installed, and in CI this must be tested")
	}
	t.Skip("busybox-static is not installed")
	return ""
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// corrected is the recorded draft, made to satisfy the schema that the skill
// publishes: another class, and its inputs as an object.
func corrected(t testing.TB, recorded string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var draft map[string]any
	if err := yaml.Unmarshal(data, &draft); err != nil {
		t.Fatal(err)
	}
	inputs := map[string]any{}
	for _, in := range draft["inputs"].([]any) {
		old := in.(map[string]any)
		kept := map[string]any{}
		for _, k := range []string{"type", "optional", "doc", "collection_type"} {
			if v, ok := old[k]; ok {
				kept[k] = v
			}
		}
		inputs[old["id"].(string)] = kept
	}
	draft["inputs"] = inputs
	draft["class"] = "GalaxyWorkflowDraft"
	return draft
}

func asYAML(t testing.TB, v any) []byte {
	t.Helper()
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestWholeJourney plays all twelve phases of cwl-to-galaxy in containers: the
// loop ends by its predicate after three iterations, the branch takes its second
// alternative, and the phase without outputs is proven by its check.
func TestWholeJourney(t *testing.T) {
	needContainers(t)
	corpus := needCorpus(t)
	busybox := needBusybox(t)
	exe := foundry(t)
	dir := t.TempDir()
	env := append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())
	command := func(args ...string) (string, error) {
		cmd := exec.Command(exe, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	// The image of the checks.
	rootfs := filepath.Join(dir, "rootfs")
	data, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(rootfs, "bin", "busybox"), data)
	if err := os.Chmod(filepath.Join(rootfs, "bin", "busybox"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := command("image", "import", rootfs, "--name", "test/tools:1")
	if err != nil {
		t.Fatalf("%v\n%s", err, image)
	}
	lines := strings.Fields(image)
	reference := lines[len(lines)-1]

	// What the stub copies: recorded files, and what follows from them.
	journey := filepath.Join(corpus, "recorded", "salmon-rnaseq-cwl-galaxy-5step")
	recorded := filepath.Join(dir, "recorded")
	for _, name := range []string{"summary-cwl.json", "cwl-galaxy-interface.md", "cwl-galaxy-data-flow.md", "iwc-comparison-notes.md"} {
		data, err := os.ReadFile(filepath.Join(journey, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(recorded, name), data)
	}
	draft := corrected(t, filepath.Join(journey, "galaxy-workflow-draft.gxwf.yml"))
	doc := fmt.Sprint(draft["doc"])
	for i, left := range []string{"STEP-LEFT STEP-LEFT STEP-LEFT", "STEP-LEFT STEP-LEFT", "STEP-LEFT", "nothing"} {
		draft["doc"] = doc + "\nLeft: " + left
		write(t, filepath.Join(recorded, fmt.Sprintf("draft-%d.yml", i)), asYAML(t, draft))
	}
	workflow := map[string]any{}
	for k, v := range draft {
		workflow[k] = v
	}
	workflow["class"] = "GalaxyWorkflow"
	write(t, filepath.Join(recorded, "workflow.yml"), asYAML(t, workflow))
	write(t, filepath.Join(recorded, "plan.yml"), asYAML(t, map[string]any{
		"plan_version": "1", "source": map[string]any{"kind": "cwl", "name": "x", "derived_from": "intent", "notes": nil},
		"workflow":   map[string]any{"title": nil, "label_source": "draft", "notes": nil},
		"test_cases": []any{}, "unresolved": []any{}, "omissions": []any{}, "warnings": []any{},
	}))

	copied := func(from, to string) map[string]any {
		return map[string]any{"copy": map[string]any{"from": "{recorded}/" + from, "to": to}}
	}
	written := func(path, content string) map[string]any {
		return map[string]any{"write": map[string]any{"path": path, "content": content}}
	}
	const draftName = "galaxy-workflow-draft.gxwf.yml"
	script, err := json.Marshal(map[string]any{
		"version": 1,
		"nodes": map[string]any{
			"summarize-cwl":                         []any{copied("summary-cwl.json", "summary-cwl.json")},
			"cwl-summary-to-galaxy-interface":       []any{copied("cwl-galaxy-interface.md", "cwl-galaxy-interface.md")},
			"cwl-summary-to-galaxy-data-flow":       []any{copied("cwl-galaxy-data-flow.md", "cwl-galaxy-data-flow.md")},
			"compare-against-iwc-exemplar":          []any{copied("iwc-comparison-notes.md", "iwc-comparison-notes.md")},
			"cwl-summary-to-galaxy-template":        []any{copied("draft-0.yml", draftName)},
			"test-data-resolution/cwl-to-test-data": []any{written("test-data-refs.json", `{"refs": []}`)},
			"test-data-resolution/find-test-data":   []any{written("test-data-refs.json", `{"refs": [{"path": "a"}]}`)},
			"cwl-test-to-galaxy-test-plan":          []any{copied("plan.yml", "galaxy-test-plan.yml")},
			"implement-galaxy-workflow-test":        []any{written("galaxy-workflow.gxwf-tests.yml", "- doc: test\n  job: {}\n")},
			"validate-galaxy-workflow":              []any{},
			"run-workflow-test":                     []any{written("workflow-test-result.json", `{"passed": false}`)},
			"debug-galaxy-workflow-output":          []any{written("workflow-debug-report.md", "# Report\n")},
		},
		"iterations": map[string]any{
			"advance-galaxy-draft-step": []any{
				[]any{copied("draft-1.yml", draftName)},
				[]any{copied("draft-2.yml", draftName)},
				[]any{copied("draft-3.yml", draftName), copied("workflow.yml", "galaxy-workflow.gxwf.yml")},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(dir, "policy")
	copyTree(t, filepath.Join("testdata", "journey"), policy)
	write(t, filepath.Join(policy, "script.json"), script)
	write(t, filepath.Join(policy, "source", "main.cwl"), []byte("cwlVersion: v1.2\n"))
	write(t, filepath.Join(policy, "fallback.json"), []byte(`{"refs": []}`))

	run := filepath.Join(dir, "run")
	out, err := command("apply", "--yes", "--run-dir", run, "--var", "corpus="+corpus, "--var", "recorded="+recorded, "--var", "tools="+reference, filepath.Join(policy, "policy.hcl"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := record.ReadRun(run)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != record.StatusSucceeded || !r.Isolated {
		t.Errorf("status %s, isolated %v", r.Status, r.Isolated)
	}
	phases := map[int64]bool{}
	for _, n := range r.Nodes {
		if n.Status == record.StatusSucceeded {
			phases[n.Phase] = true
		}
	}
	if len(phases) != 12 {
		t.Errorf("%d phases succeeded, want 12\n%s", len(phases), out)
	}
	if l := r.Loops[0]; l.Iterations != 3 || l.Status != record.StatusSucceeded {
		t.Errorf("loop: %+v", l)
	}
	b := r.Branches[0]
	if b.Accepted != "test-data-resolution/find-test-data" || len(b.Tried) != 2 || b.Tried[0].Accepted || !b.Tried[1].Accepted {
		t.Errorf("branch: %+v", b)
	}

	// Each decision is told from the record alone.
	for id, want := range map[string][]string{
		"advance-galaxy-draft-step": {"iteration 1: until of advance-galaxy-draft-step: the loop goes on", "iteration 3: until of advance-galaxy-draft-step: the loop ends", "check.remaining.exit_code"},
		"test-data-resolution":      {"the alternative is not accepted", "the alternative is accepted", "length(output.test-data-refs.json.refs)"},
		"validate-galaxy-workflow":  {"the check passes"},
	} {
		out, err := command("explain", run, id)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("explain %s lacks %q:\n%s", id, w, out)
			}
		}
	}
}

// TestLoopOfThree plays nextflow-to-cwl: one loop over a body of three phases,
// three iterations.
func TestLoopOfThree(t *testing.T) {
	corpus := needCorpus(t)
	exe := foundry(t)
	dir := t.TempDir()
	policy, err := os.ReadFile(filepath.Join(repository(t), "examples", "galaxy", "nextflow-to-cwl.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := os.ReadFile(filepath.Join(repository(t), "examples", "galaxy", "defaults.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	// The checks run this program's own file test: `test` is part of every
	// system that the local sandbox runs on.
	swap := func(text string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("the example does not hold %q", pairs[i])
			}
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	write(t, filepath.Join(dir, "policy.hcl"), []byte(swap(string(policy),
		`    tool   = "cwltool"
    argv   = ["cwltool", "--validate", "{in:cwl-workflow-draft}"]
    assert = check.valid.exit_code <= 1 # a draft may be invalid before the last tool`,
		`    argv   = ["grep", "-q", "has_todo: false", "{in:cwl-workflow-draft}"]
    trusted_host = true
    assert = check.valid.exit_code <= 1`,
		`    tool = "cwltool"
    argv = ["cwltool", "--validate", "{in:cwl-workflow-draft}"]`,
		`    argv = ["grep", "-q", "has_todo: false", "{in:cwl-workflow-draft}"]
    trusted_host = true`)))
	write(t, filepath.Join(dir, "defaults.hcl"), []byte(swap(string(defaults),
		`scripts/idle.json`, `script.json`, `mode   = "container"`, `mode   = "local"`, "  image  = \"builtin\"\n", "")))
	write(t, filepath.Join(dir, "tools.hcl"), []byte(`tool "foundry" { by = "schema" }
tool "gxwf" { unavailable = "not in this test" }
tool "planemo" { unavailable = "not in this test" }
`))
	copyTree(t, filepath.Join(repository(t), "examples", "galaxy", "inputs", "demo-nf"), filepath.Join(dir, "inputs", "demo-nf"))
	summary := `{"source": {"ecosystem": "nf-core", "workflow": "x", "url": "https://example.org/x", "version": "x", "slug": "x"}, "params": [], "sample_sheets": [], "profiles": [], "tools": [], "processes": [], "subworkflows": [], "workflow": {"name": "x", "channels": [], "edges": []}, "reference_assets": [], "reference_rebuilds": [], "test_fixtures": {"profile": "x", "inputs": [], "outputs": []}, "nf_tests": []}`
	step := func(path, content string) []any {
		return []any{map[string]any{"write": map[string]any{"path": path, "content": content}}}
	}
	script, err := json.Marshal(map[string]any{
		"version": 1,
		"nodes": map[string]any{
			"summarize-nextflow":                step("summary-nextflow.json", summary),
			"nextflow-summary-to-cwl-interface": step("nextflow-cwl-interface.md", "# Interface\n"),
			"nextflow-summary-to-cwl-data-flow": step("nextflow-cwl-data-flow.md", "# Data flow\n"),
			"summary-to-cwl-template":           step("cwl-workflow-draft.cwl", "has_todo: true\nstep: 0\n"),
			"validate-cwl":                      []any{},
			"nextflow-test-to-cwl-test-plan":    step("cwl-test-plan.md", "# Plan\n"),
			"implement-cwl-workflow-test":       step("cwl-job.yml", "a: 1\n"),
			"validate-cwl#2":                    []any{},
			"run-workflow-test":                 step("workflow-test-result.json", "{}"),
			"debug-cwl-workflow-output":         step("cwl-workflow-debug-report.md", "# Report\n"),
		},
		"iterations": map[string]any{
			"summarize-cwl-tool":      []any{step("cwl-tool-summary.json", `{"n": 1}`), step("cwl-tool-summary.json", `{"n": 2}`), step("cwl-tool-summary.json", `{"n": 3}`)},
			"implement-cwl-tool-step": []any{step("cwl-workflow-draft.cwl", "has_todo: true\nstep: 1\n"), step("cwl-workflow-draft.cwl", "has_todo: true\nstep: 2\n"), step("cwl-workflow-draft.cwl", "has_todo: false\nstep: 3\n")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "script.json"), script)
	run := filepath.Join(dir, "run")
	cmd := exec.Command(exe, "apply", "--yes", "--run-dir", run, "--var", "corpus="+corpus, filepath.Join(dir, "policy.hcl"))
	cmd.Env = append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := record.ReadRun(run)
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Loops[0]; l.Iterations != 3 || l.Status != record.StatusSucceeded {
		t.Errorf("loop: %+v", l)
	}
	for _, n := range r.Nodes {
		want := 1
		switch n.ID {
		case "summarize-cwl-tool", "implement-cwl-tool-step", "validate-cwl", "tools.valid":
			want = 3
		}
		if len(n.Attempts) != want || n.Status != record.StatusSucceeded {
			t.Errorf("%s: %d attempts, %s", n.ID, len(n.Attempts), n.Status)
		}
	}
}
