package exec

import (
	"fmt"
	"math"

	"foundry/exec/record"
	"foundry/plan"
)

// reserve is what an attempt of node i may spend: its own budget, or what the
// run has left, if that is less. Nothing left is a failure of the run. A
// check spends neither tokens nor money.
func (x *stepper) reserve(i int, elapsedMS int64) (Command, *record.Failure) {
	n, b := &x.plan.Nodes[i], &x.plan.Budget
	var c Command
	f := over(record.DimWall, b.WallSeconds, elapsedMS/1000, record.SourceController, n.ID)
	c.Reserved.WallSeconds, c.RunWall = least(n.Budget.WallSeconds, b.WallSeconds-elapsedMS/1000)
	if x.agent(i) {
		tokens, cost := add(x.s.spent.tokens, x.s.reserved.tokens), add(x.s.spent.cost, x.s.reserved.cost)
		if f == nil {
			f = over(record.DimTokens, b.Tokens, tokens, record.SourceWorker, n.ID)
		}
		if f == nil {
			f = over(record.DimCost, b.CostMicroUSD, cost, record.SourceWorker, n.ID)
		}
		c.Reserved.Tokens, c.RunTokens = least(n.Budget.Tokens, b.Tokens-tokens)
		c.Reserved.CostMicroUSD, c.RunCost = least(n.Budget.CostMicroUSD, b.CostMicroUSD-cost)
	}
	if f != nil {
		return Command{}, f
	}
	held := sums{c.Reserved.Tokens, c.Reserved.CostMicroUSD}
	x.s.nodes[i].reserved = held
	x.s.reserved = sums{add(x.s.reserved.tokens, held.tokens), add(x.s.reserved.cost, held.cost)}
	return c, nil
}

func least(own, left int64) (int64, bool) {
	if left < own {
		return left, true
	}
	return own, false
}

// over is the failure of a run that has nothing left for another node. A run
// that has spent nothing may start one whatever its budget.
func over(dimension string, limit, observed int64, source, node string) *record.Failure {
	if observed <= 0 || observed < limit {
		return nil
	}
	f := record.Exceeded(record.ReasonBudgetExceeded, dimension, limit, observed, source,
		fmt.Sprintf("the run may spend %d %s: node %s was not started", limit, dimension, node))
	f.Class = record.ClassWorkflow
	return f
}

// release gives back what an attempt held.
func (x *stepper) release(i int) {
	held := &x.s.nodes[i].reserved
	x.s.reserved.tokens -= held.tokens
	x.s.reserved.cost -= held.cost
	*held = sums{}
}

// settle replaces what an attempt held by what it spent. What a real worker
// did not report counts in full, because it may have been spent, unless the
// plan says that it counts as nothing.
func (x *stepper) settle(i int, e record.Event) {
	held := x.s.nodes[i].reserved
	x.s.active--
	x.release(i)
	if e.Usage == nil {
		return
	}
	h := x.harnesses[x.plan.Nodes[i].Harness]
	real := h != nil && !h.TestStub && x.plan.Budget.Unknown != plan.UnknownWarn
	spend := func(sum int64, c record.Count, held int64) int64 {
		if n, ok := c.Value(); ok {
			return add(sum, n)
		}
		if real {
			return add(sum, held)
		}
		return sum
	}
	x.s.spent = sums{spend(x.s.spent.tokens, e.Usage.Tokens, held.tokens), spend(x.s.spent.cost, e.Usage.CostMicroUSD, held.cost)}
}

// lose counts what an attempt held as spent: its controller died, and nobody
// knows how far it came.
func (x *stepper) lose(i int) {
	held := x.s.nodes[i].reserved
	x.release(i)
	x.s.spent = sums{add(x.s.spent.tokens, held.tokens), add(x.s.spent.cost, held.cost)}
}

// add stays at the largest number, and counts nothing below 0.
func add(sum, n int64) int64 {
	return sum + min(max(n, 0), math.MaxInt64-sum)
}
