package spend

import (
	"math"

	"foundry/plan"
)

// Amount is a spend. A number stays at the largest int64 where it would pass it.
type Amount struct {
	CostMicroUSD int64 `json:"cost_micro_usd"`
	WallSeconds  int64 `json:"wall_seconds"`
	Tokens       int64 `json:"tokens"`
}

// Dimensions of an Amount, as a plan's budgets name them.
const (
	Cost   = "cost_micro_usd"
	Wall   = "wall_seconds"
	Tokens = "tokens"
)

// Dimensions lists them in the order of an Amount.
var Dimensions = []string{Cost, Wall, Tokens}

// Of is the number of one dimension.
func (a Amount) Of(dimension string) int64 {
	switch dimension {
	case Cost:
		return a.CostMicroUSD
	case Wall:
		return a.WallSeconds
	}
	return a.Tokens
}

func (a Amount) plus(b Amount, times int64) Amount {
	return Amount{addMul(a.CostMicroUSD, b.CostMicroUSD, times), addMul(a.WallSeconds, b.WallSeconds, times), addMul(a.Tokens, b.Tokens, times)}
}

func (a Amount) atMost(b Amount) Amount {
	return Amount{min(a.CostMicroUSD, b.CostMicroUSD), min(a.WallSeconds, b.WallSeconds), min(a.Tokens, b.Tokens)}
}

// addMul is sum + value*times, at most the largest int64; nothing is below 0.
func addMul(sum, value, times int64) int64 {
	sum, value, times = max(sum, 0), max(value, 0), max(times, 0)
	if value != 0 && times > (math.MaxInt64-sum)/value {
		return math.MaxInt64
	}
	return sum + value*times
}

// Step is a node's part of the worst case. What is handed back to a living
// worker (submit_attempts) is paid from the same attempt.
type Step struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Times int64  `json:"times"` // attempts: one for each iteration
	Each  Amount `json:"each"`  // one attempt
	Total Amount `json:"total"`
	// PricedBy is the price that bounds the cost below the step's own budget:
	// its tokens, each as dear as any of the model; "" where the budget bounds it.
	PricedBy string `json:"priced_by,omitempty"`
}

// Kinds of Phase.
const (
	KindStep   = "step"
	KindCheck  = "check"
	KindLoop   = "loop"
	KindBranch = "branch"
)

// Phase is a node outside of loops and branches, or a whole loop or branch: all
// its iterations, all its alternatives and their checks.
type Phase struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	Iterations int64  `json:"iterations"` // 1 outside of loops
	Each       Amount `json:"each"`       // one iteration
	Total      Amount `json:"total"`
	Steps      []Step `json:"steps"`
}

// Report is the static spend of a plan.
type Report struct {
	Phases   []Phase `json:"phases"` // in the plan's order
	Uncapped Amount  `json:"uncapped"`
	Budget   Amount  `json:"budget"` // of the run
	Capped   Amount  `json:"capped"` // what a run may spend
	// Unbounded are the harnesses that reach their provider with a login of their
	// own: no broker counts for them, and the numbers do not bound their spend.
	Unbounded   []string      `json:"unbounded"`
	Starved     []Starved     `json:"starved"`
	Unreachable []Unreachable `json:"unreachable"`
	Grading     *Amount       `json:"grading,omitempty"` // the evaluation's budget, beside the run's
}

// WorstCase is the part of the report that the plan itself holds.
func WorstCase(p *plan.Plan) plan.WorstCase {
	phases, _ := phasesOf(p)
	all := sum(phases)
	most := all.atMost(budgetOf(p))
	return plan.WorstCase{UncappedCostMicroUSD: all.CostMicroUSD, CostMicroUSD: most.CostMicroUSD, UncappedWallSeconds: all.WallSeconds,
		WallSeconds: most.WallSeconds, UncappedTokens: all.Tokens, Tokens: most.Tokens}
}

// Of computes the report of a valid plan. The same plan gives the same report.
func Of(p *plan.Plan) *Report {
	phases, g := phasesOf(p)
	r := &Report{Phases: phases, Uncapped: sum(phases), Budget: budgetOf(p), Unbounded: []string{}, Starved: []Starved{}}
	r.Capped = r.Uncapped.atMost(r.Budget)
	for _, h := range p.Harnesses {
		if h.AuthStore != "" {
			r.Unbounded = append(r.Unbounded, h.Name)
		}
	}
	if e := p.Evaluation; e != nil {
		r.Grading = &Amount{e.Budget.CostMicroUSD, e.Budget.WallSeconds, e.Budget.Tokens}
	}
	for _, d := range Dimensions {
		r.Starved = append(r.Starved, g.starved(phases, d, r.Budget.Of(d))...)
	}
	r.Unreachable = unreachable(p, r)
	return r
}

func budgetOf(p *plan.Plan) Amount {
	return Amount{p.Budget.CostMicroUSD, p.Budget.WallSeconds, p.Budget.Tokens}
}

func sum(phases []Phase) Amount {
	var all Amount
	for i := range phases {
		all = all.plus(phases[i].Total, 1)
	}
	return all
}

// phasesOf groups the nodes, and says which group waits for which.
func phasesOf(p *plan.Plan) ([]Phase, *graph) {
	g := group(p)
	prices := pricesOf(p)
	phases := make([]Phase, len(g.ids))
	for u := range phases {
		ph := &phases[u]
		ph.ID, ph.Kind, ph.Iterations = g.ids[u], g.kinds[u], 1
		if l := g.loops[u]; l != nil {
			ph.Iterations = l.MaxIterations
		}
		ph.Steps = make([]Step, 0, len(g.nodes[u]))
		for _, i := range g.nodes[u] {
			n := &p.Nodes[i]
			s := Step{ID: n.ID, Kind: n.Kind, Times: ph.Iterations, Each: Amount{n.Budget.CostMicroUSD, n.Budget.WallSeconds, n.Budget.Tokens}}
			if pr := prices[n.Harness]; pr != nil {
				if most := pr.dearest(n.Budget.Tokens); most < s.Each.CostMicroUSD {
					s.Each.CostMicroUSD, s.PricedBy = most, pr.model
				}
			}
			s.Total = Amount{}.plus(s.Each, s.Times)
			ph.Each = ph.Each.plus(s.Each, 1)
			ph.Steps = append(ph.Steps, s)
		}
		ph.Total = Amount{}.plus(ph.Each, ph.Iterations)
	}
	if p.Package != nil {
		phases = append(phases, callables(p.Package, prices)...)
	}
	return phases, g
}

// callables are what a parent may ask for, each as often as it may.
func callables(pack *plan.Package, prices map[string]*price) []Phase {
	var out []Phase
	for _, c := range pack.Callable {
		each := Amount{c.Budget.CostMicroUSD, c.Budget.WallSeconds, c.Budget.Tokens}
		by := ""
		if pr := prices[c.Harness]; pr != nil {
			if most := pr.dearest(c.Budget.Tokens); most < each.CostMicroUSD {
				each.CostMicroUSD, by = most, pr.model
			}
		}
		total := Amount{}.plus(each, c.MaxCalls)
		out = append(out, Phase{ID: "call:" + c.Skill, Kind: KindStep, Iterations: c.MaxCalls, Each: each, Total: total,
			Steps: []Step{{ID: "call:" + c.Skill, Kind: plan.NodeAgent, Times: c.MaxCalls, Each: each, Total: total, PricedBy: by}}})
	}
	return out
}
