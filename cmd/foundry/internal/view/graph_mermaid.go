package view

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"foundry/plan"
)

// GraphMermaid writes a plan as a Mermaid flowchart: steps, loops and branches
// as subgraphs, artifacts on the edges.
func GraphMermaid(w io.Writer, p *plan.Plan) error {
	g := newGraph(p)
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	boxed := map[*box]bool{}
	for _, it := range g.items {
		if it.box == nil {
			fmt.Fprintf(&b, "  %s\n", mermaidNode(it))
			continue
		}
		if boxed[it.box] {
			continue
		}
		boxed[it.box] = true
		fmt.Fprintf(&b, "  subgraph b%d[\"%s\"]\n", it.index, MermaidText(it.box.title))
		for _, in := range it.box.items {
			fmt.Fprintf(&b, "    %s\n", mermaidNode(in))
		}
		b.WriteString("  end\n")
	}
	mermaidEdges(&b, g)
	_, err := io.WriteString(w, b.String())
	return err
}

// mermaidNode draws an item in the form of its kind.
func mermaidNode(it *item) string {
	left, right := "[", "]"
	switch it.kind {
	case itemInput:
		left, right = "([", "])"
	case itemLoop, itemBranch:
		left, right = "{{", "}}"
	case plan.NodeCheck:
		left, right = "[/", "/]"
	}
	lines := append([]string{it.title}, it.lines...)
	switch {
	case it.kind == plan.NodeCheck:
		lines[0] = it.kind + " " + it.title
	case it.node != nil:
		lines[0] = fmt.Sprintf("%d %s", it.node.Phase, it.title)
	}
	if len(it.marks) > 0 {
		lines = append(lines, strings.Join(it.marks, ", "))
	}
	for i, l := range lines {
		lines[i] = MermaidText(fit(l, 80))
	}
	return fmt.Sprintf("n%d%s\"%s\"%s", it.index, left, strings.Join(lines, "<br>"), right)
}

// mermaidEdges draws one edge for all artifacts that one item gives another.
func mermaidEdges(b *strings.Builder, g *graph) {
	type pair struct {
		from, to int
		kind     string
	}
	var pairs []pair
	labels := map[pair][]string{}
	for _, n := range g.nets {
		for _, t := range n.to {
			k := pair{n.from.index, t.item.index, n.kind}
			if labels[k] == nil {
				pairs = append(pairs, k)
			}
			labels[k] = append(labels[k], MermaidText(n.artifact))
		}
	}
	joined := map[[2]int]bool{}
	for _, k := range pairs {
		arrow := "-->"
		switch k.kind {
		case netCarried:
			arrow = "-.->"
			labels[k] = append(labels[k], "next iteration")
		case netAfter:
			fmt.Fprintf(b, "  n%d -.-> n%d\n", k.from, k.to)
			continue
		}
		joined[[2]int{k.from, k.to}] = true
		fmt.Fprintf(b, "  n%d %s|\"%s\"| n%d\n", k.from, arrow, strings.Join(labels[k], "<br>"), k.to)
	}
	for _, o := range g.order {
		if !joined[[2]int{o[0].index, o[1].index}] {
			fmt.Fprintf(b, "  n%d -.-> n%d\n", o[0].index, o[1].index)
		}
	}
	for _, x := range g.boxes {
		if x.kind == itemLoop {
			fmt.Fprintf(b, "  n%d -->|\"again\"| n%d\n", x.items[len(x.items)-1].index, x.items[0].index)
		}
	}
}

// MermaidText makes a text one that may stand between quotes in a Mermaid
// diagram, and is shown as it is: all but letters, digits and harmless signs
// becomes an entity.
func MermaidText(s string) string {
	var b strings.Builder
	for _, r := range Safe(s) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_.,:/()=+?!·…↺", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
