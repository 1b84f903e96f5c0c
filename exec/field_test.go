package exec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/harness/scripted"
	"foundry/plan"
	"foundry/sandbox"
)

// The predicate of a loop sees the facts of this iteration alone: what only an
// earlier one left is not there any more.
func TestPredicateSeesThisIteration(t *testing.T) {
	gone := exectest.Op(plan.OpAll,
		exectest.Op(plan.OpGe, exectest.Iteration(), exectest.Number("2")),
		exectest.Op(plan.OpNot, exectest.OutputFact("before", "exists", "")))
	run, dir := execute(t, looped(gone, 3), `{"version":1,"iterations":{"step":[
	  [{"write":{"path":"state.json","content":"{\"n\": 1}"}},{"write":{"path":"before.json","content":"{}"}}],
	  [{"write":{"path":"state.json","content":"{\"n\": 2}"}},{"write":{"path":"final.json","content":"{}"}}]]},
	 "nodes":{"after":[{"copy":{"from":"{in:state}","to":"got.json"}}]}}`, nil)
	if run.Status != record.StatusSucceeded || run.Loops[0].Iterations != 2 {
		t.Errorf("failure %+v, loop %+v", run.Failure, run.Loops[0])
	}
	x, err := record.Explain(dir, "again")
	if err != nil || len(x.Decisions) != 2 || !strings.Contains(x.Decisions[1].Decision.Line, "output.before.exists is false") {
		t.Errorf("explained as %+v, %v", x.Decisions[len(x.Decisions)-1].Decision, err)
	}
}

// Every iteration and every alternative counts against the run's budget: the
// next one that nothing is left for is not started, and the run says why.
func TestEveryAttemptSpends(t *testing.T) {
	never := exectest.Eq(exectest.OutputFact("state", "json", "/n"), exectest.Number("99"))
	state := spend + `,{"write":{"path":"state.json","content":"{\"n\": 1, \"done\": false}"}}`
	for name, tt := range map[string]struct {
		plan    *exectest.Builder
		script  string
		tokens  int64 // 42 of them are spent by each attempt
		tried   string
		tries   int
		untried string
	}{
		"iterations":   {looped(never, 9), `{"version":1,"nodes":{"step":[` + state + `],"after":[]}}`, 84, "step", 2, "after"},
		"alternatives": {branched(plan.OtherwiseFail), `{"version":1,"nodes":{"pick/one":[` + spend + `],"pick/two":[` + good + `],"use":[]}}`, 42, "pick/one", 1, "pick/two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.plan.Plan.Budget.Tokens = tt.tokens
			run, _ := execute(t, tt.plan, tt.script, nil)
			f := failureOf(run)
			if f.Reason != "budget_exceeded:tokens" || f.Class != record.ClassWorkflow || f.Limit != record.Known(tt.tokens) || f.Observed != record.Known(tt.tokens) {
				t.Errorf("failure %+v", f)
			}
			if n := len(nodeOf(run, tt.tried).Attempts); n != tt.tries || len(nodeOf(run, tt.untried).Attempts) > 0 {
				t.Errorf("%d attempts of %s; %s: %+v", n, tt.tried, tt.untried, nodeOf(run, tt.untried))
			}
			if run.Usage.Tokens != record.Known(tt.tokens) {
				t.Errorf("spent %s tokens", run.Usage.Tokens)
			}
		})
	}
}

// B4: half an artifact of a worker that was ended in any way is kept aside under
// a name that says so, and never taken; the phase runs again and writes it whole.
func TestHalfAnArtifact(t *testing.T) {
	for name, tt := range map[string]struct {
		end    sandbox.Exit
		hangs  bool
		reason string
	}{
		"exit 1":  {sandbox.Exit{Code: 1}, false, record.ReasonNoFinalEvent},
		"SIGKILL": {sandbox.Exit{Code: 137, Signal: "SIGKILL"}, false, record.ReasonNoFinalEvent},
		"memory":  {sandbox.Exit{Code: 137, Signal: "SIGKILL", OOM: true}, false, record.ReasonResourceExceeded + record.DimMemory},
		"wall":    {sandbox.Exit{Code: 137, Signal: "SIGKILL"}, true, record.ReasonBudgetExceeded + record.DimWall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := threeSteps()
			if tt.hangs {
				b.Plan.Nodes[1].Budget.WallSeconds = 1
			}
			well := false
			rt := &exectest.Runtime{Work: func(w *exectest.Worker) sandbox.Exit {
				if well || w.Task.Skill != "skill:b" {
					return copyWorker(w)
				}
				w.Events(exectest.Started(), contract.Event{Type: contract.Turn, Turn: 1})
				w.File("b.json", `{"n": 1`)
				if tt.hangs {
					select {
					case <-w.Killed:
					case <-time.After(time.Minute):
					}
				}
				return tt.end
			}}
			opts := options(t, b, rt)
			run, err := Run(context.Background(), opts)
			if err != nil || failureOf(run).Reason != tt.reason {
				t.Fatalf("%+v, %v", run, err)
			}
			half := filepath.Join(opts.RunDir, run.Nodes[1].Attempts[0].Folder, record.RejectedDir, "out-b", "b.json")
			if got := content(t, half); got != `{"n": 1` {
				t.Errorf("kept aside: %q", got)
			}
			if _, err := os.Lstat(filepath.Join(opts.RunDir, record.ArtifactsDir, "b")); !os.IsNotExist(err) {
				t.Errorf("half an artifact was promoted: %v", err)
			}
			first := tree(t, filepath.Join(opts.RunDir, run.Nodes[0].Attempts[0].Folder))
			opts.Resume, well = true, true
			run, err = Run(context.Background(), opts)
			if err != nil || run.Status != record.StatusSucceeded || len(run.Nodes[1].Attempts) != 2 || len(run.Nodes[0].Attempts) != 1 {
				t.Fatalf("%+v, %v", run, err)
			}
			if got := content(t, opts.RunDir, record.ArtifactsDir, "b", "b.json"); got != `{"n": 1}  ` {
				t.Errorf("the artifact is %q", got)
			}
			if !same(first, tree(t, filepath.Join(opts.RunDir, run.Nodes[0].Attempts[0].Folder))) {
				t.Error("the folder of the finished phase changed")
			}
		})
	}
}

// How a tool was had is in the record: in an image, by its published schema in
// its place, or not at all.
func TestToolsAreRecorded(t *testing.T) {
	b := threeSteps()
	b.Plan.Tools = []plan.Tool{
		{Name: "gx", By: plan.ToolUnavailable, Reason: "not published"},
		{Name: "hx", By: plan.ToolImage, Image: "tools@sha256:" + strings.Repeat("1", 64)},
		{Name: "ix", By: plan.ToolSchema},
	}
	run, err := Run(context.Background(), options(t, b, &exectest.Runtime{Work: copyWorker}))
	if err != nil || run.Status != record.StatusSucceeded {
		t.Fatalf("%+v, %v", run, err)
	}
	want := []record.Tool{
		{Name: "gx", Had: record.ToolUnavailable, Detail: "not published"},
		{Name: "hx", Had: record.ToolImage, Detail: b.Plan.Tools[1].Image},
		{Name: "ix", Had: record.ToolSubstituted},
	}
	if !slices.Equal(run.Tools, want) {
		t.Errorf("recorded %+v", run.Tools)
	}
}

// The controller stays small while a worker fills its streams and its output
// folder: what it says is read, kept in part, and dropped, and what it leaves is
// hashed, frozen and promoted as it goes by.
func TestFlatController(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 200 MB thrice, and 240 MB through a pipe")
	}
	const outputs = 200 << 20
	b := exectest.New(scripted.Name, scripted.Version)
	b.Node("a", func(n *plan.Node) {
		n.Outputs = []plan.NodeOutput{{Artifact: "big", Filename: "big.bin", Kind: plan.KindFile, Required: plan.RequiredAlways}}
		n.Budget.OutputBytes, n.Budget.WallSeconds = outputs+1<<20, 300
	})
	line := strings.Repeat("noise ", 200)
	lowered(t, b, fmt.Sprintf(`{"version":1,"nodes":{"a":[
		{"stdout":{"text":"%s\n","times":%d}},
		{"stderr":{"text":"%s\n","times":%d}},
		{"write":{"path":"big.bin","content":"0123456789abcde\n","times":%d}}]}}`, line, (240<<20)/len(line), line, (10<<20)/len(line), outputs/16))
	opts := realOptions(t, b)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, peak := heap(), uint64(0)
	over, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-over:
				return
			case <-tick.C:
				peak = max(peak, heap())
			}
		}
	}()
	run, err := Run(context.Background(), opts)
	close(over)
	<-looked
	if err != nil || run.Status != record.StatusSucceeded {
		t.Fatalf("%+v, %v", run, err)
	}
	if o := nodeOf(run, "a").Outputs; len(o) != 1 || o[0].Bytes != outputs {
		t.Errorf("outputs %+v", o)
	}
	// The kept head and tail, twice, and what the collector has not freed yet.
	const bound = 32 << 20
	if peak == 0 || peak > before+bound {
		t.Errorf("the heap grew from %d to %d", before, peak)
	}
	t.Logf("heap from %d KiB to %d KiB", before>>10, peak>>10)
}

// What is left of the run's money and time bounds the step that still starts:
// passing it is the failure of the run, by the run's own limit.
func TestRunBudgetBoundsTheStep(t *testing.T) {
	spends := `{"emit":{"type":"usage","usage":{"message":"m","input":0,"output":0,"cache_read":0,"cache_write":0,"cost_micro_usd":100}}},`
	for name, tt := range map[string]struct {
		change func(*plan.RunBudget)
		script func(id string) string
		reason string
		limit  record.Count
		saw    record.Count // "": whatever is above the limit
		last   string       // the step that was cut
	}{
		"cost": {func(b *plan.RunBudget) { b.CostMicroUSD = 150 }, func(string) string { return spends }, "budget_exceeded:cost", "150", "200", "b"},
		"wall": {func(b *plan.RunBudget) { b.WallSeconds = 2 }, func(id string) string {
			return `{"sleep_ms":` + map[string]string{"a": "1050", "b": "600000", "c": "0"}[id] + `},`
		}, "budget_exceeded:wall", "2", "", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := scriptedSteps()
			tt.change(&b.Plan.Budget)
			var nodes []string
			for _, id := range []string{"a", "b", "c"} {
				nodes = append(nodes, fmt.Sprintf(`%q:[%s{"write":{"path":"%s.json","content":"{\"n\": 1}"}}]`, id, tt.script(id), id))
			}
			begun := time.Now()
			run, _ := execute(t, b, `{"version":1,"nodes":{`+strings.Join(nodes, ",")+`}}`, nil)
			f := failureOf(run)
			if f.Reason != tt.reason || f.Class != record.ClassWorkflow || f.Limit != tt.limit || ExitCode(run, nil) != ExitFailed {
				t.Errorf("failure %+v", f)
			}
			saw, _ := f.Observed.Value()
			limit, _ := f.Limit.Value()
			if over, known := f.Overshoot.Value(); !known || over != saw-limit || tt.saw != "" && f.Observed != tt.saw {
				t.Errorf("observed %s, overshoot %s", f.Observed, f.Overshoot)
			}
			if len(nodeOf(run, tt.last).Attempts) != 1 || len(nodeOf(run, "c").Attempts) > 0 || nodeOf(run, "a").Status != record.StatusSucceeded {
				t.Errorf("a is %s, %s has %d attempts, c %d", nodeOf(run, "a").Status, tt.last, len(nodeOf(run, tt.last).Attempts), len(nodeOf(run, "c").Attempts))
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
