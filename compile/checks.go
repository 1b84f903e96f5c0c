package compile

import (
	"fmt"
	"slices"
	"strings"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// check is one deterministic process that proves something of a step, or of a
// whole loop.
type check struct {
	name  string
	of    string // node or loop id
	decl  *policy.Check
	tool  string
	argv  []string
	steps []*step // whose artifacts it may read, the last producer wins
	input bool    // of an input's validator: it reads what the step read
	at    diag.Range
}

// blocking reports whether later phases wait for it to pass.
func (k *check) blocking() bool {
	return k.decl == nil || !k.decl.Blocking.Set() || k.decl.Blocking.Value
}

// gate reports whether it runs before its step, which then waits for it: a
// worker is not paid for to find that what it was given is wrong. The
// alternatives of a branch are proven after they ran.
func (k *check) gate() bool {
	return k.input && k.steps[0].unit.kind != unitBranch
}

// checkWord begins what a diagnostic calls a check.
const checkWord = "The check "

// mode is where the check runs, wherever its step does: it reads what a worker
// wrote, so it needs a boundary, unless the policy trusts it with this machine.
func (k *check) mode() string {
	if k.decl != nil && k.decl.TrustedHost.Value {
		return plan.SandboxLocal
	}
	return plan.SandboxContainer
}

// id of a check's node: the owner's id, a dot, the check's name.
func (k *check) id() string { return k.of + "." + k.name }

// stepChecks lists what proves a step: its policy's checks, those of its
// branch, and the validators that its skill publishes.
func (c *compiler) stepChecks(s *step) []*check {
	var out []*check
	for _, p := range s.policies {
		for _, d := range p.Checks {
			out = append(out, c.declared(d, s.id, []*step{s}))
		}
	}
	if s.unit.kind == unitBranch && s.unit.branch != nil {
		for _, d := range s.unit.branch.Checks {
			out = append(out, c.declared(d, s.id, []*step{s}))
		}
	}
	for i := range s.skill.Verify {
		if k := c.verifyCheck(s, &s.skill.Verify[i]); k != nil {
			out = append(out, k)
		}
	}
	seen := map[string]bool{}
	for _, k := range out {
		if seen[k.name] {
			c.diags.Errorat(k.at, "Check named twice", "`"+s.id+"` has two checks `"+k.name+"`; a predicate could not tell them apart.")
		}
		seen[k.name] = true
	}
	return out
}

func (c *compiler) declared(d *policy.Check, of string, steps []*step) *check {
	return &check{name: d.Name, of: of, decl: d, tool: d.Tool.Value, argv: textsOf(d.Argv), steps: steps, at: d.At}
}

func textsOf(n policy.Names) []string {
	out := make([]string, len(n.Items))
	for i, t := range n.Items {
		out[i] = t.Value
	}
	return out
}

// unitChecked reports whether a loop has a check over its whole body.
func (c *compiler) unitChecked(u *unit) bool {
	return u.kind == unitLoop && u.loop != nil && len(u.loop.Checks) > 0
}

// lowerUnitChecks adds the checks of a loop after its body.
func (c *compiler) lowerUnitChecks(u *unit, ids *[]string) {
	if !c.unitChecked(u) {
		return
	}
	last := u.steps[len(u.steps)-1]
	if last.skill == nil {
		return
	}
	w := c.harnessOf(last)
	for _, d := range u.loop.Checks {
		k := c.declared(d, u.id, u.steps)
		for _, s := range u.steps {
			if i := slices.IndexFunc(s.checks, func(o *check) bool { return o.id() == k.id() }); i >= 0 {
				c.diags.Errorat(k.at, "Check named twice", "`"+u.id+"` has another check `"+k.name+"` at "+where(s.checks[i].at)+"; a predicate could not tell them apart.")
			}
		}
		n := c.lowerCheck(k, last, w)
		if len(*ids) > 0 {
			n.Needs = []string{(*ids)[len(*ids)-1]}
		}
		c.plan.Nodes = append(c.plan.Nodes, n)
		*ids = append(*ids, n.ID)
		last.checks = append(last.checks, k)
	}
}

// harnessOf is workerOf without diagnostics: they were given already.
func (c *compiler) harnessOf(s *step) *worker {
	mark := len(c.diags)
	w := c.workerOf(s)
	c.diags = c.diags[:mark]
	return w
}

// toolBy is how the policy says that a tool is had, "" if it does not.
func (c *compiler) toolBy(name string) string {
	for _, t := range c.pol.Tools {
		if t.Name != name {
			continue
		}
		switch {
		case t.By.Set():
			return t.By.Value
		case t.Image.Set():
			return plan.ToolImage
		case t.Unavailable.Set():
			return plan.ToolUnavailable
		}
	}
	return ""
}

func (c *compiler) toolNames() []string {
	var names []string
	for _, t := range c.pol.Tools {
		names = append(names, t.Name)
	}
	return names
}

// verifyCheck turns a published validator into a check, unless its schema
// stands in its place. An output's schema is bound by the output itself.
func (c *compiler) verifyCheck(s *step, v *bundle.Verify) *check {
	reads := slices.ContainsFunc(s.inputs, func(in plan.NodeInput) bool {
		return in.Artifact == v.Artifact && (in.From != plan.FromNone || in.CarriedFrom != "")
	})
	if v.Direction == "input" && !reads {
		return nil // not applicable here
	}
	switch c.toolBy(v.Tool) {
	case plan.ToolSchema:
		c.bindVerified(s, v)
		return nil
	case "":
		c.diags.Errorat(v.At, "Validator without a tool", fmt.Sprintf(
			"`%s` validates `%s` with the program `%s`. Say how it is had: `tool %q { by = \"schema\" }` (the published JSON Schema in its place), `{ image = \"…@sha256:…\" }`, or `{ unavailable = \"reason\" }`.",
			s.name, v.Artifact, v.Tool, v.Tool))
		return nil
	}
	k := &check{name: v.Tool + "-" + v.Direction + "-" + v.Artifact, of: s.id, tool: v.Tool, steps: []*step{s}, input: v.Direction == "input", at: v.At}
	k.argv = append(k.argv, v.Tool)
	for _, a := range v.Args {
		k.argv = append(k.argv, strings.ReplaceAll(a, "{artifact_path}", "{in:"+v.Artifact+"}"))
	}
	return k
}

// bindVerified lets the schema of an output's validator hold where the output
// itself named none. The schemas of inputs were bound with the data flow.
func (c *compiler) bindVerified(s *step, v *bundle.Verify) {
	if v.Direction != "output" || v.Schema == "" {
		return
	}
	for i := range s.outputs {
		if o := &s.outputs[i]; o.Artifact == v.Artifact && o.Schema == "" {
			o.Schema = c.useSchema(s.skill, v.Schema, v.At)
		}
	}
}

// lowerCheck makes the node of a check.
func (c *compiler) lowerCheck(k *check, s *step, w *worker) plan.Node {
	n := plan.Node{
		ID: k.id(), Kind: plan.NodeCheck, Phase: s.number, Needs: []string{s.id}, SubmitAttempts: 1,
		Check: &plan.Check{Name: k.name, Of: k.of, Tool: k.tool, Blocking: k.blocking()},
	}
	budget := c.checkBudget(k, s)
	n.Budget = budget
	n.Sandbox = c.checkSandbox(k, s, w)
	n.Process = plan.Process{
		Argv: k.argv, Cwd: "{scratch}", User: "65534:65534",
		Env: []string{"HOME={scratch}", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR={scratch}", "TZ=UTC"},
	}
	if d := k.decl; d != nil {
		n.Check.TrustedHost = d.TrustedHost.Value
		if d.Assert.Syntax != nil {
			n.Check.Assert = c.lowerPredicate(d.Assert, c.scopeOf(k.steps, []*check{k}, s.unit.kind == unitLoop), "assert")
		}
	}
	if n.Check.Assert == nil {
		n.Check.Assert = exitZero(k.name)
	}
	n.Inputs = c.checkInputs(k)
	for _, in := range n.Inputs {
		n.Sandbox.Mounts = append(n.Sandbox.Mounts, plan.Mount{Source: "in:" + in.Artifact, Destination: destInputs + in.Artifact, Mode: plan.MountReadOnly})
	}
	n.Sandbox.Mounts = append(n.Sandbox.Mounts, writable(budget.OutputBytes, defaultScratch, defaultTmp)...)
	c.refuseShell(&n, k.at)
	return n
}

// exitZero is what a check without an assert proves.
func exitZero(name string) *plan.Expr {
	return &plan.Expr{Op: plan.OpEq, Args: []plan.Expr{
		{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactCheck, Name: name, Field: "exit_code"}},
		{Op: plan.OpLiteral, Literal: &plan.Literal{Type: plan.TypeNumber, Value: "0"}},
	}}
}

// checkBudget is the step's budget, narrowed by the check's own; a check has no
// turns, tools, tokens or cost.
func (c *compiler) checkBudget(k *check, s *step) plan.NodeBudget {
	var b plan.NodeBudget
	for _, p := range c.chain(s) {
		applyBudget(&b, p.Budget)
	}
	if k.decl != nil {
		applyBudget(&b, k.decl.Budget)
		c.boundedBy(k.decl.Budget)
	}
	return plan.NodeBudget{WallSeconds: b.WallSeconds, OutputBytes: b.OutputBytes, OutputFiles: b.OutputFiles}
}

// checkSandbox is where a check runs: never with a network, in the image of
// its tool.
func (c *compiler) checkSandbox(k *check, s *step, w *worker) plan.Sandbox {
	image := policy.Text{}
	if d := k.decl; d != nil && d.Image.Set() {
		image = d.Image
	}
	switch by := c.toolBy(k.tool); {
	case k.tool == "":
	case by == plan.ToolImage:
		for _, t := range c.pol.Tools {
			if t.Name == k.tool && !image.Set() {
				image = t.Image
			}
		}
	case by == plan.ToolSchema:
		c.diags.Errorat(k.at, "Tool is not a program here", "`"+k.tool+"` is had `by = \"schema\"`, which stands for its published validators only; the check `"+k.name+"` needs an `image`.")
	case by == "":
		c.diags.Errorat(k.at, "Unknown tool", "The check `"+k.name+"` needs the tool `"+k.tool+"`, and the policy does not say how it is had. Write `tool \""+k.tool+"\" { image = \"…@sha256:…\" }` or `{ unavailable = \"reason\" }`. "+hint(k.tool, c.toolNames()))
	}
	blocks := []*policy.Sandbox{c.pol.Sandbox}
	for _, p := range c.chain(s) {
		blocks = append(blocks, p.Sandbox)
	}
	// A check runs a program of its own, which the builtin image has not; one
	// whose tool is unavailable never runs, so any image will do.
	sb := c.mergeSandbox(blocks, sandboxOwn{image: image, mode: k.mode()}, c.toolBy(k.tool) == plan.ToolUnavailable, k.at, checkWord+"`"+k.name+"`")
	sb.Network, sb.Credentials, sb.WorkerCredentials, sb.EgressHosts = plan.NetworkNone, nil, nil, nil
	return sb
}

// checkInputs binds what a check's argv names.
func (c *compiler) checkInputs(k *check) []plan.NodeInput {
	var out []plan.NodeInput
	for _, a := range k.argv {
		for _, tok := range plan.TokensIn(a) {
			class, id, _ := strings.Cut(tok, ":")
			if class != "in" || slices.ContainsFunc(out, func(in plan.NodeInput) bool { return in.Artifact == id }) {
				continue
			}
			in, names, ok := visible(k.steps, id, k.input)
			if !ok {
				c.diags.Errorat(k.at, "Unknown input", "The check `"+k.name+"` reads {in:"+id+"}, and `"+k.of+"` neither writes nor reads it. "+hint(id, names))
				continue
			}
			out = append(out, in)
		}
	}
	return out
}

// visible finds an artifact among what steps write, the last one first, then
// among what they read; an input's validator looks at what was read alone.
func visible(steps []*step, id string, read bool) (plan.NodeInput, []string, bool) {
	var names []string
	for i := len(steps) - 1; i >= 0 && !read; i-- {
		for _, o := range finishRequired(steps[i]) {
			names = append(names, o.Artifact)
			if o.Artifact == id {
				in := plan.NodeInput{Artifact: id, From: "node:" + steps[i].id, Required: o.Required == plan.RequiredAlways, Kind: o.Kind}
				if o.Kind != plan.KindDirectory {
					in.Path = o.Filename[strings.LastIndexByte(o.Filename, '/')+1:]
				}
				return in, nil, true
			}
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		for _, in := range steps[i].inputs {
			names = append(names, in.Artifact)
			if in.Artifact == id {
				in.Schema = ""
				return in, nil, true
			}
		}
	}
	return plan.NodeInput{}, sortedSet(names), false
}

// lowerTools lowers the tools' decisions and the availability probes.
func (c *compiler) lowerTools() {
	for _, t := range c.pol.Tools {
		out := plan.Tool{Name: t.Name, By: c.toolBy(t.Name), Image: t.Image.Value, Reason: t.Unavailable.Value}
		c.plan.Tools = append(c.plan.Tools, out)
	}
	slices.SortFunc(c.plan.Tools, func(a, b plan.Tool) int { return strings.Compare(a.Name, b.Name) })
	c.lowerProbes()
}

// lowerProbes takes the availability checks of the assembly and of every used
// skill; the policy's probe blocks replace them, and a tool that the policy
// waives or replaces has none.
func (c *compiler) lowerProbes() {
	required := map[string]bundle.RequiredTool{}
	add := func(tools []bundle.RequiredTool) {
		for _, t := range tools {
			if _, ok := required[t.Tool]; !ok {
				required[t.Tool] = t
			}
		}
	}
	add(c.asm.Tools)
	for _, name := range sortedKeys(c.skills) {
		if s := c.skills[name]; s != nil {
			add(s.Tools)
		}
	}
	replaced := map[string]*policy.Probe{}
	for _, p := range c.pol.Probes {
		replaced[p.Tool] = p
		if _, ok := required[p.Tool]; !ok {
			c.diags.Errorat(p.At, "Unknown tool", "Neither the assembly nor a skill of it requires the tool `"+p.Tool+"`. "+hint(p.Tool, sortedKeys(required)))
		}
	}
	for _, name := range sortedKeys(required) {
		t := required[name]
		by := c.toolBy(name)
		if by == plan.ToolUnavailable || by == plan.ToolSchema {
			continue
		}
		p := plan.Probe{Tool: name, Argv: t.Argv, Expect: t.Expect}
		if r := replaced[name]; r != nil {
			p.Argv, p.Expect = textsOf(r.Argv), r.Expect.Value
		} else if t.Bad != "" {
			c.diags.Errorat(t.At, "Availability check is no probe", fmt.Sprintf("The availability check of `%s` is %s: %s", name, quote(t.Check), sentence(t.Bad)))
			continue
		}
		for _, tool := range c.pol.Tools {
			if tool.Name == name {
				p.Image = tool.Image.Value
			}
		}
		c.plan.Probes = append(c.plan.Probes, p)
	}
}
