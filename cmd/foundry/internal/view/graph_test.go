package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"foundry/plan"
)

// drawPlan makes a plan of steps that read each other's artifacts, some of
// them in a loop or a branch. It need not be one that runs.
func drawPlan(t *rapid.T) *plan.Plan {
	p := &plan.Plan{Order: plan.OrderAssembly, Inputs: []plan.Input{{ID: "in", Bundle: "input:in"}}}
	n := rapid.IntRange(0, 24).Draw(t, "steps")
	for i := range n {
		node := plan.Node{ID: fmt.Sprintf("s%d", i), Kind: plan.NodeAgent, Phase: int64(i + 1), Outputs: []plan.NodeOutput{{Artifact: fmt.Sprintf("a%d", i)}}}
		if i > 0 && rapid.Bool().Draw(t, "waits") {
			node.Needs = []string{fmt.Sprintf("s%d", rapid.IntRange(0, i-1).Draw(t, "for"))}
		}
		for range rapid.IntRange(0, 3).Draw(t, "reads") {
			in := plan.NodeInput{Artifact: "in", From: "input:in"}
			if k := rapid.IntRange(-1, n-1).Draw(t, "from"); k >= 0 && k < i {
				in = plan.NodeInput{Artifact: fmt.Sprintf("a%d", k), From: fmt.Sprintf("node:s%d", k)}
			} else if k >= i {
				in = plan.NodeInput{Artifact: fmt.Sprintf("a%d", k), From: plan.FromNone, CarriedFrom: fmt.Sprintf("s%d", k)}
			}
			node.Inputs = append(node.Inputs, in)
		}
		p.Nodes = append(p.Nodes, node)
	}
	if n > 4 {
		first := rapid.IntRange(0, n-4).Draw(t, "loop")
		p.Loops = []plan.Loop{{ID: "l", Body: []string{p.Nodes[first].ID, p.Nodes[first+1].ID}, MaxIterations: 3}}
		p.Branches = []plan.Branch{{ID: "b", Alternatives: []string{p.Nodes[first+2].ID, p.Nodes[first+3].ID}, Otherwise: "input:in", Artifacts: []string{"x"}}}
	}
	return p
}

// Every step is in the picture once, in its own place; no two artifacts share
// a piece of a lane; and the same plan gives the same picture.
func TestGraphLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		g := newGraph(p)
		if want := len(p.Inputs) + len(p.Nodes) + len(p.Loops) + len(p.Branches); len(g.items) != want {
			t.Fatalf("%d items of %d", len(g.items), want)
		}
		l := &layouter{graph: g, places: make([]place, len(g.items))}
		l.stack()
		l.lanes()
		for i := 1; i < len(l.places); i++ {
			if before := l.places[i-1]; l.places[i].Y < before.Y+before.H {
				t.Fatalf("item %d lies on the one before it", i)
			}
		}
		ends := func(n *net) (from, to int) {
			from = l.portY(n.from, false, n.out)
			to = from
			for _, x := range n.to {
				y := l.portY(x.item, true, x.in)
				from, to = min(from, y), max(to, y)
			}
			return from, to
		}
		for n, lane := range l.lane {
			for m, other := range l.lane {
				f1, t1 := ends(n)
				f2, t2 := ends(m)
				if n != m && lane == other && f1 <= t2 && f2 <= t1 {
					t.Fatalf("%s and %s share lane %d", n.artifact, m.artifact, lane)
				}
			}
		}
		var a, b bytes.Buffer
		if err := GraphHTML(&a, p, "x"); err != nil {
			t.Fatal(err)
		}
		if err := GraphHTML(&b, p, "x"); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatal("two pictures of one plan")
		}
	})
}

// What a step may do beyond the least is marked on it.
func TestGraphMarks(t *testing.T) {
	n := plan.Node{ID: "s", Kind: plan.NodeAgent, SubmitAttempts: 2, Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Network: plan.NetworkBridge,
		Credentials: []string{"A"}, WorkerCredentials: []string{"B", "C"}, AllowShell: true, AllowFetch: true}, Check: &plan.Check{TrustedHost: true}}
	got := strings.Join(marks(&n, plan.Harness{AuthStore: "mine"}), "; ")
	want := "no sandbox; network: bridge; 1 credential; 2 credentials inside; own login; shell; fetches code; on the host; 2 submissions"
	if got != want {
		t.Errorf("marks: %s\nwant:  %s", got, want)
	}
	if got := marks(&plan.Node{Sandbox: plan.Sandbox{Mode: plan.SandboxContainer, Network: plan.NetworkNone}, SubmitAttempts: 1}, plan.Harness{}); len(got) > 0 {
		t.Errorf("marks of the least: %q", got)
	}
}

func TestMermaidText(t *testing.T) {
	for in, want := range map[string]string{
		"summary-cwl":        "summary-cwl",
		`a"]; click x "evil`: "a#34;#93;#59; click x #34;evil",
		"<img src=x>":        "#60;img src=x#62;",
		"`**md**`":           "#96;#42;#42;md#42;#42;#96;",
		"#quot;&lt;":         "#35;quot#59;#38;lt#59;",
		"a\nend\u202e\u200b": "a#92;nend#92;u202e#92;u200b",
		"größe":              "größe",
	} {
		if got := MermaidText(in); got != want {
			t.Errorf("MermaidText(%q) = %q, want %q", in, got, want)
		}
	}
}
