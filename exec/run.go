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
	// Through is the last step to execute, with all that it needs: a node, a
	// loop or a branch; "" executes the whole plan.
	Through string
	// Resume goes on with the run in RunDir, which must be of the same plan.
	// Through is then the run's own, and need not be given again.
	Resume bool
	// Parallelism is how many nodes run side by side where their needs allow it;
	// 0 is 1.
	Parallelism int
	// Probes runs the plan's availability probes before the first node, and fails
	// the run (tool_missing) where one fails. Else they are recorded as not run.
	Probes bool
	// KeepGoing runs what does not need a step that failed.
	KeepGoing bool
	// Credential gives the value of a credential by its name, to the broker alone.
	Credential func(name string) (string, error)
	// Logins are the files of the logins that agents keep themselves, absolute, by
	// the labels that the plan has for them. A local run lends them, past the
	// broker.
	Logins     map[string]string
	Executable string // this program's file, absolute
	Version    string // this program's version

	// Observe sees every event of the journal after it was written, in order.
	// nil: nobody looks.
	Observe func(record.Event)
	// ObserveWorker sees what a worker says, as it says it, from several
	// goroutines. nil: nobody looks.
	ObserveWorker func(node string, ev contract.Event)
	// Now is the wall clock, for the record and for what a killed controller took;
	// it is read from several goroutines.
	Now   func() time.Time
	Nonce func() string // a-z and 0-9: makes the run's id unique
}

// engine executes the commands of a Walk. All its fields belong to the
// goroutine of Run; attempts run beside it and report to results.
type engine struct {
	opts   Options
	walk   *Walk
	folder *record.Folder
	store  *sandbox.Store
	runner *attempt.Runner
	run    *record.Run
	nonce  string

	begun     time.Time     // of this controller, monotonic
	before    time.Duration // that earlier controllers worked
	harnesses map[string]*plan.Harness
	inputs    map[string]*attempt.Artifact // policy inputs by id
	made      []history                    // by node
	accepted  map[string]string            // branch → what it ended with
	attempts  int                          // finished
	unsaved   int                          // changes since run.json was written
	brokered  bool                         // some node has its provider
	state     State
	queue     []Command
	active    int // attempts under way
	cancelled bool
	withdrawn bool // the walk took its commands back
	results   chan result
	ahead     *attempt.Ahead // the sandbox of the node that probably comes next
}

// result is an attempt that ended.
type result struct {
	command  Command
	out      attempt.Outcome
	decision *record.Decision // of a check
	failure  *record.Failure
	err      error
}

// Run executes a plan. Before anything starts it verifies that it can, and
// copies all the bytes that the executed part needs into the run's own store:
// what happens to the sources afterwards changes nothing.
//
// A *Refusal leaves nothing behind, and of a run that was to be resumed
// everything as it was. Another error means that the record could not be
// written; the run is then what is known of it, or nil. When ctx ends, the
// workers are stopped, and the run has the status cancelled; that is no error.
func Run(ctx context.Context, opts Options) (*record.Run, error) {
	e := &engine{opts: opts, accepted: map[string]string{}, results: make(chan result)}
	if opts.Resume {
		return e.resume(ctx)
	}
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
	return e.run, e.start(ctx)
}

// start begins a run that has no journal.
func (e *engine) start(ctx context.Context) error {
	e.begun = time.Now()
	if err := e.folder.WriteRun(e.run); err != nil {
		return e.broken(err)
	}
	return e.loop(ctx, record.Event{Type: record.EventRunStarted, Run: e.run.ID, Plan: e.run.Plan.Digest, Program: e.run.Program.Digest, Through: e.opts.Through,
		Parallelism: int64(max(1, e.opts.Parallelism)), KeepGoing: e.opts.KeepGoing})
}

// loop journals the first event and executes commands until the walk ends the
// run. When the journal fails, the attempts under way are stopped.
func (e *engine) loop(ctx context.Context, first record.Event) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	err := e.emit(first)
	if err == nil && e.opts.Probes {
		err = e.probe(inner)
	}
	for err == nil && e.run.Ended == "" {
		err = e.turn(ctx, inner)
	}
	if err == nil {
		return nil
	}
	stop()
	for ; e.active > 0; e.active-- {
		r := <-e.results
		e.run.Leftovers = append(e.run.Leftovers, r.out.Leftovers...)
	}
	return e.broken(err)
}

// turn does the next thing: a command, or what the outside brings.
func (e *engine) turn(ctx, inner context.Context) error {
	interrupted := ctx.Done()
	if len(e.queue) > 0 && e.queue[0].Kind == EndRun {
		return e.end(e.queue[0])
	}
	if e.cancelled {
		interrupted = nil
	} else if ctx.Err() != nil {
		e.cancelled, e.withdrawn = true, true
		return e.emit(record.Event{Type: record.EventCancel})
	}
	if len(e.queue) > 0 {
		c := e.queue[0]
		e.queue = e.queue[1:]
		switch {
		case c.Kind == Decide:
			return e.emit(e.decide(c))
		case e.withdrawn:
			return nil
		}
		return e.launch(inner, c)
	}
	select {
	case r := <-e.results:
		e.active--
		return e.finish(r)
	case <-interrupted:
		return nil
	}
}

// broken says in the record, where that still can be said, that the record
// failed.
func (e *engine) broken(err error) error {
	e.run.Status, e.run.Failure = record.StatusFailed, attempt.HostFailure("the run", err)
	e.cleanUp()
	e.run.Ended = e.stamp()
	return errors.Join(err, e.folder.WriteRun(e.run))
}

func (e *engine) stamp() string { return e.opts.Now().UTC().Format(time.RFC3339Nano) }

func (e *engine) elapsed() time.Duration { return e.before + time.Since(e.begun) }

// emit journals an event and lets the walk decide on it.
func (e *engine) emit(ev record.Event) error {
	ev.Time, ev.ElapsedMS = e.stamp(), e.elapsed().Milliseconds()
	ev, err := e.folder.Append(ev)
	if err != nil {
		return err
	}
	if e.opts.Observe != nil {
		e.opts.Observe(ev)
	}
	return e.apply(ev)
}

// apply takes an event of the journal, a new one or an old one, into the
// record and into the walk.
func (e *engine) apply(ev record.Event) error {
	if err := e.fold(ev); err != nil {
		return err
	}
	state, commands, err := e.walk.Step(e.state, ev)
	if err != nil {
		return err
	}
	e.state = state
	for _, c := range commands {
		switch c.Kind {
		case StartNode, Decide, EndRun:
			e.queue = append(e.queue, c)
		default:
			e.noted(c)
		}
	}
	return nil
}

// launch starts one attempt beside this goroutine.
func (e *engine) launch(ctx context.Context, c Command) error {
	n := &e.opts.Plan.Nodes[c.Index]
	if err := e.emit(record.Event{Type: record.EventNodeStarted, Node: n.ID, Iteration: c.Iteration, Attempt: c.Attempt, Reserved: &c.Reserved}); err != nil {
		return err
	}
	budget := n.Budget
	budget.WallSeconds, budget.Tokens, budget.CostMicroUSD = c.Reserved.WallSeconds, c.Reserved.Tokens, c.Reserved.CostMicroUSD
	if n.Kind == plan.NodeCheck {
		budget.Tokens, budget.CostMicroUSD = 0, 0
	}
	job := e.job(c, &budget)
	if x := e.ahead; x != nil {
		e.ahead = nil
		if x.ID() == job.ID {
			job.Ahead = x
		} else {
			e.drop(x)
		}
	}
	looped := e.walk.loopOf[c.Index] >= 0
	e.active++
	go func() { e.results <- e.attempt(ctx, c, job, looped) }()
	e.foresee(ctx, c.Index)
	return nil
}

// job is what an attempt of a command gets.
func (e *engine) job(c Command, budget *plan.NodeBudget) *attempt.Job {
	n := &e.opts.Plan.Nodes[c.Index]
	job := &attempt.Job{
		ID:   "n" + strconv.Itoa(c.Index) + "-" + strconv.FormatInt(c.Iteration, 10) + "-" + strconv.FormatInt(c.Attempt, 10),
		Node: n, Iteration: c.Iteration, Attempt: c.Attempt, Budget: budget, Unknown: e.opts.Plan.Budget.Unknown,
		Harness: e.harnesses[n.Harness], Runtime: e.opts.Runtimes[n.Sandbox.Mode],
		Inputs: e.bind(c.Index, c.Iteration), Wall: time.Duration(c.Reserved.WallSeconds) * time.Second,
	}
	if job.Harness != nil {
		job.Adapter, job.Model = e.opts.Adapters[job.Harness.Adapter], e.model(job.Harness)
	}
	if see := e.opts.ObserveWorker; see != nil {
		job.Observe = func(ev contract.Event) { see(n.ID, ev) }
	}
	return job
}

// foresee prepares the sandbox of the node that stands after node i, while that
// one runs, where one node runs at a time: what comes next is a guess, and a
// wrong one is dropped. No decision depends on it, and nothing is journaled.
func (e *engine) foresee(ctx context.Context, i int) {
	next := i + 1
	if e.opts.Parallelism > 1 || next >= len(e.opts.Plan.Nodes) || !e.walk.Selected(next) || e.walk.unsupported[next] ||
		e.walk.loopOf[next] >= 0 || e.walk.units[e.walk.unitOf[next]].kind != nodeUnit || len(e.run.Nodes[next].Attempts) > 0 {
		return
	}
	n := &e.opts.Plan.Nodes[next]
	if !attempt.Foreseeable(n, e.opts.Runtimes[n.Sandbox.Mode]) {
		return
	}
	c := Command{Index: next, Iteration: 1, Attempt: 1, Reserved: record.Reservation{WallSeconds: n.Budget.WallSeconds}}
	e.ahead = e.runner.Prepare(ctx, e.job(c, nil))
}

// drop removes what was prepared for nothing.
func (e *engine) drop(x *attempt.Ahead) {
	ctx, cancel := context.WithTimeout(context.Background(), dropTime)
	defer cancel()
	if err := x.Drop(ctx); err != nil {
		e.run.Leftovers = append(e.run.Leftovers, err.Error())
	}
}

// dropTime bounds the removal of a sandbox that was prepared for nothing.
const dropTime = 30 * time.Second

// attempt runs beside the goroutine of Run: it uses what does not change.
func (e *engine) attempt(ctx context.Context, c Command, job *attempt.Job, looped bool) result {
	r := result{command: c}
	if r.out, r.err = e.runner.Do(ctx, job); r.err != nil {
		return r
	}
	r.failure = r.out.Record.Failure
	if r.failure == nil && job.Node.Kind == plan.NodeCheck {
		r.decision, r.failure = e.assert(job, r.out.Record.Check, looped)
	}
	if r.out.Record.Failure == nil {
		r.err = e.show(job, r.out.Artifacts)
	}
	return r
}

// finish journals how an attempt ended.
func (e *engine) finish(r result) error {
	if r.err != nil {
		return r.err
	}
	c, rec := r.command, r.out.Record
	e.run.Leftovers = append(e.run.Leftovers, r.out.Leftovers...)
	if r.decision != nil {
		if err := e.emit(record.Event{Type: record.EventDecided, Node: c.Node, Iteration: c.Iteration, Attempt: c.Attempt, Decision: r.decision}); err != nil {
			return err
		}
	}
	ev := record.Event{Type: record.EventNodeFinished, Node: c.Node, Iteration: c.Iteration, Attempt: c.Attempt,
		Status: record.StatusSucceeded, Failure: e.runLimit(c, r.failure), Usage: &rec.Usage, Worker: rec.Worker.Status, Check: rec.Check,
		Boundary: rec.Sandbox != nil && rec.Sandbox.SecurityBoundary}
	if ev.Failure != nil {
		ev.Status = record.StatusFailed
	}
	for i := range r.out.Artifacts {
		ev.Outputs = append(ev.Outputs, r.out.Artifacts[i].Artifact)
	}
	if err := e.emit(ev); err != nil {
		return err
	}
	return e.save()
}

// runLimit turns a limit that the run's budget set into a failure of the run.
func (e *engine) runLimit(c Command, f *record.Failure) *record.Failure {
	if f == nil {
		return nil
	}
	b := e.opts.Plan.Budget
	var limit, held int64
	switch {
	case c.RunWall && f.Reason == record.ReasonBudgetExceeded+record.DimWall:
		limit, held = b.WallSeconds, c.Reserved.WallSeconds
	case c.RunTokens && f.Reason == record.ReasonBudgetExceeded+record.DimTokens:
		limit, held = b.Tokens, c.Reserved.Tokens
	case c.RunCost && f.Reason == record.ReasonBudgetExceeded+record.DimCost:
		limit, held = b.CostMicroUSD, c.Reserved.CostMicroUSD
	default:
		return f
	}
	g := *f
	g.Class, g.Limit = record.ClassWorkflow, record.Known(limit)
	g.Detail = fmt.Sprintf("the run's budget is %d, and %d were left for node %s: %s", limit, held, c.Node, f.Detail)
	if n, ok := f.Observed.Value(); ok {
		g.Observed = record.Known(add(limit-held, n))
	}
	return &g
}

// model is the plan's entry for a harness's model, nil for none.
func (e *engine) model(h *plan.Harness) *plan.Model {
	for i := range e.opts.Plan.Providers {
		p := &e.opts.Plan.Providers[i]
		for k := range p.Models {
			if p.Name == h.Provider && p.Models[k].ID == h.Model {
				return &p.Models[k]
			}
		}
	}
	return nil
}

// saveAll is up to how many nodes and attempts run.json is written after each
// attempt; then only when an eighth more has changed: the journal has it all,
// and a large run must not cost the square of its size.
const saveAll = 256

func (e *engine) save() error {
	e.unsaved++
	if size := len(e.run.Nodes) + e.attempts; size > saveAll && e.unsaved < size/8 {
		return nil
	}
	e.unsaved = 0
	return e.folder.WriteRun(e.run)
}

// end closes the record.
func (e *engine) end(c Command) error {
	e.cleanUp()
	if err := e.emit(record.Event{Type: record.EventRunFinished, Status: c.Status, Failure: c.Failure}); err != nil {
		return err
	}
	return e.folder.WriteRun(e.run)
}

// cleanUp removes what only a living run needs.
func (e *engine) cleanUp() {
	if x := e.ahead; x != nil {
		e.ahead = nil
		e.drop(x)
	}
	for i := range e.run.Nodes {
		if n := &e.run.Nodes[i]; n.Status == record.StatusRunning {
			n.Status = record.StatusFailed
		}
	}
	if e.runner != nil && e.runner.Broker != nil {
		if err := e.runner.Broker.Close(); err != nil {
			e.run.Leftovers = append(e.run.Leftovers, err.Error())
		}
	}
	if err := sandbox.RemoveTree(e.folder.Path(record.WorkDir)); err != nil {
		e.run.Leftovers = append(e.run.Leftovers, err.Error())
	}
}
