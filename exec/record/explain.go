package record

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"foundry/plan"
)

// Explanation is all that a record says of why a step went as it went.
type Explanation struct {
	ID        string
	Node      *Node   // nil: there is no node of the id
	Loop      *Loop   // the loop of the id, or the one that the node stands in
	Branch    *Branch // the branch of the id, or the one that the node is an alternative of
	Checks    []Node  // that prove it
	Attempts  []Event // of the node: node_started, node_finished
	Decisions []Event // decided: of the loop, the branch, the node and its checks, in order
}

// Explain reads the record of a run alone: plan, journal and run.json. The id
// is that of a node, a loop or a branch.
func Explain(dir, id string) (*Explanation, error) {
	run, err := ReadRun(dir)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, fmt.Errorf("record: no plan there: %w", err)
	}
	p, err := plan.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("record: %s: %w", PlanFile, err)
	}
	events, err := ReadEvents(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, err
	}
	x := &Explanation{ID: id}
	of := map[string]bool{} // whose decisions count
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.ID == id {
			x.Node = find(run.Nodes, func(r Node) bool { return r.ID == id })
		}
		if n.ID == id || n.Check != nil && n.Check.Of == id {
			of[n.ID] = true
		}
		if n.Check != nil && n.Check.Of == id {
			if c := find(run.Nodes, func(r Node) bool { return r.ID == n.ID }); c != nil {
				x.Checks = append(x.Checks, *c)
			}
		}
	}
	for _, l := range p.Loops {
		if l.ID == id || slices.Contains(l.Body, id) {
			of[l.ID] = true
			x.Loop = find(run.Loops, func(r Loop) bool { return r.ID == l.ID })
		}
	}
	for _, b := range p.Branches {
		if b.ID == id || slices.Contains(b.Alternatives, id) {
			of[b.ID] = true
			x.Branch = find(run.Branches, func(r Branch) bool { return r.ID == b.ID })
		}
	}
	if x.Node == nil && x.Loop == nil && x.Branch == nil {
		return nil, fmt.Errorf("record: the run has no node, loop or branch %q", id)
	}
	for _, e := range events {
		switch {
		case e.Type == EventDecided && e.Decision != nil && of[e.Decision.Of]:
			x.Decisions = append(x.Decisions, e)
		case e.Node == id && (e.Type == EventNodeStarted || e.Type == EventNodeFinished):
			x.Attempts = append(x.Attempts, e)
		}
	}
	return x, nil
}

func find[T any](list []T, is func(T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return &list[i]
	}
	return nil
}
