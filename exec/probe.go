package exec

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/plan"
)

// Limits of a probe: it asks a program for its version or its help.
const (
	probeWall   = 60 // seconds
	probeMemory = 2 << 30
	probePIDs   = 256
	probeCPU    = 1000
	probeBytes  = 16 << 20
)

// probe asks whether the tools are there, before anything is spent. It ends at
// the first that is not; those that passed before are not asked again.
func (e *engine) probe(ctx context.Context) error {
	for i := range e.opts.Plan.Probes {
		if ctx.Err() != nil {
			return nil
		}
		if e.run.Probes[i].Status == record.ProbePassed {
			continue
		}
		got, failure, err := e.askTool(ctx, i)
		if err != nil {
			return err
		}
		if err := e.emit(record.Event{Type: record.EventProbed, Probe: &got, Failure: failure}); err != nil {
			return err
		}
		if failure != nil {
			e.withdrawn = true
			return nil
		}
	}
	return nil
}

// askTool runs one probe as a check is run: in its tool's image where there are
// containers, else where the plan's local nodes run.
func (e *engine) askTool(ctx context.Context, i int) (record.Probe, *record.Failure, error) {
	p := &e.opts.Plan.Probes[i]
	got := record.Probe{Tool: p.Tool, Status: record.ProbeNotRun}
	sb := plan.Sandbox{Mode: plan.SandboxLocal, Network: plan.NetworkNone,
		Mounts: []plan.Mount{
			{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: probeBytes},
			{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: probeBytes},
			{Source: plan.MountTmpfs, Destination: "/tmp", Mode: plan.MountReadWrite, Bytes: probeBytes},
		},
		Resources: plan.Resources{MemoryBytes: probeMemory, PIDs: probePIDs, CPUMillis: probeCPU}}
	if e.opts.Runtimes[plan.SandboxContainer] != nil && p.Image != "" {
		sb.Mode, sb.Image = plan.SandboxContainer, p.Image
	}
	rt := e.opts.Runtimes[sb.Mode]
	if rt == nil {
		got.Detail = "the probe names no image, and nothing of the plan runs on this machine itself"
		return got, nil, nil
	}
	n := &plan.Node{ID: "probe:" + p.Tool, Kind: plan.NodeCheck, Check: &plan.Check{Name: p.Tool}, Sandbox: sb,
		Process: plan.Process{Argv: p.Argv, Cwd: "{scratch}", User: "65534:65534",
			Env: []string{"HOME={scratch}", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR={scratch}", "TZ=UTC"}},
		Budget: plan.NodeBudget{WallSeconds: probeWall, OutputBytes: probeBytes, OutputFiles: 16}}
	number := e.run.Resumed + 1
	got.Folder = record.AttemptFolder(n.ID, int64(i+1), number)
	out, err := e.runner.Do(ctx, &attempt.Job{ID: "p" + strconv.Itoa(i) + "-" + strconv.FormatInt(number, 10), Node: n,
		Iteration: int64(i + 1), Attempt: number, Runtime: rt, Wall: probeWall * time.Second})
	if err != nil {
		return got, nil, err
	}
	e.run.Leftovers = append(e.run.Leftovers, out.Leftovers...)
	f := out.Record.Failure
	if f == nil {
		f = e.answer(p, out.Record.Check)
	}
	if f == nil {
		got.Status = record.ProbePassed
		return got, nil, nil
	}
	got.Status, got.Detail = record.ProbeFailed, f.Detail
	if f.Class != record.ClassCancelled {
		f = record.Fail(record.ReasonToolMissing, fmt.Sprintf("the tool %s is not to be had: %s: %s", p.Tool, strings.Join(p.Argv, " "), f.Detail))
	}
	return got, f, nil
}

// answer judges what a probe said.
func (e *engine) answer(p *plan.Probe, c *record.CheckResult) *record.Failure {
	if p.Expect == "" {
		if c.ExitCode == 0 {
			return nil
		}
		return record.Fail(record.ReasonToolMissing, fmt.Sprintf("exit code %d", c.ExitCode))
	}
	said, err := e.store.ReadAll(c.Stdout, maxSaid)
	if err != nil {
		return attempt.HostFailure("reading its output", err)
	}
	if strings.Contains(string(said), p.Expect) {
		return nil
	}
	return record.Fail(record.ReasonToolMissing, fmt.Sprintf("its output does not hold %q (exit code %d)", p.Expect, c.ExitCode))
}
