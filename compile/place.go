package compile

import (
	"strconv"
	"strings"

	"foundry/compile/internal/diag"
)

// problemPlace is where the sources say what a path of the finished plan
// holds, such as nodes[3](summarize-cwl).prompt; the policy as a whole where
// no part of it says it alone.
func (c *compiler) problemPlace(path string) diag.Range {
	list, rest, _ := strings.Cut(path, "[")
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if err != nil {
		return c.policy
	}
	switch {
	case list == "nodes" && i < len(c.plan.Nodes):
		n := &c.plan.Nodes[i]
		if n.Check != nil {
			return c.checkPlace(n.ID)
		}
		s := c.steps[n.ID]
		if len(s.policies) == 0 {
			return s.at
		}
		if p := s.policies[0]; p.Task.Set() && strings.HasSuffix(rest, ".prompt") {
			return p.Task.At
		}
		return s.policies[0].At
	case list == "loops" && i < len(c.plan.Loops):
		return c.units[c.plan.Loops[i].ID].at
	case list == "branches" && i < len(c.plan.Branches):
		return c.units[c.plan.Branches[i].ID].branch.At
	case list == "inputs" && i < len(c.plan.Inputs):
		return c.inputs[c.plan.Inputs[i].ID].decl.At
	case list == "harnesses" && i < len(c.plan.Harnesses):
		return c.harness[c.plan.Harnesses[i].Name].decl.At
	}
	return c.policy
}

func (c *compiler) checkPlace(id string) diag.Range {
	for _, s := range c.walk {
		for _, k := range s.checks {
			if k.id() == id {
				return k.at
			}
		}
	}
	return c.policy
}
