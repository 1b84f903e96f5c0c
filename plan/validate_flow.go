package plan

import (
	"slices"
	"strconv"
	"strings"
)

func (v *validator) loopList() {
	for i := range v.p.Loops {
		l := &v.p.Loops[i]
		where := at("loops", i, l.ID)
		v.name(l.ID, where, ".id")
		if k, ok := v.nodes[l.ID]; ok && !slices.Contains(l.Body, l.ID) {
			v.add("id used twice", quote(l.ID)+" is also nodes["+strconv.Itoa(k)+"], which is not in the body of the loop", where, ".id")
		}
		if _, ok := v.branches[l.ID]; ok {
			v.add("id used twice", quote(l.ID)+" is also a branch", where, ".id")
		}
		if len(l.Body) == 0 {
			v.add("empty body", "a loop repeats at least one node", where, ".body")
		}
		v.within(l.MaxIterations, MinIterations, MaxIterations, where, ".max_iterations")
		s := scope{what: "the body of the loop", outputs: map[string]bool{}, checks: map[string]bool{}}
		previous := -1
		for b, id := range l.Body {
			place := where + ".body[" + strconv.Itoa(b) + "]"
			k, ok := v.nodes[id]
			if !ok {
				v.add("dangling reference", "there is no node "+quote(id), place)
				previous = -1
				continue
			}
			if v.loopOf[k] >= 0 {
				v.add("node in two loops", quote(id)+" stands in the body of "+quote(v.p.Loops[v.loopOf[k]].ID)+" already", place)
				continue
			}
			v.loopOf[k] = i
			if previous >= 0 && k != previous+1 {
				v.add("body not contiguous", quote(id)+" does not follow "+quote(l.Body[b-1])+" in nodes: one iteration runs consecutive nodes in their order", place)
			}
			previous = k
			n := &v.p.Nodes[k]
			for o := range n.Outputs {
				s.outputs[n.Outputs[o].Artifact] = true
			}
			if n.Check != nil {
				s.checks[n.Check.Name] = true
			}
		}
		v.sortedSet(l.Carries, ValidID, where, ".carries")
		for c, id := range l.Carries {
			if !s.outputs[id] {
				v.add("dangling reference", "the body does not produce "+quote(id), where, ".carries[", strconv.Itoa(c), "]")
			}
		}
		v.expr(where+".until", &l.Until, s)
	}
}

func (v *validator) branchList() {
	for i := range v.p.Branches {
		b := &v.p.Branches[i]
		where := at("branches", i, b.ID)
		v.name(b.ID, where, ".id")
		v.text(b.Pattern, where, ".pattern")
		if k, ok := v.nodes[b.ID]; ok {
			v.add("id used twice", quote(b.ID)+" is also nodes["+strconv.Itoa(k)+"]", where, ".id")
		}
		if len(b.Alternatives) == 0 {
			v.add("no alternatives", "a branch has at least one", where, ".alternatives")
		}
		s := scope{what: "the branch", outputs: map[string]bool{}, checks: map[string]bool{}}
		counts := v.alternatives(i, b, where, &s)
		v.sortedSet(b.Artifacts, ValidID, where, ".artifacts")
		for a, id := range b.Artifacts {
			if counts[id] < len(b.Alternatives) {
				v.add("dangling reference", "not every alternative produces "+quote(id), where, ".artifacts[", strconv.Itoa(a), "]")
			}
		}
		if id, ok := strings.CutPrefix(b.Otherwise, "input:"); ok {
			if v.inputs[id] == nil {
				v.add("dangling reference", "there is no input "+quote(id), where, ".otherwise")
			}
		} else if b.Otherwise != OtherwiseFail {
			v.add("unknown word", quote(b.Otherwise)+" is neither input:ID nor fail", where, ".otherwise")
		}
		v.expr(where+".accept", &b.Accept, s)
	}
}

// alternatives returns how many alternatives produce each artifact.
func (v *validator) alternatives(i int, b *Branch, where string, s *scope) map[string]int {
	counts := map[string]int{}
	checks := func(id string) {
		for _, c := range v.checksOf[id] {
			s.checks[v.p.Nodes[c].Check.Name] = true
		}
	}
	if v.branches[b.ID] == i {
		checks(b.ID)
	}
	previous := -1
	for a, id := range b.Alternatives {
		place := where + ".alternatives[" + strconv.Itoa(a) + "]"
		k, ok := v.nodes[id]
		if !ok {
			v.add("dangling reference", "there is no node "+quote(id), place)
			continue
		}
		if v.branchOf[k] >= 0 {
			v.add("node in two branches", quote(id)+" is an alternative of "+quote(v.p.Branches[v.branchOf[k]].ID)+" already", place)
			continue
		}
		v.branchOf[k] = i
		if !strings.HasPrefix(id, b.ID+"/") {
			v.add("wrong id of an alternative", quote(id)+" does not start with "+quote(b.ID+"/"), place)
		}
		if v.p.Nodes[k].Kind != NodeAgent {
			v.add("wrong kind of node", "an alternative is an agent", place)
		}
		if k < previous {
			v.add("not in order", "alternatives stand in the order of the nodes", place)
		}
		if first := v.nodes[b.Alternatives[0]]; v.loopOf[k] != v.loopOf[first] {
			v.add("branch across a loop", "the alternatives of a branch are all in one loop, or none is", place)
		}
		previous = k
		n := &v.p.Nodes[k]
		for o := range n.Outputs {
			counts[n.Outputs[o].Artifact]++
			s.outputs[n.Outputs[o].Artifact] = true
		}
		checks(id)
	}
	return counts
}

// flow checks that every node comes after all that it depends on, and names the
// shortest cycle where there is one. The vertices of its graph are the nodes,
// then the loops, then the branches: a loop depends on its body, a branch on
// its alternatives, and a node outside a loop on the whole loop when it depends
// on a node of its body.
func (v *validator) flow() {
	n, l, b := len(v.p.Nodes), len(v.p.Loops), len(v.p.Branches)
	edges := make([][]int, n+l+b)
	place := make([]int, n+l+b) // the last node of each vertex
	for i := range n {
		place[i] = i
		edges[i] = v.dependencies(i)
	}
	group := func(vertex int, ids []string) {
		for _, id := range ids {
			if k, ok := v.nodes[id]; ok {
				edges[vertex] = append(edges[vertex], k)
				place[vertex] = max(place[vertex], k)
			}
		}
	}
	for i := range l {
		group(n+i, v.p.Loops[i].Body)
	}
	for i := range b {
		group(n+l+i, v.p.Branches[i].Alternatives)
	}
	ordered := true
	for i := range n {
		for _, d := range edges[i] {
			ordered = ordered && place[d] < i
		}
	}
	if ordered {
		return // then it has no cycle either
	}
	list := func(i int) []int { return edges[i] }
	component, _ := components(len(edges), list)
	for _, cycle := range shortestCycles(len(edges), list) {
		v.add("cycle", v.cycleText(cycle), v.vertexPath(cycle[0]))
	}
	for i := range n {
		for _, d := range edges[i] {
			if place[d] >= i && component[d] != component[i] {
				v.add("not in order", v.vertexName(d)+" must stand before: nodes are in topological order", at("nodes", i, v.p.Nodes[i].ID))
			}
		}
	}
}

// dependencies lists the vertices that node i waits for, and reports those that
// are not there.
func (v *validator) dependencies(i int) []int {
	n := &v.p.Nodes[i]
	edges := make([]int, 0, len(n.Needs)+len(n.Inputs)+1)
	for k, id := range n.Needs {
		if k > 0 && n.Needs[k-1] >= id {
			v.add("not sorted", "needs are sorted by bytes, without doubles", at("nodes", i, n.ID), ".needs[", strconv.Itoa(k), "]")
		}
		if vertex := v.vertex(i, id); vertex >= 0 {
			edges = append(edges, vertex)
		} else {
			v.add("dangling reference", "there is no node, loop or branch "+quote(id), at("nodes", i, n.ID), ".needs[", strconv.Itoa(k), "]")
		}
	}
	for k := range n.Inputs {
		class, id, _ := strings.Cut(n.Inputs[k].From, ":")
		vertex := -1
		switch class {
		case "node":
			vertex = v.nodeVertex(i, id)
		case "branch":
			vertex = v.branchVertex(i, id)
		}
		if vertex >= 0 {
			edges = append(edges, vertex)
		}
	}
	if n.Check != nil && n.Check.Of != n.ID && !v.gate(n) {
		// A check of the loop in whose body it stands does not wait for the loop.
		if l, ok := v.loops[n.Check.Of]; !ok || l != v.loopOf[i] || v.nodeVertex(i, n.Check.Of) >= 0 {
			if vertex := v.vertex(i, n.Check.Of); vertex >= 0 {
				edges = append(edges, vertex)
			}
		}
	}
	return edges
}

// gate says that a check runs before the node it belongs to.
func (v *validator) gate(n *Node) bool {
	of, ok := v.nodes[n.Check.Of]
	return ok && n.Gates(&v.p.Nodes[of])
}

// vertex is what id means to node i, -1 if nothing. A loop and a node of its
// body may share an id: outside the loop it means the loop, inside the node.
func (v *validator) vertex(i int, id string) int {
	l, isLoop := v.loops[id]
	if isLoop && l != v.loopOf[i] {
		return len(v.p.Nodes) + l
	}
	if k := v.nodeVertex(i, id); k >= 0 {
		return k
	}
	if isLoop {
		return len(v.p.Nodes) + l
	}
	return v.branchVertex(i, id)
}

func (v *validator) nodeVertex(i int, id string) int {
	k, ok := v.nodes[id]
	if !ok {
		return -1
	}
	if l := v.loopOf[k]; l >= 0 && l != v.loopOf[i] {
		return len(v.p.Nodes) + l
	}
	return k
}

func (v *validator) branchVertex(i int, id string) int {
	b, ok := v.branches[id]
	if !ok {
		return -1
	}
	for _, a := range v.p.Branches[b].Alternatives[:min(1, len(v.p.Branches[b].Alternatives))] {
		if k, ok := v.nodes[a]; ok && v.loopOf[k] >= 0 && v.loopOf[k] != v.loopOf[i] {
			return len(v.p.Nodes) + v.loopOf[k]
		}
	}
	return len(v.p.Nodes) + len(v.p.Loops) + b
}

func (v *validator) vertexName(i int) string {
	n, l := len(v.p.Nodes), len(v.p.Loops)
	switch {
	case i < n:
		return quote(v.p.Nodes[i].ID)
	case i < n+l:
		return "loop " + quote(v.p.Loops[i-n].ID)
	default:
		return "branch " + quote(v.p.Branches[i-n-l].ID)
	}
}

func (v *validator) vertexPath(i int) string {
	n, l := len(v.p.Nodes), len(v.p.Loops)
	switch {
	case i < n:
		return at("nodes", i, v.p.Nodes[i].ID)
	case i < n+l:
		return at("loops", i-n, v.p.Loops[i-n].ID)
	default:
		return at("branches", i-n-l, v.p.Branches[i-n-l].ID)
	}
}

// cycleText names a cycle in order; of a long one the first and the last.
func (v *validator) cycleText(cycle []int) string {
	const head, tail = 16, 4
	var b strings.Builder
	for k, vertex := range cycle {
		if len(cycle) > head+tail+1 && k >= head && k < len(cycle)-tail {
			if k == head {
				b.WriteString(strconv.Itoa(len(cycle)-head-tail) + " more, needs ")
			}
			continue
		}
		b.WriteString(v.vertexName(vertex) + " needs ")
	}
	b.WriteString(v.vertexName(cycle[0]) + ": take one of these away")
	return b.String()
}
