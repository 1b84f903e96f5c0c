package spend

import "foundry/plan"

// Unreachable is a bound that another bound ends before it is reached: it
// protects from nothing, or is a mistake.
type Unreachable struct {
	Path  string `json:"path"`  // budget.tokens, nodes[ID].budget.cost_micro_usd
	Bound int64  `json:"bound"` // as the plan has it
	Most  int64  `json:"most"`  // that can be spent
	Why   string `json:"why"`   // a Why… constant
}

// Why a bound cannot be reached.
const (
	WhyTotal  = "all steps together cannot spend so much"
	WhyTokens = "its tokens end first, even if each costs as much as the dearest"
	WhyCost   = "its money ends first, even if each token costs as little as the cheapest"
	WhyRun    = "the run's budget is smaller"
)

// unreachable compares each bound with those that hold beside it.
func unreachable(p *plan.Plan, r *Report) []Unreachable {
	out := []Unreachable{}
	for _, d := range Dimensions {
		if most, bound := r.Uncapped.Of(d), r.Budget.Of(d); most < bound && len(r.Unbounded) == 0 {
			out = append(out, Unreachable{"budget." + d, bound, most, WhyTotal})
		}
	}
	prices := pricesOf(p)
	add := func(where, harness string, b *plan.NodeBudget) {
		bounds := Amount{b.CostMicroUSD, b.WallSeconds, b.Tokens}
		most := bounds
		why := map[string]string{}
		if pr := prices[harness]; pr != nil {
			if k := pr.dearest(bounds.Tokens); k < bounds.CostMicroUSD {
				most.CostMicroUSD, why[Cost] = k, WhyTokens
			}
			if k := pr.cheapest(bounds.CostMicroUSD); k < bounds.Tokens {
				most.Tokens, why[Tokens] = k, WhyCost
			}
		}
		for _, d := range Dimensions {
			switch run := r.Budget.Of(d); {
			case run < most.Of(d):
				out = append(out, Unreachable{where + ".budget." + d, bounds.Of(d), run, WhyRun})
			case why[d] != "":
				out = append(out, Unreachable{where + ".budget." + d, bounds.Of(d), most.Of(d), why[d]})
			}
		}
	}
	for i := range p.Nodes {
		add("nodes["+p.Nodes[i].ID+"]", p.Nodes[i].Harness, &p.Nodes[i].Budget)
	}
	if p.Package != nil {
		for i := range p.Package.Callable {
			c := &p.Package.Callable[i]
			add("package.callable["+c.Skill+"]", c.Harness, &c.Budget)
		}
	}
	return out
}
