package spend

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"foundry/plan"
)

// random is a plan of single steps and loops of one step.
func random(t *rapid.T) *plan.Plan {
	p := &plan.Plan{Budget: plan.RunBudget{CostMicroUSD: rapid.Int64Range(1, 300).Draw(t, "cost"), WallSeconds: 1, Tokens: 1}}
	n := rapid.IntRange(1, 150).Draw(t, "nodes")
	for i := range n {
		var needs []string
		for range rapid.IntRange(0, 2).Draw(t, "needs") {
			if i > 0 {
				needs = append(needs, p.Nodes[rapid.IntRange(max(0, i-8), i-1).Draw(t, "need")].ID)
			}
		}
		id := fmt.Sprintf("n%d", i)
		p.Nodes = append(p.Nodes, node(id, needs, rapid.Int64Range(0, 9).Draw(t, "each"), 0, 0))
		if rapid.IntRange(0, 4).Draw(t, "loop") == 0 {
			p.Loops = append(p.Loops, plan.Loop{ID: id, Body: []string{id}, MaxIterations: rapid.Int64Range(1, 4).Draw(t, "iterations")})
		}
	}
	return p
}

// TestAgainstTheDefinition compares with the slow way: who waits for whom,
// then sums without bounds.
func TestAgainstTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := random(t)
		n := len(p.Nodes)
		total := make([]int64, n)
		all := new(big.Int)
		index := map[string]int{}
		for i := range p.Nodes {
			index[p.Nodes[i].ID] = i
			total[i] = p.Nodes[i].Budget.CostMicroUSD
			for _, l := range p.Loops {
				if l.ID == p.Nodes[i].ID {
					total[i] *= l.MaxIterations
				}
			}
			all.Add(all, big.NewInt(total[i]))
		}
		waits := make([][]bool, n) // waits[u][k]: u is or waits for k
		for u := range n {
			waits[u] = make([]bool, n)
			waits[u][u] = true
			for _, need := range p.Nodes[u].Needs {
				for k, w := range waits[index[need]] {
					waits[u][k] = waits[u][k] || w
				}
			}
		}
		r := Of(p)
		if big.NewInt(r.Uncapped.CostMicroUSD).Cmp(all) != 0 {
			t.Fatalf("%d is not %d", r.Uncapped.CostMicroUSD, all)
		}
		for u := range n {
			var others []int64
			before := int64(0)
			for k := range n {
				if !waits[k][u] {
					others = append(others, total[k])
					before += total[k]
				}
			}
			left := max(0, p.Budget.CostMicroUSD-before)
			at := slices.IndexFunc(r.Starved, func(s Starved) bool { return s.Phase == p.Nodes[u].ID && s.Dimension == Cost })
			if (total[u] > left) != (at >= 0) {
				t.Fatalf("%s needs %d of %d, and starved is %v", p.Nodes[u].ID, total[u], left, at >= 0)
			}
			if at < 0 {
				continue
			}
			fewest, sum := 0, total[u]
			slices.SortFunc(others, func(a, b int64) int { return int(b - a) })
			for sum <= p.Budget.CostMicroUSD {
				sum += others[fewest]
				fewest++
			}
			got := r.Starved[at]
			if got.Left != left || got.Needs != total[u] || got.Count != fewest || len(got.By) != min(fewest, MaxBy) {
				t.Fatalf("%+v, want %d left and %d others", got, left, fewest)
			}
			if got.Of > 0 && got.Sure*p.Nodes[u].Budget.CostMicroUSD > left {
				t.Fatalf("%+v: more is sure than is left", got)
			}
		}
		if d := cmp.Diff(r, Of(p)); d != "" {
			t.Fatal(d)
		}
	})
}

// TestManyPhases: ten thousand phases take seconds at most, in a chain and with
// hardly an edge.
func TestManyPhases(t *testing.T) {
	for _, chain := range []bool{true, false} {
		p := &plan.Plan{Budget: plan.RunBudget{CostMicroUSD: 50_000, WallSeconds: 5_000, Tokens: 100_000}}
		for i := range 10_000 {
			var needs []string
			if i > 0 && (chain || i%10 == 0) {
				needs = []string{p.Nodes[i-1].ID}
			}
			p.Nodes = append(p.Nodes, node(fmt.Sprintf("n%d", i), needs, int64(i%17), 1, 3))
		}
		start := time.Now()
		r := Of(p)
		took := time.Since(start)
		t.Logf("chain %v: %d phases, %d starved, %v", chain, len(r.Phases), len(r.Starved), took)
		if len(r.Phases) != 10_000 || len(r.Starved) == 0 || took > 30*time.Second {
			t.Errorf("chain %v: %d phases, %d starved, %v", chain, len(r.Phases), len(r.Starved), took)
		}
	}
}
