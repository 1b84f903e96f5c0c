package plan

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestValidateLoopsAndBranches(t *testing.T) {
	const l, b = "loops[0](polish)", "branches[0](test-data)"
	loop := func(change func(l *Loop)) func(p *Plan) { return func(p *Plan) { change(&p.Loops[0]) } }
	branch := func(change func(b *Branch)) func(p *Plan) { return func(p *Plan) { change(&p.Branches[0]) } }
	run(t, []broken{
		{"no iterations", full, loop(func(l *Loop) { l.MaxIterations = 0 }), list(l + ".max_iterations: number out of range")},
		{"too many iterations", full, loop(func(l *Loop) { l.MaxIterations = MaxIterations + 1 }), list(l + ".max_iterations: number out of range")},
		{"carries what it does not make", full, loop(func(l *Loop) { l.Carries = list("doc", "summary") }), list(l + ".carries[1]: dangling reference")},
		{"carries not sorted", full, loop(func(l *Loop) { slices.Reverse(l.Carries) }), list(l + ".carries[1]: not sorted")},
		{"unknown node in the body", full, loop(func(l *Loop) { l.Body = append(l.Body, "none") }), list(l + ".body[4]: dangling reference")},
		{"gap in the body", full, func(p *Plan) {
			p.Loops[0].Body = slices.Delete(p.Loops[0].Body, 1, 2)
		}, list(l+".body[1]: body not contiguous", "nodes[2](refine): cycle")},
		{"node in two loops", full, func(p *Plan) {
			p.Loops = append(p.Loops, Loop{ID: "other", Body: list("draft"), MaxIterations: 1, Until: lit(TypeBool, "true")})
		}, list("loops[1](other).body[0]: node in two loops")},
		{"loop named like another node", full, func(p *Plan) {
			p.Loops[0].ID = "judge"
			p.Nodes[derive].Needs, p.Nodes[find].Needs = nil, list("test-data/derive")
		}, list("loops[0](judge).id: id used twice")},
		{"loop named like a branch", full, func(p *Plan) {
			p.Loops[0].ID = "test-data"
			p.Nodes[derive].Needs, p.Nodes[find].Needs, p.Nodes[again].Needs = nil, nil, nil
		}, list("loops[0](test-data).id: id used twice")},

		{"no alternatives", full, branch(func(b *Branch) { b.Alternatives = nil }), list(b+".accept.args[0].args[0].fact.name: dangling reference", b+".alternatives: no alternatives")},
		{"unknown alternative", full, branch(func(b *Branch) { b.Alternatives[1] = "test-data/none" }), list(b+".alternatives[1]: dangling reference", b+".artifacts[0]: dangling reference")},
		{"alternative of another branch", full, branch(func(b *Branch) { b.Alternatives[1] = "summarize#2" }),
			list(b+".alternatives[1]: wrong id of an alternative", b+".artifacts[0]: dangling reference", "nodes[7](summarize#2): cycle")},
		{"alternative twice", full, branch(func(b *Branch) { b.Alternatives[1] = b.Alternatives[0] }), list(b+".alternatives[1]: node in two branches", b+".artifacts[0]: dangling reference")},
		{"not of every alternative", full, func(p *Plan) { p.Nodes[find].Outputs[0].Artifact = "other" }, list(b + ".artifacts[0]: dangling reference")},
		{"otherwise", full, branch(func(b *Branch) { b.Otherwise = "" }), list(b + ".otherwise: unknown word")},
		{"otherwise unknown", full, branch(func(b *Branch) { b.Otherwise = "input:none" }), list(b + ".otherwise: dangling reference")},
		{"otherwise fail", full, branch(func(b *Branch) { b.Otherwise = OtherwiseFail }), nil},
		{"order of alternatives", full, branch(func(b *Branch) { slices.Reverse(b.Alternatives) }), list(b + ".alternatives[1]: not in order")},
		{"branch named like a node", full, func(p *Plan) { p.Nodes[judge].ID = "test-data" }, list(b+".id: id used twice", "nodes[7](summarize#2): cycle")},
	})
}

func TestValidatePredicates(t *testing.T) {
	const u = "loops[0](polish).until"
	until := func(e Expr) func(p *Plan) { return func(p *Plan) { p.Loops[0].Until = e } }
	yes := lit(TypeBool, "true")
	deep := yes
	for range maxExprDepth + 5 {
		deep = op(OpNot, deep)
	}
	wide := op(OpAll, slices.Repeat([]Expr{yes}, maxExprSize+5)...)
	fact := func(f Fact) Expr { return Expr{Op: OpFact, Fact: &f} }
	run(t, []broken{
		{"nothing", full, until(Expr{}), list(u + ".op: unknown operator")},
		{"unknown operator", full, until(op("exec", yes)), list(u + ".op: unknown operator")},
		{"all of nothing", full, until(op(OpAll)), list(u + ".args: wrong number of arguments")},
		{"not of two", full, until(op(OpNot, yes, yes)), list(u + ".args: wrong number of arguments")},
		{"eq of one", full, until(op(OpEq, yes)), list(u + ".args: wrong number of arguments")},
		{"literal with arguments", full, until(Expr{Op: OpLiteral, Literal: yes.Literal, Args: []Expr{yes}}), list(u + ".args: wrong number of arguments")},
		{"fact without one", full, until(op(OpFact)), list(u + ".fact: misplaced fact")},
		{"operation with a fact", full, until(Expr{Op: OpNot, Args: []Expr{yes}, Fact: &Fact{}}), list(u + ".fact: misplaced fact")},
		{"literal without one", full, until(op(OpLiteral)), list(u + ".literal: misplaced literal")},
		{"number not canonical", full, until(lit(TypeNumber, "30.0")), list(u + ".literal.value: invalid literal")},
		{"number with exponent", full, until(lit(TypeNumber, "1e3")), list(u + ".literal.value: invalid literal")},
		{"bool", full, until(lit(TypeBool, "yes")), list(u + ".literal.value: invalid literal")},
		{"null", full, until(lit(TypeNull, "null")), list(u + ".literal.value: invalid literal")},
		{"type", full, until(lit("list", "")), list(u + ".literal.type: unknown type")},
		{"source", full, until(fact(Fact{Source: "clock"})), list(u + ".fact.source: unknown source of facts")},
		{"field of an output", full, until(out("doc", "sha256", "")), list(u + ".fact.field: unknown field")},
		{"field of a check", full, until(check("lint", "stderr", "")), list(u + ".fact.field: unknown field")},
		{"field of the worker", full, until(fact(Fact{Source: FactWorker, Name: "x"})), list(u+".fact.field: unknown field", u+".fact.name: misplaced name")},
		{"field of the iteration", full, until(fact(Fact{Source: FactIteration, Field: "x"})), list(u + ".fact.field: unknown field")},
		{"another's output", full, until(out("summary", "exists", "")), list(u + ".fact.name: dangling reference")},
		{"another's check", full, until(check("size", "exit_code", "")), list(u + ".fact.name: dangling reference")},
		{"pointer into bytes", full, until(out("doc", "bytes", "/a")), list(u + ".fact.pointer: invalid JSON pointer")},
		{"pointer form", full, until(out("doc", "json", "a/b")), list(u + ".fact.pointer: invalid JSON pointer")},
		{"pointer escape", full, until(out("doc", "json", "/a~2")), list(u + ".fact.pointer: invalid JSON pointer")},
		{"pointer of an operation", full, until(Expr{Op: OpNot, Args: []Expr{yes}, Pointer: "/a"}), list(u + ".pointer: misplaced pointer")},
		{"item outside", full, until(Expr{Op: OpItem}), list(u + ".op: misplaced item")},
		{"item as the list", full, until(op(OpEvery, Expr{Op: OpItem}, yes)), list(u + ".args[0].op: misplaced item")},
		{"exists of an operation", full, until(op(OpExists, yes)), list(u + ".args[0]: wrong argument")},
		{"pattern that is no literal", full, until(op(OpMatches, yes, out("doc", "json", ""))), list(u + ".args[1]: wrong argument")},
		{"pattern", full, until(op(OpMatches, yes, lit(TypeString, "(?<=a)b"))), list(u + ".args[1]: invalid pattern")},
		{"deep", full, until(deep), list(u + strings.Repeat(".args[0]", maxExprDepth+1) + ": predicate too large")},
	})
	p := full()
	p.Loops[0].Until = wide
	if got := Validate(p); len(got) != 1 || got[0].Summary != "predicate too large" {
		t.Errorf("wide: %v", got)
	}
	p.Loops[0].Until = deep
	if got := Validate(p); len(got) != 1 || got[0].Summary != "predicate too large" {
		t.Errorf("deep: %v", got)
	}
}

func TestValidateEdges(t *testing.T) {
	run(t, []broken{
		{"needs nothing there", full, func(p *Plan) { p.Nodes[0].Needs = list("none") }, list("nodes[0](summarize).needs[0]: dangling reference")},
		{"needs not sorted", full, func(p *Plan) { p.Nodes[find].Needs = list("test-data/derive", "polish") }, list("nodes[6](test-data/find).needs[1]: not sorted")},
		{"out of order", chain3, func(p *Plan) { p.Nodes[1], p.Nodes[2] = p.Nodes[2], p.Nodes[1] }, list("nodes[1](skill-02): not in order")},
		{"id twice", chain3, func(p *Plan) { p.Nodes[2].ID = "skill-01" }, list("nodes[2](skill-01): id used twice")},
	})
	cycle := func(name string, p *Plan, want string) {
		t.Helper()
		var got []string
		for _, problem := range Validate(p) {
			if problem.Summary == "cycle" {
				got = append(got, problem.Path+": "+problem.Detail)
			}
		}
		if len(got) != 1 || got[0] != want+": take one of these away" {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	p := chain(3)
	p.Nodes[1].Needs = list("skill-01")
	p.Nodes[1].Inputs[0].From = "input:source"
	cycle("itself", p, `nodes[1](skill-01): "skill-01" needs "skill-01"`)

	p = chain(3)
	p.Nodes[0].Needs = list("skill-01")
	cycle("two", p, `nodes[0](skill-00): "skill-00" needs "skill-01" needs "skill-00"`)

	p = chain(3)
	p.Nodes[0].Inputs[0].Artifact, p.Nodes[0].Inputs[0].From = "artifact-3", "node:skill-02"
	cycle("data", p, `nodes[0](skill-00): "skill-00" needs "skill-02" needs "skill-01" needs "skill-00"`)

	p = chain(5)
	p.Nodes[0].Needs = list("skill-02", "skill-04")
	cycle("the shorter of two", p, `nodes[0](skill-00): "skill-00" needs "skill-02" needs "skill-01" needs "skill-00"`)

	p = full() // a node outside the loop that stands in it by its needs
	p.Nodes[draft].Needs = list("judge")
	cycle("through a loop", p, `nodes[1](draft): "draft" needs "judge" needs "summarize#2" needs branch "test-data" needs "test-data/derive" needs loop "polish" needs "draft"`)

	p = full()
	p.Nodes[find].Needs = list("summarize#2")
	cycle("only through a fallback", p, `nodes[6](test-data/find): "test-data/find" needs "summarize#2" needs branch "test-data" needs "test-data/find"`)

	p = full()
	p.Nodes[refine].Needs = list("polish")
	cycle("its own loop", p, `nodes[2](refine): "refine" needs loop "polish" needs "refine"`)

	p = chain(40)
	p.Nodes[0].Needs = list(p.Nodes[39].ID)
	if got := Validate(p); len(got) != 1 || !strings.Contains(got[0].Detail, " needs 20 more, needs ") || strings.Count(got[0].Detail, " needs ") != 21 {
		t.Errorf("a long cycle reads %v", got)
	}

	p = chain(6) // two rings that do not touch, and an edge out of order beside them
	p.Nodes[0].Needs = list("skill-01")
	p.Nodes[2].Inputs[0].Artifact, p.Nodes[2].Inputs[0].From = "source", "input:source"
	p.Nodes[2].Needs = list("skill-03", "skill-05")
	p.Nodes[4].Inputs[0].Artifact, p.Nodes[4].Inputs[0].From, p.Nodes[4].Needs = "source", "input:source", nil
	var summaries []string
	for _, problem := range Validate(p) {
		if !strings.HasPrefix(problem.Summary, "input") && problem.Summary != "dangling reference" {
			summaries = append(summaries, problem.Path+": "+problem.Summary)
		}
	}
	if want := list("nodes[0](skill-00): cycle", "nodes[2](skill-02): cycle", "nodes[2](skill-02): not in order"); !slices.Equal(summaries, want) {
		t.Errorf("two rings: %q", summaries)
	}
}

func chain3() *Plan { return chain(3) }

// Inside a loop of one the shared id means the node, outside the loop.
func TestLoopNamedLikeItsNode(t *testing.T) {
	p := chain(3)
	p.Loops = []Loop{{ID: "skill-01", Body: list("skill-01"), MaxIterations: 3, Until: lit(TypeBool, "true")}}
	if got := Validate(p); len(got) != 0 {
		t.Errorf("%v", got)
	}
	p.Loops[0].Body = list("skill-01", "skill-02")
	if got := Validate(p); len(got) != 0 {
		t.Errorf("a body of two: %v", got)
	}
}

// A check that its node needs stands before it, and cannot read what the node
// makes.
func TestGate(t *testing.T) {
	gate := func(from string) *Plan {
		p := chain(2)
		second := &p.Nodes[1]
		check := Node{ID: second.ID + ".lint", Kind: NodeCheck, Phase: 2, Needs: list(p.Nodes[0].ID), SubmitAttempts: 1,
			Check: &Check{Name: "lint", Of: second.ID, Blocking: true}}
		if from != "" {
			check.Needs = list(from)
		}
		second.Needs = list(p.Nodes[0].ID, check.ID)
		p.Nodes = slices.Insert(p.Nodes, 1, check)
		return p
	}
	flow := func(p *Plan) (found []string) {
		for _, problem := range Validate(p) {
			if problem.Summary == "cycle" || problem.Summary == "not in order" || strings.Contains(problem.Path, ".needs") {
				found = append(found, problem.Path+": "+problem.Summary)
			}
		}
		return found
	}
	if got := flow(gate("")); len(got) != 0 {
		t.Errorf("%v", got)
	}
	p := gate("")
	if !p.Nodes[1].Gates(&p.Nodes[2]) || p.Nodes[1].Gates(&p.Nodes[0]) || p.Nodes[2].Gates(&p.Nodes[2]) {
		t.Error("it is the check that gates, and its own node alone")
	}
	if got := flow(gate(p.Nodes[2].ID)); len(got) != 1 || !strings.HasSuffix(got[0], ": cycle") {
		t.Errorf("it waits for its own node: %v", got)
	}
	p.Nodes[2].Needs = list(p.Nodes[0].ID) // then it runs after, and stands wrong
	if got := flow(p); len(got) != 1 || !strings.HasSuffix(got[0], ": not in order") {
		t.Errorf("%v", got)
	}
}

// Inputs that are made to be slow: the bound is wide, it only finds work that
// grows with the square.
func TestValidateIsLinear(t *testing.T) {
	const n = 50_000
	p := full()
	p.Nodes[0].Prompt = strings.Repeat("{", 20*n)
	p.Nodes[0].Files[0].Content = strings.Repeat("{in:", 5*n)
	p.Nodes[0].Process.Argv = slices.Repeat(list("env", "-S", "uv", "-x"), n)
	p.Nodes[1].Process.Argv = list("x", strings.Repeat("/a", n))
	p.Nodes[0].NotApplicable = slices.Repeat(list("source"), n)
	p.Nodes[0].Process.Env = slices.Repeat(list("A_TOKEN=x"), n)
	p.Nodes[0].Sandbox.WorkerCredentials = slices.Repeat(list("A_TOKEN"), n)
	p.Nodes[2].Needs = slices.Repeat(list("draft"), n)
	p.Branches[0].Artifacts = slices.Repeat(list("data"), n)
	p.Harnesses = slices.Repeat(p.Harnesses, n/10)
	start := time.Now()
	got := Validate(p)
	took := time.Since(start)
	t.Logf("%d problems in %s", len(got), took)
	if len(got) != MaxProblems+1 {
		t.Errorf("%d problems", len(got))
	}
	if took > time.Minute {
		t.Errorf("it took %s", took)
	}
}
