package exec

import (
	"fmt"
	"slices"
	"sort"

	"foundry/exec/record"
	"foundry/plan"
)

// progress of a node or a unit within a State.
type progress uint8

const (
	waiting progress = iota
	queued           // of a node: ready to start
	commanded
	running
	succeeded
	failed
	skipped
)

// State is how far a run is. Step takes it over: a state that was given to
// Step is not to be used again, as with append.
type State struct {
	nodes  []nodeState
	units  []unitState
	ready  []int // nodes to start, in the plan's order
	active int   // nodes commanded or running
	asked  int   // decisions under way

	parallel  int
	keepGoing bool
	spent     sums // what is known to be spent, and what was lost
	reserved  sums // by what is active
	begun     bool
	stop      bool // nothing starts any more
	ended     bool // EndRun was commanded
	over      bool
	failure   *record.Failure
}

// sums are those dimensions of the run's budget that add up.
type sums struct{ tokens, cost int64 }

type nodeState struct {
	at        progress
	iteration int64
	attempt   int64 // the last one of the iteration
	reserved  sums
}

type unitState struct {
	at        progress
	waits     int
	iteration int64 // of a loop
	part      int   // under way: of a loop the part, of a branch the alternative
	step      int   // of a branch: 0 the alternative, k its check k-1
	asked     bool  // its predicate is being decided
	failure   *record.Failure
	final     bool // the failure is a decision that another controller would repeat
}

// Initial is the state before the first event.
func (w *Walk) Initial() State {
	s := State{nodes: make([]nodeState, len(w.plan.Nodes)), units: make([]unitState, len(w.units)), parallel: 1}
	for u := range s.units {
		s.units[u].waits = w.waits[u]
	}
	return s
}

// Step applies one event of the journal. An event that cannot have happened in
// this state is an error: the journal is not of this plan, or was changed.
func (w *Walk) Step(s State, e record.Event) (State, []Command, error) {
	x := stepper{Walk: w, s: &s}
	err := x.event(e)
	return s, x.out, err
}

// stepper is one Step under way.
type stepper struct {
	*Walk
	s   *State
	out []Command
}

func (x *stepper) event(e record.Event) error {
	s := x.s
	switch {
	case s.over && e.Type != record.EventRunResumed:
		return fmt.Errorf("exec: %s after the end of the run", e.Type)
	case s.begun == (e.Type == record.EventRunStarted):
		return fmt.Errorf("exec: %s is out of place", e.Type)
	}
	switch e.Type {
	case record.EventRunStarted:
		s.begun = true
		s.parallel, s.keepGoing = int(max(1, e.Parallelism)), e.KeepGoing
		for u := range x.units {
			if x.selected[u] && x.waits[u] == 0 {
				x.begin(u)
			}
		}
	case record.EventRunResumed:
		s.parallel, s.keepGoing = int(max(1, e.Parallelism)), e.KeepGoing
		x.resume()
	case record.EventNodeStarted:
		i, err := x.expect(e, commanded)
		if err != nil {
			return err
		}
		s.nodes[i].at = running
	case record.EventNodeFinished:
		i, err := x.expect(e, running)
		if err != nil {
			return err
		}
		x.settle(i, e)
		x.finished(i, e)
	case record.EventDecided:
		if err := x.decided(e); err != nil {
			return err
		}
	case record.EventCancel:
		x.cancel(record.Fail(record.ReasonCancelled, "the run was interrupted"))
	case record.EventProbed:
		if e.Failure != nil {
			x.cancel(e.Failure)
		}
	case record.EventRunFinished:
		s.over = true
		return nil
	default:
		return fmt.Errorf("exec: the event %q is not known", e.Type)
	}
	x.next(e.ElapsedMS)
	return nil
}

func (x *stepper) expect(e record.Event, want progress) (int, error) {
	i, ok := x.index[e.Node]
	if !ok || !x.Selected(i) || x.s.nodes[i].at != want {
		return 0, fmt.Errorf("exec: %s of node %q is out of place", e.Type, e.Node)
	}
	return i, nil
}

// iterationOf is the iteration that a unit's nodes run in.
func (x *stepper) iterationOf(u int) int64 {
	if p := x.units[u].parent; p >= 0 {
		return x.s.units[p].iteration
	}
	return 1
}

// begin starts a unit, afresh.
func (x *stepper) begin(u int) {
	us, un := &x.s.units[u], &x.units[u]
	us.at, us.part, us.step, us.failure, us.final = running, 0, 0, nil, false
	switch un.kind {
	case nodeUnit:
		x.enqueue(un.node)
	case loopUnit:
		us.iteration = 1
		x.advance(u)
	case branchUnit:
		x.enqueue(un.alts[0].node)
	}
}

// enqueue makes a node ready to start. A check whose tool is waived proves
// nothing and keeps nobody waiting.
func (x *stepper) enqueue(i int) {
	n := &x.s.nodes[i]
	if it := x.iterationOf(x.unitOf[i]); n.iteration != it {
		n.iteration, n.attempt = it, 0
	}
	if x.unsupported[i] {
		n.at = skipped
		x.note(i, record.StatusUnsupported)
		x.proven(i)
		return
	}
	n.at = queued
	at := sort.SearchInts(x.s.ready, i)
	x.s.ready = slices.Insert(x.s.ready, at, i)
}

func (x *stepper) note(i int, status string) {
	x.out = append(x.out, Command{Kind: NoteNode, Node: x.plan.Nodes[i].ID, Index: i, Status: status})
}

func (x *stepper) finished(i int, e record.Event) {
	n := &x.plan.Nodes[i]
	if e.Status == record.StatusSucceeded {
		x.s.nodes[i].at = succeeded
		x.proven(i)
		return
	}
	x.s.nodes[i].at = failed
	f := e.Failure
	if f == nil {
		f = record.Fail(record.ReasonRuntimeError, "node "+n.ID+" failed without a reason")
	}
	if n.Check != nil && !n.Check.Blocking && f.Class != record.ClassCancelled {
		x.proven(i)
		return
	}
	u := x.unitOf[i]
	if x.units[u].kind == branchUnit && f.Class == record.ClassSkill {
		x.refuse(u, f.Reason+": "+f.Detail)
		return
	}
	x.failUnit(u, f, false)
}

// proven goes on behind a node that stops nobody.
func (x *stepper) proven(i int) {
	u := x.unitOf[i]
	if x.units[u].kind != branchUnit {
		x.doneUnit(u)
		return
	}
	us := &x.s.units[u]
	us.step++
	x.branchStep(u)
}

// branchStep runs what is next of an alternative: a check of it, or the
// decision on it.
func (x *stepper) branchStep(u int) {
	us := &x.s.units[u]
	alt := x.units[u].alts[us.part]
	if us.step <= len(alt.checks) {
		x.enqueue(alt.checks[us.step-1])
		return
	}
	x.ask(u, record.DecidedAccept)
}

// ask commands the decision of a loop or of a branch.
func (x *stepper) ask(u int, kind string) {
	us := &x.s.units[u]
	if !us.asked {
		us.asked = true
		x.s.asked++
	}
	c := Command{Kind: Decide, Decision: kind, Of: x.units[u].id, Iteration: us.iteration}
	if kind == record.DecidedAccept {
		c.Index = x.units[u].alts[us.part].node
		c.Node, c.Iteration = x.plan.Nodes[c.Index].ID, x.iterationOf(u)
	}
	x.out = append(x.out, c)
}

// advance runs the next part of a loop's body, or asks whether it ends.
func (x *stepper) advance(u int) {
	if us := &x.s.units[u]; us.part < len(x.units[u].parts) {
		x.begin(x.units[u].parts[us.part])
	} else {
		x.ask(u, record.DecidedUntil)
	}
}

func (x *stepper) doneUnit(u int) {
	us, un := &x.s.units[u], &x.units[u]
	us.at = succeeded
	if un.kind == loopUnit {
		x.out = append(x.out, Command{Kind: NoteEnded, Of: un.id, Iteration: us.iteration, Status: record.StatusSucceeded})
	}
	if un.parent >= 0 {
		x.s.units[un.parent].part++
		x.advance(un.parent)
		return
	}
	for _, d := range x.dependents[u] {
		if ds := &x.s.units[d]; ds.at == waiting {
			if ds.waits--; ds.waits == 0 {
				x.begin(d)
			}
		}
	}
}

func (x *stepper) failUnit(u int, f *record.Failure, final bool) {
	us, un := &x.s.units[u], &x.units[u]
	us.at, us.failure, us.final = failed, f, final
	if un.kind != nodeUnit {
		x.out = append(x.out, Command{Kind: NoteEnded, Of: un.id, Iteration: us.iteration, Status: record.StatusFailed, Failure: f})
	}
	if un.parent >= 0 {
		x.failUnit(un.parent, f, final)
		return
	}
	x.failRun(f, !x.s.keepGoing || f.Class == record.ClassCancelled)
}

func (x *stepper) failRun(f *record.Failure, stop bool) {
	if x.s.failure == nil {
		x.s.failure = f
	}
	x.s.stop = x.s.stop || stop
}

// refuse goes on to the next alternative, to the declared input, or to the end
// of the branch.
func (x *stepper) refuse(u int, why string) {
	us, un := &x.s.units[u], &x.units[u]
	x.tried(u, "", why)
	us.part++
	us.step = 0
	switch class, _ := source(un.branch.Otherwise); {
	case us.part < len(un.alts):
		x.enqueue(un.alts[us.part].node)
	case class == fromInput:
		x.accept(u, record.UserSupplied)
	default:
		x.failUnit(u, record.Fail(record.ReasonBranchUnaccepted,
			fmt.Sprintf("branch %s: none of its %d alternatives was accepted, and it has no input to fall back to; the last one: %s", un.id, len(un.alts), why)), true)
	}
}

// tried notes the end of an alternative; checks that were not run are skipped.
func (x *stepper) tried(u int, accepted, why string) {
	us, un := &x.s.units[u], &x.units[u]
	alt := un.alts[us.part]
	x.out = append(x.out, Command{Kind: NoteTried, Of: un.id, Node: x.plan.Nodes[alt.node].ID, Index: alt.node,
		Iteration: x.iterationOf(u), Accepted: accepted, Why: why})
	for k := max(0, us.step); k < len(alt.checks); k++ {
		x.skip(alt.checks[k])
	}
}

func (x *stepper) skip(i int) {
	x.s.nodes[i].at = skipped
	x.note(i, record.StatusSkipped)
}

// accept ends a branch well.
func (x *stepper) accept(u int, accepted string) {
	us, un := &x.s.units[u], &x.units[u]
	for a := us.part + 1; a < len(un.alts); a++ {
		x.skip(un.alts[a].node)
		for _, c := range un.alts[a].checks {
			x.skip(c)
		}
	}
	x.out = append(x.out, Command{Kind: NoteEnded, Of: un.id, Status: record.StatusSucceeded, Accepted: accepted})
	x.doneUnit(u)
}

// decided applies a decision. Those of checks are part of the check.
func (x *stepper) decided(e record.Event) error {
	d := e.Decision
	if d == nil {
		return fmt.Errorf("exec: %s without a decision is out of place", e.Type)
	}
	var u int
	ok := false
	switch d.Kind {
	case record.DecidedAssert:
		_, err := x.expect(record.Event{Type: e.Type, Node: d.Of}, running)
		return err
	case record.DecidedUntil:
		u, ok = x.loops[d.Of]
	case record.DecidedAccept:
		u, ok = x.branches[d.Of]
	}
	if !ok || !x.s.units[u].asked {
		return fmt.Errorf("exec: the decision %s of %q is out of place", d.Kind, d.Of)
	}
	x.s.units[u].asked = false
	x.s.asked--
	if d.Kind == record.DecidedUntil {
		x.until(u, e)
		return nil
	}
	switch d.Verdict {
	case record.VerdictTrue:
		x.tried(u, x.plan.Nodes[x.units[u].alts[x.s.units[u].part].node].ID, d.Line)
		x.accept(u, x.plan.Nodes[x.units[u].alts[x.s.units[u].part].node].ID)
	case record.VerdictError:
		x.refuse(u, record.ReasonPredicateError+": "+d.Line)
	default:
		x.refuse(u, d.Line)
	}
	return nil
}

// until ends a loop, or begins its next iteration.
func (x *stepper) until(u int, e record.Event) {
	us, un := &x.s.units[u], &x.units[u]
	limit := un.loop.MaxIterations
	switch {
	case e.Decision.Verdict == record.VerdictError:
		f := e.Failure
		if f == nil {
			f = record.Fail(record.ReasonPredicateError, "loop "+un.id+": "+e.Decision.Line)
			f.Class = record.ClassWorkflow
		}
		x.failUnit(u, f, true)
	case e.Decision.Verdict == record.VerdictTrue && e.Failure != nil:
		x.failUnit(u, e.Failure, false)
	case e.Decision.Verdict == record.VerdictTrue:
		x.doneUnit(u)
	case us.iteration >= limit:
		f := record.Fail(record.ReasonLoopExhausted, fmt.Sprintf("loop %s: %d iterations are its bound, and its predicate does not hold after the last: %s", un.id, limit, e.Decision.Line))
		f.Limit, f.Observed, f.Overshoot, f.Source = record.Known(limit), record.Known(us.iteration), record.Known(0), record.SourceController
		x.failUnit(u, f, true)
	default:
		us.iteration++
		us.part = 0
		x.advance(u)
	}
}

// cancel stops the run and takes back what was commanded and has not started.
func (x *stepper) cancel(f *record.Failure) {
	x.failRun(f, true)
	for i := range x.s.nodes {
		if x.s.nodes[i].at == commanded {
			x.withdraw(i)
		}
	}
}

func (x *stepper) withdraw(i int) {
	n := &x.s.nodes[i]
	n.attempt--
	x.s.active--
	x.release(i)
	x.enqueue(i)
}

// next commands what may start now, and the end of the run when nothing is
// under way and nothing may start.
func (x *stepper) next(elapsedMS int64) {
	s := x.s
	for !s.ended && !s.stop && len(s.ready) > 0 && s.active < s.parallel {
		i := s.ready[0]
		c, f := x.reserve(i, elapsedMS)
		if f != nil {
			if s.active == 0 {
				x.failRun(f, true)
			}
			break // what is active may give something back
		}
		s.ready = s.ready[1:]
		n := &s.nodes[i]
		n.at = commanded
		n.attempt++
		s.active++
		c.Kind, c.Node, c.Index, c.Iteration, c.Attempt = StartNode, x.plan.Nodes[i].ID, i, n.iteration, n.attempt
		x.out = append(x.out, c)
	}
	if s.ended || s.active > 0 || s.asked > 0 || len(s.ready) > 0 && !s.stop {
		return
	}
	s.ended = true
	end := Command{Kind: EndRun, Status: record.StatusSucceeded, Failure: s.failure}
	switch {
	case s.failure != nil && s.failure.Class == record.ClassCancelled:
		end.Status = record.StatusCancelled
	case s.failure != nil:
		end.Status = record.StatusFailed
	}
	x.out = append(x.out, end)
}

func (x *stepper) agent(i int) bool { return x.plan.Nodes[i].Kind != plan.NodeCheck }
