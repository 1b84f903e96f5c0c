package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/predicates"
)

// Preview writes what a plan would do, for people: nothing of it needs the
// policy or the bundles.
func Preview(w io.Writer, p *plan.Plan, digest string, prompts bool) error {
	v := &preview{p: p, prompts: prompts}
	v.harnesses = map[string]plan.Harness{}
	for _, h := range p.Harnesses {
		v.harnesses[h.Name] = h
	}
	v.findCommon()
	v.header(digest)
	v.steps()
	v.footer()
	_, err := io.WriteString(w, SafeLines(v.b.String()))
	return err
}

type preview struct {
	p         *plan.Plan
	b         strings.Builder
	prompts   bool
	harnesses map[string]plan.Harness
	common    map[string]string // of what most agent nodes say
	loops     map[string]*plan.Loop
	branches  map[string]*plan.Branch
}

func (v *preview) line(format string, args ...any) { fmt.Fprintf(&v.b, format+"\n", args...) }

// findCommon finds the sandbox, budget and worker that most nodes have, so
// that a phase shows only what is its own.
func (v *preview) findCommon() {
	v.common = map[string]string{}
	counts := map[string]map[string]int{}
	for i := range v.p.Nodes {
		n := &v.p.Nodes[i]
		if n.Kind != plan.NodeAgent {
			continue
		}
		for k, s := range v.facets(n) {
			if counts[k] == nil {
				counts[k] = map[string]int{}
			}
			counts[k][s]++
		}
	}
	for k, m := range counts {
		best := 0
		for s, n := range m {
			if n > best || n == best && s < v.common[k] {
				best, v.common[k] = n, s
			}
		}
	}
	v.loops, v.branches = map[string]*plan.Loop{}, map[string]*plan.Branch{}
	for i := range v.p.Loops {
		for _, id := range v.p.Loops[i].Body {
			v.loops[id] = &v.p.Loops[i]
		}
	}
	for i := range v.p.Branches {
		for _, id := range v.p.Branches[i].Alternatives {
			v.branches[id] = &v.p.Branches[i]
		}
	}
}

var facetOrder = []string{"worker", "sandbox", "limits", "writable", "budget"}

func (v *preview) facets(n *plan.Node) map[string]string {
	s, b := n.Sandbox, n.Budget
	where := s.Mode
	if s.Image != "" {
		where += " " + s.Image
	}
	network := "network " + s.Network
	if len(s.EgressHosts) > 0 {
		network += " (" + strings.Join(s.EgressHosts, ", ") + ")"
	}
	credentials := "no credential"
	if len(s.Credentials) > 0 {
		credentials = "credentials " + strings.Join(s.Credentials, ", ") + " (by name, at the broker)"
	}
	if len(s.WorkerCredentials) > 0 {
		credentials += ", INSIDE THE SANDBOX: " + strings.Join(s.WorkerCredentials, ", ")
	}
	if s.AllowShell {
		credentials += ", shell allowed"
	}
	if s.AllowFetch {
		credentials += ", fetching code allowed"
	}
	return map[string]string{
		"worker":   v.worker(n.Harness),
		"sandbox":  where + ", " + network + ", " + credentials,
		"limits":   fmt.Sprintf("memory %s, %s processes, cpu %s", Bytes(s.Resources.MemoryBytes), Count(s.Resources.PIDs), millis(s.Resources.CPUMillis)),
		"writable": mounts(n, plan.MountReadWrite),
		"budget": fmt.Sprintf("%s, %s turns, %s tool calls, %s tokens, %s, %s in %s files", Seconds(b.WallSeconds), Count(b.Turns), Count(b.ToolCalls),
			Count(b.Tokens), Dollars(b.CostMicroUSD), Bytes(b.OutputBytes), Count(b.OutputFiles)),
	}
}

func millis(n int64) string {
	if n%1000 == 0 {
		return fmt.Sprint(n / 1000)
	}
	return fmt.Sprintf("%d.%03d", n/1000, n%1000)
}

func (v *preview) worker(name string) string {
	h := v.harnesses[name]
	s := fmt.Sprintf("%s (%s %s", name, h.Adapter, h.Version)
	if h.Model != "" {
		s += ", " + h.Provider + "/" + h.Model
	}
	if h.Thinking != "" {
		s += ", thinking " + h.Thinking
	}
	if len(h.Tools) > 0 {
		s += ", tools " + strings.Join(h.Tools, " ")
	}
	s += ")"
	if h.TestStub {
		s += ", a test stub: it plays a script, no agent works"
	}
	if v.p.PlaysScript(h.Provider) {
		s += "; its provider plays a script, no model works"
	}
	return s
}

func (v *preview) header(digest string) {
	p := v.p
	v.line("Plan of %s (source revision %d): %s in %s order", p.Pipeline.Name, p.Pipeline.SourceRevision, count(len(p.Nodes), "step"), p.Order)
	v.line("  %s", digest)
	if p.Pipeline.Scenario != "" {
		v.line("  scenario %s", p.Pipeline.Scenario)
	}
	for _, in := range p.Inputs {
		v.line("  input    %s (%s) %s", in.ID, in.Kind, v.bundleDigest(in.Bundle))
	}
	v.line("")
	v.line("Each step, unless it says otherwise:")
	for _, k := range facetOrder {
		v.line("  %-8s %s", k, v.common[k])
	}
	if slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Sandbox.Mode == plan.SandboxLocal }) {
		v.line("  NOTE     the local sandbox is no security boundary: it bounds neither files, network, memory nor processes")
	}
	v.line("")
}

func (v *preview) bundleDigest(id string) string {
	for _, b := range v.p.Bundles {
		if b.ID == id {
			return b.Digest
		}
	}
	return ""
}

func (v *preview) steps() {
	var loop *plan.Loop
	var branch *plan.Branch
	for i := range v.p.Nodes {
		n := &v.p.Nodes[i]
		owner := n.ID
		if n.Check != nil {
			owner = n.Check.Of
		}
		if l := v.loops[n.ID]; l != loop {
			if loop = l; l != nil {
				v.loop(l)
			}
		}
		if b := v.branches[owner]; b != branch {
			if branch = b; b != nil {
				v.branch(b)
			}
		}
		indent := ""
		if loop != nil || branch != nil {
			indent = "  "
		}
		v.node(n, indent)
	}
}

func (v *preview) loop(l *plan.Loop) {
	v.line("     loop %s: until %s, at most %s", l.ID, predicates.Format(l.Until), count(int(l.MaxIterations), "iteration"))
	if len(l.Carries) > 0 {
		v.line("       carries %s", strings.Join(l.Carries, ", "))
	}
}

func (v *preview) branch(b *plan.Branch) {
	v.line("     branch %s: the first alternative where %s", b.ID, predicates.Format(b.Accept))
	if b.Otherwise == plan.OtherwiseFail {
		v.line("       otherwise the run fails")
	} else {
		v.line("       otherwise %s", strings.Replace(b.Otherwise, ":", " ", 1))
	}
}

func (v *preview) node(n *plan.Node, indent string) {
	put := func(label, text string) { v.line("%s     %-8s %s", indent, label, text) }
	if n.Kind == plan.NodeCheck {
		v.line("%s   - check %s: %s", indent, n.Check.Name, strings.Join(n.Process.Argv, " "))
		if n.Check.Assert != nil {
			put("proves", predicates.Format(*n.Check.Assert))
		}
		if n.Sandbox.Image != "" {
			put("image", n.Sandbox.Image)
		}
		return
	}
	v.line("%s%3d  %s", indent, n.Phase, n.ID)
	for _, in := range n.Inputs {
		put("reads", v.input(in))
	}
	if len(n.NotApplicable) > 0 {
		put("n/a", strings.Join(n.NotApplicable, ", "))
	}
	for _, o := range n.Outputs {
		put("writes", v.output(o))
	}
	if len(n.NestedSkills) > 0 {
		put("nested", strings.Join(n.NestedSkills, ", "))
	}
	f := v.facets(n)
	for _, k := range facetOrder {
		if f[k] != v.common[k] {
			put(k, f[k])
		}
	}
	put("mounts", "read-only "+mounts(n, plan.MountReadOnly))
	if v.prompts {
		put("prompt", "")
		for _, l := range strings.Split(n.Prompt, "\n") {
			v.line("%s       | %s", indent, l)
		}
	}
}

func (v *preview) input(in plan.NodeInput) string {
	s := in.Artifact + " from " + strings.Replace(in.From, ":", " ", 1)
	if in.From == plan.FromNone {
		s = in.Artifact + ", which nothing before it produces"
	}
	if in.CarriedFrom != "" {
		s += ", then from " + in.CarriedFrom + " of the iteration before"
	}
	if !in.Required {
		s += " (may be absent)"
	}
	if in.Schema != "" {
		s += ", checked against " + in.Schema
	}
	return s
}

func (v *preview) output(o plan.NodeOutput) string {
	s := fmt.Sprintf("%s as %s (%s)", o.Artifact, o.Filename, o.Kind)
	if o.Schema != "" {
		s += ", " + o.Schema
	}
	switch o.Required {
	case plan.Optional:
		s += ", optional"
	case plan.RequiredAtEnd:
		s += ", required when the loop ends"
	}
	return s
}

// mounts lists the destinations of one mode.
func mounts(n *plan.Node, mode string) string {
	var parts []string
	for _, m := range n.Sandbox.Mounts {
		if m.Mode != mode {
			continue
		}
		s := m.Destination
		if m.Bytes > 0 {
			s += " " + Bytes(m.Bytes)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

// guards tells which rules the plan keeps, and which it only warns of.
func (v *preview) guards() {
	kept := map[string]int{}
	var sets []string
	for _, g := range v.p.Guards {
		if g.Result != plan.GuardPass {
			v.line("  guard %s: %s", guardName(g), g.Result)
			continue
		}
		if kept[g.Set]++; kept[g.Set] == 1 {
			sets = append(sets, g.Set)
		}
	}
	for _, set := range sets {
		name := set
		if name == "" {
			name = "of the policy"
		}
		v.line("  guards %s: %s kept", name, count(kept[set], "rule"))
	}
}

func guardName(g plan.Guard) string {
	if g.Set == "" {
		return g.Name
	}
	return g.Set + "/" + g.Name
}

func (v *preview) footer() {
	p := v.p
	v.line("")
	for _, t := range p.Tools {
		switch t.By {
		case plan.ToolSchema:
			v.line("  tool %s: its published JSON Schema stands in its place", t.Name)
		case plan.ToolUnavailable:
			v.line("  tool %s: unavailable (%s); its checks count as unsupported", t.Name, t.Reason)
		default:
			v.line("  tool %s: %s", t.Name, t.Image)
		}
	}
	for _, b := range p.Probes {
		expect := ""
		if b.Expect != "" {
			expect = ", which must say " + b.Expect
		}
		v.line("  probe %s: %s%s", b.Tool, strings.Join(b.Argv, " "), expect)
	}
	v.guards()
	w := p.WorstCase
	v.line("")
	v.line("Worst case   %s, %s, %s tokens, if every step spends its whole budget", Dollars(w.UncappedCostMicroUSD), Seconds(w.UncappedWallSeconds), Count(w.UncappedTokens))
	v.line("With the cap %s, %s, %s tokens: the run stops there", Dollars(w.CostMicroUSD), Seconds(w.WallSeconds), Count(w.Tokens))
	if p.Budget.Unknown == plan.UnknownWarn {
		v.line("A spend that nobody knows counts as nothing: unknown = \"warn\"")
	}
	for _, h := range p.Harnesses {
		if h.TestStub {
			v.line("Nothing is spent on %s: a test stub has no provider.", h.Name)
		}
	}
}
