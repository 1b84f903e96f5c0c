package plan

import (
	"cmp"
	"slices"
)

// maxCycleWork bounds the search for a shortest cycle: edges looked at after
// the first cycle is known. A graph that is built to be slow gets a cycle that
// may not be the shortest; real ones stay far below.
const maxCycleWork = 50_000_000

// ShortestCycle returns the shortest cycle of the graph with vertices 0 to n-1,
// each vertex followed by one that edges lists for it, the last followed by the
// first, which is the smallest. A self edge is a cycle of one. It returns nil
// when there is none. The same graph gives the same cycle.
func ShortestCycle(n int, edges func(i int) []int) []int {
	var best []int
	for _, c := range shortestCycles(n, edges) {
		if best == nil || len(c) < len(best) {
			best = c
		}
	}
	return best
}

// shortestCycles returns the shortest cycle of each strongly connected
// component that has one, ordered by their first vertices.
func shortestCycles(n int, edges func(i int) []int) [][]int {
	component, targets := components(n, edges)
	if len(targets) == 0 {
		return nil
	}
	s := cycleSearch{edges: edges, component: component, removed: make([]bool, n), seen: make([]int, n), parent: make([]int, n), depth: make([]int, n)}
	best := map[int][]int{}
	for _, t := range targets {
		// Every cycle runs through one of the targets. Once all cycles through a
		// target are known it can leave the graph.
		if c := s.through(t, len(best[component[t]])); c != nil {
			best[component[t]] = c
		}
		s.removed[t] = true
	}
	var all [][]int
	for _, t := range targets {
		if c := best[component[t]]; c != nil {
			all = append(all, rotate(c))
			delete(best, component[t])
		}
	}
	slices.SortFunc(all, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return all
}

func rotate(c []int) []int {
	least := 0
	for i := range c {
		if c[i] < c[least] {
			least = i
		}
	}
	return append(append([]int{}, c[least:]...), c[:least]...)
}

type cycleSearch struct {
	edges     func(i int) []int
	component []int
	removed   []bool
	seen      []int // 1 + the start of the search that saw the vertex
	parent    []int
	depth     []int
	queue     []int
	work      int
}

// through finds the shortest cycle through start that is shorter than limit
// (0: any), breadth first.
func (s *cycleSearch) through(start, limit int) []int {
	s.queue = append(s.queue[:0], start)
	s.seen[start], s.depth[start] = start+1, 0
	for head := 0; head < len(s.queue); head++ {
		v := s.queue[head]
		if limit > 0 && (s.depth[v]+1 >= limit || s.work > maxCycleWork) {
			return nil
		}
		for _, w := range s.edges(v) {
			s.work++
			if w < 0 || w >= len(s.component) || s.component[w] != s.component[start] || s.removed[w] {
				continue
			}
			if w == start {
				cycle := make([]int, s.depth[v]+1)
				for i := s.depth[v]; i >= 0; i-- {
					cycle[i] = v
					v = s.parent[v]
				}
				return cycle
			}
			if s.seen[w] != start+1 {
				s.seen[w], s.parent[w], s.depth[w] = start+1, v, s.depth[v]+1
				s.queue = append(s.queue, w)
			}
		}
	}
	return nil
}

// components is Tarjan's algorithm without recursion. It gives each vertex the
// number of its strongly connected component, and the sorted targets of the
// edges that lead back to a vertex under way: each cycle holds one of them.
func components(n int, edges func(i int) []int) (component, targets []int) {
	type frame struct{ v, next int }
	component = make([]int, n)
	index := make([]int, n) // 1 + order of discovery, 0 = not seen
	low := make([]int, n)
	onStack := make([]bool, n)
	onPath := make([]bool, n)
	back := make([]bool, n)
	var stack []int
	var path []frame
	count, parts := 0, 0
	enter := func(v int) {
		count++
		index[v], low[v] = count, count
		onStack[v], onPath[v] = true, true
		stack = append(stack, v)
		path = append(path, frame{v: v})
	}
	for root := range n {
		if index[root] != 0 {
			continue
		}
		enter(root)
		for len(path) > 0 {
			top := &path[len(path)-1]
			v := top.v
			if out := edges(v); top.next < len(out) {
				w := out[top.next]
				top.next++
				switch {
				case w < 0 || w >= n:
				case index[w] == 0:
					enter(w)
				case onStack[w]:
					low[v] = min(low[v], index[w])
					back[w] = back[w] || onPath[w]
				}
				continue
			}
			path = path[:len(path)-1]
			onPath[v] = false
			if len(path) > 0 {
				u := path[len(path)-1].v
				low[u] = min(low[u], low[v])
			}
			if low[v] == index[v] {
				for {
					w := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					onStack[w] = false
					component[w] = parts
					if w == v {
						break
					}
				}
				parts++
			}
		}
	}
	for v := range n {
		if back[v] {
			targets = append(targets, v)
		}
	}
	return component, targets
}
