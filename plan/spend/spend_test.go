package spend

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"foundry/plan"
)

func node(id string, needs []string, cost, wall, tokens int64) plan.Node {
	return plan.Node{ID: id, Kind: plan.NodeAgent, Needs: needs, Harness: "worker", Budget: plan.NodeBudget{CostMicroUSD: cost, WallSeconds: wall, Tokens: tokens}}
}

func check(of, name string, wall int64, blocking bool) plan.Node {
	return plan.Node{ID: of + "." + name, Kind: plan.NodeCheck, Needs: []string{of}, Budget: plan.NodeBudget{WallSeconds: wall}, Check: &plan.Check{Name: name, Of: of, Blocking: blocking}}
}

func priced(p *plan.Plan, input, output, read, write string) *plan.Plan {
	p.Harnesses = []plan.Harness{{Name: "worker", Adapter: "pi", Provider: "api", Model: "m"}}
	p.Providers = []plan.Provider{{Name: "api", Models: []plan.Model{{ID: "m", MaxOutput: 1000, Price: plan.Price{Input: input, Output: output, CacheRead: read, CacheWrite: write}}}}}
	return p
}

// pipeline is a step, a loop of two with a check, a branch of two with a check
// of one, and a step.
func pipeline() *plan.Plan {
	return &plan.Plan{
		Budget: plan.RunBudget{CostMicroUSD: 25_000_000, WallSeconds: 7200, Tokens: 4_000_000},
		Nodes: []plan.Node{
			node("first", nil, 3_000_000, 600, 400_000),
			node("draft", []string{"first"}, 1_000_000, 300, 100_000),
			check("draft", "next", 60, true),
			node("fill", []string{"draft"}, 500_001, 100, 50_000),
			node("data/find", []string{"draft"}, 2_000_000, 200, 200_000),
			check("data/find", "valid", 30, true),
			node("data/make", []string{"draft"}, 1_000_000, 200, 100_000),
			node("last", []string{"data"}, 3_000_000, 600, 400_000),
		},
		Loops:    []plan.Loop{{ID: "draft", Body: []string{"draft", "draft.next", "fill"}, MaxIterations: 10}},
		Branches: []plan.Branch{{ID: "data", Alternatives: []string{"data/find", "data/make"}}},
	}
}

// TestPhases: iterations, alternatives and checks count, to the micro-dollar.
func TestPhases(t *testing.T) {
	r := Of(pipeline())
	var got []Phase
	for _, p := range r.Phases {
		p.Steps = nil
		got = append(got, p)
	}
	want := []Phase{
		{ID: "first", Kind: KindStep, Iterations: 1, Each: Amount{3_000_000, 600, 400_000}, Total: Amount{3_000_000, 600, 400_000}},
		{ID: "draft", Kind: KindLoop, Iterations: 10, Each: Amount{1_500_001, 460, 150_000}, Total: Amount{15_000_010, 4600, 1_500_000}},
		{ID: "data", Kind: KindBranch, Iterations: 1, Each: Amount{3_000_000, 430, 300_000}, Total: Amount{3_000_000, 430, 300_000}},
		{ID: "last", Kind: KindStep, Iterations: 1, Each: Amount{3_000_000, 600, 400_000}, Total: Amount{3_000_000, 600, 400_000}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if r.Uncapped != (Amount{24_000_010, 6230, 2_600_000}) || r.Capped != r.Uncapped || len(r.Starved) != 0 {
		t.Errorf("%+v", r)
	}
	if s := r.Phases[1].Steps[2]; s.ID != "fill" || s.Times != 10 || s.Total.CostMicroUSD != 5_000_010 {
		t.Errorf("%+v", s)
	}
	w := WorstCase(pipeline())
	if w != (plan.WorstCase{UncappedCostMicroUSD: 24_000_010, CostMicroUSD: 24_000_010, UncappedWallSeconds: 6230, WallSeconds: 6230, UncappedTokens: 2_600_000, Tokens: 2_600_000}) {
		t.Errorf("%+v", w)
	}
}

// TestPrices: a step cannot cost more than its tokens at the dearest price,
// rounded up; a budget of 0, a free model, a login of its own.
func TestPrices(t *testing.T) {
	for _, c := range []struct {
		name                       string
		tokens, cost               int64
		input, output, read, write string
		login                      bool
		want                       int64
		by                         string
	}{
		{"the budget is less", 1000, 100, "3", "15", "0.3", "3.75", false, 100, ""},
		{"output is dearest", 1000, 1_000_000, "3", "15", "0.3", "3.75", false, 15_000, "m"},
		{"cache write is dearest", 1000, 1_000_000, "3", "2", "0.3", "3.75", false, 3750, "m"},
		{"a part of a micro-dollar counts", 3, 1_000_000, "0", "0.333333", "0", "0", false, 1, "m"},
		{"exact where floats are not", 3, 1_000_000, "0", "0.1", "0", "0", false, 1, "m"},
		{"more digits than a float has", 10_000_000, 1 << 62, "0", "0.1000000000000000001", "0", "0", false, 1_000_001, "m"},
		{"equal is the budget's", 1000, 15_000, "3", "15", "0.3", "3.75", false, 15_000, ""},
		{"free", 1000, 500, "0", "0", "0", "0", false, 0, "m"},
		{"a login of its own has no broker", 1000, 1_000_000, "3", "15", "0.3", "3.75", true, 1_000_000, ""},
		{"larger than a number can be", math.MaxInt64, math.MaxInt64, "3", "15", "0.3", "3.75", false, math.MaxInt64, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := priced(&plan.Plan{Nodes: []plan.Node{node("a", nil, c.cost, 1, c.tokens)}}, c.input, c.output, c.read, c.write)
			if c.login {
				p.Harnesses[0].AuthStore = "login"
			}
			r := Of(p)
			if s := r.Phases[0].Steps[0]; s.Each.CostMicroUSD != c.want || s.PricedBy != c.by {
				t.Errorf("%+v", s)
			}
			if (len(r.Unbounded) == 1) != c.login {
				t.Errorf("unbounded: %v", r.Unbounded)
			}
		})
	}
}

func TestNeverPastTheLargest(t *testing.T) {
	p := &plan.Plan{Nodes: []plan.Node{node("a", nil, math.MaxInt64/2, 1, 1), node("b", nil, math.MaxInt64/2, 1, 1)},
		Loops: []plan.Loop{{ID: "l", Body: []string{"b"}, MaxIterations: 3}}}
	if got := WorstCase(p).UncappedCostMicroUSD; got != math.MaxInt64 {
		t.Error(got)
	}
}

// TestStarved: who may find too little, of what, how many iterations are sure,
// and who the fewest are that can do it.
func TestStarved(t *testing.T) {
	p := pipeline()
	p.Budget.CostMicroUSD = 10_000_000
	p.Budget.Tokens = 2_500_000
	got := Of(p).Starved
	want := []Starved{
		{Phase: "draft", Dimension: Cost, Needs: 15_000_010, Left: 7_000_000, Sure: 4, Of: 10, By: []string{}},
		{Phase: "data", Dimension: Cost, Needs: 3_000_000, Left: 0, Of: 1, By: []string{"draft"}, Count: 1},
		{Phase: "last", Dimension: Cost, Needs: 3_000_000, Left: 0, Of: 1, By: []string{"draft"}, Count: 1},
		{Phase: "last", Dimension: Tokens, Needs: 400_000, Left: 300_000, Of: 1, By: []string{"draft", "first", "data"}, Count: 3},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestStarvedInDataflow: what does not wait for a phase may run before it,
// wherever it stands; what waits for it may not.
func TestStarvedInDataflow(t *testing.T) {
	p := &plan.Plan{Budget: plan.RunBudget{CostMicroUSD: 10, WallSeconds: 100, Tokens: 100}, Nodes: []plan.Node{
		node("a", nil, 4, 1, 1), node("b", []string{"a"}, 5, 1, 1), node("c", nil, 3, 1, 1),
	}}
	want := []Starved{
		{Phase: "b", Dimension: Cost, Needs: 5, Left: 3, Of: 1, By: []string{"a", "c"}, Count: 2},
		{Phase: "c", Dimension: Cost, Needs: 3, Left: 1, Of: 1, By: []string{"b", "a"}, Count: 2},
	}
	if d := cmp.Diff(want, Of(p).Starved); d != "" {
		t.Error(d)
	}
}

// TestCheckIsBefore: a blocking check is spent before those who wait for what
// it proves; one that does not block may still run after them, or before.
func TestCheckIsBefore(t *testing.T) {
	for _, blocking := range []bool{true, false} {
		p := &plan.Plan{Budget: plan.RunBudget{WallSeconds: 10}, Nodes: []plan.Node{
			node("a", nil, 0, 4, 0), check("a", "holds", 3, blocking), node("b", []string{"a"}, 0, 4, 0),
		}}
		got := map[string]int64{}
		for _, s := range Of(p).Starved {
			got[s.Phase] = s.Left
		}
		want := map[string]int64{"b": 3}
		if !blocking {
			want["a.holds"] = 2 // b does not wait for it
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("blocking %v: %s", blocking, d)
		}
	}
}

func TestUnreachable(t *testing.T) {
	p := priced(&plan.Plan{Budget: plan.RunBudget{CostMicroUSD: 9_000, WallSeconds: 50, Tokens: 10_000}, Nodes: []plan.Node{
		node("cheap", nil, 8_000, 10, 100),   // 100 tokens cost at most 1500
		node("dear", nil, 100, 10, 1000),     // 100 micro-dollars buy at most 333 tokens
		node("long", nil, 1_000, 60, 100_00), // more wall than the run; 1000 buy 3333 tokens
		node("fits", nil, 1_500, 10, 100),
	}}, "3", "15", "0.3", "3.75")
	got := Of(p).Unreachable
	want := []Unreachable{
		{"budget.cost_micro_usd", 9_000, 4_100, WhyTotal},
		{"nodes[cheap].budget.cost_micro_usd", 8_000, 1_500, WhyTokens},
		{"nodes[dear].budget.tokens", 1_000, 333, WhyCost},
		{"nodes[long].budget.wall_seconds", 60, 50, WhyRun},
		{"nodes[long].budget.tokens", 10_000, 3_333, WhyCost},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// What is exactly reached is reached; a token for nothing is never too dear.
	p = priced(&plan.Plan{Budget: plan.RunBudget{CostMicroUSD: 1_500, WallSeconds: 10, Tokens: 100}, Nodes: []plan.Node{node("fits", nil, 1_500, 10, 100)}}, "0", "15", "0", "0")
	if got := Of(p).Unreachable; len(got) != 0 {
		t.Errorf("%+v", got)
	}
	// Nobody knows what a login of its own spends.
	p.Harnesses[0].AuthStore = "login"
	p.Budget.Tokens = 1000
	if got := Of(p).Unreachable; len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestCallable: what a parent may ask for counts as often as it may be asked.
func TestCallable(t *testing.T) {
	p := priced(&plan.Plan{Package: &plan.Package{Callable: []plan.Callable{{Skill: "skill:a", Harness: "worker", MaxCalls: 3, Budget: plan.NodeBudget{CostMicroUSD: 10_000, WallSeconds: 5, Tokens: 100}}}}}, "3", "15", "0.3", "3.75")
	r := Of(p)
	if r.Uncapped != (Amount{4_500, 15, 300}) || r.Phases[0].ID != "call:skill:a" || r.Unreachable[0].Path != "package.callable[skill:a].budget.cost_micro_usd" {
		t.Errorf("%+v", r)
	}
}
