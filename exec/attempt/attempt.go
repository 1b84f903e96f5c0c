package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"foundry/exec/broker"
	"foundry/exec/broker/redact"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// Times that the controller gives to what should be quick.
const (
	// FinishGrace is how long a worker may live after its final event. An agent
	// that keeps its process for the next prompt is then ended; that is no
	// failure.
	FinishGrace = 10 * time.Second
	// killTime bounds each step of the clean-up: killing, closing, removing.
	killTime = 60 * time.Second
)

// Runner is what the attempts of one run share. It is safe for concurrent use.
type Runner struct {
	Run        string // id of the run
	Folder     *record.Folder
	Store      *sandbox.Store
	Trees      *Trees
	Schemas    *Schemas
	Bundles    map[string]*plan.Bundle
	Executable string         // this program, absolute
	Broker     *broker.Broker // nil: no node of the run has a provider
	// Logins are the files of the agents' own logins by their labels, absolute.
	Logins map[string]string
	Now    func() time.Time
	// Grace is FinishGrace, or less in a test.
	Grace time.Duration
}

// Job is one attempt.
type Job struct {
	ID        string // unique in the run: a-z, 0-9 and '-'
	Node      *plan.Node
	Iteration int64            // from 1
	Attempt   int64            // from 1
	Budget    *plan.NodeBudget // what the attempt may spend; nil: the node's own
	Harness   *plan.Harness    // nil of a check, as are the next two
	Adapter   harness.Adapter
	Model     *plan.Model // prices tokens where the worker names no cost; nil: nobody does
	Unknown   string      // plan.UnknownWarn lets a real worker keep its spend to itself
	Runtime   sandbox.Runtime
	Inputs    []Input
	Wall      time.Duration
	Ahead     *Ahead               // prepared before, for this very id; nil: it was not
	Observe   func(contract.Event) // nil: nobody looks
}

// Input is a bound input; Artifact is nil where an optional one is absent.
type Input struct {
	Spec     plan.NodeInput
	From     string
	Source   string // what From came to where that is open, for the record
	Artifact *Artifact
}

// Outcome is what an attempt came to. Artifacts are those promoted, in the
// order of the node's outputs; none when it failed. Leftovers are things on
// the host that could not be removed.
type Outcome struct {
	Record    *record.Attempt
	Artifacts []Artifact
	Leftovers []string
}

// attempt is the state of one execution.
type attempt struct {
	*Runner
	job *Job
	dir string // its folder in the record
	rec *record.Attempt
	out Outcome

	way    *way
	report *broker.Report // of the way, when it is closed
	secret *redact.Set    // what no file may hold
}

// Do executes an attempt and writes its folder. The error is for a record that
// could not be written; everything else is in the outcome.
func (r *Runner) Do(ctx context.Context, job *Job) (Outcome, error) {
	a := &attempt{Runner: r, job: job, rec: r.blank(job)}
	a.dir = r.Folder.Path(filepath.FromSlash(record.AttemptFolder(job.Node.ID, job.Iteration, job.Attempt)))
	if err := os.MkdirAll(filepath.Dir(a.dir), 0o700); err != nil {
		return Outcome{}, err
	}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		return Outcome{}, err
	}
	begun := time.Now()
	failure := a.checkInputs()
	if failure != nil && job.Node.Kind == plan.NodeCheck && failure.Class == record.ClassSkill {
		// A step that left out what its check reads did not pass it.
		failure.Reason = record.ReasonCheckFailed
	}
	a.rec.Skipped = a.nothingToCheck()
	switch {
	case failure == nil && a.rec.Skipped == "":
		failure = a.sandboxed(ctx)
	case job.Ahead != nil: // for nothing
		clean, cancel := cleanup(ctx)
		a.leftover(job.Ahead.Drop(clean))
		cancel()
	}
	if failure != nil && job.Node.Kind == plan.NodeCheck && failure.Reason == record.ReasonToolMissing {
		failure = record.Fail(record.ReasonCheckError, failure.Detail)
	}
	a.rec.Usage.WallMillis = record.Known(time.Since(begun).Milliseconds())
	a.rec.Ended = stamp(r.Now())
	a.rec.Status, a.rec.Failure = record.StatusSucceeded, failure
	if failure != nil {
		a.rec.Status = record.StatusFailed
	}
	if err := a.clean(a.secret); err != nil {
		return a.out, err
	}
	a.out.Record = a.rec
	return a.out, record.WriteAttempt(a.dir, a.rec)
}

// nothingToCheck says that a check has nothing to look at: it reads artifacts
// that may be absent, and none of them is there. What must be there is held
// against its own step, not against its validator.
func (a *attempt) nothingToCheck() string {
	if a.job.Node.Kind != plan.NodeCheck || len(a.job.Inputs) == 0 {
		return ""
	}
	var names []string
	for _, in := range a.job.Inputs {
		if in.Artifact != nil || in.Spec.Required {
			return ""
		}
		names = append(names, in.Spec.Artifact)
	}
	return "there is no " + strings.Join(names, ", ") + ", which may be absent: nothing was checked"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// blank is the record of an attempt that has done nothing yet.
func (r *Runner) blank(job *Job) *record.Attempt {
	n := job.Node
	rec := &record.Attempt{
		FormatVersion: record.FormatVersion, Node: n.ID, Iteration: job.Iteration, Attempt: job.Attempt,
		Started: stamp(r.Now()), Usage: record.NoUsage(),
		Invocation: InvocationOf(r.Bundles[n.Skill]), Harness: HarnessOf(job.Harness), Fixture: FixtureOf(n, r.Bundles),
		Worker: record.Worker{Status: contract.NoStatus},
	}
	if n.Kind == plan.NodeAgent {
		rec.Activation = &record.Activation{State: record.ActivationUnproven, Skill: rec.Invocation.SkillSHA256}
		if job.Harness != nil && job.Harness.TestStub {
			rec.Activation.State = record.ActivationUnprovenStub
		}
	}
	for _, o := range n.Outputs {
		rec.Outputs = append(rec.Outputs, record.Output{Artifact: o.Artifact, Filename: o.Filename, Kind: o.Kind,
			Required: o.Required, State: record.OutputAbsent})
	}
	return rec
}

// checkInputs holds the inputs against their schemas before anything starts.
func (a *attempt) checkInputs() *record.Failure {
	var failure *record.Failure
	for _, in := range a.job.Inputs {
		use := record.InputUse{Artifact: in.Spec.Artifact, From: in.From, Source: in.Source}
		if in.Artifact == nil {
			if in.Spec.Required && failure == nil {
				failure = record.Fail(record.ReasonMissingArtifact, fmt.Sprintf("input %s: %s did not bring it", in.Spec.Artifact, in.From))
			}
			a.rec.Inputs = append(a.rec.Inputs, use)
			continue
		}
		use.Digest = in.Artifact.Digest
		problems, schema, err := a.inputProblems(in)
		if err != nil && failure == nil {
			failure = HostFailure("checking the input "+in.Spec.Artifact, err)
		}
		use.Problems, use.Schema = problems.list, schema
		if len(problems.list) > 0 && failure == nil {
			failure = problems.failure("input "+in.Spec.Artifact, schema)
		}
		a.rec.Inputs = append(a.rec.Inputs, use)
	}
	return failure
}

func (a *attempt) inputProblems(in Input) (problems, string, error) {
	if in.Spec.Schema == "" || in.Artifact.Directory() || len(in.Artifact.Tree) != 1 {
		return problems{}, "", nil
	}
	schema, err := a.Schemas.Get(in.Spec.Schema)
	if err != nil {
		return problems{}, "", err
	}
	file := in.Artifact.Tree[0]
	if file.Bytes > maxDocumentBytes {
		return tooLarge(file.Bytes), schema.Digest, nil
	}
	data, err := a.Store.ReadAll(file.Digest, maxDocumentBytes)
	if err != nil {
		return problems{}, schema.Digest, err
	}
	list, dropped := Check(in.Spec.Kind, data, schema)
	return problems{list, dropped}, schema.Digest, nil
}

// opened is a prepared sandbox, with what goes with it.
type opened struct {
	sb      sandbox.Sandbox
	way     *way
	folders []string // to remove at the end
}

// open stages and prepares the sandbox, or takes the one that was prepared
// ahead. The caller closes the sandbox and the way, and removes the folders.
func (a *attempt) open(ctx context.Context) (*opened, *record.Failure) {
	if x := a.job.Ahead; x != nil {
		err := x.take(ctx, a.Store, a.job.Inputs)
		if err == nil {
			return &opened{x.sb, x.way, []string{x.work, x.inputs()}}, nil
		}
		clean, cancel := cleanup(ctx)
		a.leftover(x.Drop(clean))
		cancel()
		if ctx.Err() != nil {
			return nil, a.hostFailure(ctx, "preparing the sandbox", err)
		}
		// It was prepared in advance, and what happened since is nobody's fault: a
		// fresh one works, or fails for a reason of its own.
	}
	trees, paths, err := a.trees(ctx, a.job)
	if err != nil {
		return nil, a.hostFailure(ctx, "staging", err)
	}
	work := a.Folder.Path(record.WorkDir, a.job.ID)
	sb, w, err := a.prepare(ctx, a.job, work, trees, paths)
	if err != nil {
		a.leftover(sandbox.RemoveTree(work))
		return nil, a.hostFailure(ctx, "preparing the sandbox", err)
	}
	return &opened{sb, w, []string{work}}, nil
}

// prepare makes the work folder and the way to the provider, and asks the
// runtime for a sandbox.
func (r *Runner) prepare(ctx context.Context, job *Job, work string, trees, paths map[string]string) (sandbox.Sandbox, *way, error) {
	if err := os.MkdirAll(filepath.Dir(work), 0o755); err != nil {
		return nil, nil, err
	}
	if err := os.Mkdir(work, 0o755); err != nil {
		return nil, nil, err
	}
	w, err := r.wayOf(job)
	if err != nil {
		return nil, nil, err
	}
	n := job.Node
	task := sandbox.Task{
		Run: r.Run, Attempt: job.ID, Dir: work, Process: n.Process, Files: n.Files, Sandbox: n.Sandbox,
		Wall: job.Wall, OutputBytes: n.Budget.OutputBytes, OutputFiles: n.Budget.OutputFiles,
		Skill: n.Skill, InputPaths: paths, Trees: trees, Executable: r.Executable,
		ImageLabels: imageLabels(job),
	}
	w.apply(&task, job.Runtime.Mode())
	sb, err := job.Runtime.Prepare(ctx, task)
	if err != nil {
		w.close()
		return nil, nil, err
	}
	if w != nil {
		w.sb = sb
	}
	return sb, w, nil
}

// sandboxed does all that needs a sandbox, and removes it again.
func (a *attempt) sandboxed(ctx context.Context) *record.Failure {
	o, failed := a.open(ctx)
	if failed != nil {
		return failed
	}
	sb := o.sb
	a.way = o.way
	defer func() {
		for _, dir := range o.folders {
			a.leftover(sandbox.RemoveTree(dir))
		}
	}()
	n := a.job.Node
	defer func() {
		clean, cancel := cleanup(ctx)
		defer cancel()
		a.leftover(sb.Close(clean))
		a.way.close()
	}()
	unlend, err := a.lend(sb)
	if err != nil {
		return HostFailure("lending the login", err)
	}
	a.secret = a.secrets()
	var failure *record.Failure
	if n.Kind == plan.NodeCheck {
		failure = a.driveCheck(ctx, sb)
	} else {
		failure = a.drive(ctx, sb)
	}
	// A login may have been renewed meanwhile.
	a.leftover(unlend())
	a.secret = a.secrets()
	facts := sb.Facts()
	failure = a.exhausted(failure, facts.Measured)
	if err := a.recordFacts(facts); err != nil && failure == nil {
		failure = HostFailure("writing the spec", err)
	}
	if !a.rec.Dead || failure != nil && failure.Class == record.ClassCancelled {
		return failure
	}
	if n.Kind == plan.NodeCheck && len(n.Outputs) == 0 {
		return failure
	}
	return a.collect(ctx, sb.Output(), failure)
}

// imageLabels are what the image of the attempt must say of itself: a real
// agent's image the protocol and the agent's version, an image that stands for a
// tool the tool. The builtin image holds neither.
func imageLabels(job *Job) map[string]string {
	n := job.Node
	switch {
	case n.Sandbox.Mode == plan.SandboxLocal && job.Harness != nil && !job.Harness.TestStub:
		return map[string]string{sandbox.LabelHarness + job.Harness.Adapter: job.Harness.Version}
	case n.Sandbox.Image == "" || n.Sandbox.Image == plan.ImageBuiltin:
		return nil
	case n.Check != nil && n.Check.Tool != "":
		return map[string]string{sandbox.LabelTool + n.Check.Tool: ""}
	case job.Harness != nil && !job.Harness.TestStub:
		return map[string]string{
			sandbox.LabelProtocol: sandbox.Protocol, sandbox.LabelHarness + job.Harness.Adapter: job.Harness.Version,
		}
	}
	return nil
}

// budget is what the attempt may spend.
func (a *attempt) budget() plan.NodeBudget {
	if a.job.Budget != nil {
		return *a.job.Budget
	}
	return a.job.Node.Budget
}

// leftover notes what a clean-up could not remove.
func (a *attempt) leftover(err error) {
	if err != nil {
		a.out.Leftovers = append(a.out.Leftovers, text(fmt.Sprintf("%s: %v", a.job.ID, err)))
	}
}

// cleanup is a context for what must happen although ctx has ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), killTime)
}

func (a *attempt) hostFailure(ctx context.Context, what string, err error) *record.Failure {
	if ctx.Err() != nil {
		return record.Fail(record.ReasonCancelled, what+" was interrupted")
	}
	return HostFailure(what, err)
}

// HostFailure is the failure of something that the worker did not do.
func HostFailure(what string, err error) *record.Failure {
	reason := record.ReasonRuntimeError
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		reason = record.ReasonDiskFull
	case errors.Is(err, osexec.ErrNotFound):
		reason = record.ReasonToolMissing
	default:
		if _, ok := errors.AsType[*sandbox.ImageMismatch](err); ok {
			reason = record.ReasonImageMismatch
		} else if _, ok := errors.AsType[*sandbox.LimitNotEnforced](err); ok {
			reason = record.ReasonLimitNotEnforced
		} else if _, ok := errors.AsType[*sandbox.HarnessMismatch](err); ok {
			reason = record.ReasonHarnessMismatch
		}
	}
	return record.Fail(reason, text(fmt.Sprintf("%s: %v", what, err)))
}
