package compile

import (
	"fmt"
	"math"

	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// nodeBudget merges the budgets of a step; each dimension must be written
// somewhere.
func (c *compiler) nodeBudget(s *step) plan.NodeBudget {
	var out plan.NodeBudget
	for _, p := range c.chain(s) {
		applyBudget(&out, p.Budget)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"wall", out.WallSeconds}, {"turns", out.Turns}, {"tool_calls", out.ToolCalls}, {"tokens", out.Tokens},
		{"cost_usd", out.CostMicroUSD}, {"output", out.OutputBytes}, {"files", out.OutputFiles},
	} {
		if f.value == 0 {
			c.diags.Errorat(c.budgetPlace(s), "Budget is not bounded", fmt.Sprintf(
				"`%s` has no bound on `%s`: write it in the `budget` of `defaults`, or of %s. Absent is never unlimited.", s.id, f.name, blockFor(s)))
		}
	}
	return out
}

func (c *compiler) budgetPlace(s *step) diag.Range {
	if d := c.pol.Defaults; d != nil {
		if d.Budget != nil {
			return d.Budget.At
		}
		return d.At
	}
	return s.at
}

func applyBudget(out *plan.NodeBudget, b *policy.NodeBudget) {
	if b == nil {
		return
	}
	setInt(&out.WallSeconds, b.WallSeconds)
	setInt(&out.Turns, b.Turns)
	setInt(&out.ToolCalls, b.ToolCalls)
	setInt(&out.Tokens, b.Tokens)
	setInt(&out.CostMicroUSD, b.CostMicroUSD)
	setInt(&out.OutputBytes, b.OutputBytes)
	setInt(&out.OutputFiles, b.OutputFiles)
}

// lowerRun lowers what is said of the whole run: budget, providers, harnesses.
func (c *compiler) lowerRun() {
	b := c.pol.Budget
	if b == nil {
		c.diags.Errorat(diag.Range{}, "Run is not bounded", "The policy has no `budget` for the whole run: write `budget { wall = \"2h\"  cost_usd = \"25.00\"  tokens = 4000000 }`.")
		return
	}
	for _, f := range []struct {
		name string
		v    policy.Int
	}{{"wall", b.WallSeconds}, {"cost_usd", b.CostMicroUSD}, {"tokens", b.Tokens}} {
		if !f.v.Set() {
			c.diags.Errorat(b.At, "Run is not bounded", "The run's `budget` has no `"+f.name+"`. Absent is never unlimited.")
		}
	}
	c.plan.Budget = plan.RunBudget{WallSeconds: b.WallSeconds.Value, CostMicroUSD: b.CostMicroUSD.Value, Tokens: b.Tokens.Value}
	providers := map[string]*plan.Provider{}
	for _, name := range sortedKeys(c.harness) {
		w := c.harness[name]
		if !w.used {
			continue
		}
		c.plan.Harnesses = append(c.plan.Harnesses, w.plan)
		if p := w.provider; p != nil {
			addModel(providers, p)
		}
	}
	for _, name := range sortedKeys(providers) {
		c.plan.Providers = append(c.plan.Providers, *providers[name])
	}
	for _, name := range sortedKeys(c.inputs) {
		if in := c.inputs[name]; !in.used {
			c.diags.Warnat(in.decl.At, "Input is not read", "Nothing in this pipeline reads the input `"+name+"`.")
			delete(c.inputs, name)
			delete(c.bundles, in.Bundle)
		}
	}
	c.warnUnusedSchemas()
}

// addModel collects the models that are used, sorted, each once.
func addModel(providers map[string]*plan.Provider, p *plan.Provider) {
	known := providers[p.Name]
	if known == nil {
		clone := *p
		clone.Models = append([]plan.Model{}, p.Models...)
		providers[p.Name] = &clone
		return
	}
	for i, m := range known.Models {
		if m.ID == p.Models[0].ID {
			return
		}
		if m.ID > p.Models[0].ID {
			known.Models = append(known.Models[:i], append([]plan.Model{p.Models[0]}, known.Models[i:]...)...)
			return
		}
	}
	known.Models = append(known.Models, p.Models[0])
}

// worstCase is the largest spend that the plan's budgets allow: every node, as
// often as its loop may repeat it, every alternative of every branch.
func worstCase(p *plan.Plan) plan.WorstCase {
	times := map[string]int64{}
	for _, l := range p.Loops {
		for _, id := range l.Body {
			times[id] = l.MaxIterations
		}
	}
	var w plan.WorstCase
	for _, n := range p.Nodes {
		k := times[n.ID]
		if k == 0 {
			k = 1
		}
		w.UncappedCostMicroUSD = addMul(w.UncappedCostMicroUSD, n.Budget.CostMicroUSD, k)
		w.UncappedWallSeconds = addMul(w.UncappedWallSeconds, n.Budget.WallSeconds, k)
		w.UncappedTokens = addMul(w.UncappedTokens, n.Budget.Tokens, k)
	}
	w.CostMicroUSD = min(w.UncappedCostMicroUSD, p.Budget.CostMicroUSD)
	w.WallSeconds = min(w.UncappedWallSeconds, p.Budget.WallSeconds)
	w.Tokens = min(w.UncappedTokens, p.Budget.Tokens)
	return w
}

// addMul is sum + value*times, at most the largest int64.
func addMul(sum, value, times int64) int64 {
	if value != 0 && times > (math.MaxInt64-sum)/value {
		return math.MaxInt64
	}
	return sum + value*times
}
