package exec

import (
	"fmt"

	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/plan"
)

// version is what a node came to in one iteration.
type version struct {
	iteration int64 // 0: none
	artifacts map[string]*attempt.Artifact
	check     *record.CheckResult
	worker    string
}

// history is what a loop may still need of a node: carried artifacts are those
// of the iteration before.
type history struct{ last, before version }

// at is the version of an iteration, nil if there is none.
func (h *history) at(iteration int64) *version {
	for _, v := range []*version{&h.last, &h.before} {
		if v.iteration == iteration && iteration > 0 {
			return v
		}
	}
	return nil
}

// fold brings an event into the record. The journal alone makes the record, so
// that a resumed run has the one of an undisturbed run.
func (e *engine) fold(ev record.Event) error {
	i, known := e.walk.index[ev.Node]
	switch ev.Type {
	case record.EventRunStarted:
		e.run.ID, e.run.Started = ev.Run, ev.Time
	case record.EventRunResumed:
		e.foldResumed()
	case record.EventNodeStarted:
		if known {
			e.foldStarted(i, ev)
		}
	case record.EventNodeFinished:
		if known {
			return e.foldFinished(i, ev)
		}
	case record.EventDecided:
		if ev.Decision != nil && ev.Decision.Kind == record.DecidedUntil {
			if l := e.loopRecord(ev.Decision.Of); l != nil {
				l.Decided = ev.Decision.Line
			}
		}
	case record.EventProbed:
		for i := range e.run.Probes {
			if ev.Probe != nil && e.run.Probes[i].Tool == ev.Probe.Tool {
				e.run.Probes[i] = *ev.Probe
			}
		}
	case record.EventRunFinished:
		e.run.Status, e.run.Failure, e.run.Ended = ev.Status, ev.Failure, ev.Time
	}
	return nil
}

func (e *engine) foldResumed() {
	e.run.Resumed++
	e.run.Status, e.run.Failure, e.run.Ended = record.StatusRunning, nil, ""
	for i := range e.run.Nodes {
		n := &e.run.Nodes[i]
		for k := range n.Attempts {
			a := &n.Attempts[k]
			if a.Status != record.StatusRunning {
				continue
			}
			a.Status = record.StatusFailed
			a.Failure = record.Fail(record.ReasonCancelled, "the controller was ended meanwhile; what the attempt had reserved counts as spent")
			lost := record.NoUsage()
			lost.Tokens, lost.CostMicroUSD, lost.Partial = record.Unknown, record.Unknown, true
			if e.opts.Plan.Nodes[i].Kind == plan.NodeCheck {
				lost = record.NoUsage()
			}
			n.Status, n.Failure = record.StatusNotReached, nil
			n.Usage, e.run.Usage = n.Usage.Plus(lost), e.run.Usage.Plus(lost)
		}
	}
}

func (e *engine) foldStarted(i int, ev record.Event) {
	n := &e.run.Nodes[i]
	n.Status, n.Failure = record.StatusRunning, nil
	n.Attempts = append(n.Attempts, record.AttemptRef{Iteration: ev.Iteration, Attempt: ev.Attempt,
		Folder: record.AttemptFolder(n.ID, ev.Iteration, ev.Attempt), Status: record.StatusRunning})
	if l := e.walk.loopOf[i]; l >= 0 {
		rec := &e.run.Loops[l]
		rec.Status, rec.Iterations, rec.Failure = record.StatusRunning, max(rec.Iterations, ev.Iteration), nil
	}
	if u := &e.walk.units[e.walk.unitOf[i]]; u.kind == branchUnit {
		b := e.branchRecord(u.id)
		b.Status, b.Accepted, b.Failure = record.StatusRunning, "", nil
	}
}

func (e *engine) foldFinished(i int, ev record.Event) error {
	n := &e.run.Nodes[i]
	n.Status, n.Failure, n.Check = ev.Status, ev.Failure, ev.Check
	for k := len(n.Attempts) - 1; k >= 0; k-- {
		if a := &n.Attempts[k]; a.Iteration == ev.Iteration && a.Attempt == ev.Attempt {
			a.Status, a.Failure = ev.Status, ev.Failure
			break
		}
	}
	if ev.Usage != nil {
		n.Usage, e.run.Usage = n.Usage.Plus(*ev.Usage), e.run.Usage.Plus(*ev.Usage)
	}
	// A run is isolated from its first attempt on, until one is not.
	e.attempts++
	e.run.Isolated = ev.Boundary && (e.run.Isolated || e.attempts == 1)
	if c := e.opts.Plan.Nodes[i].Check; c != nil && c.Blocking && !e.walk.gates[i] && ev.Failure != nil && ev.Failure.Reason == record.ReasonCheckFailed {
		if of, ok := e.walk.index[c.Of]; ok {
			e.run.Nodes[of].Status, e.run.Nodes[of].Failure = record.StatusFailed, ev.Failure
		}
	}
	if ev.Status != record.StatusSucceeded && ev.Check == nil {
		return nil
	}
	n.Outputs = ev.Outputs
	v := version{iteration: ev.Iteration, artifacts: map[string]*attempt.Artifact{}, check: ev.Check, worker: ev.Worker}
	for _, a := range ev.Outputs {
		art, err := attempt.ArtifactOf(e.store, a)
		if err != nil {
			return fmt.Errorf("exec: node %s: artifact %s: %w", ev.Node, a.Artifact, err)
		}
		v.artifacts[a.Artifact] = art
	}
	h := &e.made[i]
	if h.last.iteration != ev.Iteration {
		h.before = h.last
	}
	h.last = v
	return nil
}

// noted brings what the walk says beside its orders into the record.
func (e *engine) noted(c Command) {
	switch c.Kind {
	case NoteNode:
		e.run.Nodes[c.Index].Status = c.Status
	case NoteTried:
		b := e.branchRecord(c.Of)
		b.Tried = append(b.Tried, record.Tried{Node: c.Node, Iteration: c.Iteration, Accepted: c.Accepted != "", Why: c.Why})
		if n := &e.run.Nodes[c.Index]; c.Accepted == "" && n.Status == record.StatusSucceeded {
			n.Status = record.StatusNotAccepted
		}
	case NoteEnded:
		if l := e.loopRecord(c.Of); l != nil && c.Iteration > 0 {
			l.Status, l.Failure = c.Status, c.Failure
		} else if b := e.branchRecord(c.Of); b != nil {
			b.Status, b.Accepted, b.Failure = c.Status, c.Accepted, c.Failure
			e.accepted[c.Of] = c.Accepted
		}
	}
}

func (e *engine) loopRecord(id string) *record.Loop {
	for l := range e.run.Loops {
		if e.run.Loops[l].ID == id {
			return &e.run.Loops[l]
		}
	}
	return nil
}

func (e *engine) branchRecord(id string) *record.Branch {
	for b := range e.run.Branches {
		if e.run.Branches[b].ID == id {
			return &e.run.Branches[b]
		}
	}
	return nil
}

// bind finds the artifacts that a node's inputs are bound to in an iteration.
func (e *engine) bind(i int, iteration int64) []attempt.Input {
	n := &e.opts.Plan.Nodes[i]
	inputs := make([]attempt.Input, 0, len(n.Inputs))
	for _, spec := range n.Inputs {
		in := attempt.Input{Spec: spec, From: spec.From}
		if spec.CarriedFrom != "" && iteration > 1 {
			in.From, in.Source = fromNode+":"+spec.CarriedFrom, fmt.Sprintf("iteration %d", iteration-1)
			if v := e.made[e.walk.index[spec.CarriedFrom]].at(iteration - 1); v != nil {
				in.Artifact = v.artifacts[spec.Artifact]
			}
			inputs = append(inputs, in)
			continue
		}
		switch class, id := source(spec.From); class {
		case fromInput:
			in.Artifact = e.inputs[id]
		case fromNode:
			in.Artifact = e.artifact(e.walk.index[id], spec.Artifact, i, iteration)
		case fromBranch:
			if in.Source = e.accepted[id]; in.Source == record.UserSupplied {
				_, input := source(e.walk.units[e.walk.branches[id]].branch.Otherwise)
				in.Artifact = e.inputs[input]
			} else if k, ok := e.walk.index[in.Source]; ok {
				in.Artifact = e.artifact(k, spec.Artifact, i, iteration)
				in.Source = fromNode + ":" + in.Source
			}
		}
		inputs = append(inputs, in)
	}
	return inputs
}

// artifact is what node k made, as node i sees it: within one loop that of the
// same iteration, else the last one.
func (e *engine) artifact(k int, name string, i int, iteration int64) *attempt.Artifact {
	v := &e.made[k].last
	if l := e.walk.loopOf[k]; l >= 0 && l == e.walk.loopOf[i] {
		v = e.made[k].at(iteration)
	}
	if v == nil {
		return nil
	}
	return v.artifacts[name]
}
