package exec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness/scripted"
	"foundry/plan"
)

// looped is a loop of one step, which carries its state, has an output that is
// required at the end, and a check; a consumer stands behind it.
func looped(until plan.Expr, bound int64) *exectest.Builder {
	b := exectest.New(scripted.Name, scripted.Version)
	b.Node("step", func(n *plan.Node) {
		n.Inputs = []plan.NodeInput{{Artifact: "state", From: plan.FromNone, CarriedFrom: "step", Kind: plan.KindJSON, Path: "state.json"}}
		n.Outputs = []plan.NodeOutput{exectest.JSONOut("state", plan.RequiredAlways), exectest.JSONOut("before", plan.Optional),
			exectest.JSONOut("final", plan.RequiredAtEnd)}
	})
	b.Check("step", "look", []string{"{foundry}", "tool", "cat", "{in:state}"}, []plan.NodeInput{exectest.JSONIn("state", "node:step")}, nil)
	b.Node("after", func(n *plan.Node) {
		n.Needs = []string{"again"}
		n.Inputs = []plan.NodeInput{exectest.JSONIn("state", "node:step")}
		n.Outputs = []plan.NodeOutput{exectest.JSONOut("got", plan.RequiredAlways)}
	})
	b.Plan.Loops = []plan.Loop{{ID: "again", Body: []string{"step", "step.look"}, Until: until, MaxIterations: bound, Carries: []string{"state"}}}
	return b
}

const loopScript = `{"version":1,"iterations":{"step":[
  [{"write":{"path":"state.json","content":"{\"n\": 1, \"done\": false}"}}],
  [{"copy":{"from":"{in:state}","to":"before.json"}},{"write":{"path":"state.json","content":"{\"n\": 2, \"done\": false}"}}],
  [{"copy":{"from":"{in:state}","to":"before.json"}},{"write":{"path":"state.json","content":"{\"n\": 3, \"done\": true}"}},{"write":{"path":"final.json","content":"{}"}}]]},
 "nodes":{"after":[{"copy":{"from":"{in:state}","to":"got.json"}}]}}`

var untilDone = exectest.Op(plan.OpAll,
	exectest.Eq(exectest.OutputFact("state", "json", "/done"), exectest.Bool("true")),
	exectest.Eq(exectest.CheckFact("look", "json", "/done"), exectest.Bool("true")))

func execute(t *testing.T, b *exectest.Builder, script string, change func(*Options)) (*record.Run, string) {
	t.Helper()
	lowered(t, b, script)
	opts := realOptions(t, b)
	if change != nil {
		change(&opts)
	}
	run, err := Run(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Leftovers) > 0 {
		t.Errorf("leftovers %v", run.Leftovers)
	}
	for _, gone := range []string{record.WorkDir, record.RunFile + ".new"} {
		if _, err := os.Lstat(filepath.Join(opts.RunDir, gone)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
	if left := ours(t, run.ID); left != "" {
		t.Errorf("processes are left: %s", left)
	}
	if back, err := record.ReadRun(opts.RunDir); err != nil || back.Status != run.Status {
		t.Errorf("run.json: %+v, %v", back, err)
	}
	return run, opts.RunDir
}

func content(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func nodeOf(run *record.Run, id string) *record.Node {
	for i := range run.Nodes {
		if run.Nodes[i].ID == id {
			return &run.Nodes[i]
		}
	}
	return &record.Node{}
}

func failureOf(run *record.Run) record.Failure {
	if run.Failure == nil {
		return record.Failure{}
	}
	return *run.Failure
}

// The loop ends by its predicate after three iterations; each reads what the
// one before carried, and who stands behind reads the last.
func TestLoop(t *testing.T) {
	run, dir := execute(t, looped(untilDone, 5), loopScript, nil)
	if run.Status != record.StatusSucceeded || run.Loops[0].Iterations != 3 || run.Loops[0].Status != record.StatusSucceeded {
		t.Fatalf("failure %+v, loop %+v", run.Failure, run.Loops)
	}
	if got := content(t, dir, "artifacts", "step", "before.json"); got != `{"n": 2, "done": false}` {
		t.Errorf("carried: %s", got)
	}
	if got := content(t, dir, "artifacts", "after", "got.json"); got != `{"n": 3, "done": true}` {
		t.Errorf("behind the loop: %s", got)
	}
	if n := len(nodeOf(run, "step").Attempts); n != 3 {
		t.Errorf("%d attempts of the step", n)
	}
	x, err := record.Explain(dir, "again")
	if err != nil || len(x.Decisions) != 3 || x.Loop == nil {
		t.Fatalf("%+v, %v", x, err)
	}
	for i, want := range []string{record.VerdictFalse, record.VerdictFalse, record.VerdictTrue} {
		d := x.Decisions[i]
		if d.Decision.Verdict != want || d.Iteration != int64(i+1) || len(d.Decision.Facts) != 2 || d.Decision.Facts[0].Digest == "" {
			t.Errorf("decision %d: %+v", i, d.Decision)
		}
	}
	if said := x.Decisions[2].Decision.Line; !strings.Contains(said, "output.state.json.done (true) == true is true") {
		t.Errorf("explained as:\n%s", said)
	}
}

// One line for each way a loop can end without success.
func TestLoopEnds(t *testing.T) {
	never := exectest.Eq(exectest.OutputFact("state", "json", "/n"), exectest.Number("99"))
	for name, tt := range map[string]struct {
		until      plan.Expr
		bound      int64
		iterations int64
		want       record.Failure
		detail     string
	}{
		// B3: the bound is counted exactly.
		"exhausted": {never, 3, 3, record.Failure{Class: record.ClassWorkflow, Reason: record.ReasonLoopExhausted, Limit: "3", Observed: "3"}, "(3) == 99 is false"},
		"one":       {never, 1, 1, record.Failure{Class: record.ClassWorkflow, Reason: record.ReasonLoopExhausted, Limit: "1", Observed: "1"}, ""},
		// E8: another type, a missing field, a null.
		"type": {exectest.Eq(exectest.OutputFact("state", "json", "/done"), exectest.Text("true")), 3, 1,
			record.Failure{Class: record.ClassWorkflow, Reason: record.ReasonPredicateError}, "compared"},
		"missing field": {exectest.Eq(exectest.OutputFact("state", "json", "/x"), exectest.Bool("true")), 3, 1,
			record.Failure{Class: record.ClassWorkflow, Reason: record.ReasonPredicateError}, ""},
		"order of text": {exectest.Op(plan.OpGt, exectest.OutputFact("state", "json", "/n"), exectest.OutputFact("state", "json", "/done")), 3, 1,
			record.Failure{Class: record.ClassWorkflow, Reason: record.ReasonPredicateError}, ""},
		"without what is required at the end": {exectest.Eq(exectest.Iteration(), exectest.Number("2")), 3, 2,
			record.Failure{Class: record.ClassSkill, Reason: record.ReasonMissingArtifact}, "final.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, dir := execute(t, looped(tt.until, tt.bound), loopScript, nil)
			got := failureOf(run)
			if got.Class != tt.want.Class || got.Reason != tt.want.Reason || got.Limit != tt.want.Limit || got.Observed != tt.want.Observed ||
				!strings.Contains(got.Detail, tt.detail) {
				t.Errorf("failure %+v", got)
			}
			if ExitCode(run, nil) != ExitFailed || run.Loops[0].Iterations != tt.iterations || run.Loops[0].Status != record.StatusFailed ||
				int64(len(nodeOf(run, "step").Attempts)) != tt.iterations || nodeOf(run, "after").Status != record.StatusNotReached {
				t.Errorf("loop %+v, after %s", run.Loops[0], nodeOf(run, "after").Status)
			}
			want := fmt.Sprintf(`{"n": %d, "done": %v}`, tt.iterations, tt.iterations == 3)
			if got := content(t, dir, "artifacts", "step", "state.json"); got != want {
				t.Errorf("the last artifacts: %s", got)
			}
		})
	}
}

// branched has two alternatives with a check each, and a consumer.
func branched(otherwise string) *exectest.Builder {
	b := exectest.New(scripted.Name, scripted.Version)
	b.Input("given", plan.KindJSON, "given.json", `{"refs": ["given"]}`)
	for _, id := range []string{"pick/one", "pick/two"} {
		b.Node(strings.TrimPrefix(id, "pick/"), func(n *plan.Node) {
			n.ID, n.Needs, n.Phase = id, nil, 1
			n.Outputs = []plan.NodeOutput{exectest.JSONOut("refs", plan.RequiredAlways)}
		})
		b.Check(id, "ok", []string{"{foundry}", "tool", "cat", "{in:refs}"}, []plan.NodeInput{exectest.JSONIn("refs", "node:"+id)}, func(n *plan.Node) {
			not := exectest.Op(plan.OpNot, exectest.Eq(exectest.CheckFact("ok", "stdout", ""), exectest.Text(`"bad"`)))
			n.Check.Assert = &not
		})
	}
	b.Node("use", func(n *plan.Node) {
		n.Needs = []string{"pick"}
		n.Inputs = []plan.NodeInput{exectest.JSONIn("refs", "branch:pick")}
		n.Outputs = []plan.NodeOutput{exectest.JSONOut("used", plan.RequiredAlways)}
	})
	b.Plan.Branches = []plan.Branch{{ID: "pick", Pattern: "test", Alternatives: []string{"pick/one", "pick/two"}, Otherwise: otherwise, Artifacts: []string{"refs"},
		Accept: exectest.Op(plan.OpGt, exectest.Op(plan.OpLength, exectest.OutputFact("refs", "json", "/refs")), exectest.Number("0"))}}
	return b
}

const (
	good    = `{"write":{"path":"refs.json","content":"{\"refs\": [1]}"}}`
	emptied = `{"write":{"path":"refs.json","content":"{\"refs\": []}"}}`
	spend   = `{"emit":{"type":"usage","usage":{"message":"m","input":40,"output":2,"cache_read":0,"cache_write":0,"cost_micro_usd":7}}}`
)

// One line for each way through a branch.
func TestBranch(t *testing.T) {
	for name, tt := range map[string]struct {
		one, two  string
		otherwise string
		accepted  string
		statuses  string // pick/one, its check, pick/two, its check, use
		why       string // of the first
		want      record.Failure
		tokens    record.Count
	}{
		"the first":       {good, good, plan.OtherwiseFail, "pick/one", "succeeded succeeded skipped skipped succeeded", "is true", record.Failure{}, ""},
		"the second":      {emptied, good, plan.OtherwiseFail, "pick/two", "not_accepted succeeded succeeded succeeded succeeded", "> 0 is false", record.Failure{}, ""},
		"nothing, second": {spend, good, plan.OtherwiseFail, "pick/two", "failed skipped succeeded succeeded succeeded", "missing_artifact", record.Failure{}, ""},
		"predicate error": {`{"write":{"path":"refs.json","content":"{}"}}`, good, plan.OtherwiseFail, "pick/two", "not_accepted succeeded succeeded succeeded succeeded", "predicate_error", record.Failure{}, ""},
		"a check fails":   {`{"write":{"path":"refs.json","content":"\"bad\""}}`, good, plan.OtherwiseFail, "pick/two", "failed failed succeeded succeeded succeeded", "check_failed", record.Failure{}, ""},
		"user-supplied":   {emptied, emptied, "input:given", record.UserSupplied, "not_accepted succeeded not_accepted succeeded succeeded", "", record.Failure{}, ""},
		"none": {emptied, emptied, plan.OtherwiseFail, "", "not_accepted succeeded not_accepted succeeded not_reached", "",
			record.Failure{Class: record.ClassWorkflow, Reason: record.ReasonBranchUnaccepted}, ""},
		// B12: what the first leaves is not the second's, and both spends count.
		"leftovers": {good + "," + spend + `,{"exit":{"code":1}}`, spend, plan.OtherwiseFail, "", "failed skipped failed skipped not_reached", "no_final_event",
			record.Failure{Class: record.ClassWorkflow, Reason: record.ReasonBranchUnaccepted}, "84"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `{"version":1,"nodes":{"pick/one":[` + tt.one + `],"pick/two":[` + tt.two + `],"use":[{"copy":{"from":"{in:refs}","to":"used.json"}}]}}`
			run, dir := execute(t, branched(tt.otherwise), script, nil)
			if got := failureOf(run); got.Class != tt.want.Class || got.Reason != tt.want.Reason {
				t.Errorf("failure %+v", got)
			}
			var statuses []string
			for _, n := range run.Nodes {
				statuses = append(statuses, n.Status)
			}
			if got := strings.Join(statuses, " "); got != tt.statuses {
				t.Errorf("statuses %s", got)
			}
			br := run.Branches[0]
			if br.Accepted != tt.accepted || len(br.Tried) == 0 || !strings.Contains(br.Tried[0].Why, tt.why) {
				t.Errorf("branch %+v", br)
			}
			if tt.tokens != "" && run.Usage.Tokens != tt.tokens {
				t.Errorf("tokens %s", run.Usage.Tokens)
			}
			if tt.accepted == record.UserSupplied {
				if got := content(t, dir, "artifacts", "use", "used.json"); got != `{"refs": ["given"]}` {
					t.Errorf("used %s", got)
				}
				if got := content(t, dir, nodeOf(run, "use").Attempts[0].Folder, record.AttemptFile); !strings.Contains(got, `"source": "user-supplied"`) {
					t.Errorf("the record of use lacks the source: %s", got)
				}
			}
			x, err := record.Explain(dir, "pick")
			if err != nil || x.Branch == nil || len(x.Branch.Tried) == 0 || x.Branch.Tried[0].Why != br.Tried[0].Why {
				t.Errorf("explained as %v, %v", x, err)
			}
		})
	}
}

// An infrastructure failure of an alternative stops the branch.
func TestBranchStops(t *testing.T) {
	b := branched("input:given")
	lowered(t, b, `{"version":1,"default":{"steps":[`+good+`]}}`)
	b.Plan.Nodes[0].Process.Argv[0] = "no-such-program"
	opts := realOptions(t, b)
	run, err := Run(context.Background(), opts)
	if err != nil || ExitCode(run, err) != ExitInfrastructure || len(nodeOf(run, "pick/two").Attempts) > 0 {
		t.Errorf("%+v, %v", run, err)
	}
}

// checked is a step with a check, and a consumer that does not name the check.
func checked(argv []string, change func(*plan.Node)) *exectest.Builder {
	b := exectest.New(scripted.Name, scripted.Version)
	b.Plan.Order = plan.OrderDataflow
	b.Node("make", func(n *plan.Node) { n.Outputs = []plan.NodeOutput{exectest.JSONOut("doc", plan.RequiredAlways)} })
	b.Check("make", "lint", argv, []plan.NodeInput{exectest.JSONIn("doc", "node:make")}, change)
	b.Node("use", func(n *plan.Node) {
		n.Needs = []string{"make"}
		n.Inputs = []plan.NodeInput{exectest.JSONIn("doc", "node:make")}
		n.Outputs = []plan.NodeOutput{exectest.JSONOut("used", plan.RequiredAlways)}
	})
	return b
}

// One line for each way a check can end.
func TestChecks(t *testing.T) {
	assert := func(e plan.Expr) func(*plan.Node) { return func(n *plan.Node) { n.Check.Assert = &e } }
	cat := []string{"{foundry}", "tool", "cat", "{in:doc}"}
	exit3 := []string{"{foundry}", "tool", "exit", "3"}
	for name, tt := range map[string]struct {
		argv   []string
		change func(*plan.Node)
		status string
		want   record.Failure
		exit   int
		use    string
	}{
		"holds": {cat, nil, record.StatusSucceeded, record.Failure{}, ExitOK, record.StatusSucceeded},
		"does not hold": {exit3, nil, record.StatusFailed,
			record.Failure{Class: record.ClassSkill, Reason: record.ReasonCheckFailed}, ExitFailed, record.StatusNotReached},
		"other exit codes": {exit3, assert(exectest.Op(plan.OpLe, exectest.CheckFact("lint", "exit_code", ""), exectest.Number("3"))),
			record.StatusSucceeded, record.Failure{}, ExitOK, record.StatusSucceeded},
		"json and input": {cat, assert(exectest.Eq(exectest.CheckFact("lint", "json", "/n"), exectest.OutputFact("doc", "json", "/n"))),
			record.StatusSucceeded, record.Failure{}, ExitOK, record.StatusSucceeded},
		"no json": {[]string{"{foundry}", "tool", "say", "{"}, assert(exectest.Eq(exectest.CheckFact("lint", "json", "/n"), exectest.Number("1"))),
			record.StatusFailed, record.Failure{Class: record.ClassGrader, Reason: record.ReasonPredicateError}, ExitGrader, record.StatusNotReached},
		"too much for json": {[]string{"{foundry}", "tool", "flood"}, assert(exectest.Op(plan.OpExists, exectest.CheckFact("lint", "json", ""))),
			record.StatusFailed, record.Failure{Class: record.ClassSkill, Reason: record.ReasonCheckFailed}, ExitFailed, record.StatusNotReached},
		"pointer of the artifact": {cat, assert(exectest.Eq(exectest.OutputFact("doc", "json", "/x"), exectest.Number("1"))),
			record.StatusFailed, record.Failure{Class: record.ClassSkill, Reason: record.ReasonPredicateError}, ExitFailed, record.StatusNotReached},
		"not blocking": {exit3, func(n *plan.Node) { n.Check.Blocking = false }, record.StatusFailed, record.Failure{}, ExitOK, record.StatusSucceeded},
		"no such tool": {[]string{"no-such-program"}, nil, record.StatusFailed,
			record.Failure{Class: record.ClassGrader, Reason: record.ReasonCheckError}, ExitGrader, record.StatusNotReached},
		"dies": {[]string{"{foundry}", "tool", "die"}, nil, record.StatusFailed,
			record.Failure{Class: record.ClassGrader, Reason: record.ReasonCheckError}, ExitGrader, record.StatusNotReached},
		"hangs": {[]string{"{foundry}", "tool", "sleep"}, func(n *plan.Node) { n.Budget.WallSeconds = 1 }, record.StatusFailed,
			record.Failure{Class: record.ClassGrader, Reason: "budget_exceeded:wall"}, ExitGrader, record.StatusNotReached},
		"unsupported": {[]string{"no-such-program"}, func(n *plan.Node) { n.Check.Tool = "lint" }, record.StatusUnsupported,
			record.Failure{}, ExitOK, record.StatusSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := checked(tt.argv, tt.change)
			b.Plan.Tools = []plan.Tool{{Name: "lint", By: plan.ToolUnavailable, Reason: "not published"}}
			run, dir := execute(t, b, `{"version":1,"nodes":{"make":[{"write":{"path":"doc.json","content":"{\"n\": 5}"}}],"use":[{"copy":{"from":"{in:doc}","to":"used.json"}}]}}`, nil)
			got := failureOf(run)
			if got.Class != tt.want.Class || got.Reason != tt.want.Reason || ExitCode(run, nil) != tt.exit {
				t.Errorf("failure %+v, exit %d", got, ExitCode(run, nil))
			}
			c := nodeOf(run, "make.lint")
			if c.Status != tt.status || nodeOf(run, "use").Status != tt.use {
				t.Errorf("check %+v, use %s", c, nodeOf(run, "use").Status)
			}
			if failed := tt.want.Reason == record.ReasonCheckFailed; failed != (nodeOf(run, "make").Status == record.StatusFailed) {
				t.Errorf("the step is %s", nodeOf(run, "make").Status)
			}
			if name == "unsupported" && len(c.Attempts) > 0 {
				t.Error("an unsupported check ran")
			}
			if x, err := record.Explain(dir, "make.lint"); err != nil || (c.Check != nil) != (len(x.Decisions) == 1) {
				t.Errorf("explained as %+v, %v", x, err)
			}
		})
	}
}

// A check that its step needs runs before it: what is wrong with an input is
// known before a worker is paid for, in a loop before each iteration's.
func TestGates(t *testing.T) {
	for name, tt := range map[string]struct {
		argv   []string
		change func(*plan.Node)
		gate   string
		use    string
		tries  int // of the consumer
	}{
		"holds":         {[]string{"{foundry}", "tool", "cat", "{in:doc}"}, nil, record.StatusSucceeded, record.StatusSucceeded, 1},
		"does not hold": {[]string{"{foundry}", "tool", "exit", "3"}, nil, record.StatusFailed, record.StatusNotReached, 0},
		"not blocking":  {[]string{"{foundry}", "tool", "exit", "3"}, func(n *plan.Node) { n.Check.Blocking = false }, record.StatusFailed, record.StatusSucceeded, 1},
		"unsupported":   {[]string{"no-such-program"}, func(n *plan.Node) { n.Check.Tool = "lint" }, record.StatusUnsupported, record.StatusSucceeded, 1},
	} {
		for _, inLoop := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " in a loop ", inLoop), func(t *testing.T) {
				t.Parallel()
				b := exectest.New(scripted.Name, scripted.Version)
				b.Plan.Tools = []plan.Tool{{Name: "lint", By: plan.ToolUnavailable, Reason: "not published"}}
				b.Node("make", func(n *plan.Node) { n.Outputs = []plan.NodeOutput{exectest.JSONOut("doc", plan.RequiredAlways)} })
				b.Check("use", "lint", tt.argv, []plan.NodeInput{exectest.JSONIn("doc", "node:make")}, func(n *plan.Node) {
					n.Needs = []string{"make"}
					if tt.change != nil {
						tt.change(n)
					}
				})
				b.Node("use", func(n *plan.Node) {
					n.Needs = []string{"make", "use.lint"}
					n.Inputs = []plan.NodeInput{exectest.JSONIn("doc", "node:make")}
					n.Outputs = []plan.NodeOutput{exectest.JSONOut("used", plan.RequiredAlways)}
				})
				rounds := 1
				if inLoop {
					rounds = 2
					b.Plan.Loops = []plan.Loop{{ID: "again", Body: []string{"use.lint", "use"}, MaxIterations: 3, Until: exectest.Op(plan.OpGt, exectest.Iteration(), exectest.Number("1"))}}
				}
				lowered(t, b, `{"version":1,"nodes":{"make":[{"write":{"path":"doc.json","content":"{}"}}],"use":[{"copy":{"from":"{in:doc}","to":"used.json"}}]}}`)
				opts := realOptions(t, b)
				for round := range 2 {
					run, err := Run(context.Background(), opts)
					if err != nil {
						t.Fatal(err)
					}
					gate, use := nodeOf(run, "use.lint"), nodeOf(run, "use")
					if gate.Status != tt.gate || use.Status != tt.use || len(use.Attempts) != tt.tries*rounds {
						t.Errorf("gate %s, step %s with %d attempts, %+v", gate.Status, use.Status, len(use.Attempts), run.Failure)
					}
					if tt.use == record.StatusSucceeded {
						return
					}
					// It fails again, and again costs nothing.
					if f := failureOf(run); f.Reason != record.ReasonCheckFailed || len(gate.Attempts) != round+1 || len(nodeOf(run, "make").Attempts) != 1 {
						t.Errorf("round %d: %+v after %d attempts", round, f, len(gate.Attempts))
					}
					opts.Resume = true
				}
			})
		}
	}
}

// Probes come before the first node: a tool that is not there costs nothing.
func TestProbes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		probes []plan.Probe
		off    bool
		want   string // statuses
		detail string
	}{
		"there":      {[]plan.Probe{{Tool: "t", Argv: []string{self, "tool", "say", "t 1.2, draft-validate"}, Expect: "draft-validate"}, {Tool: "u", Argv: []string{self, "tool", "exit", "0"}}}, false, "passed passed", ""},
		"other word": {[]plan.Probe{{Tool: "t", Argv: []string{self, "tool", "say", "t 1.2"}, Expect: "draft-validate"}, {Tool: "u", Argv: []string{self, "tool", "exit", "0"}}}, false, "failed not_run", `does not hold "draft-validate"`},
		"exit code":  {[]plan.Probe{{Tool: "t", Argv: []string{self, "tool", "exit", "1"}}}, false, "failed", "exit code 1"},
		"no program": {[]plan.Probe{{Tool: "t", Argv: []string{"no-such-program"}}}, false, "failed", "no-such-program"},
		"not asked":  {[]plan.Probe{{Tool: "t", Argv: []string{"no-such-program"}}}, true, "not_run", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := scriptedSteps()
			b.Plan.Probes = tt.probes
			lowered(t, b, passOn)
			opts := realOptions(t, b)
			opts.Probes = !tt.off
			for round := range 2 {
				run, err := Run(context.Background(), opts)
				if err != nil {
					t.Fatal(err)
				}
				var statuses []string
				for _, p := range run.Probes {
					statuses = append(statuses, p.Status)
				}
				if got := strings.Join(statuses, " "); got != tt.want {
					t.Errorf("statuses %s", got)
				}
				if tt.detail == "" {
					if run.Status != record.StatusSucceeded {
						t.Errorf("failure %+v", run.Failure)
					}
					return
				}
				f := failureOf(run)
				if ExitCode(run, nil) != ExitInfrastructure || f.Reason != record.ReasonToolMissing || !strings.Contains(f.Detail, tt.detail) {
					t.Errorf("round %d: failure %+v", round, f)
				}
				if len(run.Nodes[0].Attempts) > 0 {
					t.Error("a node was started")
				}
				opts.Resume = true // the tool is still not there
			}
		})
	}
}

// A check of what may be absent, and is, does not run, and stands in nobody's way.
func TestNothingToCheck(t *testing.T) {
	for _, there := range []bool{false, true} {
		b := checked([]string{"{foundry}", "tool", "exit", "3"}, func(n *plan.Node) { n.Inputs[0].Required = false })
		b.Plan.Nodes[0].Outputs[0].Required = plan.Optional
		use := &b.Plan.Nodes[2]
		use.Inputs[0].Required = false
		make := `[]`
		if there {
			make = `[{"write":{"path":"doc.json","content":"{}"}}]`
		}
		run, dir := execute(t, b, `{"version":1,"nodes":{"make":`+make+`,"use":[{"write":{"path":"used.json","content":"{}"}}]}}`, nil)
		c := nodeOf(run, "make.lint")
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(record.AttemptFolder("make.lint", 1, 1)), record.AttemptFile))
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(string(data), `"skipped": "there is no doc, which may be absent: nothing was checked"`); said == there {
			t.Errorf("there: %v, the record says %s", there, data)
		}
		if there && (run.Status != record.StatusFailed || c.Check == nil || c.Check.ExitCode != 3) || !there && (run.Status != record.StatusSucceeded || c.Check != nil) {
			t.Errorf("there: %v, run %s, check %+v, failure %+v", there, run.Status, c, run.Failure)
		}
	}
}
