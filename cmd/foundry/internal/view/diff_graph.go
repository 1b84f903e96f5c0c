package view

import (
	"fmt"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/plan/diff"
)

// changedGraph draws what changed and what it is joined with, as Mermaid text
// of at most most items; "" when no step, loop or branch changed. What was
// removed stands beside it.
func changedGraph(r *diff.Report, before, after *plan.Plan, most int) string {
	marks := changedItems(r, after)
	g := newGraph(after)
	changed, near := map[*item]bool{}, map[*item]bool{}
	for _, it := range g.items {
		changed[it] = marks[it.ref] != ""
	}
	for _, n := range g.nets {
		for _, t := range n.to {
			near[n.from] = near[n.from] || changed[t.item]
			near[t.item] = near[t.item] || changed[n.from]
		}
	}
	for _, o := range g.order {
		near[o[0]] = near[o[0]] || changed[o[1]]
		near[o[1]] = near[o[1]] || changed[o[0]]
	}
	keep := map[*item]bool{}
	admit := func(is func(it *item) bool) {
		for _, it := range g.items {
			if len(keep) < most && is(it) {
				keep[it] = true
			}
		}
	}
	for _, class := range classes {
		admit(func(it *item) bool { return marks[it.ref] == class })
	}
	admit(func(it *item) bool { return near[it] })
	left := 0
	for _, it := range g.items {
		if changed[it] && !keep[it] {
			left++
		}
	}
	gone := removedItems(r)
	if len(keep)+len(gone) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, it := range g.items {
		if keep[it] {
			fmt.Fprintf(&b, "  %s\n", mermaidNode(it))
		}
	}
	mermaidEdges(&b, g.only(keep))
	for i, path := range gone[:min(len(gone), most)] {
		fmt.Fprintf(&b, "  g%d[\"removed: %s\"]:::removed\n", i, MermaidText(fit(path, 80)))
	}
	left += max(0, len(gone)-most)
	if left > 0 {
		fmt.Fprintf(&b, "  more[\"%d more that changed\"]\n", left)
	}
	for _, class := range classes {
		var ids []string
		for _, it := range g.items {
			if keep[it] && marks[it.ref] == class {
				ids = append(ids, fmt.Sprintf("n%d", it.index))
			}
		}
		if len(ids) > 0 {
			fmt.Fprintf(&b, "  class %s %s\n", strings.Join(ids, ","), class)
		}
	}
	b.WriteString("  classDef widens stroke:#cf222e,stroke-width:3px\n  classDef narrows stroke:#1a7f37,stroke-width:3px\n" +
		"  classDef neutral stroke-width:3px\n  classDef removed stroke:#cf222e,stroke-dasharray:4 4\n")
	return b.String()
}

// only is a graph with some of its items.
func (g *graph) only(keep map[*item]bool) *graph {
	part := &graph{plan: g.plan}
	for _, n := range g.nets {
		if !keep[n.from] {
			continue
		}
		c := *n
		c.to = nil
		for _, t := range n.to {
			if keep[t.item] {
				c.to = append(c.to, t)
			}
		}
		part.nets = append(part.nets, &c)
	}
	for _, o := range g.order {
		if keep[o[0]] && keep[o[1]] {
			part.order = append(part.order, o)
		}
	}
	return part
}

// listRefs says which list of a plan the items of a graph are of.
var listRefs = map[string]string{"nodes": "node:", "loops": "loop:", "branches": "branch:", "inputs": "input:"}

// changedItems is the worst class of each item that changed, by its ref. A
// change of a skill or a harness is one of every step that uses it.
func changedItems(r *diff.Report, after *plan.Plan) map[string]diff.Class {
	marks := map[string]diff.Class{}
	mark := func(ref string, class diff.Class) {
		if marks[ref] == "" || slices.Index(classes, class) < slices.Index(classes, marks[ref]) {
			marks[ref] = class
		}
	}
	used := map[string]diff.Class{}
	for _, c := range r.Changes {
		list, id, rest := SplitPath(c.Path)
		switch {
		case id == "" || id == "*" || c.Kind == diff.Removed && rest == "":
		case listRefs[list] != "":
			mark(listRefs[list]+id, c.Class)
		case used[list+" "+id] == "" || c.Class == diff.Widens:
			used[list+" "+id] = c.Class
		}
	}
	for i := range after.Nodes {
		n := &after.Nodes[i]
		for _, key := range append([]string{"bundles " + n.Skill, "harnesses " + n.Harness}, prefixed("bundles ", n.NestedSkills)...) {
			if class := used[key]; class != "" {
				mark("node:"+n.ID, class)
			}
		}
	}
	return marks
}

func prefixed(prefix string, list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = prefix + s
	}
	return out
}

// removedItems are the ids of the steps, loops and branches that are gone.
func removedItems(r *diff.Report) []string {
	var out []string
	for _, c := range r.Changes {
		if list, id, rest := SplitPath(c.Path); c.Kind == diff.Removed && rest == "" && listRefs[list] != "" && id != "" {
			out = append(out, strings.TrimSuffix(listRefs[list], ":")+" "+id)
		}
	}
	return out
}
