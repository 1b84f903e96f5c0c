package compile

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/harness"
	"foundry/plan"
)

// Destinations inside a sandbox.
const (
	destSkills   = "/skills/"
	destInputs   = "/in/"
	destRecorded = "/recorded"
	destOutput   = "/out"
	destScratch  = "/scratch"
	destTmp      = "/tmp"
)

// Limits that hold where the policy writes none. They are finite on purpose:
// absent is never unlimited.
const (
	defaultMemory  = 2 << 30
	defaultPIDs    = 256
	defaultCPU     = 1000
	defaultTmp     = 256 << 20
	defaultScratch = 256 << 20
)

// lowerNodes turns each step into an agent node and its check nodes.
func (c *compiler) lowerNodes() {
	var previous []string // ids that the next unit waits for under assembly order
	for _, u := range c.order {
		var ids []string
		for _, s := range u.steps {
			if s.skill == nil {
				continue
			}
			checks := c.stepChecks(s)
			if len(s.outputs) == 0 && len(checks) == 0 && !c.unitChecked(u) {
				c.diags.Errorat(s.at, "Phase proves nothing", fmt.Sprintf(
					"Phase %d (`%s`) declares no output and has no check, so nothing could show that it did anything. Write a `check` in %s, or an output in the skill.",
					s.number, s.id, blockFor(s)))
			}
			w := c.workerOf(s)
			if w == nil {
				continue
			}
			n := c.lowerStep(s, w)
			gates := c.lowerGates(checks, s, w, previous, &ids)
			n.Needs = sortedSet(append(c.needs(s, n, previous, ids), gates...))
			c.plan.Nodes = append(c.plan.Nodes, n)
			if u.kind != unitBranch {
				ids = append(ids, s.id)
			}
			for _, k := range checks {
				if k.gate() {
					continue
				}
				cn := c.lowerCheck(k, s, w)
				c.plan.Nodes = append(c.plan.Nodes, cn)
				if u.kind != unitBranch {
					ids = append(ids, cn.ID)
				}
				s.checks = append(s.checks, k)
			}
		}
		c.lowerUnitChecks(u, &ids)
		switch {
		case u.kind == unitPhase:
			previous = ids
		default:
			previous = []string{u.id}
		}
	}
}

// lowerGates adds the checks that run before their step. One that looks at
// inputs of the pipeline alone stands before all steps: what is wrong with
// these is known before the first worker is paid for.
func (c *compiler) lowerGates(checks []*check, s *step, w *worker, previous []string, ids *[]string) []string {
	var gates []string
	for _, k := range checks {
		if !k.gate() {
			continue
		}
		n := c.lowerCheck(k, s, w)
		given := !slices.ContainsFunc(n.Inputs, func(in plan.NodeInput) bool {
			return !strings.HasPrefix(in.From, "input:") || in.CarriedFrom != ""
		})
		if s.unit.kind == unitPhase && given {
			n.Needs = nil
			c.plan.Nodes = slices.Insert(c.plan.Nodes, c.first, n)
			c.first++
		} else {
			n.Needs = c.needs(s, n, previous, *ids)
			c.plan.Nodes = append(c.plan.Nodes, n)
			*ids = append(*ids, n.ID)
		}
		gates = append(gates, n.ID)
		s.checks = append(s.checks, k)
	}
	return gates
}

// needs lists what a node waits for: its data, and under assembly order the
// unit before it.
func (c *compiler) needs(s *step, n plan.Node, previous, body []string) []string {
	var out []string
	for _, in := range n.Inputs {
		if class, id, _ := strings.Cut(in.From, ":"); class == "node" {
			p := c.steps[id]
			if p.unit != s.unit && p.unit.kind == unitLoop {
				out = append(out, p.unit.id)
				continue
			}
			out = append(out, id)
			for _, k := range p.checks { // under assembly order everything later waits for them
				if k.blocking() && !k.gate() && c.plan.Order == plan.OrderDataflow {
					out = append(out, k.id())
				}
			}
		} else if class == "branch" {
			out = append(out, id)
		}
	}
	switch {
	case s.unit.kind == unitLoop && len(body) > 0:
		out = append(out, body[len(body)-1])
	case c.plan.Order == plan.OrderAssembly:
		out = append(out, previous...)
	}
	return sortedSet(out)
}

// lowerStep makes the agent node of a step.
func (c *compiler) lowerStep(s *step, w *worker) plan.Node {
	n := plan.Node{
		ID: s.id, Kind: plan.NodeAgent, Phase: s.number, Harness: w.plan.Name,
		Skill: c.useSkill(s.skill), Inputs: s.inputs, NotApplicable: s.na, Outputs: finishRequired(s),
		SubmitAttempts: 1,
	}
	var nested []string
	task := ""
	activation, written := !w.caps.TestStub, policy.Bool{}
	for _, p := range c.chain(s) {
		for _, t := range p.NestedSkills.Items {
			if k := c.skill(t.Value, t.At); k != nil {
				nested = append(nested, k.Name)
				c.useSkill(k)
			}
		}
		if p.Task.Set() {
			task = p.Task.Value
			c.checkTask(s, p.Task, n, textsOf(p.NestedSkills))
		}
		if p.SubmitAttempts.Set() {
			n.SubmitAttempts = p.SubmitAttempts.Value
		}
		if p.RequireActivation.Set() {
			written = p.RequireActivation
		}
	}
	nested = sortedSet(nested)
	for _, name := range nested {
		n.NestedSkills = append(n.NestedSkills, plan.BundleSkill+":"+name)
	}
	n.Budget = c.nodeBudget(s, w)
	n.Sandbox = c.sandboxOf(s, w)
	n.RequireActivation = activation && n.Sandbox.Mode == plan.SandboxContainer
	if written.Set() {
		n.RequireActivation = written.Value
	}
	low, err := w.adapter.Lower(harness.Request{
		Node: s.id, Harness: w.plan, Provider: w.provider, Skill: s.skill.Name, SkillBundle: &s.skill.Bundle,
		NestedSkills: nested, Inputs: n.Inputs, Outputs: n.Outputs, Task: task, Script: w.script,
	})
	if err != nil {
		if !w.bad {
			c.diags.Errorat(w.decl.At, "Step cannot be lowered", "`"+s.id+"` with the harness `"+w.plan.Name+"`: "+sentence(err.Error()))
		}
		return n
	}
	n.Prompt, n.Process, n.Files = low.Prompt, low.Process, low.Files
	n.Sandbox.Network = c.network(s, n.Sandbox.Network, low.Network)
	n.Sandbox.Credentials = c.credentials(n.Sandbox, w)
	c.refuseShell(&n, w.decl.At)
	n.Process.Argv = relayed(n)
	n.Sandbox.Mounts = c.mounts(s, &n, nested, c.recordedBundle(s, w, low.Recorded))
	return n
}

// chain is what the policy says of a step, the most general first.
func (c *compiler) chain(s *step) []*policy.Phase {
	var out []*policy.Phase
	if c.pol.Defaults != nil {
		out = append(out, c.pol.Defaults)
	}
	return append(out, s.policies...)
}

// checkTask refuses tokens in a task that would stand for nothing.
func (c *compiler) checkTask(s *step, t policy.Text, n plan.Node, nested []string) {
	for _, tok := range plan.TokensIn(t.Value) {
		class, id, _ := strings.Cut(tok, ":")
		switch class {
		case "in":
			c.checkTaskInput(s, t, n, id)
		case "skill":
			if names := append([]string{s.name}, nested...); id != "" && !slices.Contains(names, id) {
				c.diags.Errorat(t.At, "Unknown skill", "The task of `"+s.id+"` names {skill:"+id+"}, and that skill is not in its sandbox: list it in `nested_skills`. "+hint(id, names))
			}
		}
	}
}

func (c *compiler) checkTaskInput(s *step, t policy.Text, n plan.Node, id string) {
	var names []string
	for _, in := range n.Inputs {
		names = append(names, in.Artifact)
		if in.Artifact != id {
			continue
		}
		if in.From == plan.FromNone && in.CarriedFrom == "" {
			c.diags.Errorat(t.At, "Nothing to read yet", "The task of `"+s.id+"` names {in:"+id+"}, and nothing before it writes that artifact: this phase is the first to. Take the token out.")
		}
		return
	}
	c.diags.Errorat(t.At, "Unknown input", "The task of `"+s.id+"` names {in:"+id+"}, and the phase does not read it. "+hint(id, names))
}

// sandboxOf merges the sandbox blocks, the most general first.
func (c *compiler) sandboxOf(s *step, w *worker) plan.Sandbox {
	var blocks []*policy.Sandbox
	blocks = append(blocks, c.pol.Sandbox)
	for _, p := range c.chain(s) {
		blocks = append(blocks, p.Sandbox)
	}
	return c.mergeSandbox(blocks, sandboxOwn{}, w.caps.BuiltinImage, s.at, "`"+s.id+"`")
}

// sandboxOwn is what belongs to the program that is run, and nothing replaces.
type sandboxOwn struct {
	image policy.Text
	mode  string // "": as the blocks say
}

// mergeSandbox merges blocks, the most general first, with the command line
// over them.
func (c *compiler) mergeSandbox(blocks []*policy.Sandbox, own sandboxOwn, builtin bool, at diag.Range, what string) plan.Sandbox {
	out := plan.Sandbox{
		Mode: plan.SandboxLocal, Network: plan.NetworkNone, Credentials: []string{},
		Resources: plan.Resources{MemoryBytes: defaultMemory, PIDs: defaultPIDs, CPUMillis: defaultCPU},
	}
	mode, image, network, hosts := policy.Text{}, policy.Text{}, policy.Text{}, policy.Names{}
	for _, b := range blocks {
		if b == nil {
			continue
		}
		setText(&mode, b.Mode)
		setText(&image, b.Image)
		setText(&network, b.Network)
		c.within("memory", b.MemoryBytes, 1, plan.MaxMemoryBytes)
		c.within("pids", b.PIDs, 1, plan.MaxPIDs)
		c.within("cpu", b.CPUMillis, 1, plan.MaxCPUMillis)
		c.within("tmp", b.TmpBytes, 1, plan.MaxBytes)
		c.within("scratch", b.ScratchBytes, 1, plan.MaxBytes)
		setInt(&out.Resources.MemoryBytes, b.MemoryBytes)
		setInt(&out.Resources.PIDs, b.PIDs)
		setInt(&out.Resources.CPUMillis, b.CPUMillis)
		if b.EgressHosts.Set() {
			hosts = b.EgressHosts
			out.EgressHosts = namesOf(b.EgressHosts)
		}
		if b.Credentials.Set() {
			out.Credentials = namesOf(b.Credentials)
		}
		if b.WorkerCredentials.Set() {
			out.WorkerCredentials = namesOf(b.WorkerCredentials)
		}
		if b.AllowShell.Set() {
			out.AllowShell = b.AllowShell.Value
		}
		if b.AllowFetch.Set() {
			out.AllowFetch = b.AllowFetch.Value
		}
	}
	ov := c.opts.Override
	override(&mode, ov.Sandbox)
	override(&image, ov.Image)
	setText(&image, own.image)
	if own.mode != "" {
		mode = policy.Text{Value: own.mode, At: at}
	}
	override(&network, ov.Network)
	if mode.Set() {
		out.Mode = mode.Value
		c.oneOf(mode, "mode", plan.SandboxLocal, plan.SandboxContainer)
	}
	if network.Set() {
		out.Network = network.Value
		c.oneOf(network, "network", plan.NetworkNone, plan.NetworkProvider, plan.NetworkEgress, plan.NetworkBridge)
	}
	switch egress := out.Network == plan.NetworkEgress; {
	case egress && len(out.EgressHosts) == 0:
		c.diags.Errorat(network.At, "Egress without hosts", "The network \"egress\" reaches the hosts that are listed, and none is: write `egress_hosts = [\"HOST\"]` in `sandbox`.")
	case !egress && len(out.EgressHosts) > 0:
		c.diags.Errorat(hosts.At, "Hosts without egress", "`egress_hosts` lists what the network \"egress\" may reach, and the network is "+quote(out.Network)+": write `network = \"egress\"`, or take the list out.")
	}
	if out.Mode == plan.SandboxContainer {
		out.Image = c.image(image, builtin, at, what)
	}
	return out
}

// within requires a written number to be in a range that the plan can hold.
func (c *compiler) within(name string, i policy.Int, least, most int64) {
	if i.Set() && (i.Value < least || i.Value > most) {
		c.diags.Errorat(i.At, "Number out of range", fmt.Sprintf("`%s` is %d; it must be from %d to %d.", name, i.Value, least, most))
	}
}

// fromCommandLine marks a value that no file wrote.
var fromCommandLine = diag.Range{File: "command line"}

func override(t *policy.Text, value string) {
	if value != "" {
		*t = policy.Text{Value: value, At: fromCommandLine}
	}
}

func setText(dst *policy.Text, t policy.Text) {
	if t.Set() {
		*dst = t
	}
}

func setInt(dst *int64, i policy.Int) {
	if i.Set() {
		*dst = i.Value
	}
}

func namesOf(n policy.Names) []string {
	var out []string
	for _, t := range n.Items {
		out = append(out, t.Value)
	}
	return sortedSet(out)
}

// image checks an image reference: a digest, or the builtin image where the
// worker can use it.
func (c *compiler) image(t policy.Text, builtin bool, at diag.Range, what string) string {
	switch {
	case !t.Set() && builtin:
		return plan.ImageBuiltin
	case !t.Set():
		way := ""
		if strings.HasPrefix(what, checkWord) {
			way = " It does so wherever its step runs, since it reads what a worker wrote; `trusted_host = true` in the `check` lets it run on this machine."
		}
		c.diags.Errorat(at, "No image", what+" runs in a container and no image is named: write `image = \"NAME@sha256:…\"` in `sandbox`."+way)
	case t.Value == plan.ImageBuiltin && builtin:
		return plan.ImageBuiltin
	case t.Value == plan.ImageBuiltin:
		c.diags.Errorat(t.At, "Image cannot run it", what+" needs programs that the builtin image, made from this program alone, does not hold: name an image by digest.")
	case !plan.ValidImage(t.Value):
		c.diags.Errorat(t.At, "Image is not pinned", quote(t.Value)+" is no digest reference: a tag can be moved between review and run. Write `NAME@sha256:` and 64 hex digits; of an image in the store `foundry image ls -q NAME` prints it.")
	}
	return t.Value
}

// mounts is the mount manifest: nothing else of the host is in the sandbox.
func (c *compiler) mounts(s *step, n *plan.Node, nested []string, recorded string) []plan.Mount {
	tmp, scratch := int64(defaultTmp), int64(defaultScratch)
	blocks := []*policy.Sandbox{c.pol.Sandbox}
	for _, p := range c.chain(s) {
		blocks = append(blocks, p.Sandbox)
	}
	for _, b := range blocks {
		if b != nil {
			setInt(&tmp, b.TmpBytes)
			setInt(&scratch, b.ScratchBytes)
		}
	}
	m := []plan.Mount{{Source: n.Skill, Destination: destSkills + s.skill.Name, Mode: plan.MountReadOnly}}
	for _, name := range nested {
		m = append(m, plan.Mount{Source: plan.BundleSkill + ":" + name, Destination: destSkills + name, Mode: plan.MountReadOnly})
	}
	for _, in := range n.Inputs {
		if in.From != plan.FromNone || in.CarriedFrom != "" {
			m = append(m, plan.Mount{Source: "in:" + in.Artifact, Destination: destInputs + in.Artifact, Mode: plan.MountReadOnly})
		}
	}
	if recorded != "" {
		m = append(m, plan.Mount{Source: recorded, Destination: destRecorded, Mode: plan.MountReadOnly})
	}
	return append(m, writable(n.Budget.OutputBytes, scratch, tmp)...)
}

func writable(out, scratch, tmp int64) []plan.Mount {
	return []plan.Mount{
		{Source: plan.MountOutput, Destination: destOutput, Mode: plan.MountReadWrite, Bytes: out},
		{Source: plan.MountScratch, Destination: destScratch, Mode: plan.MountReadWrite, Bytes: scratch},
		{Source: plan.MountTmpfs, Destination: destTmp, Mode: plan.MountReadWrite, Bytes: tmp},
	}
}

// recordedBundle holds exactly the recorded files that a step copies.
func (c *compiler) recordedBundle(s *step, w *worker, names []string) string {
	if len(names) == 0 {
		return ""
	}
	if w.recorded == "" {
		c.diags.Errorat(w.decl.At, "No recorded folder", "The script of `"+w.plan.Name+"` copies recorded files for `"+s.id+"`: write `recorded = \"…\"`, the folder they are in.")
		return ""
	}
	id := plan.BundleRecorded + ":" + strings.NewReplacer("/", ".", "#", ".").Replace(s.id)
	for n := 2; c.bundles[id] != nil; n++ { // a#2, and a skill that is named a.2
		id = fmt.Sprintf("%s:%s.%d", plan.BundleRecorded, strings.NewReplacer("/", ".", "#", ".").Replace(s.id), n)
	}
	var files []plan.BundleFile
	data := map[string][]byte{}
	for _, name := range names {
		full := path.Join(w.recorded, name)
		fsys, err := c.open(w.recorded)
		if err != nil {
			c.diags.Errorat(w.decl.Recorded.At, "Recorded file cannot be read", fileError(w.recorded, err))
			return ""
		}
		tree, bytes, ds := bundle.ReadTree(fsys, name, full, bundle.Limits{})
		for i := range ds {
			ds[i].Subject = w.decl.Recorded.At
		}
		c.diags = append(c.diags, ds...)
		if ds.HasErrors() || len(tree) == 0 {
			continue
		}
		for _, f := range tree {
			rel := name
			if len(tree) > 1 || f.Path != path.Base(name) {
				rel = path.Join(name, f.Path)
			}
			data[rel] = bytes[f.Path]
			f.Path = rel
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b plan.BundleFile) int { return strings.Compare(a.Path, b.Path) })
	digest, err := plan.TreeDigest(files)
	if err != nil {
		c.diags.Errorat(w.decl.Recorded.At, "Recorded file cannot be read", sentence(err.Error()))
		return ""
	}
	return c.addBundle(plan.Bundle{ID: id, Digest: digest, Files: files}, data)
}

// refuseShell refuses a shell or a code-fetching runner as argv[0].
func (c *compiler) refuseShell(n *plan.Node, at diag.Range) {
	if why := plan.ShellReason(n.Process.Argv); why != "" && !n.Sandbox.AllowShell {
		c.diags.Errorat(at, "Shell is not allowed", "`"+n.ID+"` would run a shell ("+why+"). Name the program itself with its arguments, or write `allow_shell = true` in its `sandbox`, which every diff marks as widening.")
	}
	if why := plan.FetchReason(n.Process.Argv); why != "" && !n.Sandbox.AllowFetch {
		c.diags.Errorat(at, "Fetching code is not allowed", "`"+n.ID+"` would fetch code at run time ("+why+"). Put the program into the image, or write `allow_fetch = true` in its `sandbox`, which every diff marks as widening.")
	}
}
