package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// ciWorkflow is a workflow of GitHub Actions, as far as its safety depends on it.
type ciWorkflow struct {
	On          map[string]any    `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Env         map[string]string `yaml:"env"`
	Jobs        map[string]*ciJob `yaml:"jobs"`
}

type ciJob struct {
	If          string            `yaml:"if"`
	Permissions map[string]string `yaml:"permissions"`
	Env         map[string]string `yaml:"env"`
	Container   any               `yaml:"container"`
	Services    any               `yaml:"services"`
	Uses        string            `yaml:"uses"`
	Secrets     any               `yaml:"secrets"`
	Continue    bool              `yaml:"continue-on-error"`
	Steps       []ciStep          `yaml:"steps"`
	text        string            // all of it
}

type ciStep struct {
	Name string            `yaml:"name"`
	Uses string            `yaml:"uses"`
	Run  string            `yaml:"run"`
	Env  map[string]string `yaml:"env"`
	With map[string]any    `yaml:"with"`
}

func (s *ciStep) action() string { name, _, _ := strings.Cut(s.Uses, "@"); return name }

var (
	ciPin     = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	ciCommit  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	ciSecret  = regexp.MustCompile(`secrets\s*[.\[]|github\s*\.\s*token|github\[|GITHUB_TOKEN`)
	ciChange  = regexp.MustCompile(`github\.(head_ref|event\.(pull_request|inputs|issue|comment|review|head_commit|commits))|inputs\.`)
	ciRequire = regexp.MustCompile(`require\(([^)]*)\)`)
)

// readCI reads a workflow. A word that is not looked at is fine: the rules name
// what is dangerous, and what may run beside a secret.
func readCI(data []byte) (*ciWorkflow, error) {
	var w ciWorkflow
	if err := yaml.Unmarshal(data, &w); err != nil {
		return nil, err
	}
	var raw struct {
		Jobs map[string]yaml.Node `yaml:"jobs"`
	}
	if err := yaml.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	for name, node := range raw.Jobs {
		text, err := yaml.Marshal(&node)
		if err != nil {
			return nil, err
		}
		w.Jobs[name].text = string(text)
	}
	return &w, nil
}

// untrusted reports whether somebody whom nobody trusts can start the workflow.
func (w *ciWorkflow) untrusted() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(w.On)), func(e string) bool { return e == "pull_request" || e == "workflow_run" })
}

// powerful reports whether a job holds something that is worth to steal.
func (j *ciJob) powerful() bool {
	return ciSecret.MatchString(j.text) || j.Secrets != nil || slices.Contains(slices.Collect(maps.Values(j.Permissions)), "write") || strings.Contains(j.text, "id-token")
}

// ciProblems lists how a workflow breaks the rules.
func ciProblems(w *ciWorkflow) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(w.On) == 0 || len(w.Jobs) == 0 {
		add("nothing is run, or by nobody")
	}
	for event, how := range w.On {
		m, _ := how.(map[string]any)
		switch event {
		case "pull_request", "schedule":
		case "workflow_run":
			if m["workflows"] == nil {
				add("workflow_run of any workflow")
			}
		case "workflow_dispatch":
			if len(m) > 0 {
				add("workflow_dispatch has inputs")
			}
		case "push":
			patterns, _ := m["branches"].([]any)
			tags, _ := m["tags"].([]any)
			if len(patterns)+len(tags) == 0 {
				add("push of any branch")
			}
			for _, p := range patterns {
				if strings.ContainsAny(fmt.Sprint(p), "*?!") {
					add("push of the branches %v", p)
				}
			}
		default:
			add("the event %s", event)
		}
	}
	if w.Permissions == nil || len(w.Permissions) > 0 {
		add("permissions for every job")
	}
	for k, v := range w.Env {
		if ciSecret.MatchString(v) {
			add("a secret in the environment of every job: %s", k)
		}
	}
	if ref, ok := w.Env["FOUNDRY_REF"]; ok && !ciCommit.MatchString(ref) {
		add("FOUNDRY_REF is no full commit")
	}
	for name, j := range w.Jobs {
		for _, p := range j.problems(w) {
			add("job %s: %s", name, p)
		}
	}
	slices.Sort(out)
	return out
}

func (j *ciJob) problems(w *ciWorkflow) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if j.Permissions == nil {
		add("no permissions of its own")
	}
	if j.Uses != "" || j.Secrets != nil {
		add("another workflow is called")
	}
	for k, v := range j.Env {
		if ciSecret.MatchString(v) {
			add("a secret in the environment of every step: %s", k)
		}
	}
	if j.powerful() && (j.Container != nil || j.Services != nil) {
		add("a container beside a secret")
	}
	if j.powerful() && ciChange.MatchString(j.text) {
		add("a secret beside words of a change: %s", ciChange.FindString(j.text))
	}
	runs, takes := false, false
	for i := range j.Steps {
		s := &j.Steps[i]
		runs = runs || s.Run != ""
		takes = takes || s.action() == "actions/download-artifact" || s.action() == "actions/cache"
		for _, p := range s.problems() {
			add("step %d: %s", i, p)
		}
		if w.untrusted() && j.powerful() {
			for _, p := range s.beside() {
				add("step %d: %s", i, p)
			}
		}
	}
	if j.powerful() && runs && takes {
		add("a secret beside what another job left")
	}
	return out
}

// problems of a step, whatever its job holds.
func (s *ciStep) problems() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.Uses != "" && !ciPin.MatchString(s.Uses) {
		add("%s is not pinned to a commit", s.Uses)
	}
	if strings.Contains(s.Run, "${{") {
		add("an expression within a shell script")
	}
	if strings.Contains(fmt.Sprint(s.With["script"]), "${{") {
		add("an expression within a script")
	}
	switch s.action() {
	case "actions/checkout":
		if s.With["persist-credentials"] != false {
			add("the token is left in the checkout")
		}
		repository, ref := s.With["repository"], s.With["ref"]
		ours := repository == "${{ env.FOUNDRY_REPOSITORY }}" && ref == "${{ env.FOUNDRY_REF }}"
		if (repository != nil || ref != nil) && !ours {
			add("another checkout: %v at %v", repository, ref)
		}
	case "actions/setup-go":
		if s.With["cache"] != false {
			add("a cache that others may write")
		}
	}
	return out
}

// beside says why a step may not stand in a job with a secret, or with leave to
// write, that an untrusted change starts.
func (s *ciStep) beside() []string {
	switch s.action() {
	case "actions/download-artifact":
		return nil
	case "actions/github-script":
		script := fmt.Sprint(s.With["script"])
		var out []string
		for _, m := range ciRequire.FindAllStringSubmatch(script, -1) {
			if m[1] != "'fs'" && m[1] != "'path'" {
				out = append(out, "the script loads "+m[1])
			}
		}
		for _, word := range []string{"eval", "Function", "child_process", "import(", "exec.", "vm."} {
			if strings.Contains(script, word) {
				out = append(out, "the script uses "+word)
			}
		}
		return out
	}
	if s.Run != "" {
		return []string{"it runs a shell beside a secret, started by a change"}
	}
	return []string{s.Uses + " beside a secret, started by a change"}
}

func ciFiles(t *testing.T) map[string][]byte {
	t.Helper()
	dir := filepath.Join(repository(t), "examples", "ci")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(e.Name()) == ".yml" {
			out[e.Name()] = data
		}
	}
	if got := slices.Sorted(maps.Keys(out)); !slices.Equal(got, []string{"comment.yml", "nightly.yml", "release.yml", "review.yml", "smoke.yml"}) {
		t.Fatalf("examples/ci has %v", got)
	}
	return out
}

// TestWorkflowsKeepTheirSecrets: no job with a secret, or with leave to write,
// checks out or runs what a change brings; each rule can fail.
func TestWorkflowsKeepTheirSecrets(t *testing.T) {
	files := ciFiles(t)
	powerful := map[string]bool{}
	for name, data := range files {
		w, err := readCI(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range ciProblems(w) {
			t.Errorf("%s: %s", name, p)
		}
		for _, j := range w.Jobs {
			powerful[name] = powerful[name] || j.powerful()
		}
	}
	// So that no rule is kept because nothing is seen: who holds what is known.
	want := map[string]bool{"comment.yml": true, "nightly.yml": true, "release.yml": true, "review.yml": false, "smoke.yml": true}
	if !maps.Equal(powerful, want) {
		t.Errorf("with a secret: %v", powerful)
	}
	if w, _ := readCI(files["smoke.yml"]); !w.Jobs["smoke"].Continue {
		t.Error("the smoke lane blocks")
	}
	for _, c := range []struct{ file, old, new, want string }{
		{"review.yml", "\n  pull_request:", "\n  pull_request_target:", "the event pull_request_target"},
		{"review.yml", "contents: read", "contents: write", "beside a secret, started by a change"},
		{"review.yml", "        run: |\n          mkdir", "        env:\n          KEY: ${{ secrets.KEY }}\n        run: |\n          mkdir", "it runs a shell beside a secret, started by a change"},
		{"review.yml", "        run: |\n          mkdir", "        env:\n          KEY: ${{ secrets['KEY'] }}\n        run: |\n          mkdir", "it runs a shell beside a secret, started by a change"},
		{"review.yml", "permissions: {}", "permissions: {contents: write}", "permissions for every job"},
		{"review.yml", "permissions: {}\n", "", "permissions for every job"},
		{"review.yml", "          fetch-depth: 2\n          persist-credentials: false\n", "          fetch-depth: 2\n", "the token is left in the checkout"},
		{"review.yml", "\"HEAD~1:$POLICY\"", "\"${{ github.head_ref }}:$POLICY\"", "an expression within a shell script"},
		{"review.yml", "@11bd71901bbe5b1630ceea73d27597364c9af683", "@v4", "is not pinned to a commit"},
		{"review.yml", "cache: false", "cache: true", "a cache that others may write"},
		{"review.yml", "\"0000000000000000000000000000000000000000\"", "main", "FOUNDRY_REF is no full commit"},
		{"comment.yml", "      - name: Post it", "      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683\n        with:\n          persist-credentials: false\n      - name: Post it", "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 beside a secret, started by a change"},
		{"comment.yml", "      - name: Post it", "      - run: cat \"$RUNNER_TEMP\"/review/review.md\n      - name: Post it", "it runs a shell beside a secret, started by a change"},
		{"comment.yml", "require('fs')", "require(process.env.RUNNER_TEMP + '/review/x.js')", "the script loads process.env.RUNNER_TEMP"},
		{"comment.yml", "const path = require('path');", "eval(text);", "the script uses eval"},
		{"comment.yml", "const run = context.payload.workflow_run;", "const run = '${{ github.event.workflow_run.head_branch }}';", "an expression within a script"},
		{"comment.yml", "    workflows: [Plan review]\n", "", "workflow_run of any workflow"},
		{"smoke.yml", "branches: [main]", "branches: ['**']", "push of the branches **"},
		{"smoke.yml", "  push:\n    branches: [main]\n", "  push:\n", "push of any branch"},
		{"smoke.yml", "  push:\n    branches: [main]\n", "  pull_request:\n", "it runs a shell beside a secret, started by a change"},
		{"smoke.yml", "  SMOKE_STEP: first-step", "  KEY: ${{ secrets.KEY }}", "a secret in the environment of every job"},
		{"nightly.yml", "  workflow_dispatch:\n", "  workflow_dispatch:\n    inputs:\n      ref: {type: string}\n", "workflow_dispatch has inputs"},
		{"nightly.yml", "      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2\n        with:\n", "      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2\n        with:\n          ref: ${{ github.event.pull_request.head.sha }}\n", "a secret beside words of a change"},
		{"nightly.yml", "    permissions:\n      contents: read\n    steps:", "    steps:", "no permissions of its own"},
		{"nightly.yml", "      - name: Build foundry", "      - uses: actions/download-artifact@d3f86a106a0bac45b974a628896c90dbdf5c8093\n      - name: Build foundry", "a secret beside what another job left"},
		{"release.yml", "    environment: release", "    container: some/image\n    environment: release", "a container beside a secret"},
	} {
		text := string(files[c.file])
		if !strings.Contains(text, c.old) {
			t.Errorf("%s lacks %q", c.file, c.old)
			continue
		}
		w, err := readCI([]byte(strings.Replace(text, c.old, c.new, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if got := ciProblems(w); !strings.Contains(strings.Join(got, "\n"), c.want) {
			t.Errorf("%s with %q: %q, want %q", c.file, c.new, got, c.want)
		}
	}
}
