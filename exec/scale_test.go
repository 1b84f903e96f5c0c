package exec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// noop is a worker that leaves one small artifact.
func noop(w *exectest.Worker) sandbox.Exit {
	w.Events(exectest.Started())
	w.File("out.json", "{}")
	w.Events(exectest.Finished(contract.Settled))
	return sandbox.Exit{}
}

// long is n steps of one skill, each reading the one before.
func long(n int) *exectest.Builder {
	b := exectest.New("fake", "1")
	b.Plan.Budget.Tokens, b.Plan.Budget.WallSeconds = 1_000_000_000, 1_000_000
	b.Node("s", func(n *plan.Node) {
		n.Outputs = []plan.NodeOutput{{Artifact: "out", Filename: "out.json", Kind: plan.KindJSON, Required: plan.RequiredAlways}}
	})
	first := b.Plan.Nodes[0]
	for i := 1; i < n; i++ {
		next := first
		next.ID = fmt.Sprintf("s#%d", i+1)
		next.Phase = int64(i + 1)
		next.Needs = []string{b.Plan.Nodes[i-1].ID}
		b.Plan.Nodes = append(b.Plan.Nodes, next)
	}
	return b
}

// The bookkeeping of a step, beside the work itself, and the resume of a run
// whose steps are finished. Growth is what to look at.
func BenchmarkSteps(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				made := long(n)
				opts := options(b, made, &exectest.Runtime{Work: noop})
				begun := time.Now()
				run, err := Run(context.Background(), opts)
				if err != nil || run.Status != record.StatusSucceeded {
					b.Fatal(run.Failure, err)
				}
				b.ReportMetric(float64(time.Since(begun).Microseconds())/float64(n), "µs/step")
				cutEnd(b, opts.RunDir)
				opts.Resume = true
				begun = time.Now()
				run, err = Run(context.Background(), opts)
				if err != nil || run.Status != record.StatusSucceeded || run.Resumed != 1 {
					b.Fatal(run, err)
				}
				b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms/resume")
				os.RemoveAll(opts.RunDir)
			}
		})
	}
}

// cutEnd takes the last line off a journal: the controller was killed there.
func cutEnd(t testing.TB, dir string) {
	path := filepath.Join(dir, record.EventsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(data) - 1
	for end > 0 && data[end-1] != '\n' {
		end--
	}
	if err := os.WriteFile(path, data[:end], 0o600); err != nil {
		t.Fatal(err)
	}
}

// A loop of many iterations: time and memory for each stay what they are.
func BenchmarkIterations(b *testing.B) {
	for _, n := range []int{100, 1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				made := long(1)
				made.Plan.Loops = []plan.Loop{{ID: "again", Body: []string{"s"}, MaxIterations: int64(n),
					Until: exectest.Eq(exectest.Iteration(), exectest.Number(fmt.Sprint(n)))}}
				opts := options(b, made, &exectest.Runtime{Work: noop})
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				begun := time.Now()
				run, err := Run(context.Background(), opts)
				if err != nil || run.Status != record.StatusSucceeded {
					b.Fatal(run.Failure, err)
				}
				took := time.Since(begun)
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(took.Microseconds())/float64(n), "µs/iteration")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(n), "B/iteration")
				os.RemoveAll(opts.RunDir)
			}
		})
	}
}
