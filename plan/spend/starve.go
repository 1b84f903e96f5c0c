package spend

import (
	"cmp"
	"slices"
)

// Starved is a phase that may find less of the run's budget than its own worst
// case, because of what may have been spent before it.
type Starved struct {
	Phase     string `json:"phase"`
	Dimension string `json:"dimension"`
	Needs     int64  `json:"needs"` // its own worst case
	Left      int64  `json:"left"`  // what may be left when it starts, 0 or more
	// Sure is how many of its iterations are covered whatever is spent before.
	Sure int64 `json:"sure_iterations"`
	Of   int64 `json:"of_iterations"`
	// By are the fewest other phases that can do it together, the largest first,
	// at most MaxBy of them; none where its own worst case is more than the run
	// has. Count is how many there are.
	By    []string `json:"by"`
	Count int      `json:"by_count"`
}

// MaxBy bounds the names in one Starved.
const MaxBy = 8

// starved finds the phases that may lack one dimension. What may have been spent
// before a phase is the worst case of all that does not wait for it: in
// dataflow order that may run first, or beside it and hold what it might need.
func (g *graph) starved(phases []Phase, d string, budget int64) []Starved {
	n := len(g.ids)
	dependents := make([][]int, n)
	for u, needs := range g.needs {
		for _, k := range needs {
			dependents[k] = append(dependents[k], u)
		}
	}
	inOrder, bySize := make([]int, n), make([]int, n)
	for u := range n {
		inOrder[u], bySize[u] = u, u
	}
	slices.SortStableFunc(bySize, func(a, b int) int { return cmp.Compare(phases[b].Total.Of(d), phases[a].Total.Of(d)) })

	before := make([]int64, n)
	each64(dependents, inOrder, func(cols []int, waits []uint64) bool {
		whole := int64(0)
		for _, c := range cols {
			whole = addMul(whole, phases[c].Total.Of(d), 1)
		}
		all := ^uint64(0) >> (64 - len(cols))
		for u := range n {
			switch {
			case waits[u] == all:
			case waits[u] == 0:
				before[u] = addMul(before[u], whole, 1)
			default:
				for k, c := range cols {
					if waits[u]&(1<<k) == 0 {
						before[u] = addMul(before[u], phases[c].Total.Of(d), 1)
					}
				}
			}
		}
		return true
	})

	var out []Starved
	at := make([]int, n) // 1 + its entry in out
	for u := range n {
		ph := &phases[u]
		needs, left := ph.Total.Of(d), max(0, budget-before[u])
		if needs <= left {
			continue
		}
		s := Starved{Phase: ph.ID, Dimension: d, Needs: needs, Left: left, Of: ph.Iterations, By: []string{}}
		if one := ph.Each.Of(d); one > 0 {
			s.Sure = min(left/one, ph.Iterations)
		}
		out = append(out, s)
		at[u] = len(out)
	}
	g.blame(phases, d, budget, dependents, bySize, out, at)
	return out
}

// blame finds for each starved phase the fewest others that can do it.
func (g *graph) blame(phases []Phase, d string, budget int64, dependents [][]int, bySize []int, out []Starved, at []int) {
	open := 0
	spent := make([]int64, len(out))
	done := make([]bool, len(out))
	for k := range out {
		done[k] = out[k].Needs > budget
		if !done[k] {
			open++
		}
	}
	if open == 0 {
		return
	}
	each64(dependents, bySize, func(cols []int, waits []uint64) bool {
		for u := range at {
			k := at[u] - 1
			if k < 0 || done[k] {
				continue
			}
			for b, c := range cols {
				if waits[u]&(1<<b) != 0 {
					continue
				}
				spent[k] = addMul(spent[k], phases[c].Total.Of(d), 1)
				if out[k].Count++; len(out[k].By) < MaxBy {
					out[k].By = append(out[k].By, phases[c].ID)
				}
				if addMul(spent[k], out[k].Needs, 1) > budget {
					done[k] = true
					open--
					break
				}
			}
		}
		return open > 0
	})
}

// each64 takes the groups in the given order, 64 at a time, and says for every
// group which of them wait for it, or are it: bit k is the k-th of cols. So
// what waits for what is known in little memory, however many groups there are.
func each64(dependents [][]int, order []int, do func(cols []int, waits []uint64) bool) {
	waits := make([]uint64, len(dependents))
	for len(order) > 0 {
		cols := order[:min(64, len(order))]
		order = order[len(cols):]
		clear(waits)
		for k, c := range cols {
			waits[c] |= 1 << k
		}
		for u := len(waits) - 1; u >= 0; u-- {
			for _, w := range dependents[u] {
				waits[u] |= waits[w]
			}
		}
		if !do(cols, waits) {
			return
		}
	}
}
