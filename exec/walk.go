package exec

import (
	"fmt"
	"slices"

	"foundry/exec/record"
	"foundry/plan"
)

// Walk is a plan as the reducer sees it: the steps to execute and their edges.
// It does not change.
//
// The steps are units: a node, a loop with its body, a branch with its
// alternatives and their checks. Units outside of loops wait for each other
// along their edges; those of a loop's body run one after the other.
type Walk struct {
	plan        *plan.Plan
	units       []unit
	unitOf      []int // node index → the unit that runs it
	loopOf      []int // node index → index of its loop, -1
	index       map[string]int
	loops       map[string]int // id → unit
	branches    map[string]int
	selected    []bool  // by unit outside of loops
	dependents  [][]int // by unit: the selected ones that need it, in the plan's order
	waits       []int   // by unit: how many it needs
	unsupported []bool  // by node: a check whose tool is waived
	gates       []bool  // by node: a check that runs before what it belongs to
	harnesses   map[string]*plan.Harness
}

// Kinds of unit.
const (
	nodeUnit uint8 = iota
	loopUnit
	branchUnit
)

type unit struct {
	kind   uint8
	id     string
	node   int           // of a node
	loop   *plan.Loop    // of a loop
	parts  []int         // of a loop: the units of its body, in order
	branch *plan.Branch  // of a branch
	alts   []alternative // of a branch
	parent int           // the loop that it stands in, -1
}

type alternative struct {
	node   int
	checks []int // nodes that prove it, in order
}

// Kinds of Command. The last three are no orders: they say what the events
// before came to.
const (
	StartNode = "start_node"
	Decide    = "decide" // evaluate a predicate and journal the decision
	EndRun    = "end_run"
	NoteEnded = "note_ended" // a loop or a branch ended
	NoteTried = "note_tried" // an alternative was accepted or not
	NoteNode  = "note_node"  // a node has a Status without an attempt
)

// Command is what the engine has to do next.
type Command struct {
	Kind      string
	Node      string // id, where it is about a node
	Index     int    // of the node in the plan
	Iteration int64
	Attempt   int64
	Reserved  record.Reservation // of StartNode: bounds the attempt
	// RunWall, RunTokens and RunCost say that the bound is what the run's budget
	// has left, less than the node's own.
	RunWall, RunTokens, RunCost bool

	Decision string // of Decide: record.DecidedUntil or DecidedAccept
	Of       string // loop or branch, of Decide, NoteEnded and NoteTried
	Accepted string // of NoteEnded: the alternative, or record.UserSupplied; of NoteTried: "" if not
	Why      string // of NoteTried
	Status   string // of EndRun, NoteEnded and NoteNode
	Failure  *record.Failure
}

// Unsupported is the error of NewWalk for a plan whose executed part holds
// something that this program does not execute.
type Unsupported struct {
	Node string
	Kind string
}

func (e *Unsupported) Error() string {
	return fmt.Sprintf("exec: %s is a %s, and this version does not execute one: stop before it with --through NODE", e.Node, e.Kind)
}

// NewWalk takes the nodes of p, or, if through is not empty, that node, loop or
// branch, all it needs, and the checks of all these.
func NewWalk(p *plan.Plan, through string) (*Walk, error) {
	w := &Walk{plan: p, index: make(map[string]int, len(p.Nodes)), loops: map[string]int{}, branches: map[string]int{},
		unitOf: make([]int, len(p.Nodes)), loopOf: make([]int, len(p.Nodes)), unsupported: make([]bool, len(p.Nodes)), gates: make([]bool, len(p.Nodes)),
		harnesses: map[string]*plan.Harness{}}
	waived := map[string]bool{}
	for _, t := range p.Tools {
		waived[t.Name] = t.By == plan.ToolUnavailable
	}
	for i := range p.Harnesses {
		w.harnesses[p.Harnesses[i].Name] = &p.Harnesses[i]
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		w.index[n.ID] = i
		w.unsupported[i] = n.Check != nil && waived[n.Check.Tool]
	}
	for i := range p.Nodes {
		if c := p.Nodes[i].Check; c != nil {
			of, ok := w.index[c.Of]
			w.gates[i] = ok && p.Nodes[i].Gates(&p.Nodes[of])
		}
	}
	w.group()
	edges, err := w.edges()
	if err != nil {
		return nil, err
	}
	if err := w.choose(through, edges); err != nil {
		return nil, err
	}
	w.dependents, w.waits = make([][]int, len(w.units)), make([]int, len(w.units))
	for u, needs := range edges {
		if !w.selected[u] {
			continue
		}
		for _, d := range needs {
			w.dependents[d] = append(w.dependents[d], u)
			w.waits[u]++
		}
	}
	for i := range p.Nodes {
		if k := p.Nodes[i].Kind; w.Selected(i) && k != plan.NodeAgent && k != plan.NodeCheck {
			return nil, &Unsupported{p.Nodes[i].ID, k + " node"}
		}
	}
	return w, nil
}

// group makes the units, in the order of their first nodes.
func (w *Walk) group() {
	p := w.plan
	for i := range w.loopOf {
		w.loopOf[i] = -1
	}
	for l := range p.Loops {
		for _, id := range p.Loops[l].Body {
			if i, ok := w.index[id]; ok {
				w.loopOf[i] = l
			}
		}
	}
	branchOf := map[string]int{} // node id → index of its branch
	for b := range p.Branches {
		for _, id := range p.Branches[b].Alternatives {
			branchOf[id] = b
		}
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		parent := -1
		if l := w.loopOf[i]; l >= 0 {
			parent = w.unitNamed(w.loops, unit{kind: loopUnit, id: p.Loops[l].ID, loop: &p.Loops[l], parent: -1})
		}
		owner := n.ID
		if n.Check != nil {
			owner = n.Check.Of
		}
		b, ok := branchOf[owner]
		if !ok {
			w.unitOf[i] = w.addUnit(unit{kind: nodeUnit, id: n.ID, node: i, parent: parent})
			continue
		}
		u := w.unitNamed(w.branches, unit{kind: branchUnit, id: p.Branches[b].ID, branch: &p.Branches[b], parent: parent})
		w.unitOf[i] = u
		if n.Check == nil {
			w.units[u].alts = append(w.units[u].alts, alternative{node: i})
			continue
		}
		for a := range w.units[u].alts {
			if p.Nodes[w.units[u].alts[a].node].ID == owner {
				w.units[u].alts[a].checks = append(w.units[u].alts[a].checks, i)
			}
		}
	}
}

func (w *Walk) unitNamed(known map[string]int, u unit) int {
	if at, ok := known[u.id]; ok {
		return at
	}
	known[u.id] = w.addUnit(u)
	return known[u.id]
}

func (w *Walk) addUnit(u unit) int {
	at := len(w.units)
	w.units = append(w.units, u)
	if u.parent >= 0 {
		w.units[u.parent].parts = append(w.units[u.parent].parts, at)
	}
	return at
}

// top is the unit outside of loops that holds u.
func (w *Walk) top(u int) int {
	if p := w.units[u].parent; p >= 0 {
		return p
	}
	return u
}

// meant is the unit that an id means to node i, -1 if nothing. A loop and a
// node of its body may share an id: outside the loop it means the loop.
func (w *Walk) meant(i int, id string) int {
	if u, ok := w.loops[id]; ok && (w.loopOf[i] < 0 || w.plan.Loops[w.loopOf[i]].ID != id) {
		return u
	}
	if k, ok := w.index[id]; ok {
		return w.top(w.unitOf[k])
	}
	if u, ok := w.loops[id]; ok {
		return u
	}
	if u, ok := w.branches[id]; ok {
		return w.top(u)
	}
	return -1
}

// edges lists for each unit outside of loops the units that it waits for: its
// needs, where its inputs come from, and the blocking checks of both.
func (w *Walk) edges() ([][]int, error) {
	gates := make(map[int][]int) // unit → the blocking checks outside of it that prove it
	for i := range w.plan.Nodes {
		n := &w.plan.Nodes[i]
		if u := w.unitOf[i]; n.Check != nil && n.Check.Blocking && !w.gates[i] && w.top(u) == u && w.units[u].kind == nodeUnit {
			if of := w.meant(i, n.Check.Of); of >= 0 && of != u {
				gates[of] = append(gates[of], u)
			}
		}
	}
	edges := make([][]int, len(w.units))
	seen := make(map[[2]int]bool)
	for i := range w.plan.Nodes {
		n := &w.plan.Nodes[i]
		u := w.top(w.unitOf[i])
		add := func(d int, name string) error {
			if d == u || seen[[2]int{u, d}] {
				return nil
			}
			if d < 0 || d > u {
				return fmt.Errorf("exec: node %s needs %s, which is no earlier step of the plan", n.ID, name)
			}
			seen[[2]int{u, d}] = true
			edges[u] = append(edges[u], d)
			return nil
		}
		for _, name := range w.names(i) {
			d := w.meant(i, name)
			if err := add(d, name); err != nil {
				return nil, err
			}
			if n.Check != nil && !w.gates[i] && w.meant(i, n.Check.Of) == d {
				continue // the checks of one step do not wait for each other
			}
			for _, g := range gates[d] {
				if err := add(g, "the check "+w.units[g].id); err != nil {
					return nil, err
				}
			}
		}
	}
	return edges, nil
}

// names lists what a node waits for by id.
func (w *Walk) names(i int) []string {
	n := &w.plan.Nodes[i]
	names := slices.Clone(n.Needs)
	for _, in := range n.Inputs {
		if class, id := source(in.From); class == fromNode || class == fromBranch {
			names = append(names, id)
		}
	}
	if n.Check != nil && !w.gates[i] {
		names = append(names, n.Check.Of)
	}
	return names
}

// choose marks what is to be executed.
func (w *Walk) choose(through string, edges [][]int) error {
	w.selected = make([]bool, len(w.units))
	if through == "" {
		for u := range w.units {
			w.selected[u] = w.units[u].parent < 0
		}
		return nil
	}
	last := -1
	if u, ok := w.loops[through]; ok {
		last = u
	} else if i, ok := w.index[through]; ok {
		last = w.top(w.unitOf[i])
	} else if u, ok := w.branches[through]; ok {
		last = w.top(u)
	}
	if last < 0 {
		return fmt.Errorf("exec: the plan has no node %q: it has %s", through, list(w.index))
	}
	w.selected[last] = true
	// The check of a step may read what another step made, which then is needed
	// too: until nothing is added.
	for more := true; more; {
		for u := len(w.units) - 1; u >= 0; u-- {
			if w.selected[u] {
				for _, d := range edges[u] {
					w.selected[d] = true
				}
			}
		}
		more = false
		for u := range w.units {
			if x := &w.units[u]; x.kind == nodeUnit && x.parent < 0 && !w.selected[u] {
				if c := w.plan.Nodes[x.node].Check; c != nil {
					if of := w.meant(x.node, c.Of); of >= 0 && w.selected[of] {
						w.selected[u], more = true, true
					}
				}
			}
		}
	}
	return nil
}

// Selected reports whether a node is to be executed.
func (w *Walk) Selected(index int) bool { return w.selected[w.top(w.unitOf[index])] }
