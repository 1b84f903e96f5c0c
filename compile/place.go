package compile

import (
	"strconv"
	"strings"

	"foundry/compile/internal/diag"
)

// problemPlace is where the sources say what a path of the finished plan
// holds, such as nodes[3](summarize-cwl).prompt; the policy as a whole where
// no phase or check says it.
func (c *compiler) problemPlace(path string) diag.Range {
	rest, ok := strings.CutPrefix(path, "nodes[")
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i >= len(c.plan.Nodes) {
		return c.policy
	}
	n := &c.plan.Nodes[i]
	if n.Check == nil {
		return c.steps[n.ID].place(strings.HasSuffix(rest, ".prompt"))
	}
	for _, s := range c.walk {
		for _, k := range s.checks {
			if k.id() == n.ID {
				return k.at
			}
		}
	}
	return c.policy
}

// place is the step's block in the policy, or the task in it; without one, its
// phase in the assembly.
func (s *step) place(task bool) diag.Range {
	for _, p := range s.policies {
		if task && p.Task.Set() {
			return p.Task.At
		}
	}
	if len(s.policies) > 0 {
		return s.policies[0].At
	}
	return s.at
}
