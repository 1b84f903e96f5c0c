package exec

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"foundry/exec/record"
	"foundry/plan"
)

// Walk is a plan as the reducer sees it: the nodes to execute and their edges.
// It does not change.
type Walk struct {
	plan       *plan.Plan
	selected   []bool  // by node index
	dependents [][]int // node index → selected nodes that need it, in the plan's order
	waits      []int   // node index → number of its needs
	index      map[string]int
	count      int
}

// Kinds of Command.
const (
	StartNode = "start_node"
	EndRun    = "end_run"
)

// Command is what the engine has to do next.
type Command struct {
	Kind      string
	Node      string // of StartNode
	Index     int    // of the node in the plan
	Iteration int64
	Attempt   int64
	// WallSeconds bounds the attempt; RunWall says that it is what the run's
	// budget has left, less than the node's own.
	WallSeconds int64
	RunWall     bool
	Status      string // of EndRun
	Failure     *record.Failure
}

// progress of a node within a State.
type progress uint8

const (
	waiting progress = iota
	commanded
	running
	succeeded
	failed
)

// State is how far a run is. Step takes it over: a state that was given to
// Step is not to be used again, as with append.
type State struct {
	nodes   []progress
	waits   []int
	ready   []int // indexes, in the plan's order
	active  int   // commanded or running
	left    int   // selected and not finished
	tokens  int64 // spent for sure; attempts that report nothing add nothing
	cost    int64
	begun   bool
	ended   bool // EndRun was commanded
	over    bool
	failure *record.Failure
}

// Unsupported is the error of NewWalk for a plan whose executed part holds
// something that this program does not execute.
type Unsupported struct {
	Node string // or the loop or branch
	Kind string
}

func (e *Unsupported) Error() string {
	return fmt.Sprintf("exec: %s is a %s, and this version does not execute one: stop before it with --through NODE", e.Node, e.Kind)
}

// NewWalk takes the nodes of p, or, if through is not empty, that node and all
// it needs.
func NewWalk(p *plan.Plan, through string) (*Walk, error) {
	w := &Walk{plan: p, selected: make([]bool, len(p.Nodes)), dependents: make([][]int, len(p.Nodes)),
		waits: make([]int, len(p.Nodes)), index: make(map[string]int, len(p.Nodes))}
	for i := range p.Nodes {
		w.index[p.Nodes[i].ID] = i
	}
	kinds := containers(p)
	if err := w.choose(through, kinds); err != nil {
		return nil, err
	}
	for i := range p.Nodes {
		if !w.selected[i] {
			continue
		}
		n := &p.Nodes[i]
		if kind := kinds[n.ID]; kind != "" {
			return nil, &Unsupported{n.ID, kind}
		}
		if n.Kind != plan.NodeAgent {
			return nil, &Unsupported{n.ID, n.Kind + " node"}
		}
		w.count++
		for _, need := range n.Needs {
			if kind := kinds[need]; kind != "" {
				return nil, &Unsupported{need, kind}
			}
			j, ok := w.index[need]
			if !ok || j >= i {
				return nil, fmt.Errorf("exec: node %s needs %s, which is no earlier node of the plan", n.ID, need)
			}
			w.dependents[j] = append(w.dependents[j], i)
			w.waits[i]++
		}
	}
	return w, nil
}

// containers names what is, or is part of, a loop or a branch.
func containers(p *plan.Plan) map[string]string {
	kinds := map[string]string{}
	for _, l := range p.Loops {
		kinds[l.ID] = "loop"
		for _, id := range l.Body {
			kinds[id] = "step of loop " + l.ID
		}
	}
	for _, b := range p.Branches {
		kinds[b.ID] = "branch"
		for _, id := range b.Alternatives {
			kinds[id] = "alternative of branch " + b.ID
		}
	}
	return kinds
}

// choose marks what is to be executed.
func (w *Walk) choose(through string, kinds map[string]string) error {
	if through == "" {
		for i := range w.selected {
			w.selected[i] = true
		}
		return nil
	}
	last, ok := w.index[through]
	if !ok {
		if kind := kinds[through]; kind != "" {
			return &Unsupported{through, kind}
		}
		ids := make([]string, 0, len(w.index))
		for id := range w.index {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		return fmt.Errorf("exec: the plan has no node %q: it has %s", through, strings.Join(ids, ", "))
	}
	w.selected[last] = true
	// Nodes stand in topological order, so one pass from the end reaches all.
	for i := last; i >= 0; i-- {
		if !w.selected[i] {
			continue
		}
		for _, need := range w.plan.Nodes[i].Needs {
			if kind := kinds[need]; kind != "" {
				return &Unsupported{need, kind}
			}
			if j, ok := w.index[need]; ok && j < i {
				w.selected[j] = true
			}
		}
	}
	return nil
}

// Selected reports whether a node is to be executed.
func (w *Walk) Selected(index int) bool { return w.selected[index] }

// Initial is the state before the first event.
func (w *Walk) Initial() State {
	s := State{nodes: make([]progress, len(w.plan.Nodes)), waits: slices.Clone(w.waits), left: w.count}
	for i := range w.plan.Nodes {
		if w.selected[i] && s.waits[i] == 0 {
			s.ready = append(s.ready, i)
		}
	}
	return s
}

// Step applies one event of the journal. An event that cannot have happened in
// this state is an error: the journal is not of this plan, or was changed.
func (w *Walk) Step(s State, e record.Event) (State, []Command, error) {
	if s.over {
		return s, nil, fmt.Errorf("exec: %s after the end of the run", e.Type)
	}
	if s.begun == (e.Type == record.EventRunStarted) {
		return s, nil, fmt.Errorf("exec: %s is out of place", e.Type)
	}
	switch e.Type {
	case record.EventRunStarted:
		s.begun = true
	case record.EventNodeStarted:
		i, err := w.expect(s, e, commanded)
		if err != nil {
			return s, nil, err
		}
		s.nodes[i] = running
		return s, nil, nil
	case record.EventNodeFinished:
		i, err := w.expect(s, e, running)
		if err != nil {
			return s, nil, err
		}
		s = w.finish(s, i, e)
	case record.EventCancel:
		if s.failure == nil {
			s.failure = record.Fail(record.ReasonCancelled, "the run was interrupted")
		}
		// What was commanded and not started will not be.
		for i, p := range s.nodes {
			if p == commanded {
				s.nodes[i] = waiting
				s.active--
			}
		}
	case record.EventRunFinished:
		s.over = true
		return s, nil, nil
	default:
		return s, nil, fmt.Errorf("exec: the event %q is not known", e.Type)
	}
	s, commands := w.decide(s, e.ElapsedMS)
	return s, commands, nil
}

func (w *Walk) expect(s State, e record.Event, want progress) (int, error) {
	i, ok := w.index[e.Node]
	if !ok || !w.selected[i] || s.nodes[i] != want {
		return 0, fmt.Errorf("exec: %s of node %q is out of place", e.Type, e.Node)
	}
	return i, nil
}

func (w *Walk) finish(s State, i int, e record.Event) State {
	s.active--
	s.left--
	if e.Usage != nil {
		s.tokens, s.cost = add(s.tokens, e.Usage.Tokens), add(s.cost, e.Usage.CostMicroUSD)
	}
	if e.Status != record.StatusSucceeded {
		s.nodes[i] = failed
		if s.failure == nil {
			s.failure = e.Failure
			if s.failure == nil {
				s.failure = record.Fail(record.ReasonRuntimeError, "node "+e.Node+" failed without a reason")
			}
		}
		return s
	}
	s.nodes[i] = succeeded
	for _, d := range w.dependents[i] {
		if s.waits[d]--; s.waits[d] == 0 {
			at := sort.SearchInts(s.ready, d)
			s.ready = slices.Insert(s.ready, at, d)
		}
	}
	return s
}

// decide says what comes next. One node runs at a time.
func (w *Walk) decide(s State, elapsedMS int64) (State, []Command) {
	if s.ended || s.active > 0 {
		return s, nil
	}
	if s.failure == nil && len(s.ready) > 0 {
		s.failure = w.overBudget(s, elapsedMS)
	}
	if s.failure == nil && len(s.ready) > 0 {
		i := s.ready[0]
		s.ready = s.ready[1:]
		s.nodes[i] = commanded
		s.active++
		n := &w.plan.Nodes[i]
		c := Command{Kind: StartNode, Node: n.ID, Index: i, Iteration: 1, Attempt: 1, WallSeconds: n.Budget.WallSeconds}
		if rest := w.plan.Budget.WallSeconds - elapsedMS/1000; rest < c.WallSeconds {
			c.WallSeconds, c.RunWall = rest, true
		}
		return s, []Command{c}
	}
	s.ended = true
	end := Command{Kind: EndRun, Status: record.StatusSucceeded, Failure: s.failure}
	switch {
	case s.failure != nil && s.failure.Class == record.ClassCancelled:
		end.Status = record.StatusCancelled
	case s.failure != nil:
		end.Status = record.StatusFailed
	}
	return s, []Command{end}
}

// overBudget is the failure of a run that has nothing left for another node.
func (w *Walk) overBudget(s State, elapsedMS int64) *record.Failure {
	b := w.plan.Budget
	for _, d := range []struct {
		name     string
		limit    int64
		observed int64
		source   string
	}{
		{record.DimWall, b.WallSeconds, elapsedMS / 1000, record.SourceController},
		{record.DimTokens, b.Tokens, s.tokens, record.SourceWorker},
		{record.DimCost, b.CostMicroUSD, s.cost, record.SourceWorker},
	} {
		if n := d.observed; n > 0 && n >= d.limit {
			f := record.Exceeded(record.ReasonBudgetExceeded, d.name, d.limit, n, d.source,
				fmt.Sprintf("the run may spend %d %s: node %s was not started", d.limit, d.name, w.plan.Nodes[s.ready[0]].ID))
			f.Class = record.ClassWorkflow
			return f
		}
	}
	return nil
}

// add adds what is known, and stays at the largest number.
func add(sum int64, c record.Count) int64 {
	if n, ok := c.Value(); ok {
		return sum + min(max(n, 0), math.MaxInt64-sum)
	}
	return sum
}
