package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"foundry/compile"
	"foundry/plan"
)

// decision is one open decision of a policy, by the text of its line.
type decision struct {
	line int
	path string // blocks with their labels, and the attribute: `phase "x".inputs`
}

var (
	todoLine  = regexp.MustCompile(`^\s*(\w+)\s*= todo\(".*"\)$`)
	todoModel = regexp.MustCompile(`^\s*model "todo" \{$`)
	openBlock = regexp.MustCompile(`^\s*(\w+(?: "[^"]*")?) \{$`)
)

// decisions finds the open decisions of a policy that fmt laid out.
func decisions(text string) []decision {
	var out []decision
	var blocks []string
	for i, l := range strings.Split(text, "\n") {
		if todoModel.MatchString(l) {
			out = append(out, decision{i + 1, "model"})
		}
		if m := openBlock.FindStringSubmatch(l); m != nil {
			blocks = append(blocks, m[1])
		} else if strings.TrimSpace(l) == "}" {
			blocks = blocks[:len(blocks)-1]
		} else if m := todoLine.FindStringSubmatch(l); m != nil {
			out = append(out, decision{i + 1, strings.Join(append(slices.Clone(blocks), m[1]), ".")})
		}
	}
	return out
}

// fill takes decisions: the first rule whose words all stand in a decision's
// path gives the lines.
func fill(t *testing.T, text string, ds []decision, rules [][2]string) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	for _, d := range ds {
		i := slices.IndexFunc(rules, func(r [2]string) bool { return regexp.MustCompile(r[0]).MatchString(d.path) })
		if i < 0 {
			t.Fatalf("no rule for %s", d.path)
		}
		lines[d.line-1] = rules[i][1]
	}
	return strings.Join(lines, "\n")
}

const noImage = `image = "registry.example/tool@sha256:0000000000000000000000000000000000000000000000000000000000000000"`

// common are the decisions that all pipelines leave open, as the examples'
// policies take them.
func commonRules(script string) [][2]string {
	return [][2]string{
		{`^provider.*\.api$`, `api = "anthropic-messages"`},
		{`^provider.*\.base_url$`, `base_url = "https://api.anthropic.com"`},
		{`^provider.*\.credential$`, `credential = "ANTHROPIC_API_KEY"`},
		{`^model$`, `model "claude-sonnet-5" {`},
		{`\.price$`, `price = { input = "3.00", output = "15.00", cache_read = "0.30", cache_write = "3.75" }`},
		{`\.max_output$`, `max_output = 64000`},
		{`^harness "worker"\.adapter$`, fmt.Sprintf("adapter = \"scripted\"\ntest_stub = true\nscript = %q", script)},
		{`^harness "worker"\.version$`, `version = "1"`},
		{`^harness "worker"\.model$`, `model = "claude-sonnet-5"`},
		{`^harness "worker"\.tools$`, `tools = []`},
		{`^sandbox\.image$`, `image = "builtin"`},
		{`^sandbox\.network$`, `network = "none"`},
		{`budget\.wall$`, `wall = "10m"`},
		{`budget\.cost_usd$`, `cost_usd = "3.00"`},
		{`budget\.tokens$`, `tokens = 400000`},
		{`budget\.turns$`, `turns = 60`},
		{`budget\.tool_calls$`, `tool_calls = 200`},
		{`budget\.output$`, `output = "64MiB"`},
		{`budget\.files$`, `files = 64`},
		{`^tool "foundry"`, `by = "schema"`},
		{`^tool "(planemo|cwl-utils)"`, `unavailable = "not here"`},
		{`^tool `, noImage},
		{`\.max_iterations$`, `max_iterations = 30`},
		{`\.until$`, `until = iteration >= 30`},
		{`\.accept$`, `accept = length(output.test-data-refs.json.refs) > 0`},
		{`phase "validate-galaxy-workflow"\.inputs$`, `inputs = ["galaxy-workflow"]`},
		{`phase "validate-galaxy-workflow"\.check "proof"\.argv$`, `argv = ["gxwf", "validate", "{in:galaxy-workflow}"]`},
		{`phase "validate-cwl(#2)?"\.check "proof"\.argv$`, `argv = ["gxwf", "validate", "{in:cwl-workflow-draft}"]`},
		{`check "proof"\.tool$`, `tool = "gxwf"`},
	}
}

type started struct {
	name, assembly, example string
	args                    []string
	gap                     string      // a true gap of the pipeline
	rules                   [][2]string // before the common ones
}

func starts(t *testing.T) []started {
	examples := filepath.Join(repository(t), "examples")
	file := func(parts ...string) string {
		return fmt.Sprintf("path = %q", filepath.ToSlash(filepath.Join(append([]string{examples}, parts...)...)))
	}
	script := filepath.ToSlash(filepath.Join(examples, "galaxy", "scripts", "idle.json"))
	out := []started{{
		name: "quickstart", assembly: filepath.Join(examples, "quickstart", "skills", "pipeline-release-notes", "_assembly.json"), example: "quickstart/quickstart.hcl",
		rules: append([][2]string{{`^input "source"`, file("quickstart", "inputs", "changes")}}, commonRules(script)...),
	}}
	dir := corpus(t)
	if dir == "" {
		return out
	}
	galaxyRun := [2]string{`phase "run-workflow-test"\.inputs$`, `inputs = ["galaxy-workflow", "galaxy-workflow-test", "test-data-refs"]`}
	cwlTool := func(summary string) [2]string {
		return [2]string{`phase "summarize-cwl-tool"\.inputs$`, fmt.Sprintf(`inputs = [%q, "cwl-workflow-draft"]`, summary)}
	}
	for _, s := range []started{
		{name: "cwl-to-galaxy", rules: [][2]string{{`^input "source"`, file("galaxy", "inputs", "word-count")}, galaxyRun}},
		{name: "interview-to-galaxy", rules: [][2]string{{`^input "source"`, file("galaxy", "inputs", "answers.md")}, galaxyRun}},
		{name: "nextflow-to-cwl", rules: [][2]string{{`^input "source"`, file("galaxy", "inputs", "demo-nf")}, cwlTool("summary-nextflow"),
			{`phase "summary-to-cwl-template"\.inputs$`, `inputs = ["summary-nextflow", "nextflow-cwl-interface", "nextflow-cwl-data-flow"]`},
			{`phase "run-workflow-test"\.inputs$`, `inputs = ["cwl-workflow-draft", "cwl-workflow-test"]`}}},
		{name: "nextflow-to-galaxy", rules: [][2]string{{`^input "source"`, file("galaxy", "inputs", "demo-nf")}, galaxyRun}},
		{name: "paper-to-cwl", gap: "cwl-test-plan", rules: [][2]string{{`^input "source"`, file("galaxy", "inputs", "methods.md")}, cwlTool("freeform-summary"),
			{`^input "cwl-test-plan"`, file("galaxy", "inputs", "line-count.cwl-test-plan.md")},
			{`phase "summary-to-cwl-template"\.inputs$`, `inputs = ["freeform-summary", "freeform-cwl-design"]`},
			{`phase "run-workflow-test"\.inputs$`, `inputs = ["cwl-workflow-draft", "cwl-workflow-test", "test-data-refs"]`}}},
		{name: "paper-to-galaxy", rules: [][2]string{{`^input "source"`, file("galaxy", "inputs", "methods.md")}, galaxyRun}},
		{name: "update-interview-to-galaxy", gap: "test-data-refs", rules: [][2]string{{`^input "source"`, file("galaxy", "inputs", "starting-workflow.gxwf.yml")}, galaxyRun}},
	} {
		s.assembly = filepath.Join(dir, "skills", "pipeline-"+s.name, "_assembly.json")
		s.example, s.args = "galaxy/"+s.name+".hcl", []string{"--var", "corpus=" + dir}
		s.rules = append(s.rules, [2]string{`^input "test-data-refs"`, file("galaxy", "inputs", "line-count.test-data-refs.json")})
		s.rules = append(s.rules, commonRules(script)...)
		out = append(out, s)
	}
	return out
}

// TestInit: a starter policy fails with exactly its open decisions, and once
// they are taken it compiles, with the lists that people wrote by hand.
func TestInit(t *testing.T) {
	for _, s := range starts(t) {
		t.Run(s.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policy.hcl")
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), []string{"init", s.assembly, "-o", file}, strings.NewReader(""), &stdout, &stderr); code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr.Bytes())
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(data)
			open := decisions(text)
			if !strings.Contains(stderr.String(), fmt.Sprintf("%d decisions are open", len(open))) || len(open) < 20 {
				t.Errorf("%d decisions stand in it; init says: %s", len(open), stderr.Bytes())
			}
			failsWith(t, file, open)
			// One after the other is taken, and the rest is what is left.
			for i := 0; i < len(open); i += 7 {
				writeFile(t, file, fill(t, text, open[:i], s.rules))
				failsWith(t, file, decisions(fill(t, text, open[:i], s.rules)))
			}
			writeFile(t, file, fill(t, text, open, s.rules))
			var p, by *plan.Plan
			if p, err = plan.Decode([]byte(planOf(t, file, nil))); err != nil {
				t.Fatal(err)
			}
			if by, err = plan.Decode([]byte(planOf(t, filepath.Join(repository(t), "examples", filepath.FromSlash(s.example)), s.args))); err != nil {
				t.Fatal(err)
			}
			sameLists(t, p, by)
			gaps := regexp.MustCompile("(?m)^# GAP of the pipeline[^{]*\ninput \"(.*)\"").FindAllStringSubmatch(strings.ReplaceAll(text, "{ …", ""), -1)
			if s.gap == "" && len(gaps) > 0 || s.gap != "" && (len(gaps) != 1 || gaps[0][1] != s.gap) {
				t.Errorf("gaps %q, want %q", gaps, s.gap)
			}
		})
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// failsWith requires a policy to fail with one error for each open decision,
// at its line, and to say nothing else.
func failsWith(t *testing.T, file string, open []decision) {
	t.Helper()
	res := compile.Compile(t.Context(), filepath.ToSlash(file), compile.Options{Open: openFolder, Adapters: adapters()})
	var got, want []int
	for _, d := range res.Diagnostics {
		if d.Severity != compile.Error || d.Summary != compile.SummaryOpen || len(d.Detail) < 20 {
			t.Errorf("it also says: %+v", d)
		}
		got = append(got, d.Subject.Start.Line)
	}
	for _, d := range open {
		want = append(want, d.line)
	}
	if !slices.Equal(got, want) || res.Plan != nil {
		t.Errorf("it fails at lines %v, and these are open: %v", got, want)
	}
}

// sameLists compares what two policies of one pipeline say does not apply.
func sameLists(t *testing.T, p, by *plan.Plan) {
	t.Helper()
	lists := func(p *plan.Plan) map[string]string {
		out := map[string]string{}
		for _, n := range p.Nodes {
			if n.Kind == plan.NodeAgent {
				out[n.ID] = strings.Join(n.NotApplicable, " ")
			}
		}
		return out
	}
	a, b := lists(p), lists(by)
	for id := range b {
		if a[id] != b[id] {
			t.Errorf("%s: not applicable %q, a person wrote %q", id, a[id], b[id])
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d steps, and %d in the example", len(a), len(b))
	}
}

// TestInitWritesNothingOver: a file that is there stays.
func TestInitWritesNothingOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.hcl")
	writeFile(t, file, "mine")
	link := filepath.Join(t.TempDir(), "link.hcl")
	if err := os.Symlink(filepath.Join(t.TempDir(), "nothing"), link); err != nil {
		t.Fatal(err)
	}
	assembly := filepath.Join(repository(t), "examples", "quickstart", "skills", "pipeline-release-notes", "_assembly.json")
	for _, out := range []string{file, link} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"init", assembly, "-o", out}, strings.NewReader(""), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "not overwritten") {
			t.Errorf("exit code %d: %s", code, stderr.Bytes())
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if _, err := os.Stat(link); err == nil {
		t.Error("a file was written through a link")
	}
}
