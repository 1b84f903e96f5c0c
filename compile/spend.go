package compile

import (
	"fmt"

	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// nodeBudget merges the budgets of a step; each dimension must be written
// somewhere.
func (c *compiler) nodeBudget(s *step, w *worker) plan.NodeBudget {
	var out plan.NodeBudget
	var last policy.NodeBudget // where each bound that holds was written
	for _, p := range c.chain(s) {
		applyBudget(&out, p.Budget)
		c.boundedBy(p.Budget)
		if b := p.Budget; b != nil {
			for _, f := range budgetWords {
				if i := f.of(b); i.Set() {
					*f.of(&last) = *i
				}
			}
		}
	}
	for _, f := range budgetWords {
		i := *f.of(&last)
		none := f.spend && w.provider == nil && !w.bad || f.output && len(s.outputs) == 0
		switch {
		case !i.Set():
			c.diags.Errorat(c.budgetPlace(s), "Budget is not bounded", fmt.Sprintf(
				"`%s` has no bound on `%s`: write it in the `budget` of `defaults`, or of %s. Absent is never unlimited.", s.id, f.name, blockFor(s)))
		case i.Value == 0 && !none:
			c.diags.Errorat(i.At, "Budget is empty", fmt.Sprintf("`%s` could not do anything with `%s` of 0: write what it may use.", s.id, f.name))
		}
	}
	return out
}

// budgetWords are the bounds of an attempt. A worker without a provider may
// have nothing to spend, and a step without outputs nothing to write.
var budgetWords = []struct {
	name          string
	of            func(*policy.NodeBudget) *policy.Int
	most          int64
	spend, output bool
}{
	{name: "wall", of: func(b *policy.NodeBudget) *policy.Int { return &b.WallSeconds }, most: plan.MaxWallSeconds},
	{name: "turns", of: func(b *policy.NodeBudget) *policy.Int { return &b.Turns }, most: plan.MaxTurns},
	{name: "tool_calls", of: func(b *policy.NodeBudget) *policy.Int { return &b.ToolCalls }, most: plan.MaxTurns},
	{name: "tokens", of: func(b *policy.NodeBudget) *policy.Int { return &b.Tokens }, most: plan.MaxAttemptTokens, spend: true},
	{name: "cost_usd", of: func(b *policy.NodeBudget) *policy.Int { return &b.CostMicroUSD }, most: plan.MaxAttemptCost, spend: true},
	{name: "output", of: func(b *policy.NodeBudget) *policy.Int { return &b.OutputBytes }, most: plan.MaxBytes, output: true},
	{name: "files", of: func(b *policy.NodeBudget) *policy.Int { return &b.OutputFiles }, most: plan.MaxFiles, output: true},
}

// boundedBy refuses bounds that the plan cannot hold.
func (c *compiler) boundedBy(b *policy.NodeBudget) {
	if b == nil {
		return
	}
	for _, f := range budgetWords {
		c.within(f.name, *f.of(b), 0, f.most)
	}
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
		c.diags.Errorat(c.policy, "Run is not bounded", "The policy has no `budget` for the whole run: write `budget { wall = \"2h\"  cost_usd = \"25.00\"  tokens = 4000000 }`.")
		return
	}
	for _, f := range []struct {
		name string
		v    policy.Int
		most int64
	}{{"wall", b.WallSeconds, plan.MaxWallSeconds}, {"cost_usd", b.CostMicroUSD, plan.MaxRunCost}, {"tokens", b.Tokens, plan.MaxRunTokens}} {
		if !f.v.Set() {
			c.diags.Errorat(b.At, "Run is not bounded", "The run's `budget` has no `"+f.name+"`. Absent is never unlimited.")
		}
		c.within(f.name, f.v, 1, f.most)
	}
	c.plan.Budget = plan.RunBudget{WallSeconds: b.WallSeconds.Value, CostMicroUSD: b.CostMicroUSD.Value, Tokens: b.Tokens.Value, Unknown: plan.UnknownFail}
	if b.Unknown.Set() {
		c.plan.Budget.Unknown = b.Unknown.Value
	}
	providers := map[string]*plan.Provider{}
	for _, name := range sortedKeys(c.harness) {
		w := c.harness[name]
		if !w.used {
			continue
		}
		c.plan.Harnesses = append(c.plan.Harnesses, w.plan)
		if w.plan.AuthStore != "" && c.plan.Budget.Unknown == plan.UnknownFail {
			c.diags.Errorat(w.decl.Auth.At, "Spend that nobody can know", "The harness `"+name+"` works with a login of its own, past the broker: what it costs is not known, and without a word the run fails where a spend is not known. Write `unknown = \"warn\"` in the run's `budget` to say that you know, or take out `auth_store`.")
		}
		if p := w.provider; p != nil {
			addModel(providers, p)
		}
	}
	for _, name := range sortedKeys(providers) {
		c.plan.Providers = append(c.plan.Providers, *providers[name])
		c.useAnswers(providers[name])
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
