package compile

import (
	"fmt"

	"foundry/plan"
)

// lowerLoops lowers each loop's predicate and bound.
func (c *compiler) lowerLoops() {
	for _, u := range c.order {
		if u.kind != unitLoop {
			continue
		}
		l := plan.Loop{ID: u.id, Carries: u.carries}
		for _, n := range c.plan.Nodes {
			if n.Kind == plan.NodeAgent && inBody(u, n.ID) || n.Check != nil && (n.Check.Of == u.id || inBody(u, n.Check.Of)) {
				l.Body = append(l.Body, n.ID)
			}
		}
		l.MaxIterations = u.loop.MaxIterations.Value
		if e := c.lowerPredicate(u.loop.Until, c.scopeOf(u.steps, checksOf(u), true), "until"); e != nil {
			l.Until = *e
		}
		c.plan.Loops = append(c.plan.Loops, l)
	}
}

func inBody(u *unit, id string) bool {
	for _, s := range u.steps {
		if s.id == id {
			return true
		}
	}
	return false
}

func checksOf(u *unit) []*check {
	var out []*check
	for _, s := range u.steps {
		out = append(out, s.checks...)
	}
	return out
}

// lowerBranches lowers each fallback chain.
func (c *compiler) lowerBranches() {
	for _, u := range c.order {
		if u.kind != unitBranch || u.branch == nil {
			continue
		}
		b := plan.Branch{ID: u.id, Pattern: u.asm.Pattern, Otherwise: u.otherwise, Artifacts: sortedKeys(u.artifacts)}
		for _, s := range u.steps {
			b.Alternatives = append(b.Alternatives, s.id)
		}
		if u.branch.Accept.Syntax == nil {
			c.diags.Errorat(u.branch.At, "Branch without a decision", fmt.Sprintf(
				"The branch `%s` has no `accept`: write the predicate that says when an alternative's outputs are good enough.", u.id))
		} else if e := c.lowerPredicate(u.branch.Accept, c.branchScope(u), "accept"); e != nil {
			b.Accept = *e
		}
		c.plan.Branches = append(c.plan.Branches, b)
	}
}

// branchScope holds what every alternative has.
func (c *compiler) branchScope(u *unit) *predicateScope {
	sc := &predicateScope{outputs: map[string]string{}, checks: map[string]int{}, worker: true}
	for id, p := range u.artifacts {
		sc.outputs[id] = p.output.Kind
	}
	for _, d := range u.branch.Checks {
		sc.checks[d.Name]++
	}
	return sc
}

// scopeOf holds the facts of some steps.
func (c *compiler) scopeOf(steps []*step, checks []*check, loop bool) *predicateScope {
	sc := &predicateScope{outputs: map[string]string{}, checks: map[string]int{}, iteration: loop, worker: len(steps) == 1}
	for _, s := range steps {
		for _, o := range s.outputs {
			sc.outputs[o.Artifact] = o.Kind
		}
	}
	for _, k := range checks {
		sc.checks[k.name]++
	}
	return sc
}
