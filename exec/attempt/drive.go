package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"foundry/exec/broker"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// stopper holds the first failure that ends an attempt.
type stopper struct {
	once    sync.Once
	failure *record.Failure
	ch      chan struct{} // closed when failure is set
}

func (s *stopper) stop(f *record.Failure) {
	s.once.Do(func() {
		s.failure = f
		close(s.ch)
	})
}

// first is the failure that came first, nil for none. It is asked for when
// nothing may stop the attempt any more.
func (s *stopper) first() *record.Failure {
	s.once.Do(func() {})
	return s.failure
}

// ending is how a process came to its end.
type ending struct {
	exit      sandbox.Exit
	exited    bool // its end was seen
	startErr  error
	waitErr   error // the runtime lost it
	killErr   error // not everything was shown to be dead
	cancelled bool
	lingered  bool // ended by the controller, after its final event
	ordered   bool // ended by the controller, for whatever reason
}

// drive starts the process, feeds the session, enforces the limits, kills
// everything and says whether the worker failed.
func (a *attempt) drive(ctx context.Context, sb sandbox.Sandbox) *record.Failure {
	prompt, err := sb.Expand(a.job.Node.Prompt)
	if err != nil {
		return a.unstarted(ctx, sb, "expanding the prompt", err)
	}
	cfg, err := a.sessionConfig(sb, prompt)
	if err != nil {
		return a.unstarted(ctx, sb, "reading the skill", err)
	}
	files := newStreams(a.dir, a.secret)
	halt := &stopper{ch: make(chan struct{})}
	pr, pw := io.Pipe()
	st := &stream{
		session: a.job.Adapter.Session(cfg),
		stdin:   newStdin(), trace: files.trace, observe: a.job.Observe, budget: armed(a.budget(), a.way), want: *a.job.Harness, model: a.job.Model,
		stop: halt.stop, finished: make(chan struct{}), done: make(chan struct{}), calls: map[string]bool{},
	}
	st.submit = func() []string { return a.submitted(ctx, sb) }
	a.arm(st.session)
	go st.run(pr)
	end := a.supervise(ctx, sb, st.finished, halt, sandbox.Stdio{
		Stdin:  st.stdin,
		Stdout: &stdout{kept: files.stdout, pipe: pw, max: MaxStdout, stop: halt.stop},
		Stderr: &stderr{kept: files.stderr, max: MaxStdout, stop: halt.stop},
	})
	pw.Close()
	<-st.done
	a.rec.Dead = end.killErr == nil
	a.rec.Worker, a.rec.Usage, a.rec.Submitted = st.worker(), st.usage(), st.submits
	a.report = a.way.close()
	a.account(a.report)
	a.activation(st.session, a.report)
	if end.exited {
		a.rec.Exit = &record.Exit{Code: int64(end.exit.Code), Signal: end.exit.Signal, OOM: end.exit.OOM, Killed: end.ordered}
	}
	a.rec.Stdout, a.rec.Stderr, err = files.finish()
	if err = errors.Join(err, st.traceErr); err != nil {
		err = fmt.Errorf("writing the streams: %w", err)
	}
	return a.verdict(end, halt.first(), err, st.session)
}

// sessionConfig is what a session knows of its attempt.
func (a *attempt) sessionConfig(sb sandbox.Sandbox, prompt string) (harness.SessionConfig, error) {
	n := a.job.Node
	cfg := harness.SessionConfig{Harness: *a.job.Harness, Node: n.ID, Iteration: a.job.Iteration, Attempt: a.job.Attempt,
		Prompt: prompt, SubmitAttempts: n.SubmitAttempts}
	for _, id := range n.NestedSkills {
		cfg.NestedSkills = append(cfg.NestedSkills, strings.TrimPrefix(id, plan.BundleSkill+":"))
	}
	b := a.Bundles[n.Skill]
	if b == nil || a.job.Harness.TestStub {
		return cfg, nil // a stub activates nothing
	}
	cfg.Skill = strings.TrimPrefix(n.Skill, plan.BundleSkill+":")
	var err error
	if cfg.SkillDir, err = sb.Expand("{skill}"); err != nil {
		return cfg, err
	}
	for _, f := range b.Files {
		if f.Path == "SKILL.md" {
			cfg.SkillFile, err = a.Store.ReadAll(f.Digest, maxDocumentBytes)
		}
	}
	return cfg, err
}

// arm lets the worker's requests through, up to its budget.
func (a *attempt) arm(s harness.Session) {
	if a.way == nil {
		return
	}
	watch := ""
	if p, ok := s.(harness.Prover); ok {
		watch = p.Activation().Text
	}
	b := a.budget()
	a.way.Arm(broker.Limits{Tokens: b.Tokens, CostMicroUSD: b.CostMicroUSD}, watch)
}

// unstarted cleans up before a process was started.
func (a *attempt) unstarted(ctx context.Context, sb sandbox.Sandbox, what string, err error) *record.Failure {
	clean, cancel := cleanup(ctx)
	defer cancel()
	a.rec.Dead = sb.Kill(clean) == nil
	return a.hostFailure(ctx, what, err)
}

// supervise runs the process until it ends or must end, and kills everything.
// A process may live for the grace after finished is closed; nil is never.
func (a *attempt) supervise(ctx context.Context, sb sandbox.Sandbox, finished <-chan struct{}, halt *stopper, stdio sandbox.Stdio) (end ending) {
	clean, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	begun := time.Now()
	if err := sb.Start(ctx, stdio); err != nil {
		end.startErr = err
		end.cancelled = ctx.Err() != nil
		end.killErr = a.kill(ctx, sb)
		return end
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		end.exit, end.waitErr = sb.Wait(clean)
	}()
	wall := time.NewTimer(a.job.Wall)
	defer wall.Stop()
	var grace <-chan time.Time
	for running := true; running; {
		select {
		case <-waited:
			running = false
		case <-halt.ch:
			running, end.ordered = false, true
		case <-wall.C:
			limit := int64(a.job.Wall / time.Second)
			halt.stop(record.Exceeded(record.ReasonBudgetExceeded, record.DimWall, limit,
				int64(math.Ceil(time.Since(begun).Seconds())), record.SourceController,
				fmt.Sprintf("the node may take %d seconds", limit)))
		case <-ctx.Done():
			running, end.ordered = false, true
		case <-finished:
			finished, grace = nil, time.After(a.Grace)
		case <-grace:
			running, end.ordered, end.lingered = false, true, true
		}
	}
	end.cancelled = ctx.Err() != nil
	end.killErr = a.kill(ctx, sb)
	// What is dead has an end; a runtime that cannot tell is not waited for.
	select {
	case <-waited:
	case <-time.After(killTime):
		cancel()
		<-waited
	}
	end.exited = end.waitErr == nil
	return end
}

func (a *attempt) kill(ctx context.Context, sb sandbox.Sandbox) error {
	clean, cancel := cleanup(ctx)
	defer cancel()
	return sb.Kill(clean)
}

// hostVerdict is the failure of what the process itself did not do.
func (a *attempt) hostVerdict(end ending, stopped *record.Failure, hostErr error) *record.Failure {
	switch {
	case end.cancelled:
		return record.Fail(record.ReasonCancelled, "the run was interrupted")
	case end.killErr != nil:
		return HostFailure("ending the attempt: something of it may be alive", end.killErr)
	case end.startErr != nil:
		return HostFailure("starting the process", end.startErr)
	case end.waitErr != nil:
		f := HostFailure("the sandbox does not tell how the process ended", end.waitErr)
		if f.Reason == record.ReasonRuntimeError && !end.ordered {
			f.Reason = record.ReasonSandboxDied
		}
		return f
	case hostErr != nil:
		return HostFailure("the record", hostErr)
	}
	return stopped
}

// verdict applies the order that the package documents to what happened before
// the outputs are looked at.
func (a *attempt) verdict(end ending, stopped *record.Failure, hostErr error, s harness.Session) *record.Failure {
	w := a.rec.Worker
	ownEnd := w.Status != contract.NoStatus && w.Status != contract.Errored
	if f := first(a.hostVerdict(end, stopped, hostErr), exceeded(a.report, ownEnd)); f != nil {
		return f
	}
	failedExit := end.exited && end.exit.Code != 0 && !end.lingered
	how := exitText(end)
	switch {
	case end.exit.OOM: // also where the worker goes on without the process that was killed
		f := record.Fail(record.ReasonResourceExceeded+record.DimMemory, "the kernel killed a process of the attempt for memory; "+how)
		f.Limit, f.Observed, f.Overshoot = record.Known(a.job.Node.Sandbox.Resources.MemoryBytes), record.Unknown, record.Unknown
		f.Source = record.SourceSandbox
		return f
	case !ownEnd:
		if f := a.providerFailure(a.report, s); f != nil {
			return f
		}
	}
	switch {
	case w.Status == contract.NoStatus:
		return workerFailure(record.ReasonNoFinalEvent, "the stream ended without a final event; "+how, w)
	case w.Violation != "":
		return workerFailure(record.ReasonWorkerError, "the stream broke the contract; "+how, w)
	case w.Status == contract.Errored || w.Status == contract.Aborted:
		return workerFailure(record.ReasonWorkerError, "the final event says "+w.Status+"; "+how, w)
	case failedExit:
		return workerFailure(record.ReasonWorkerError, "the final event says "+w.Status+", but "+how, w)
	}
	return first(a.unproven(), a.unknownSpend())
}

// unknownSpend fails an attempt that spent somebody's money and does not say
// how much, where there is a budget of it.
func (a *attempt) unknownSpend() *record.Failure {
	if h := a.job.Harness; h.TestStub || h.Provider == "" || a.job.Unknown == plan.UnknownWarn {
		return nil
	}
	b := a.budget()
	for _, d := range []struct {
		name  string
		limit int64
		spent record.Count
	}{{record.DimTokens, b.Tokens, a.rec.Usage.Tokens}, {record.DimCost, b.CostMicroUSD, a.rec.Usage.CostMicroUSD}} {
		if d.limit > 0 && d.spent == record.Unknown {
			f := record.Fail(record.ReasonBudgetExceeded+d.name, fmt.Sprintf("the node may spend %d %s, and its worker did not report how much it spent", d.limit, d.name))
			f.Limit, f.Observed, f.Overshoot, f.Source = record.Known(d.limit), record.Unknown, record.Unknown, record.SourceWorker
			return f
		}
	}
	return nil
}

func exitText(end ending) string {
	switch {
	case end.ordered:
		return "the controller ended the process"
	case end.exit.Signal != "":
		return "the process was ended by " + end.exit.Signal
	}
	return fmt.Sprintf("the process ended with exit code %d", end.exit.Code)
}

func workerFailure(reason, detail string, w record.Worker) *record.Failure {
	if w.Violation != "" {
		detail += "; " + w.Violation
	}
	if w.Message != "" {
		detail += fmt.Sprintf("; the worker says %q", w.Message)
	}
	f := record.Fail(reason, text(detail))
	f.Source = record.SourceWorker
	return f
}

// exhausted names the resource that ran out, where the kernel counted that it
// did and the failure is only what came of it: forks that were refused, an
// output folder that is full.
func (a *attempt) exhausted(f *record.Failure, m sandbox.Measured) *record.Failure {
	if f == nil || a.job.Node.Kind == plan.NodeCheck {
		return f
	}
	switch f.Reason {
	case record.ReasonWorkerError, record.ReasonNoFinalEvent, record.ReasonBudgetExceeded + record.DimWall:
	default:
		return f
	}
	limits := a.job.Node.Sandbox.Resources
	if n := m.PIDsRefused; n != nil && *n > 0 {
		g := record.Exceeded(record.ReasonResourceExceeded, record.DimPIDs, limits.PIDs, limits.PIDs+*n, record.SourceSandbox,
			fmt.Sprintf("the kernel refused %d processes or threads beyond the limit; then: %s: %s", *n, f.Reason, f.Detail))
		return g
	}
	if used, bound := m.OutputBytes, a.job.Node.Budget.OutputBytes; used != nil && bound > 0 && *used > bound-fullWithin {
		return record.Exceeded(record.ReasonResourceExceeded, record.DimDisk, bound, *used, record.SourceSandbox,
			fmt.Sprintf("the output folder is full; then: %s: %s", f.Reason, f.Detail))
	}
	return f
}

// fullWithin is how near to its bound a file system counts as full: blocks of
// 4 KiB, of which the next write may need a few.
const fullWithin = 64 << 10

// recordFacts keeps what the runtime applied.
func (a *attempt) recordFacts(f sandbox.Facts) error {
	a.rec.Sandbox = sandboxRecord(f, a.job.Node.Sandbox)
	if len(f.Spec) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(a.dir, record.SpecFile), f.Spec, 0o600)
}

func sandboxRecord(f sandbox.Facts, want plan.Sandbox) *record.Sandbox {
	s := &record.Sandbox{
		Mode: f.Mode, SecurityBoundary: f.SecurityBoundary, Image: f.Image, ImageDigest: f.ImageDigest, ImageIndex: f.ImageIndex, Repositories: f.Repositories,
		ConfigDigest: f.ConfigDigest, ProgramDigest: f.Program.Digest, User: f.User, Network: f.Network,
		Credentials: want.Credentials, WorkerCreds: want.WorkerCredentials,
	}
	if f.Agent != nil {
		agent := record.AgentProgram(*f.Agent)
		s.Agent = &agent
	}
	for _, name := range sortedKeys(f.Runtimes) {
		s.Runtimes = append(s.Runtimes, record.Version{Name: name, Version: text(f.Runtimes[name])})
	}
	for _, m := range f.Mounts {
		s.Mounts = append(s.Mounts, record.Mount{Source: m.Source, Destination: m.Destination, Mode: m.Mode, Bytes: m.Bytes})
	}
	s.Measured = record.Measured{
		PeakMemoryBytes: counted(f.Measured.PeakMemoryBytes), CPUMicros: counted(f.Measured.CPUMicros),
		OOMKills: counted(f.Measured.OOMKills), PIDsRefused: counted(f.Measured.PIDsRefused),
		ThrottledMicros: counted(f.Measured.ThrottledMicros),
		OutputBytes:     counted(f.Measured.OutputBytes), OutputFiles: counted(f.Measured.OutputFiles),
	}
	for _, p := range f.Properties {
		s.Properties = append(s.Properties, record.Property{Name: p.Name, State: p.State, Detail: text(p.Detail)})
	}
	return s
}

func counted(n *int64) record.Count {
	if n == nil {
		return record.Unknown
	}
	return record.Known(*n)
}
