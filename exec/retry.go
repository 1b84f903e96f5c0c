package exec

import (
	"slices"

	"foundry/exec/record"
)

// resume goes on where the last controller left the run. What was under way
// starts afresh, and what it held counts as spent; a decision that was asked
// for is asked for again; of what failed only that is tried again which
// stopped the run, and no decision is reversed.
func (x *stepper) resume() {
	s := x.s
	s.over, s.ended, s.stop, s.failure = false, false, false, nil
	for i := range s.nodes {
		switch s.nodes[i].at {
		case commanded:
			x.withdraw(i)
		case running:
			s.active--
			x.lose(i)
			x.enqueue(i)
		}
	}
	for u := range x.units {
		us := &s.units[u]
		if us.asked {
			kind := record.DecidedUntil
			if x.units[u].kind == branchUnit {
				kind = record.DecidedAccept
			}
			x.ask(u, kind)
		}
		if x.units[u].parent < 0 && us.at == failed {
			x.retry(u)
		}
	}
}

func (x *stepper) retry(u int) {
	us, un := &x.s.units[u], &x.units[u]
	if us.final {
		x.failRun(us.failure, !x.s.keepGoing)
		return
	}
	f := us.failure
	us.at, us.failure = running, nil
	switch un.kind {
	case nodeUnit:
		x.retryNode(u, f)
	case branchUnit:
		alt := un.alts[us.part]
		if us.step == 0 {
			x.enqueue(alt.node)
		} else {
			x.enqueue(alt.checks[us.step-1])
		}
	case loopUnit:
		x.retryBody(u, f)
	}
}

// retryNode runs a node again. A check that ran and does not hold fails the
// step that it proves: that one, and all its checks, are what runs again.
func (x *stepper) retryNode(u int, f *record.Failure) {
	n := &x.plan.Nodes[x.units[u].node]
	of := -1
	if n.Check != nil && !x.gates[x.units[u].node] && f.Reason == record.ReasonCheckFailed {
		of = x.meant(x.units[u].node, n.Check.Of)
	}
	if of < 0 || x.units[of].kind != nodeUnit || x.s.units[of].at != succeeded {
		x.enqueue(x.units[u].node)
		return
	}
	x.reopen(of)
	for _, c := range x.dependents[of] {
		k := x.plan.Nodes[x.units[c].node].Check
		if x.units[c].kind != nodeUnit || k == nil || k.Of != n.Check.Of || x.s.units[c].at == waiting {
			continue
		}
		if x.s.units[c].at == succeeded {
			x.reopen(c)
		}
		if at := slices.Index(x.s.ready, x.units[c].node); at >= 0 {
			x.s.ready = slices.Delete(x.s.ready, at, at+1)
		}
		x.s.units[c].at, x.s.units[c].waits = waiting, 1 // its other needs were met when it ran
	}
	x.begin(of)
}

// reopen makes those wait again that waited for a unit.
func (x *stepper) reopen(u int) {
	x.s.units[u].at = waiting
	for _, d := range x.dependents[u] {
		if x.s.units[d].at == waiting {
			x.s.units[d].waits++
		}
	}
}

// retryBody goes on within an iteration: at the part that failed, or at the
// step that a failed check of the body proves. An iteration whose predicate
// held without an output that is then required runs again whole.
func (x *stepper) retryBody(u int, f *record.Failure) {
	us, un := &x.s.units[u], &x.units[u]
	if us.part >= len(un.parts) {
		us.part = 0
		x.begin(un.parts[0])
		return
	}
	part := un.parts[us.part]
	p := &x.units[part]
	if p.kind != nodeUnit || x.gates[p.node] || f.Reason != record.ReasonCheckFailed || x.plan.Nodes[p.node].Check == nil {
		x.retry(part)
		return
	}
	owner := 0
	for k := range us.part {
		if x.units[un.parts[k]].id == x.plan.Nodes[p.node].Check.Of {
			owner = k
		}
	}
	us.part = owner
	x.begin(un.parts[owner])
}
