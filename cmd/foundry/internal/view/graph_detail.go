package view

import (
	"strings"

	"foundry/plan"
	"foundry/predicates"
)

// shownDetail is what a reader finds behind an item.
type shownDetail struct {
	ID, Title string
	Facts     []shownFact
	Tables    []shownTable
	Texts     []shownBlock
}

type shownFact struct {
	Name   string
	Values []string
	Code   bool
	Warn   bool // more than the least privilege
}

type shownTable struct {
	Title string
	Head  []string
	Rows  [][]shownCell
}

type shownCell struct {
	Text string
	Warn bool
}

type shownBlock struct{ Title, Body string }

func (d *shownDetail) fact(name string, values ...string) {
	var kept []string
	for _, v := range values {
		if v != "" {
			kept = append(kept, Safe(v))
		}
	}
	if len(kept) > 0 {
		d.Facts = append(d.Facts, shownFact{Name: name, Values: kept})
	}
}

func (d *shownDetail) code(name string, values ...string) {
	before := len(d.Facts)
	d.fact(name, values...)
	if len(d.Facts) > before {
		d.Facts[before].Code = true
	}
}

func (d *shownDetail) warn(yes bool, name string, values ...string) {
	before := len(d.Facts)
	d.fact(name, values...)
	if len(d.Facts) > before {
		d.Facts[before].Warn = yes
	}
}

func (d *shownDetail) table(title string, head []string, rows [][]shownCell) {
	if len(rows) > 0 {
		d.Tables = append(d.Tables, shownTable{title, head, rows})
	}
}

func (d *shownDetail) text(title, body string) {
	if body != "" {
		d.Texts = append(d.Texts, shownBlock{Safe(title), SafeLines(body)})
	}
}

func row(texts ...string) []shownCell {
	out := make([]shownCell, len(texts))
	for i, t := range texts {
		out[i].Text = Safe(t)
	}
	return out
}

// detail collects what a plan says of an item.
func (g *graph) detail(it *item, bundles map[string]*plan.Bundle, harnesses map[string]plan.Harness) shownDetail {
	d := shownDetail{ID: detailID(it), Title: Safe(it.name())}
	switch it.kind {
	case itemInput:
		for i := range g.plan.Inputs {
			if in := &g.plan.Inputs[i]; "input:"+in.ID == it.ref {
				d.fact("kind", in.Kind)
				d.fact("file", in.Filename)
				d.bundle(bundles[in.Bundle], true)
			}
		}
	case itemLoop:
		l := &g.plan.Loops[it.group]
		d.code("until", predicates.Format(l.Until))
		d.fact("at most", count(int(l.MaxIterations), "iteration"))
		d.fact("body", strings.Join(l.Body, ", "))
		d.fact("carries", strings.Join(l.Carries, ", "))
	case itemBranch:
		b := &g.plan.Branches[it.group]
		d.code("accepts", predicates.Format(b.Accept))
		d.fact("alternatives", strings.Join(b.Alternatives, ", then "))
		if b.Otherwise == plan.OtherwiseFail {
			d.fact("otherwise", "the run fails")
		} else {
			d.fact("otherwise", strings.Replace(b.Otherwise, ":", " ", 1))
		}
		d.fact("gives", strings.Join(b.Artifacts, ", "))
	default:
		d.step(it.node, bundles, harnesses[it.node.Harness], g.plan.PlaysScript(harnesses[it.node.Harness].Provider))
	}
	return d
}

func (d *shownDetail) bundle(b *plan.Bundle, files bool) {
	if b == nil {
		return
	}
	d.code("digest", b.Digest)
	if m := b.Mold; m != nil {
		d.fact("cast from", m.Name+" revision "+Count(m.Revision))
		d.code("commit", m.Commit)
	}
	if !files {
		return
	}
	var rows [][]shownCell
	for _, f := range b.Files {
		rows = append(rows, row(f.Path, f.Mode, Bytes(f.Bytes), f.Digest))
	}
	d.table("Files", []string{"path", "mode", "size", "digest"}, rows)
}

func (d *shownDetail) step(n *plan.Node, bundles map[string]*plan.Bundle, h plan.Harness, scripted bool) {
	if c := n.Check; c != nil {
		d.fact("proves something of", c.Of)
		d.fact("tool", c.Tool)
		if c.Assert != nil {
			d.code("predicate", predicates.Format(*c.Assert))
		}
		if c.Blocking {
			d.fact("blocking", "later steps wait for it to pass")
		} else {
			d.fact("blocking", "no: later steps go on whatever it says")
		}
		if c.TrustedHost {
			d.warn(true, "trusted host", "it may run outside a container")
		}
	} else {
		d.fact("skill", strings.TrimPrefix(n.Skill, plan.BundleSkill+":"))
		d.bundle(bundles[n.Skill], false)
		d.fact("nested skills", strings.Join(n.NestedSkills, ", "))
		d.worker(h, scripted)
	}
	d.fact("waits for", strings.Join(n.Needs, ", "))
	d.sandbox(n)
	d.budget(n)
	d.flow(n)
	d.mounts(n)
	d.text("Prompt", n.Prompt)
	d.process(n)
	for _, f := range n.Files {
		d.text("File "+f.Path, f.Content)
	}
}

func (d *shownDetail) worker(h plan.Harness, scripted bool) {
	d.fact("worker", h.Name+" ("+h.Adapter+" "+h.Version+")")
	if h.Model != "" {
		d.fact("model", h.Provider+" / "+h.Model)
	}
	d.fact("thinking", h.Thinking)
	d.fact("tools", strings.Join(h.Tools, ", "))
	if h.AuthStore != "" {
		d.warn(true, "own login", h.AuthStore+": the provider is reached past the broker")
	}
	if h.TestStub {
		d.warn(true, "test stub", "it plays a script, no agent works")
	}
	if scripted {
		d.warn(true, "provider", "it plays a script, no model works")
	}
}

func (d *shownDetail) sandbox(n *plan.Node) {
	s := n.Sandbox
	if s.Mode == plan.SandboxLocal {
		d.warn(true, "sandbox", "local: no security boundary")
	} else {
		d.fact("sandbox", s.Mode)
	}
	d.code("image", s.Image)
	d.warn(s.Network != plan.NetworkNone, "network", s.Network)
	d.warn(true, "egress hosts", s.EgressHosts...)
	if len(s.Credentials) == 0 {
		d.fact("credentials", "none")
	} else {
		d.warn(true, "credentials", strings.Join(s.Credentials, ", ")+" (by name, at the broker)")
	}
	d.warn(true, "inside the sandbox", s.WorkerCredentials...)
	if s.AllowShell {
		d.warn(true, "shell", "allowed")
	}
	if s.AllowFetch {
		d.warn(true, "fetching code", "allowed")
	}
	d.fact("limits", "memory "+Bytes(s.Resources.MemoryBytes)+", "+Count(s.Resources.PIDs)+" processes, cpu "+millis(s.Resources.CPUMillis))
	d.code("folder", n.Process.Cwd)
	d.fact("user", n.Process.User)
	if n.Check == nil {
		d.warn(n.SubmitAttempts > 1, "submissions", Count(n.SubmitAttempts))
		if n.RequireActivation {
			d.fact("activation", "must be proved")
		} else {
			d.fact("activation", "need not be proved")
		}
	}
}

func (d *shownDetail) budget(n *plan.Node) {
	b := n.Budget
	rows := [][]shownCell{row("time", Seconds(b.WallSeconds))}
	if n.Check == nil {
		rows = append(rows, row("turns", Count(b.Turns)), row("tool calls", Count(b.ToolCalls)), row("tokens", Count(b.Tokens)), row("cost", Dollars(b.CostMicroUSD)))
	}
	rows = append(rows, row("outputs", Bytes(b.OutputBytes)+" in "+count(int(b.OutputFiles), "file")))
	d.table("Budget of one attempt", []string{"of", "at most"}, rows)
}

func (d *shownDetail) flow(n *plan.Node) {
	var rows [][]shownCell
	for _, in := range n.Inputs {
		from := strings.Replace(in.From, ":", " ", 1)
		if in.CarriedFrom != "" {
			from += ", then " + in.CarriedFrom + " of the iteration before"
		}
		when := "required"
		if !in.Required {
			when = "may be absent"
		}
		rows = append(rows, row(in.Artifact, from, when, in.Kind, in.Schema))
	}
	d.table("Reads", []string{"artifact", "from", "", "kind", "checked against"}, rows)
	d.fact("not applicable", strings.Join(n.NotApplicable, ", "))
	rows = nil
	for _, o := range n.Outputs {
		rows = append(rows, row(o.Artifact, o.Filename, strings.ReplaceAll(o.Required, "_", " "), o.Kind, o.Schema))
	}
	d.table("Writes", []string{"artifact", "file", "required", "kind", "schema"}, rows)
}

func (d *shownDetail) mounts(n *plan.Node) {
	var rows [][]shownCell
	for _, m := range n.Sandbox.Mounts {
		limit := ""
		if m.Bytes > 0 {
			limit = Bytes(m.Bytes)
		}
		mode := "read-only"
		if m.Mode == plan.MountReadWrite {
			mode = "writable"
		}
		r := row(m.Destination, m.Source, mode, limit)
		// The three that are thrown away or collected are every step's.
		switch m.Source {
		case plan.MountOutput, plan.MountScratch, plan.MountTmpfs:
		default:
			r[2].Warn = m.Mode == plan.MountReadWrite
		}
		rows = append(rows, r)
	}
	d.table("Mounts", []string{"at", "what", "mode", "limit"}, rows)
}

func (d *shownDetail) process(n *plan.Node) {
	lines := func(texts []string) string {
		safe := make([]string, len(texts))
		for i, t := range texts {
			safe[i] = Safe(t) // one line each, whatever is in it
		}
		return strings.Join(safe, "\n")
	}
	d.text("Program, one argument a line", lines(n.Process.Argv))
	d.text("Environment", lines(n.Process.Env))
}
