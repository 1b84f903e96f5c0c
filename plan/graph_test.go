package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func adjacency(lists [][]int) func(int) []int { return func(i int) []int { return lists[i] } }

func TestShortestCycle(t *testing.T) {
	for name, c := range map[string]struct {
		edges [][]int
		want  []int
	}{
		"nothing":                  {nil, nil},
		"no edges":                 {[][]int{{}, {}}, nil},
		"a chain":                  {[][]int{{}, {0}, {1}}, nil},
		"a diamond":                {[][]int{{1, 2}, {3}, {3}, {}}, nil},
		"itself":                   {[][]int{{}, {1}}, []int{1}},
		"two":                      {[][]int{{1}, {0}}, []int{0, 1}},
		"in order of the edges":    {[][]int{{2}, {0}, {1}}, []int{0, 2, 1}},
		"short within long":        {[][]int{{1}, {2}, {3}, {0, 2}}, []int{2, 3}},
		"short in another part":    {[][]int{{1}, {2}, {0}, {4}, {3}}, []int{3, 4}},
		"itself within a long one": {[][]int{{1}, {2, 1}, {0}}, []int{1}},
		"edges to nowhere":         {[][]int{{7, -1}, {0}}, nil},
	} {
		if got := ShortestCycle(len(c.edges), adjacency(c.edges)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The length agrees with a search from every vertex, and what comes back is a
// cycle.
func TestShortestCycleIsShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "vertices")
		edges := make([][]int, n)
		for range rapid.IntRange(0, 3*n).Draw(t, "edges") {
			from := rapid.IntRange(0, n-1).Draw(t, "from")
			edges[from] = append(edges[from], rapid.IntRange(0, n-1).Draw(t, "to"))
		}
		best := 0
		for start := range n {
			distance := map[int]int{start: 0}
			queue := []int{start}
			for len(queue) > 0 {
				v := queue[0]
				queue = queue[1:]
				for _, w := range edges[v] {
					if w == start && (best == 0 || distance[v]+1 < best) {
						best = distance[v] + 1
					}
					if _, seen := distance[w]; !seen {
						distance[w] = distance[v] + 1
						queue = append(queue, w)
					}
				}
			}
		}
		got := ShortestCycle(n, adjacency(edges))
		if len(got) != best {
			t.Fatalf("%v of %v, the shortest has %d", got, edges, best)
		}
		for i, v := range got {
			if !slices.Contains(edges[v], got[(i+1)%len(got)]) {
				t.Fatalf("%v is no cycle of %v", got, edges)
			}
		}
		if again := ShortestCycle(n, adjacency(edges)); !slices.Equal(got, again) {
			t.Fatalf("%v, then %v", got, again)
		}
	})
}

// Shapes that are slow for a search from every vertex. The bound is so wide
// that only a search of another order of growth misses it.
func TestShortestCycleOfLargeGraphs(t *testing.T) {
	const n = 10_000
	ring := make([][]int, n)
	closed := make([][]int, n) // a chain with many short cuts, closed by one edge
	dense := make([][]int, n)
	for i := range n {
		ring[i] = []int{(i + n - 1) % n}
		for k := 1; k <= 8 && k <= i; k++ {
			closed[i] = append(closed[i], i-k)
		}
		for k := 1; k <= 8; k++ {
			dense[i] = append(dense[i], (i*k+k*k+1)%n)
		}
	}
	closed[0] = []int{n - 1}
	for name, c := range map[string]struct {
		edges [][]int
		most  int
	}{"ring": {ring, n}, "closed": {closed, 1 + (n-1+7)/8}, "dense": {dense, n}} {
		start := time.Now()
		got := ShortestCycle(n, adjacency(c.edges))
		if len(got) == 0 || len(got) > c.most {
			t.Errorf("%s: a cycle of %d", name, len(got))
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		} else {
			t.Logf("%s: a cycle of %d in %s", name, len(got), took)
		}
	}
}

// A ring of 2,000 nodes is found whole.
func TestRingOfNodes(t *testing.T) {
	p := chain(2000)
	first, last := &p.Nodes[0], p.Nodes[1999]
	first.Needs = []string{last.ID}
	start := time.Now()
	problems := Validate(p)
	t.Logf("a ring of 2,000 nodes took %s", time.Since(start))
	if len(problems) != 1 || problems[0].Summary != "cycle" {
		t.Fatalf("%v", problems)
	}
	want := fmt.Sprintf(`"skill-00" needs %q needs `, last.ID)
	if got := problems[0].Detail; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("the cycle starts with %s, not with %s", got, want)
	}
}
