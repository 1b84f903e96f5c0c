package exec

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// Options is one run.
type Options struct {
	Plan      *plan.Plan
	PlanBytes []byte        // the canonical bytes of Plan: its identity
	Blobs     sandbox.Blobs // where the bytes that the plan names are

	RunDir   string // absolute; absent, or an empty folder
	Runtimes map[string]sandbox.Runtime
	Adapters map[string]harness.Adapter
	// Through is the last node to execute, with all that it needs; "" executes
	// the whole plan.
	Through    string
	Executable string // this program's file, absolute
	Version    string // this program's version

	// Observe sees every event of the journal after it was written. nil: nobody
	// looks.
	Observe func(record.Event)
	// ObserveWorker sees what a worker says, as it says it. nil: nobody looks.
	ObserveWorker func(node string, ev contract.Event)
	Now           func() time.Time // wall clock, for the record alone
	Nonce         func() string    // a-z and 0-9: makes the run's id unique
}

// maxSavedNodes is up to how many nodes run.json is written again after each:
// the journal has it all, and a large run must not cost the square of its size.
const maxSavedNodes = 256

// engine executes the commands of a Walk.
type engine struct {
	opts   Options
	walk   *Walk
	folder *record.Folder
	store  *sandbox.Store
	runner *attempt.Runner
	run    *record.Run
	nonce  string

	begun     time.Time // monotonic
	harnesses map[string]*plan.Harness
	inputs    map[string]*attempt.Artifact            // policy inputs by id
	promoted  map[string]map[string]*attempt.Artifact // node id → artifact id
	attempts  int                                     // finished
	state     State
	queue     []Command
}

// Run executes a plan. Before anything starts it verifies that it can, and
// copies all the bytes that the executed part needs into the run's own store:
// what happens to the sources afterwards changes nothing.
//
// A *Refusal leaves nothing behind. Another error means that the record could
// not be written; the run is then what is known of it, or nil. When ctx ends,
// the worker is stopped, and the run has the status cancelled; that is no
// error.
func Run(ctx context.Context, opts Options) (*record.Run, error) {
	e := &engine{opts: opts, promoted: map[string]map[string]*attempt.Artifact{}}
	if err := e.preflight(); err != nil {
		return nil, &Refusal{err}
	}
	folder, err := record.Create(opts.RunDir)
	if err != nil {
		return nil, &Refusal{err}
	}
	e.folder = folder
	if err := e.take(ctx); err != nil {
		return nil, errors.Join(err, folder.Discard())
	}
	defer folder.Close()
	err = e.loop(ctx)
	return e.run, err
}

// loop executes commands until the walk ends the run.
func (e *engine) loop(ctx context.Context) error {
	e.begun = time.Now()
	e.state = e.walk.Initial()
	e.runner.Trees = attempt.NewTrees(e.folder.Path(record.WorkDir, "trees"), e.store)
	err := e.folder.WriteRun(e.run)
	if err == nil {
		err = e.emit(record.Event{Type: record.EventRunStarted, Run: e.run.ID, Plan: e.run.Plan.Digest, Through: e.opts.Through})
	}
	for err == nil && len(e.queue) > 0 {
		c := e.queue[0]
		e.queue = e.queue[1:]
		switch {
		case c.Kind == EndRun:
			err = e.end(c)
		case ctx.Err() != nil:
			err = e.emit(record.Event{Type: record.EventCancel})
		default:
			err = e.node(ctx, c)
		}
	}
	if err != nil && e.run.Status == record.StatusRunning {
		// The record may be what fails: say it where it still can be said.
		e.run.Status, e.run.Failure = record.StatusFailed, attempt.HostFailure("the run", err)
		e.cleanUp()
		e.run.Ended = e.stamp()
		err = errors.Join(err, e.folder.WriteRun(e.run))
	}
	return err
}

func (e *engine) stamp() string { return e.opts.Now().UTC().Format(time.RFC3339Nano) }

// emit journals an event and lets the walk decide on it.
func (e *engine) emit(ev record.Event) error {
	ev.Time, ev.ElapsedMS = e.stamp(), time.Since(e.begun).Milliseconds()
	ev, err := e.folder.Append(ev)
	if err != nil {
		return err
	}
	if e.opts.Observe != nil {
		e.opts.Observe(ev)
	}
	var commands []Command
	e.state, commands, err = e.walk.Step(e.state, ev)
	e.queue = append(e.queue, commands...)
	return err
}

// node executes one attempt.
func (e *engine) node(ctx context.Context, c Command) error {
	n := &e.opts.Plan.Nodes[c.Index]
	rec := &e.run.Nodes[c.Index]
	folder := record.AttemptFolder(n.ID, c.Iteration, c.Attempt)
	rec.Status = record.StatusRunning
	rec.Attempts = append(rec.Attempts, record.AttemptRef{Iteration: c.Iteration, Attempt: c.Attempt, Folder: folder, Status: record.StatusRunning})
	if err := e.emit(record.Event{Type: record.EventNodeStarted, Node: n.ID, Iteration: c.Iteration, Attempt: c.Attempt}); err != nil {
		return err
	}
	job := &attempt.Job{
		ID:   "n" + strconv.Itoa(c.Index) + "-" + strconv.FormatInt(c.Iteration, 10) + "-" + strconv.FormatInt(c.Attempt, 10),
		Node: n, Iteration: c.Iteration, Attempt: c.Attempt,
		Harness: e.harnesses[n.Harness], Runtime: e.opts.Runtimes[n.Sandbox.Mode],
		Inputs: e.bind(n), Wall: time.Duration(c.WallSeconds) * time.Second,
	}
	job.Adapter = e.opts.Adapters[job.Harness.Adapter]
	if see := e.opts.ObserveWorker; see != nil {
		job.Observe = func(ev contract.Event) { see(n.ID, ev) }
	}
	out, err := e.runner.Do(ctx, job)
	if err != nil {
		return err
	}
	failure := out.Record.Failure
	if c.RunWall {
		failure = e.runWall(failure)
	}
	if failure == nil {
		if err := e.promote(n, out.Artifacts); err != nil {
			return err
		}
	}
	e.run.Leftovers = append(e.run.Leftovers, out.Leftovers...)
	e.account(rec, out, failure)
	ev := record.Event{Type: record.EventNodeFinished, Node: n.ID, Iteration: c.Iteration, Attempt: c.Attempt,
		Status: rec.Status, Failure: failure, Outputs: rec.Outputs, Usage: &out.Record.Usage}
	if err := e.emit(ev); err != nil {
		return err
	}
	if len(e.run.Nodes) <= maxSavedNodes {
		return e.folder.WriteRun(e.run)
	}
	return nil
}

// account writes an outcome into the node's record and into the run's totals.
func (e *engine) account(rec *record.Node, out attempt.Outcome, failure *record.Failure) {
	rec.Status, rec.Failure = record.StatusSucceeded, failure
	if failure != nil {
		rec.Status = record.StatusFailed
	}
	last := &rec.Attempts[len(rec.Attempts)-1]
	last.Status, last.Failure = rec.Status, failure
	rec.Usage = rec.Usage.Plus(out.Record.Usage)
	e.run.Usage = e.run.Usage.Plus(out.Record.Usage)
	if failure == nil {
		rec.Outputs = nil
		for _, a := range out.Artifacts {
			rec.Outputs = append(rec.Outputs, a.Artifact)
		}
	}
	// A run is isolated from its first attempt on, until one is not.
	sb := out.Record.Sandbox
	e.attempts++
	e.run.Isolated = sb != nil && sb.SecurityBoundary && (e.run.Isolated || e.attempts == 1)
}

// runWall turns a wall that the run's budget set into a failure of the run.
func (e *engine) runWall(f *record.Failure) *record.Failure {
	if f == nil || f.Reason != record.ReasonBudgetExceeded+record.DimWall {
		return f
	}
	limit := e.opts.Plan.Budget.WallSeconds
	g := record.Exceeded(record.ReasonBudgetExceeded, record.DimWall, limit, int64(time.Since(e.begun).Seconds()+0.999),
		record.SourceController, fmt.Sprintf("the run may take %d seconds", limit))
	g.Class = record.ClassWorkflow
	return g
}

// bind finds the artifacts that a node's inputs are bound to.
func (e *engine) bind(n *plan.Node) []attempt.Input {
	inputs := make([]attempt.Input, 0, len(n.Inputs))
	for _, spec := range n.Inputs {
		in := attempt.Input{Spec: spec, From: spec.From}
		class, id := source(spec.From)
		switch class {
		case fromInput:
			in.Artifact = e.inputs[id]
		case fromNode:
			in.Artifact = e.promoted[id][spec.Artifact]
		}
		inputs = append(inputs, in)
	}
	return inputs
}

// promote makes an attempt's artifacts known to later nodes and to people.
func (e *engine) promote(n *plan.Node, artifacts []attempt.Artifact) error {
	known := make(map[string]*attempt.Artifact, len(artifacts))
	for i := range artifacts {
		a := &artifacts[i]
		known[a.Artifact.Artifact] = a
		if err := e.show(n.ID, a); err != nil {
			return err
		}
	}
	e.promoted[n.ID] = known
	return nil
}

// end closes the record.
func (e *engine) end(c Command) error {
	e.run.Status, e.run.Failure = c.Status, c.Failure
	e.cleanUp()
	e.run.Ended = e.stamp()
	if err := e.emit(record.Event{Type: record.EventRunFinished, Status: c.Status, Failure: c.Failure}); err != nil {
		return err
	}
	return e.folder.WriteRun(e.run)
}

// cleanUp removes what only a living run needs.
func (e *engine) cleanUp() {
	for i := range e.run.Nodes {
		if n := &e.run.Nodes[i]; n.Status == record.StatusRunning {
			n.Status = record.StatusFailed
		}
	}
	if err := sandbox.RemoveTree(e.folder.Path(record.WorkDir)); err != nil {
		e.run.Leftovers = append(e.run.Leftovers, err.Error())
	}
}
