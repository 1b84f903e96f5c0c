package exec

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// inContainers moves every node of a plan into containers.
func inContainers(b *exectest.Builder) *exectest.Builder {
	for i := range b.Plan.Nodes {
		b.Plan.Nodes[i].Sandbox.Mode, b.Plan.Nodes[i].Sandbox.Image = plan.SandboxContainer, plan.ImageBuiltin
	}
	return b
}

// prepared waits until so many sandboxes were prepared.
func prepared(rt *exectest.Runtime, n int) bool {
	for deadline := time.Now().Add(10 * time.Second); rt.Count() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// While a node runs in a container, the sandbox of the next one is prepared; its
// inputs are there when it starts.
func TestNextIsPrepared(t *testing.T) {
	b := inContainers(threeSteps())
	if bad := plan.Validate(b.Plan); len(bad) > 0 {
		t.Fatalf("the test's plan is not valid: %v", bad)
	}
	rt := &exectest.Runtime{Like: plan.SandboxContainer}
	begun := 0
	rt.Work = func(w *exectest.Worker) sandbox.Exit {
		begun++
		if want := min(begun+1, 3); !prepared(rt, want) {
			t.Errorf("while node %d runs, %d sandboxes are prepared, want %d", begun, rt.Count(), want)
		}
		return copyWorker(w)
	}
	opts := options(t, b, rt)
	run, err := Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusSucceeded {
		t.Fatalf("run %+v, error %v", run, err)
	}
	got, err := os.ReadFile(filepath.Join(opts.RunDir, record.ArtifactsDir, "c", "c.json"))
	if err != nil || string(got) != `{"n": 1}   ` {
		t.Errorf("artifact of c: %q, %v", got, err)
	}
	if rt.Count() != 3 {
		t.Errorf("%d sandboxes were prepared for 3 nodes", rt.Count())
	}
	noResidue(t, opts.RunDir, rt)
}

// A sandbox that was lost between its preparation and its start is prepared
// afresh: that is nobody's failure.
func TestLostAheadIsPreparedAfresh(t *testing.T) {
	b := inContainers(threeSteps())
	rt := &exectest.Runtime{Like: plan.SandboxContainer}
	rt.Work = func(w *exectest.Worker) sandbox.Exit {
		prepared(rt, 2)
		return copyWorker(w)
	}
	rt.Losing = "n1-1-1"
	opts := options(t, b, rt)
	run, err := Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusSucceeded {
		t.Fatalf("run %+v, error %v", run, err)
	}
	if rt.Count() != 4 || rt.Losing != "" {
		t.Errorf("%d sandboxes were prepared for 3 nodes, one of which was lost", rt.Count())
	}
	noResidue(t, opts.RunDir, rt)
}

// What was prepared for nothing is removed, and its worker never starts.
func TestPreparedForNothing(t *testing.T) {
	for name, end := range map[string]func(w *exectest.Worker, cancel func()) sandbox.Exit{
		"the node fails": func(w *exectest.Worker, _ func()) sandbox.Exit {
			w.Events(exectest.Started(), exectest.Finished(contract.Errored))
			return sandbox.Exit{Code: 1}
		},
		"its output is invalid": func(w *exectest.Worker, _ func()) sandbox.Exit {
			w.Events(exectest.Started(), exectest.Finished(contract.Settled))
			w.File("a.json", `{"n": "x"}`)
			return sandbox.Exit{}
		},
		"the run is cancelled": func(w *exectest.Worker, cancel func()) sandbox.Exit {
			cancel()
			<-w.Killed
			return sandbox.Exit{Code: 137, Signal: "SIGKILL"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			rt := &exectest.Runtime{Like: plan.SandboxContainer}
			begun := 0
			rt.Work = func(w *exectest.Worker) sandbox.Exit {
				if begun++; begun > 1 {
					t.Error("a second worker started")
				}
				if !prepared(rt, 2) {
					t.Error("the next sandbox was not prepared")
				}
				return end(w, cancel)
			}
			opts := options(t, inContainers(threeSteps()), rt)
			run, err := Run(ctx, opts)
			if err != nil || run.Status == record.StatusSucceeded {
				t.Fatalf("run %+v, error %v", run, err)
			}
			if len(run.Leftovers) > 0 {
				t.Errorf("left over: %v", run.Leftovers)
			}
			noResidue(t, opts.RunDir, rt)
		})
	}
}
