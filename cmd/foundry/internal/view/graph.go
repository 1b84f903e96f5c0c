package view

import (
	"fmt"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/predicates"
)

// The kinds of what a graph shows, beside the kinds of a plan's nodes.
const (
	itemInput  = "input"  // an artifact from outside the pipeline
	itemLoop   = "loop"   // the decision at the end of a loop's body
	itemBranch = "branch" // the decision after a branch's alternatives
)

// graph is a plan as a picture has it: what stands in it from the first to the
// last, and what leads from one to the other. Every text in it is safe to
// show.
type graph struct {
	plan  *plan.Plan
	items []*item
	boxes []*box
	nets  []*net
	order [][2]*item // one waits for the one before it, neighbours in items
}

// item is one thing that a reader can open.
type item struct {
	index int
	kind  string
	ref   string // "input:ID", "node:ID", "loop:ID", "branch:ID"
	title string
	lines []string // below the title
	marks []string // what is more than the least privilege
	box   *box
	node  *plan.Node // of a step
	group int        // index of the loop or branch in the plan, of a decision
	ins   []port
	outs  []port
}

// box is a loop or a branch with its body inside.
type box struct {
	kind  string
	title string
	items []*item
}

// port is where an artifact enters or leaves an item.
type port struct {
	label string
	net   *net // nil of what nothing gives
}

// net is one version of an artifact on its way from who gives it to all who
// read it.
type net struct {
	artifact string
	kind     string // netData, netCarried, netAfter
	from     *item
	out      int // index of from's port
	to       []target
}

type target struct {
	item *item
	in   int // index of the item's port
}

// Kinds of a net.
const (
	netData    = "data"
	netCarried = "carried" // from one iteration to the next
	netAfter   = "after"   // order alone, of steps that are no neighbours
)

type netKey struct {
	from     *item
	artifact string
	kind     string
}

// grapher builds a graph.
type grapher struct {
	*graph
	byRef     map[string]*item
	boxOf     map[string]*box // by node id
	nets      map[netKey]*net
	harnesses map[string]plan.Harness
	decisions map[*box]*item
}

// newGraph reads a plan that is valid.
func newGraph(p *plan.Plan) *graph {
	g := &grapher{graph: &graph{plan: p}, byRef: map[string]*item{}, boxOf: map[string]*box{},
		nets: map[netKey]*net{}, harnesses: map[string]plan.Harness{}, decisions: map[*box]*item{}}
	for _, h := range p.Harnesses {
		g.harnesses[h.Name] = h
	}
	for i := range p.Inputs {
		g.input(&p.Inputs[i])
	}
	g.steps()
	g.connect()
	slices.SortStableFunc(g.graph.nets, func(a, b *net) int { return a.from.index - b.from.index })
	return g.graph
}

func (g *grapher) add(it *item) *item {
	it.index = len(g.items)
	g.items = append(g.items, it)
	g.byRef[it.ref] = it
	if it.box != nil {
		it.box.items = append(it.box.items, it)
	}
	return it
}

func (g *grapher) input(in *plan.Input) {
	files := 0
	for _, b := range g.plan.Bundles {
		if b.ID == in.Bundle {
			files = len(b.Files)
		}
	}
	g.add(&item{kind: itemInput, ref: "input:" + in.ID, title: in.ID, lines: []string{"input, " + in.Kind + ", " + count(files, "file")}})
}

// steps lays the nodes in the plan's order, each loop and branch as a box with
// its body and the decision at its end.
func (g *grapher) steps() {
	members := map[string]func(){} // node id → what lays its whole box
	laid := map[string]bool{}
	lay := func(i int, b *box) {
		if n := &g.plan.Nodes[i]; !laid[n.ID] {
			laid[n.ID] = true
			g.step(n, b)
		}
	}
	at := map[string][]int{} // owner of a node → indexes of its nodes
	for i := range g.plan.Nodes {
		at[owner(&g.plan.Nodes[i])] = append(at[owner(&g.plan.Nodes[i])], i)
	}
	layBox := func(kind, id string, body []string, decide func(b *box)) {
		b := &box{kind: kind, title: kind + " " + id}
		once := func() {
			g.boxes = append(g.boxes, b)
			var own []int
			for _, id := range append(slices.Clone(body), id) {
				own = append(own, at[id]...)
			}
			slices.Sort(own)
			for _, i := range own {
				lay(i, b)
			}
			decide(b)
		}
		for _, n := range append(slices.Clone(body), id) {
			for _, i := range at[n] {
				members[g.plan.Nodes[i].ID] = once
			}
		}
	}
	for i := range g.plan.Loops {
		l := &g.plan.Loops[i]
		layBox(itemLoop, l.ID, l.Body, func(b *box) { g.loop(i, b) })
	}
	for i := range g.plan.Branches {
		r := &g.plan.Branches[i]
		layBox(itemBranch, r.ID, r.Alternatives, func(b *box) { g.branch(i, b) })
	}
	for i := range g.plan.Nodes {
		id := g.plan.Nodes[i].ID
		if box := members[id]; box != nil && !laid[id] {
			box()
		}
		lay(i, nil)
	}
}

// owner is the step, loop or branch that a node belongs to.
func owner(n *plan.Node) string {
	if n.Check != nil {
		return n.Check.Of
	}
	return n.ID
}

func (g *grapher) step(n *plan.Node, b *box) {
	it := &item{kind: n.Kind, ref: "node:" + n.ID, node: n, box: b, title: n.ID, marks: marks(n, g.harnesses[n.Harness])}
	if n.Check != nil {
		it.title = n.Check.Name
		it.lines = []string{Safe(strings.Join(n.Process.Argv, " "))}
		if n.Check.Assert != nil {
			it.lines = append(it.lines, Safe(predicates.Format(*n.Check.Assert)))
		}
	} else {
		if b != nil && b.kind == itemBranch {
			_, it.title, _ = strings.Cut(n.ID, "/")
		}
		h := g.harnesses[n.Harness]
		who := n.Harness + ": " + h.Adapter
		if h.TestStub {
			who += " test stub"
		}
		if h.Model != "" {
			who += ", " + h.Model
		}
		if h.Thinking != "" {
			who += ", thinking " + h.Thinking
		}
		it.lines = []string{Safe(who), strings.Join([]string{Seconds(n.Budget.WallSeconds), Dollars(n.Budget.CostMicroUSD), Count(n.Budget.Turns) + " turns"}, " · ")}
	}
	it.title = Safe(it.title)
	g.add(it)
	for _, o := range n.Outputs {
		label := o.Artifact
		switch o.Required {
		case plan.Optional:
			label += " (optional)"
		case plan.RequiredAtEnd:
			label += " (at the end)"
		}
		k := &net{artifact: o.Artifact, kind: netData, from: it, out: len(it.outs)}
		g.nets[netKey{it, o.Artifact, netData}] = k
		g.graph.nets = append(g.graph.nets, k)
		it.outs = append(it.outs, port{Safe(label), k})
	}
}

// marks names what a step may do beyond the least.
func marks(n *plan.Node, h plan.Harness) []string {
	var out []string
	s := n.Sandbox
	add := func(yes bool, text string) {
		if yes {
			out = append(out, Safe(text))
		}
	}
	add(s.Mode == plan.SandboxLocal, "no sandbox")
	add(s.Network != plan.NetworkNone, "network: "+s.Network)
	add(len(s.Credentials) > 0, count(len(s.Credentials), "credential"))
	add(len(s.WorkerCredentials) > 0, count(len(s.WorkerCredentials), "credential")+" inside")
	add(h.AuthStore != "", "own login")
	add(s.AllowShell, "shell")
	add(s.AllowFetch, "fetches code")
	add(n.Check != nil && n.Check.TrustedHost, "on the host")
	add(n.SubmitAttempts > 1, Count(n.SubmitAttempts)+" submissions")
	return out
}

func (g *grapher) loop(i int, b *box) {
	l := &g.plan.Loops[i]
	it := g.add(&item{kind: itemLoop, ref: "loop:" + l.ID, title: "until", box: b, group: i,
		lines: []string{Safe(predicates.Format(l.Until)), "at most " + count(int(l.MaxIterations), "iteration")}})
	g.decisions[b] = it
}

func (g *grapher) branch(i int, b *box) {
	r := &g.plan.Branches[i]
	otherwise := "otherwise the run fails"
	if r.Otherwise != plan.OtherwiseFail {
		otherwise = "otherwise " + strings.Replace(r.Otherwise, ":", " ", 1)
	}
	it := g.add(&item{kind: itemBranch, ref: "branch:" + r.ID, title: "accept the first where", box: b, group: i,
		lines: []string{Safe(predicates.Format(r.Accept)), Safe(otherwise)}})
	g.decisions[b] = it
	for _, a := range r.Artifacts {
		k := &net{artifact: a, kind: netData, from: it, out: len(it.outs)}
		g.nets[netKey{it, a, netData}] = k
		g.graph.nets = append(g.graph.nets, k)
		it.outs = append(it.outs, port{Safe(a), k})
	}
}

// read leads an artifact to an item.
func (g *grapher) read(it *item, artifact, from, kind, label string) {
	k := g.netOf(from, artifact, kind)
	if k != nil {
		k.to = append(k.to, target{it, len(it.ins)})
	}
	it.ins = append(it.ins, port{Safe(label), k})
}

func (g *grapher) netOf(ref, artifact, kind string) *net {
	from := g.byRef[ref]
	if from == nil {
		return nil
	}
	key := netKey{from, artifact, kind}
	if g.nets[key] == nil {
		out := slices.IndexFunc(from.outs, func(p port) bool { return p.net != nil && p.net.artifact == artifact })
		if out < 0 {
			out = len(from.outs)
			from.outs = append(from.outs, port{label: Safe(artifact)})
		}
		k := &net{artifact: artifact, kind: kind, from: from, out: out}
		if from.outs[out].net == nil {
			from.outs[out].net = k
		}
		g.nets[key] = k
		g.graph.nets = append(g.graph.nets, k)
	}
	return g.nets[key]
}

// connect binds what each item reads, and finds the order that no artifact
// shows.
func (g *grapher) connect() {
	for _, it := range g.items {
		if it.node == nil {
			continue
		}
		for _, in := range it.node.Inputs {
			label := in.Artifact
			if !in.Required {
				label += " (may be absent)"
			}
			if in.From == plan.FromNone && in.CarriedFrom == "" {
				label = in.Artifact + " (nothing gives it)"
			}
			if in.From != plan.FromNone || in.CarriedFrom == "" {
				g.read(it, in.Artifact, in.From, netData, label)
			}
			if in.CarriedFrom != "" {
				g.read(it, in.Artifact, "node:"+in.CarriedFrom, netCarried, "↺ "+in.Artifact)
			}
		}
	}
	for i := range g.plan.Branches {
		r := &g.plan.Branches[i]
		d := g.byRef["branch:"+r.ID]
		if d == nil {
			continue
		}
		for _, alt := range r.Alternatives {
			for _, a := range r.Artifacts {
				_, name, _ := strings.Cut(alt, "/")
				g.read(d, a, "node:"+alt, netData, a+" of "+name)
			}
		}
		if id, ok := strings.CutPrefix(r.Otherwise, "input:"); ok {
			g.read(d, id, r.Otherwise, netData, id+" (otherwise)")
		}
	}
	g.waits()
}

// waits finds who waits for whom.
func (g *grapher) waits() {
	for i, it := range g.items {
		if it.kind == itemInput || i == 0 {
			continue
		}
		before := g.items[i-1]
		needs := g.needs(it)
		if before.kind != itemInput && (it.box != nil && it.box == before.box || slices.Contains(needs, before)) {
			g.order = append(g.order, [2]*item{before, it})
		}
		for _, n := range needs {
			if n == before || it.box != nil && n.box == it.box || g.follows(it, n) {
				continue
			}
			g.read(it, "", n.ref, netAfter, "after "+n.title)
		}
	}
}

// needs is what an item waits for, a loop or branch by its decision.
func (g *grapher) needs(it *item) []*item {
	if it.node == nil {
		return nil
	}
	var out []*item
	for _, id := range it.node.Needs {
		for _, class := range []string{"node:", "loop:", "branch:"} {
			n := g.byRef[class+id]
			if n == nil {
				continue
			}
			if d := g.decisions[n.box]; d != nil && n.box != it.box {
				n = d // a step in a box is done when the box is
			}
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
			break
		}
	}
	return out
}

// follows reports whether an artifact that it reads shows that it waits for n,
// or an order that is shown already.
func (g *grapher) follows(it, n *item) bool {
	for _, p := range it.ins {
		if p.net != nil && (p.net.from == n || n.box != nil && p.net.from.box == n.box) {
			return true
		}
	}
	return g.chained(n, it)
}

// chained reports whether neighbours lead from one item to the other, each
// waiting for the one before it.
func (g *grapher) chained(from, to *item) bool {
	at := to.index
	for i := len(g.order) - 1; i >= 0 && at > from.index; i-- {
		if g.order[i][1].index != at {
			if g.order[i][1].index < at {
				return false
			}
			continue
		}
		at = g.order[i][0].index
	}
	return at == from.index
}

func (it *item) name() string {
	switch it.kind {
	case itemInput:
		return "input " + it.title
	case plan.NodeCheck:
		return "check " + it.title
	case itemLoop, itemBranch:
		return it.box.title + ": " + it.title + " " + it.lines[0]
	}
	return fmt.Sprintf("%d %s", it.node.Phase, it.title)
}
