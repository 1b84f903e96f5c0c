package spend

import (
	"slices"
	"strings"

	"foundry/plan"
)

// graph is the plan as groups of nodes that are reached as one: a node, a whole
// loop, a whole branch. A group stands where its first node does.
type graph struct {
	ids   []string
	kinds []string
	loops []*plan.Loop
	nodes [][]int // in the order in which they run
	needs [][]int // earlier groups that a group waits for, sorted
	of    []int   // node → group
}

func group(p *plan.Plan) *graph {
	g := &graph{of: make([]int, len(p.Nodes))}
	index := make(map[string]int, len(p.Nodes))
	for i := range p.Nodes {
		index[p.Nodes[i].ID] = i
	}
	loopOf, branchOf := map[int]*plan.Loop{}, map[string]*plan.Branch{}
	for l := range p.Loops {
		for _, id := range p.Loops[l].Body {
			if i, ok := index[id]; ok {
				loopOf[i] = &p.Loops[l]
			}
		}
	}
	place := map[string]int{} // alternative → its place in the branch
	for b := range p.Branches {
		for k, id := range p.Branches[b].Alternatives {
			branchOf[id], place[id] = &p.Branches[b], k
		}
	}
	owner := func(i int) string {
		if c := p.Nodes[i].Check; c != nil {
			return c.Of
		}
		return p.Nodes[i].ID
	}
	known := map[string]int{}
	for i := range p.Nodes {
		id, kind, loop := p.Nodes[i].ID, KindStep, loopOf[i]
		if p.Nodes[i].Kind == plan.NodeCheck {
			kind = KindCheck
		}
		key := "node:" + id
		if loop != nil {
			key, id, kind = "loop:"+loop.ID, loop.ID, KindLoop
		} else if b := branchOf[owner(i)]; b != nil {
			key, id, kind = "branch:"+b.ID, b.ID, KindBranch
		}
		u, ok := known[key]
		if !ok {
			u = len(g.ids)
			known[key] = u
			g.ids, g.kinds, g.loops, g.nodes = append(g.ids, id), append(g.kinds, kind), append(g.loops, loop), append(g.nodes, nil)
		}
		g.of[i] = u
		g.nodes[u] = append(g.nodes[u], i)
	}
	for u, kind := range g.kinds {
		if kind == KindBranch { // an alternative, its checks, the next
			slices.SortStableFunc(g.nodes[u], func(a, b int) int { return place[owner(a)] - place[owner(b)] })
		}
	}
	g.edges(p, index, known, loopOf)
	return g
}

// edges finds what each group waits for: the needs of its nodes, where their
// inputs come from, what their checks prove, and the blocking checks of all
// these.
func (g *graph) edges(p *plan.Plan, index, known map[string]int, loopOf map[int]*plan.Loop) {
	first := map[string]string{} // branch → its first alternative
	for _, b := range p.Branches {
		if len(b.Alternatives) > 0 {
			first[b.ID] = b.Alternatives[0]
		}
	}
	meant := func(i int, id string) int {
		if u, ok := known["loop:"+id]; ok && (loopOf[i] == nil || loopOf[i].ID != id) {
			return u
		}
		if k, ok := index[id]; ok {
			return g.of[k]
		}
		if k, ok := index[first[id]]; ok { // a branch in a loop has no group of its own
			return g.of[k]
		}
		return -1
	}
	gates := map[int][]int{}
	for i := range p.Nodes {
		if c := p.Nodes[i].Check; c != nil && c.Blocking && g.kinds[g.of[i]] == KindCheck {
			if u := meant(i, c.Of); u >= 0 && u != g.of[i] {
				gates[u] = append(gates[u], g.of[i])
			}
		}
	}
	g.needs = make([][]int, len(g.ids))
	for i := range p.Nodes {
		n, u := &p.Nodes[i], g.of[i]
		names := slices.Clone(n.Needs)
		for _, in := range n.Inputs {
			if class, id, _ := strings.Cut(in.From, ":"); class == "node" || class == "branch" {
				names = append(names, id)
			}
		}
		of := -1
		if n.Check != nil {
			of = meant(i, n.Check.Of)
			names = append(names, n.Check.Of)
		}
		for _, name := range names {
			d := meant(i, name)
			if d < 0 || d >= u {
				continue
			}
			g.needs[u] = append(g.needs[u], d)
			if d != of { // the checks of one step do not wait for each other
				for _, c := range gates[d] {
					if c < u {
						g.needs[u] = append(g.needs[u], c)
					}
				}
			}
		}
	}
	for u := range g.needs {
		slices.Sort(g.needs[u])
		g.needs[u] = slices.Compact(g.needs[u])
	}
}
