package exec

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/plan"
)

func usageStep(message string, tokens, cost int64) string {
	return fmt.Sprintf(`{"emit":{"type":"usage","usage":{"message":%q,"input":%d,"output":0,"cache_read":0,"cache_write":0,"cost_micro_usd":%d}}}`, message, tokens, cost)
}

func repeated(n int, step func(i int) string) string {
	var steps []string
	for i := range n {
		steps = append(steps, step(i))
	}
	return strings.Join(steps, ",")
}

// D9: every dimension is passed by one, by ten times, and in a single event; a
// real worker does it in the local sandbox. The node's budget is 10 turns, 10
// tool calls, 1,000 tokens, 1,000 micro-USD, 1 MiB, 16 files.
func TestBudgets(t *testing.T) {
	turn := func(i int) string { return fmt.Sprintf(`{"emit":{"type":"turn","turn":%d}}`, i+1) }
	call := func(i int) string {
		return fmt.Sprintf(`{"emit":{"type":"tool","tool_name":"x","tool_call":"c%d"}}`, i)
	}
	tokens := func(each int64) func(int) string {
		return func(i int) string { return usageStep(fmt.Sprint("m", i), each, 0) }
	}
	money := func(each int64) func(int) string {
		return func(i int) string { return usageStep(fmt.Sprint("m", i), 0, each) }
	}
	file := func(i int) string { return fmt.Sprintf(`{"write":{"path":"f%d","content":"x"}}`, i) }
	const wait = `,{"sleep_ms":600000}` // the controller ends it, not its script
	for name, tt := range map[string]struct {
		steps     string
		reason    string
		limit     record.Count
		observed  record.Count // "": whatever is above the limit
		overshoot record.Count
	}{
		"turns by one":            {repeated(11, turn) + wait, "turns", "10", "11", "1"},
		"turns tenfold":           {repeated(100, turn) + wait, "turns", "10", "11", "1"}, // it is stopped at the first
		"turns at once":           {turn(99) + wait, "turns", "10", "100", "90"},
		"calls by one":            {repeated(11, call) + wait, "tool_calls", "10", "11", "1"},
		"calls tenfold":           {repeated(100, call) + wait, "tool_calls", "10", "11", "1"},
		"tokens by one":           {usageStep("a", 1000, 0) + "," + usageStep("b", 1, 0) + wait, "tokens", "1000", "1001", "1"},
		"tokens tenfold":          {repeated(100, tokens(100)) + wait, "tokens", "1000", "1100", "100"},
		"tokens at once":          {usageStep("a", 10_000, 0) + wait, "tokens", "1000", "10000", "9000"},
		"tokens of one message":   {usageStep("a", 600, 0) + "," + usageStep("a", 900, 0) + "," + usageStep("a", 1001, 0) + wait, "tokens", "1000", "1001", "1"},
		"cost by one":             {usageStep("a", 0, 1001) + wait, "cost", "1000", "1001", "1"},
		"cost tenfold":            {repeated(100, money(100)) + wait, "cost", "1000", "1100", "100"},
		"cost at once":            {usageStep("a", 0, 10_000) + wait, "cost", "1000", "10000", "9000"},
		"wall":                    {`{"sleep_ms":600000}`, "wall", "1", "", ""},
		"bytes by one":            {`{"write":{"path":"a.json","content":"x","times":1048577}}`, "output_bytes", "1048576", "1048577", "1"},
		"bytes tenfold":           {`{"write":{"path":"a.json","content":"xxxxxxxxxx","times":1048576}}`, "output_bytes", "1048576", "10485760", "9437184"},
		"files by one":            {repeated(17, file), "output_files", "16", "17", "1"},
		"files tenfold":           {repeated(160, file), "output_files", "16", "", ""},
		"budget of the last turn": {repeated(10, turn) + "," + `{"write":{"path":"a.json","content":"{\"n\":1}"}}`, "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := scriptedSteps()
			b.Plan.Nodes, b.Plan.Bundles = b.Plan.Nodes[:1], b.Plan.Bundles[:3]
			if tt.reason == record.DimWall {
				b.Plan.Nodes[0].Budget.WallSeconds = 1
			}
			run, _ := execute(t, b, `{"version":1,"nodes":{"a":[`+tt.steps+`]}}`, nil)
			f := failureOf(run)
			if tt.reason == "" {
				if run.Status != record.StatusSucceeded {
					t.Errorf("within its budget: %+v", f)
				}
				return
			}
			if f.Reason != record.ReasonBudgetExceeded+tt.reason || f.Class != record.ClassSkill || f.Limit != tt.limit || f.Source == "" || ExitCode(run, nil) != ExitFailed {
				t.Errorf("failure %+v", f)
			}
			limit, _ := f.Limit.Value()
			saw, known := f.Observed.Value()
			if over, _ := f.Overshoot.Value(); !known || saw <= limit && tt.reason != record.DimWall || saw-limit != over {
				t.Errorf("observed %s, overshoot %s", f.Observed, f.Overshoot)
			}
			if tt.observed != "" && (f.Observed != tt.observed || f.Overshoot != tt.overshoot) {
				t.Errorf("observed %s, overshoot %s", f.Observed, f.Overshoot)
			}
		})
	}
}

// A run budget that is spent by phase 3 stops phase 4 before it starts; what
// is left bounds the node that still starts, and passing it is the run's
// failure.
func TestRunBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		tokens  int64
		each    int64
		started int
		reason  string
		class   string
		limit   record.Count
		saw     record.Count
	}{
		"spent by three": {300, 100, 3, "budget_exceeded:tokens", record.ClassWorkflow, "300", "300"},
		"less is left":   {250, 100, 3, "budget_exceeded:tokens", record.ClassWorkflow, "250", "300"},
		"enough":         {401, 100, 4, "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := exectest.New("scripted", "1")
			b.Plan.Harnesses[0].Adapter = "scripted"
			b.Plan.Budget.Tokens = tt.tokens
			for _, id := range []string{"a", "b", "c", "d"} {
				b.Node(id, func(n *plan.Node) {
					n.Budget.Tokens = 100
					n.Outputs = []plan.NodeOutput{exectest.JSONOut("out-"+id, plan.RequiredAlways)}
				})
			}
			nodes := ""
			for i, id := range []string{"a", "b", "c", "d"} {
				if i > 0 {
					nodes += ","
				}
				nodes += fmt.Sprintf(`%q:[%s,{"write":{"path":"out-%s.json","content":"1"}}]`, id, usageStep("m", tt.each, 0), id)
			}
			run, _ := execute(t, b, `{"version":1,"nodes":{`+nodes+`}}`, nil)
			f := failureOf(run)
			if f.Reason != tt.reason || f.Class != tt.class || f.Limit != tt.limit || f.Observed != tt.saw {
				t.Errorf("failure %+v", f)
			}
			n := 0
			for i := range run.Nodes {
				n += len(run.Nodes[i].Attempts)
			}
			if n != tt.started {
				t.Errorf("%d attempts", n)
			}
		})
	}
}

// A blocking check that does not hold fails its step: both run again.
func TestResumeRunsADisprovedStepAgain(t *testing.T) {
	for _, inLoop := range []bool{false, true} {
		b := checked([]string{"{foundry}", "tool", "exit", "3"}, nil)
		if inLoop {
			b = looped(untilDone, 3)
			b.Plan.Nodes[1].Process.Argv = []string{"{foundry}", "tool", "exit", "3"}
		}
		lowered(t, b, `{"version":1,"nodes":{"make":[{"write":{"path":"doc.json","content":"{}"}}],"step":[{"write":{"path":"state.json","content":"{}"}}],"use":[],"after":[]}}`)
		opts := realOptions(t, b)
		for round := 1; round < 3; round++ {
			run, err := Run(context.Background(), opts)
			if err != nil || failureOf(run).Reason != record.ReasonCheckFailed {
				t.Fatalf("%+v, %v", run.Failure, err)
			}
			if a, c := len(run.Nodes[0].Attempts), len(run.Nodes[1].Attempts); a != round || c != round || run.Nodes[0].Status != record.StatusFailed {
				t.Errorf("in a loop %v, round %d: %d and %d attempts, the step %s", inLoop, round, a, c, run.Nodes[0].Status)
			}
			opts.Resume = true
		}
	}
}
