package compile_test

import (
	"bytes"
	"strings"
	"testing"

	"foundry/compile"
	"foundry/plan"
)

// valid requires that a compilation gave a plan that holds on its own: it
// decodes to the same bytes, keeps the rules of the format, and every file that
// it names is among the blobs.
func valid(t testing.TB, res *compile.Result) *plan.Plan {
	t.Helper()
	if res.Plan == nil {
		t.Fatal(show(res.Diagnostics))
	}
	p, err := plan.Decode(res.Encoded)
	if err != nil {
		t.Fatal(err)
	}
	if problems := plan.Validate(p); len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	again, err := plan.Encode(p)
	if err != nil || !bytes.Equal(again, res.Encoded) {
		t.Fatalf("the plan does not encode to the bytes it was decoded from: %v", err)
	}
	for _, b := range p.Bundles {
		for _, f := range b.Files {
			if f.Mode != plan.ModeDir && plan.Digest(res.Blobs[f.Digest]) != f.Digest {
				t.Fatalf("the bytes of %s %s are not among the blobs", b.ID, f.Path)
			}
		}
	}
	return p
}

// wholePipe has one of everything that a pipeline can have.
func wholePipe() (*pipe, string) {
	p := newPipe().phase("summarize", []string{"summary"}, nil).
		loop("collect", []string{"draft=draft.md", "log"}, []string{"summary", "draft"}).
		loop("convert", []string{"step"}, []string{"draft", "log"}).
		loop("judge", []string{"verdict"}, []string{"step"})
	p.skill("find", []string{"refs"}, []string{"draft"})
	p.skill("make", []string{"refs"}, []string{"draft"})
	p.skill("helper", nil, nil)
	p.branch("data", "find", "make", "user-supplied").
		phase("finish", []string{"report"}, []string{"refs", "verdict", "ledger", "elsewhere"}).
		phase("summarize", nil, nil)
	p.put("skills/finish/_verify.json", `{"verify_schema_version":1,"entries":[
{"artifact_id":"refs","direction":"input","kind":"json","default_filename":"refs.json","schema":"[[refs]]","validator_bin":"foundry","args":["{artifact_path}"]},
{"artifact_id":"report","direction":"output","kind":"json","default_filename":"report.json","schema":"[[report]]","validator_bin":"foundry","args":["{artifact_path}"]},
{"artifact_id":"verdict","direction":"input","kind":"json","default_filename":"verdict.json","schema":"[[verdict]]","validator_bin":"lint","args":["--strict","{artifact_path}"]},
{"artifact_id":"report","direction":"output","kind":"json","default_filename":"report.json","schema":"[[report]]","validator_bin":"lint","args":["--strict","{artifact_path}"]}]}`)
	p.put("skills/finish/references/schemas/report.schema.json", `{"type":"object"}`)
	p.put("skills/find/references/schemas/refs.schema.json", `{"type":"object","required":["refs"]}`)
	p.put("refs.json", `{"refs":[]}`)
	p.put("text/one.txt", "one\n")
	p.tools = `[{"tool":"lint","origin":"npm","package":"lint","invoke":"lint","invoke_fallback":"lint","availability_check":"lint --help | grep -q strict","docs_url":"x","source":"referenced"}]`
	return p, `
input "text" { path = "text" }
input "refs" { path = "refs.json" }
tool "foundry" { by = "schema" }
tool "lint" { image = "` + dash + `" }
phase "summarize" {
  inputs        = ["text"]
  task          = "Summarize {in:text} with {skill:helper}; leave $${HOME} and {{x}} alone."
  nested_skills = ["helper"]
  sandbox { memory = "1GiB" }
  check "short" {
    argv   = ["wc", "-l", "{in:summary}"]
    image  = "` + dash + `"
    assert = matches(check.short.stdout, "^[0-9]+$")
    budget { wall = "10s" }
  }
}
phase "summarize#2" {
  inputs = []
  output "summary" { filename = "second/summary.json" }
}
loop "rounds" {
  phases         = ["collect", "convert", "judge"]
  max_iterations = 7
  until          = output.verdict.json.done == true && iteration > 1 || check.settled.exit_code == 0
  phase "convert" { submit_attempts = 3 }
  phase "judge" { require_activation = true }
  check "settled" {
    argv     = ["settled", "{in:verdict}"]
    image    = "` + dash + `"
    blocking = false
  }
}
branch "data" {
  accept    = length(output.refs.json.refs) > 0
  otherwise = input.refs
  phase "make" {
    budget { turns = 3 }
  }
}
phase "finish" {
  not_applicable = ["ledger", "elsewhere"]
}
`
}

// TestPlanBytes keeps the bytes of whole plans: a change of them must be
// wanted, as every reviewer of a pipeline sees it.
func TestPlanBytes(t *testing.T) {
	for _, c := range []struct {
		name     string
		override compile.Override
		order    string
	}{
		{"whole.plan.golden", compile.Override{}, ""},
		{"container.plan.golden", compile.Override{Sandbox: plan.SandboxContainer, Image: plan.ImageBuiltin}, ""},
		{"dataflow.plan.golden", compile.Override{}, "order = \"dataflow\"\n"},
	} {
		p, policy := wholePipe()
		res := p.over(c.override).compile(t, c.order+policy)
		valid(t, res)
		golden(t, c.name, string(res.Encoded))
	}
}

func TestAgentPlanBytes(t *testing.T) {
	p := two()
	policy := agentBlocks + "harness \"more\" {\n  adapter  = \"agent\"\n  version  = \"2\"\n  provider = \"lab\"\n  model    = \"large\"\n}\n" + `
sandbox {
  mode        = "container"
  image       = "` + dash + `"
  network     = "provider"
  cpu         = 0.5
  pids        = 64
  tmp         = "1MiB"
  scratch     = "2MiB"
  allow_shell = true
}
phase "a" {
  inputs  = []
  harness = "real"
  task    = "shell"
}
phase "b" {
  harness = "more"
}
`
	res := p.compile(t, policy)
	valid(t, res)
	golden(t, "agent.plan.golden", string(res.Encoded))

	p.over(compile.Override{Provider: "lab", Model: "large", Thinking: "high", Credentials: []string{"LAB_KEY"}, Harness: map[string]string{"more": "real"}})
	got := valid(t, p.compile(t, policy))
	if len(got.Harnesses) != 1 || got.Harnesses[0].Name != "real" || got.Harnesses[0].Model != "large" || got.Harnesses[0].Thinking != "high" {
		t.Errorf("harnesses: %+v", got.Harnesses)
	}
	if m := got.Providers[0].Models; len(m) != 1 || m[0].ID != "large" {
		t.Errorf("models: %+v", m)
	}
	if n := node(t, got, "b"); n.Harness != "real" || strings.Join(n.Sandbox.Credentials, " ") != "LAB_KEY" || !n.RequireActivation {
		t.Errorf("b: %+v", n)
	}
}

// A program of an image runs in that image, whatever the worker's is.
func TestImageOfATool(t *testing.T) {
	other := strings.Replace(dash, "tool", "worker", 1)
	p, policy := wholePipe()
	got := valid(t, p.over(compile.Override{Sandbox: plan.SandboxContainer, Image: other}).compile(t, policy))
	for id, want := range map[string]string{"finish": other, "finish.lint-output-report": dash, "summarize.short": dash, "rounds.settled": dash} {
		if n := node(t, got, id); n.Sandbox.Image != want || n.Sandbox.Network != plan.NetworkNone && id != "finish" {
			t.Errorf("%s runs in %s, want %s", id, n.Sandbox.Image, want)
		}
	}
}

// Under dataflow a consumer still waits for the blocking checks of what it
// reads.
func TestDataflowWaitsForChecks(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("other", []string{"o"}, nil).phase("b", []string{"y"}, []string{"x"})
	policy := func(blocking string) string {
		return `order = "dataflow"
phase "a" {
  inputs = []
  check "good" {
    argv     = ["good", "{in:x}"]
    blocking = ` + blocking + `
  }
}
phase "other" { inputs = [] }
`
	}
	for blocking, want := range map[string]string{"true": "a a.good", "false": "a"} {
		got := valid(t, p.compile(t, policy(blocking)))
		if needs := strings.Join(node(t, got, "b").Needs, " "); needs != want {
			t.Errorf("blocking = %s: b needs %q, want %q", blocking, needs, want)
		}
		if needs := node(t, got, "other").Needs; len(needs) != 0 {
			t.Errorf("other needs %v", needs)
		}
	}
}

// An input's validator looks at what the step read, not at what it wrote.
func TestValidatorOfAnInputThatIsAlsoWritten(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", []string{"x"}, []string{"x"})
	p.put("skills/b/_verify.json", strings.Replace(verifyFile("input", "x", "x"), `"schema":"[[x]]",`, "", 1))
	got := valid(t, p.compile(t, first+"tool \"lint\" { image = \""+dash+"\" }\n"))
	if in := node(t, got, "b.lint-input-x").Inputs[0]; in.From != "node:a" {
		t.Errorf("the validator reads %+v", in)
	}
	p = newPipe().loop("l", []string{"log", "x"}, []string{"log"})
	p.put("skills/l/_verify.json", strings.Replace(verifyFile("input", "log", "x"), `"schema":"[[x]]",`, "", 1))
	got = valid(t, p.compile(t, "tool \"lint\" { image = \""+dash+"\" }\nloop \"l\" {\n  max_iterations = 2\n  until = iteration > 1\n}\n"))
	if in := node(t, got, "l.lint-input-log").Inputs[0]; in.CarriedFrom != "l" || in.From != plan.FromNone || in.Required {
		t.Errorf("the validator of a carried input reads %+v", in)
	}
}

// An input's validator runs before its step, which waits for it; one that
// looks at the pipeline's own inputs alone runs before every step.
func TestValidatorsOfInputsGate(t *testing.T) {
	verify := func(id string) string {
		return strings.Replace(verifyFile("input", id, "x"), `"schema":"[[x]]",`, "", 1)
	}
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", []string{"y"}, []string{"x"}).phase("c", []string{"z"}, []string{"given"}).
		loop("l", []string{"log"}, []string{"y"})
	p.put("skills/b/_verify.json", verify("x"))
	p.put("skills/c/_verify.json", verify("given"))
	p.put("skills/l/_verify.json", verify("y"))
	p.put("given.json", "{}")
	for order, want := range map[string]string{
		"assembly": "c.lint-input-given() a() b.lint-input-x(a) b(a b.lint-input-x) c(b b.lint-input-x c.lint-input-given) l.lint-input-y(b c) l(b l.lint-input-y)",
		"dataflow": "c.lint-input-given() a() b.lint-input-x(a) b(a b.lint-input-x) c(c.lint-input-given) l.lint-input-y(b) l(b l.lint-input-y)",
	} {
		got := valid(t, p.compile(t, "order = \""+order+"\"\n"+first+"input \"given\" { path = \"given.json\" }\ntool \"lint\" { image = \""+dash+"\" }\nloop \"l\" {\n  max_iterations = 2\n  until = iteration > 1\n}\n"))
		var nodes []string
		for i := range got.Nodes {
			n := &got.Nodes[i]
			nodes = append(nodes, n.ID+"("+strings.Join(n.Needs, " ")+")")
			if of := n.Check; of != nil && !n.Gates(node(t, got, of.Of)) {
				t.Errorf("%s: %s runs after its step", order, n.ID)
			}
		}
		if s := strings.Join(nodes, " "); s != want {
			t.Errorf("%s:\n got %s\nwant %s", order, s, want)
		}
		if body := strings.Join(got.Loops[0].Body, " "); body != "l.lint-input-y l" {
			t.Errorf("%s: the loop runs %s", order, body)
		}
	}
}

func TestRecordedFiles(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", []string{"y"}, []string{"x"})
	p.put("script.json", `{"version":1,"nodes":{"a":[{"copy":{"from":"{recorded}/one/x.json","to":"{out}/x.json"}},{"copy":{"from":"{recorded}/two","to":"{out}/more"}}],"b":[]}}`)
	p.common = strings.Replace(p.common, "script    = \"script.json\"", "script    = \"script.json\"\n  recorded  = \"rec\"", 1)
	p.put("rec/one/x.json", "{}")
	p.put("rec/one/secret.json", "{}")
	p.put("rec/two/y.json", "[]")
	p.put("rec/two/deep/z.json", "1")
	res := p.compile(t, first)
	got := valid(t, res)
	var paths []string
	for _, b := range got.Bundles {
		if b.ID == "recorded:a" {
			for _, f := range b.Files {
				paths = append(paths, f.Path+"="+string(res.Blobs[f.Digest]))
			}
		}
	}
	if want := "one/x.json={} two/deep/z.json=1 two/y.json=[]"; strings.Join(paths, " ") != want {
		t.Errorf("recorded: %v, want %s", paths, want)
	}
	delete(p.files, "policy/rec/one/x.json")
	if res := p.compile(t, first); res.Plan != nil || !strings.Contains(show(res.Diagnostics), "at policy/main.hcl:9:") {
		t.Errorf("a recorded file is missing:\n%s", show(res.Diagnostics))
	}
}

// Two nodes whose recorded bundles would have one name keep their own bytes,
// and so do two schemas of one name.
func TestNamesThatWouldBeOne(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("a", nil, nil).phase("a.2", []string{"y"}, []string{"x"})
	p.put("script.json", `{"version":1,"nodes":{"a":[],"a#2":[{"copy":{"from":"{recorded}/one","to":"{out}/x.json"}}],"a.2":[{"copy":{"from":"{recorded}/two","to":"{out}/x.json"}}]}}`)
	p.common = strings.Replace(p.common, "script    = \"script.json\"", "script    = \"script.json\"\n  recorded  = \"rec\"", 1)
	p.put("rec/one", "1")
	p.put("rec/two", "2")
	p.put("skills/a/references/schemas/s.schema.json", `{"type":"object"}`)
	p.put("skills/a/references/schemas/s.a.2.schema.json", `{"type":"array"}`)
	p.put("skills/a.2/references/schemas/s.schema.json", `{"type":"string"}`)
	res := p.compile(t, `
phase "a" {
  inputs = []
  output "x" { schema = "s" }
}
phase "a#2" {
  inputs = []
  output "x" { schema = "s.a.2" }
}
phase "a.2" {
  output "y" { schema = "s" }
}
`)
	got := valid(t, res)
	content := map[string]string{}
	for _, b := range got.Bundles {
		content[b.ID] = string(res.Blobs[b.Files[0].Digest])
	}
	for id, want := range map[string][2]string{"a": {"", `{"type":"object"}`}, "a#2": {"1", `{"type":"array"}`}, "a.2": {"2", `{"type":"string"}`}} {
		n := node(t, got, id)
		if s := content[n.Outputs[0].Schema]; s != want[1] {
			t.Errorf("%s is bound to the schema %s, want %s", id, s, want[1])
		}
		for _, m := range n.Sandbox.Mounts {
			if strings.HasPrefix(m.Source, "recorded:") && content[m.Source] != want[0] {
				t.Errorf("%s gets the recorded bytes %q, want %q", id, content[m.Source], want[0])
			}
		}
	}
}

func TestScenarioReplacesInputs(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, []string{"q"})
	p.put("q.json", "{}")
	p.put("big.json", `{"big":true}`)
	policy := `
input "q" {
  path   = "q.json"
  digest = "` + plan.Digest([]byte("{}")) + `"
}
scenario "big" {
  input "q" { path = "big.json" }
}
`
	if got := valid(t, p.compile(t, policy)); got.Inputs[0].Filename != "q.json" || got.Pipeline.Scenario != "" {
		t.Errorf("without a scenario: %+v", got.Inputs)
	}
	p.options = append(p.options, func(o *compile.Options) { o.Scenario = "big" })
	if got := valid(t, p.compile(t, policy)); got.Inputs[0].Filename != "big.json" || got.Pipeline.Scenario != "big" {
		t.Errorf("with a scenario: %+v", got.Inputs)
	}
}

// A worker without a provider may be given nothing to spend, and a step
// without outputs nothing to write.
func TestBudgetOfNothing(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", nil, []string{"x"})
	got := valid(t, p.compile(t, first+`phase "b" {
  budget {
    tokens   = 0
    cost_usd = "0"
    files    = 0
  }
  check "good" { argv = ["good"] }
}`))
	if b := node(t, got, "b").Budget; b.Tokens != 0 || b.CostMicroUSD != 0 || b.OutputFiles != 0 || b.Turns != 10 {
		t.Errorf("budget: %+v", b)
	}
}

func TestOptionalInDefaults(t *testing.T) {
	p := two()
	p.common = strings.Replace(p.common, "defaults {", "defaults {\n  optional = [\"x\"]", 1)
	got := valid(t, p.compile(t, "phase \"a\" {\n  inputs = []\n  output \"x\" { required = \"optional\" }\n}\n"))
	if in := input(node(t, got, "b"), "x"); in.Required {
		t.Errorf("x is required: %+v", in)
	}
}
