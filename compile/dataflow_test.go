package compile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"foundry/plan"
)

const first = `
phase "a" { inputs = [] }
`

func TestBinding(t *testing.T) {
	p := newPipe().
		phase("a", []string{"x"}, nil).
		phase("b", []string{"x", "y"}, []string{"x"}).
		phase("c", []string{"z"}, []string{"x", "y", "ledger-free"})
	p.put("free.json", `{}`)
	got := p.mustCompile(t, first+`input "ledger-free" { path = "free.json" }`)
	for _, c := range []struct{ node, artifact, from, path string }{
		{"b", "x", "node:a", "x.json"},
		{"c", "x", "node:b", "x.json"}, // the nearest version
		{"c", "y", "node:b", "y.json"},
		{"c", "ledger-free", "input:ledger-free", "free.json"},
	} {
		in := input(node(t, got, c.node), c.artifact)
		if in == nil || in.From != c.from || in.Path != c.path || !in.Required {
			t.Errorf("%s reads %s as %+v, want %s at %s", c.node, c.artifact, in, c.from, c.path)
		}
	}
	if needs := strings.Join(node(t, got, "c").Needs, " "); needs != "b" {
		t.Errorf("c needs %q", needs)
	}
}

func TestCarriedAtFirstReading(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", []string{"ledger", "y"}, []string{"x", "ledger"}).phase("c", []string{"ledger"}, []string{"ledger"})
	got := p.mustCompile(t, first)
	if in := input(node(t, got, "b"), "ledger"); in.From != plan.FromNone || in.Required {
		t.Errorf("first reading: %+v", in)
	}
	if in := input(node(t, got, "c"), "ledger"); in.From != "node:b" || !in.Required {
		t.Errorf("second reading: %+v", in)
	}
}

func TestLoopCarries(t *testing.T) {
	p := newPipe().phase("a", []string{"draft"}, nil).
		loop("l", []string{"draft", "final"}, []string{"draft"}).
		phase("after", []string{"end"}, []string{"final", "draft"})
	got := p.mustCompile(t, first+`loop "l" {
  max_iterations = 3
  until          = output.final.exists
}`)
	in := input(node(t, got, "l"), "draft")
	if in.From != "node:a" || in.CarriedFrom != "l" || !in.Required {
		t.Errorf("carried: %+v", in)
	}
	required := map[string]string{}
	for _, o := range node(t, got, "l").Outputs {
		required[o.Artifact] = o.Required
	}
	if required["draft"] != plan.RequiredAlways || required["final"] != plan.RequiredAtEnd {
		t.Errorf("required: %v", required)
	}
	if l := got.Loops[0]; strings.Join(l.Carries, " ") != "draft" || strings.Join(l.Body, " ") != "l" {
		t.Errorf("loop: %+v", l)
	}
	if needs := node(t, got, "after").Needs; strings.Join(needs, " ") != "l" {
		t.Errorf("after needs %v", needs)
	}
}

func TestGap(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", []string{"y"}, []string{"x", "nowhere"})
	d := p.refused(t, first, "Artifact without a producer", "Phase 2 (`b`) reads `nowhere`", `input "nowhere"`, "not_applicable = [\"nowhere\"]", "`phase \"b\" { … }`")
	if !strings.HasSuffix(d.Subject.File, "skills/b/_provenance.json") || d.Subject.Start.Line == 0 {
		t.Errorf("place: %+v", d.Subject)
	}
	got := p.mustCompile(t, first+`phase "b" { not_applicable = ["nowhere"] }`)
	if na := node(t, got, "b").NotApplicable; strings.Join(na, " ") != "nowhere" {
		t.Errorf("not applicable: %v", na)
	}
	p.refused(t, first+`phase "b" { not_applicable = ["nowhere", "x"] }`, "Artifact is applicable", "the phase `a` gives it")
	p.refused(t, first+`phase "b" { not_applicable = ["nowhere", "nowhere2"] }`, "Unknown artifact", "`b` does not consume `nowhere2`", "Did you mean \"nowhere\"?")
}

// B1: an output of a skipped step must never be read without a word.
func TestMissingOnOneWay(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil)
	p.skill("b1", []string{"result", "both"}, []string{"x"})
	p.skill("b2", []string{"both"}, []string{"x"})
	p.branch("pick", "b1", "b2").phase("c", []string{"z"}, []string{"result"})
	branch := `branch "pick" { accept = output.both.exists }`
	p.refused(t, first+branch, "Input may be missing", "`c` reads `result`", "the branch `pick` gives it only on some ways", "its alternative `b2` does not produce it")

	q := newPipe().phase("a", []string{"x"}, nil).phase("b", []string{"y"}, []string{"x"})
	q.refused(t, `phase "a" {
  inputs = []
  output "x" { required = "optional" }
}`, "Input may be missing", "`b` reads `x`, and its producer `a` may leave it out", `optional = ["x"]`)
	got := q.mustCompile(t, `phase "a" {
  inputs = []
  output "x" { required = "optional" }
}
phase "b" { optional = ["x"] }`)
	if in := input(node(t, got, "b"), "x"); in.Required {
		t.Errorf("an optional output is required: %+v", in)
	}
	got = q.mustCompile(t, first+`artifact "x" { required = "optional" }`)
	if in := input(node(t, got, "b"), "x"); in.Required || node(t, got, "a").Outputs[0].Required != plan.Optional {
		t.Errorf("an artifact block is not honoured: %+v", in)
	}
}

func TestBranch(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil)
	p.skill("b1", []string{"both"}, []string{"x"})
	p.skill("b2", []string{"both"}, []string{"x"})
	p.branch("pick", "b1", "b2", "user-supplied").phase("c", []string{"z"}, []string{"both"})
	p.put("both.json", "{}")
	got := p.mustCompile(t, first+`
input "both" { path = "both.json" }
branch "pick" {
  accept    = length(output.both.json.refs) > 0
  otherwise = input.both
}`)
	b := got.Branches[0]
	if b.Otherwise != "input:both" || strings.Join(b.Alternatives, " ") != "pick/b1 pick/b2" || strings.Join(b.Artifacts, " ") != "both" {
		t.Errorf("branch: %+v", b)
	}
	if in := input(node(t, got, "c"), "both"); in.From != "branch:pick" {
		t.Errorf("consumer: %+v", in)
	}
	p.refused(t, first+`branch "pick" { accept = output.both.exists }`, "Branch without a fallback", "otherwise = input.NAME")
	p.refused(t, first, "Branch without a decision", "Phase 2 is the branch `pick`")
	p.refused(t, first+`branch "pick" {
  accept    = output.both.exists
  otherwise = input.both
}`, "Unknown input", "no input `both`")
}

// B8: names that a file system would make one.
func TestCollidingOutputs(t *testing.T) {
	for _, names := range [][2]string{{"Report.md", "report.md"}, {"\u00e9.md", "e\u0301.md"}, {"same.md", "same.md"}} {
		p := newPipe().phase("a", []string{"one=" + names[0], "two=" + names[1]}, nil)
		res := p.compile(t, first)
		if res.Plan != nil || !strings.Contains(show(res.Diagnostics), "collide") {
			t.Errorf("%q: %s", names, show(res.Diagnostics))
		}
	}
	// Two producers may use one file name: each artifact has a folder of its own.
	p := newPipe().phase("a", []string{"one=result.json"}, nil).phase("b", []string{"two=result.json"}, []string{"one"}).phase("c", []string{"z"}, []string{"one", "two"})
	got := p.mustCompile(t, first)
	dest := map[string]bool{}
	for _, m := range node(t, got, "c").Sandbox.Mounts {
		if strings.HasPrefix(m.Source, "in:") {
			dest[m.Destination] = true
		}
	}
	if !dest["/in/one"] || !dest["/in/two"] {
		t.Errorf("mounts: %v", dest)
	}
}

// B11: cycles are named in order, with the place of each edge.
func TestCycles(t *testing.T) {
	self := newPipe().phase("a", []string{"x"}, nil)
	self.refused(t, `phase "a" { inputs = ["x"] }`, "Cycle", "a ring of 1: `a` reads `x` of `a` (policy/main.hcl:")

	pair := newPipe().phase("a", []string{"x"}, []string{"y"}).phase("b", []string{"y"}, []string{"x"})
	pair.refused(t, "", "Cycle", "a ring of 2: `a` reads `y` of `b` (policy/skills/a/_provenance.json:", "`b` reads `x` of `a` (policy/skills/b/_provenance.json:")

	fallback := newPipe().phase("a", []string{"x"}, []string{"both"})
	fallback.skill("b1", []string{"both"}, nil)
	fallback.skill("b2", []string{"both"}, []string{"x"})
	fallback.branch("pick", "b1", "b2")
	fallback.refused(t, `branch "pick" {
  accept = output.both.exists
  phase "b1" { inputs = [] }
}`, "Cycle", "`a` reads `both` of `pick/b2`", "`pick/b2` reads `x` of `a`")

	body := newPipe().phase("a", []string{"x"}, []string{"made"}).loop("l", []string{"made"}, []string{"x"})
	body.refused(t, `loop "l" {
  max_iterations = 2
  until          = output.made.exists
}`, "Cycle", "`a` reads `made` of `l`", "`l` reads `x` of `a`")

	later := newPipe().phase("a", []string{"x"}, []string{"y"}).phase("b", []string{"y"}, []string{"free"})
	later.put("free.json", "{}")
	later.refused(t, `input "free" { path = "free.json" }`, "Artifact without a producer", "It is produced only later, by `b`.")
}

func TestLongRing(t *testing.T) {
	const n = 2000
	p := newPipe()
	var policy strings.Builder
	for i := range n {
		// One skill for each phase: the ring is in the declared artifacts.
		p.phase(fmt.Sprintf("s%d", i), []string{fmt.Sprintf("x%d", i)}, []string{fmt.Sprintf("x%d", (i+n-1)%n)})
	}
	start := time.Now()
	p.refused(t, policy.String(), "Cycle", "a ring of 2000", "`s0` reads `x1999` of `s1999`", "… 1988 more …")
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestPhaseProvesNothing(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", nil, []string{"x"})
	p.refused(t, first, "Phase proves nothing", "Phase 2 (`b`) declares no output and has no check")
	got := p.mustCompile(t, first+`phase "b" {
  check "fine" { argv = ["true", "{in:x}"] }
}`)
	n := node(t, got, "b.fine")
	if n.Kind != plan.NodeCheck || n.Check.Of != "b" || !n.Check.Blocking || strings.Join(n.Needs, " ") != "b" || n.Sandbox.Network != plan.NetworkNone {
		t.Errorf("check: %+v", n)
	}
}

func TestInputsMustBeSaid(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil)
	p.refused(t, "", "Inputs are not declared", "Phase 1: the skill `a`", "inputs = []")
	p.refused(t, `phase "b" { inputs = [] }
`+first, "Unknown phase", "no phase `b`")
}

func TestShellIsRefused(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil)
	check := func(argv string) string {
		return `phase "a" {
  inputs = []
  check "c" { argv = ` + argv + ` }
}`
	}
	p.refused(t, check(`["sh", "-c", "true"]`), "Shell is not allowed", "`a.c` would run a shell")
	p.refused(t, check(`["/usr/bin/env", "bash"]`), "Shell is not allowed")
	p.refused(t, check(`["npx", "tool"]`), "Fetching code is not allowed", "`a.c` would fetch code")
	p.mustCompile(t, check(`["true"]`))
}

func TestProbes(t *testing.T) {
	tool := func(check string) string {
		return fmt.Sprintf(`[{"tool":"gx","origin":"npm","package":"gx","invoke":"gx","invoke_fallback":"gx","availability_check":%q,"docs_url":"x","source":"referenced"}]`, check)
	}
	p := newPipe().phase("a", []string{"x"}, nil)
	p.tools = tool("gx --help | grep -q draft-validate")
	got := p.mustCompile(t, first)
	if pr := got.Probes[0]; strings.Join(pr.Argv, " ") != "gx --help" || pr.Expect != "draft-validate" || pr.Tool != "gx" {
		t.Errorf("probe: %+v", pr)
	}
	p.tools = tool("gx --help && rm -rf $HOME")
	p.refused(t, first, "Availability check is no probe", "`gx`", "probe \"gx\"")
	got = p.mustCompile(t, first+`probe "gx" {
  argv   = ["gx", "--version"]
  expect = "2"
}`)
	if pr := got.Probes[0]; strings.Join(pr.Argv, " ") != "gx --version" || pr.Expect != "2" {
		t.Errorf("probe: %+v", pr)
	}
	if got = p.mustCompile(t, first+`tool "gx" { unavailable = "not here" }`); len(got.Probes) != 0 || got.Tools[0].Reason != "not here" {
		t.Errorf("waived: %+v %+v", got.Probes, got.Tools)
	}
	p.refused(t, first+`tool "gx" { unavailable = "x" }
probe "hx" { argv = ["hx"] }`, "Unknown tool", "requires the tool `hx`")
}

// A check whose tool is waived compiles, and is left unsupported.
func TestWaivedCheck(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil)
	got := p.mustCompile(t, `sandbox { mode = "container" }
tool "gx" { unavailable = "not here" }
phase "a" {
  inputs = []
  check "c" {
    tool = "gx"
    argv = ["gx", "{in:x}"]
  }
}`)
	if n := node(t, got, "a.c"); n.Check.Tool != "gx" || got.Tools[0].By != plan.ToolUnavailable {
		t.Errorf("%+v, %+v", n.Check, got.Tools)
	}
}
