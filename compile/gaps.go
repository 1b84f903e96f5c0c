package compile

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/plan"
)

// foldName is what a case-folding, normalising file system sees.
func foldName(name string) string { return cases.Fold().String(norm.NFC.String(name)) }

// gap is an artifact that a step reads and nothing gives.
type gap struct {
	step     *step
	artifact string
	summary  string
	why      string // in sentences
	ways     string // out of it
	partial  bool   // no input can fill it: a branch gives it on some ways
}

// unbound reports an artifact that a step reads and nothing gives.
func (c *compiler) unbound(f *flow, s *step, r consumed) {
	if f.partial[r.id] == "" && c.unread[r.id] {
		return // it was said why
	}
	g := c.gapOf(f, s, r)
	if c.found != nil {
		c.found.gaps = append(c.found.gaps, g)
		return
	}
	c.diags.Errorat(r.at, g.summary, strings.TrimSpace(g.why+" "+g.ways))
}

// gapOf finds out what kind of gap it is: a cycle, an artifact that is only
// produced later, one that only some ways give, or a true gap.
func (c *compiler) gapOf(f *flow, s *step, r consumed) gap {
	g := gap{step: s, artifact: r.id}
	if why := f.partial[r.id]; why != "" {
		g.summary, g.partial = "Input may be missing", true
		g.why = fmt.Sprintf("`%s` reads `%s`, but %s.", s.id, r.id, why)
		g.ways = "Let every alternative produce it, or list it in `not_applicable` of " + blockFor(s) + "."
		return g
	}
	if i := slices.IndexFunc(s.unit.steps, func(t *step) bool { return t != s && outputOf(t, r.id).Artifact != "" }); i >= 0 && s.unit.kind == unitBranch {
		g.summary = "Artifact of another alternative"
		g.why = fmt.Sprintf("`%s` reads `%s`, which only `%s` gives, another alternative of the same branch: each starts from what was there before the branch.", s.id, r.id, s.unit.steps[i].id)
		g.ways = fmt.Sprintf("Bring it with `input %q { path = \"…\" }`, or list it in `not_applicable` of %s.", r.id, blockFor(s))
		return g
	}
	if cycle := c.cycleThrough(s, r.id); cycle != nil {
		g.summary, g.why = "Cycle", c.describeCycle(cycle)
		return g
	}
	var later []string
	for _, t := range c.walk {
		if t != s && outputOf(t, r.id).Artifact != "" || t.skill != nil && t != s && slices.ContainsFunc(t.skill.Produces, func(p bundle.Produced) bool { return p.ID == r.id }) {
			later = append(later, t.id)
		}
	}
	var could string
	switch {
	case len(later) > 0:
		could = "It is produced only later, by " + list(sortedSet(later)) + "."
	case r.prov != nil && len(r.prov.Producers) > 0:
		could = "No phase of this pipeline produces it; its provenance names " + list(r.prov.Producers) + " as who could."
	default:
		could = "No phase of this pipeline produces it. " + hint(r.id, c.artifactIDs())
	}
	g.summary = "Artifact without a producer"
	g.why = fmt.Sprintf("Phase %d (`%s`) reads `%s`, and nothing before it gives it. %s", s.number, s.id, r.id, could)
	g.ways = fmt.Sprintf("Either bring it with `input %q { path = \"…\" }`, or, if it does not apply here, list it: `not_applicable = [%q]` in %s.", r.id, r.id, blockFor(s))
	return g
}

func (c *compiler) artifactIDs() []string {
	set := map[string]bool{}
	for _, t := range c.walk {
		if t.skill != nil {
			for _, p := range t.skill.Produces {
				set[p.ID] = true
			}
		}
	}
	for name := range c.inputs {
		set[name] = true
	}
	return sortedKeys(set)
}

// edge is "from waits for to, because it reads artifact".
type edge struct {
	from, to *step
	artifact string
	at       diag.Range
}

// cycleThrough finds the shortest cycle of reads that goes through s reading
// artifact, over what the skills and the policy say regardless of order. nil
// means that there is none.
func (c *compiler) cycleThrough(s *step, artifact string) []edge {
	if c.readGraph == nil {
		c.readGraph = c.buildReadGraph()
	}
	g := c.readGraph
	for _, first := range g.producers[artifact] {
		if path := g.shortest(first, s); path != nil {
			at := c.placeOf(s, artifact)
			return append([]edge{{s, first, artifact, at}}, path...)
		}
	}
	return nil
}

// readGraph is who reads what of whom.
type readGraph struct {
	producers map[string][]*step
	reads     map[*step][]consumed
}

func (c *compiler) buildReadGraph() *readGraph {
	g := &readGraph{producers: map[string][]*step{}, reads: map[*step][]consumed{}}
	for _, s := range c.walk {
		if s.skill == nil {
			continue
		}
		for _, p := range s.skill.Produces {
			g.producers[p.ID] = append(g.producers[p.ID], s)
		}
		for _, q := range s.skill.Consumes {
			g.reads[s] = append(g.reads[s], consumed{id: q.ID, at: q.At})
		}
		for _, p := range s.policies {
			for _, t := range p.Inputs.Items {
				g.reads[s] = append(g.reads[s], consumed{id: t.Value, at: t.At})
			}
		}
	}
	return g
}

// shortest is the shortest chain of reads from one step to another; an empty
// chain when they are the same. An artifact with several producers could come
// from any: only one that has a single producer forces the wait.
func (g *readGraph) shortest(from, to *step) []edge {
	if from == to {
		return []edge{}
	}
	came := map[*step]edge{from: {}}
	queue := []*step{from}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, r := range g.reads[s] {
			who := g.producers[r.id]
			if len(who) != 1 {
				continue
			}
			t := who[0]
			if _, seen := came[t]; seen {
				continue
			}
			came[t] = edge{s, t, r.id, r.at}
			if t == to {
				var path []edge
				for t != from {
					e := came[t]
					path = append(path, e)
					t = e.from
				}
				slices.Reverse(path)
				return path
			}
			queue = append(queue, t)
		}
	}
	return nil
}

func (c *compiler) placeOf(s *step, artifact string) diag.Range {
	for _, r := range c.readGraph.reads[s] {
		if r.id == artifact {
			return r.at
		}
	}
	return s.at
}

// describeCycle names each edge in order with its file and line. A ring of
// thousands is cut in the middle.
func (c *compiler) describeCycle(cycle []edge) string {
	const shown = 6
	var b strings.Builder
	fmt.Fprintf(&b, "The phases wait for each other in a ring of %d: ", len(cycle))
	for i, e := range cycle {
		if len(cycle) > 2*shown && i == shown {
			fmt.Fprintf(&b, "… %d more …; ", len(cycle)-2*shown)
		}
		if len(cycle) > 2*shown && i >= shown && i < len(cycle)-shown {
			continue
		}
		fmt.Fprintf(&b, "`%s` reads `%s` of `%s` (%s); ", e.from.id, e.artifact, e.to.id, where(e.at))
	}
	b.WriteString("so none can start. Bring one of these artifacts as an `input`, or list it in `not_applicable`.")
	return b.String()
}

// otherwise is what a branch without an accepted alternative gives.
func (c *compiler) otherwise(u *unit) string {
	b := u.branch
	if b == nil {
		return plan.OtherwiseFail
	}
	supplied := slices.Contains(u.asm.Chain, "user-supplied")
	if b.Otherwise.Syntax == nil {
		if supplied && c.found == nil {
			c.diags.Errorat(b.At, "Branch without a fallback", "The chain of `"+u.id+"` ends in `user-supplied`: say what the user supplies with `otherwise = input.NAME`, or that the branch then fails with `otherwise = \"fail\"`.")
		}
		return plan.OtherwiseFail
	}
	name, fail, ok := c.inputName(b.Otherwise)
	switch {
	case !ok:
		return plan.OtherwiseFail
	case fail:
		return plan.OtherwiseFail
	}
	in := c.inputs[name]
	if in == nil {
		c.diags.Errorat(b.Otherwise.At, "Unknown input", "The policy has no input `"+name+"`. "+hint(name, sortedKeys(c.inputs)))
		return plan.OtherwiseFail
	}
	in.used = true
	if p := u.artifacts[name]; p == nil || len(u.artifacts) != 1 {
		c.diags.Errorat(b.Otherwise.At, "Fallback is not what the branch gives", fmt.Sprintf(
			"The branch `%s` gives %s, and `otherwise` supplies the input `%s`: name the input after the one artifact that it stands for.", u.id, list(sortedKeys(u.artifacts)), name))
	} else if in.Kind != p.output.Kind {
		c.diags.Errorat(b.Otherwise.At, "Fallback has another form", fmt.Sprintf(
			"The input `%s` is %s, and the alternatives of `%s` write it as %s.", name, in.Kind, u.id, p.output.Kind))
	}
	return "input:" + name
}
