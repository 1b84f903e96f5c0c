package exec

import (
	"context"
	"flag"
	"fmt"
	osexec "os/exec"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/plan"
)

var chainSteps = flag.Int("chain", 10_000, "steps of BenchmarkLocalChain")

// chain is one step that leaves an artifact and n no-op processes behind it,
// each of which waits for the one before and gets the artifact staged.
func chain(b *testing.B, n int) *exectest.Builder {
	made := exectest.New("scripted", "1")
	made.Plan.Budget.WallSeconds = 1_000_000
	made.Node("a", func(n *plan.Node) { n.Outputs = []plan.NodeOutput{exectest.JSONOut("doc", plan.RequiredAlways)} })
	lowered(b, made, `{"version":1,"nodes":{"a":[{"write":{"path":"doc.json","content":"{}"}}]}}`)
	for i := range n {
		name := fmt.Sprintf("c%d", i+1)
		c := plan.Node{ID: "a." + name, Kind: plan.NodeCheck, Phase: 1, Needs: []string{made.Plan.Nodes[i].ID}, SubmitAttempts: 1,
			Check: &plan.Check{Name: name, Of: "a", Blocking: true, TrustedHost: true, Assert: &plan.Expr{Op: plan.OpEq, Args: []plan.Expr{
				{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactCheck, Name: name, Field: "exit_code"}}, exectest.Number("0")}}},
			Process: plan.Process{Argv: []string{"/bin/true"}, Env: []string{"HOME={scratch}", "PATH=/usr/bin:/bin"}, Cwd: "{scratch}", User: "65534:65534"},
			Inputs:  []plan.NodeInput{{Artifact: "doc", From: "node:a", Required: true, Kind: plan.KindJSON, Path: "doc.json"}},
			Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Network: plan.NetworkNone, Resources: plan.Resources{MemoryBytes: 1 << 30, PIDs: 64, CPUMillis: 1000},
				Mounts: []plan.Mount{
					{Source: "in:doc", Destination: "/in/doc", Mode: plan.MountReadOnly},
					{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: 1 << 20},
					{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: 1 << 20},
				}},
			Budget: plan.NodeBudget{WallSeconds: 60},
		}
		made.Plan.Nodes = append(made.Plan.Nodes, c)
	}
	return made
}

// A chain of no-op processes, each staged, watched, killed, hashed, decided and
// recorded, against raw fork+exec of the same program in the same run. What it
// takes is mostly the making of files: on a disk whose file system needs a
// quarter of a millisecond for each, several times what it is with TMPDIR in
// memory.
func BenchmarkLocalChain(b *testing.B) {
	n := *chainSteps
	floor := func() time.Duration {
		begun := time.Now()
		for range n {
			if err := osexec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(begun)
	}
	for b.Loop() {
		before := floor()
		opts := realOptions(b, chain(b, n))
		begun := time.Now()
		run, err := Run(context.Background(), opts)
		took := time.Since(begun)
		if err != nil || run.Status != record.StatusSucceeded {
			b.Fatal(run.Failure, err)
		}
		peer := (before + floor()) / 2
		b.ReportMetric(float64(peer.Microseconds())/float64(n), "µs/fork+exec")
		b.ReportMetric(float64(took.Microseconds())/float64(n), "µs/step")
		b.ReportMetric(float64(took)/float64(peer), "x")
	}
}
