package policy

import (
	"math"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"foundry/compile/internal/diag"
	"foundry/plan"
)

// This file is the policy language: every block and attribute, in one table
// that the decoder walks and [Words] exports.

// Kinds of labels.
var (
	idLabel       = labelKind{"a name", plan.ValidID}
	artifactLabel = labelKind{"an artifact id", plan.ValidID}
	toolLabel     = labelKind{"the name of a tool", plan.ValidID}
	phaseLabel    = labelKind{"the name of a phase", validName}
	loopLabel     = labelKind{"the name of a loop", validName}
	branchLabel   = labelKind{"the name of a branch", validName}
	modelLabel    = labelKind{"the name of a model", modelName}
	variableLabel = labelKind{"the name of a variable", validVariable}
)

// Readers of text.
var (
	name          = ruledText("name", false, validID)
	line          = ruledText("string", false, notEmpty)
	prose         = ruledText("text", true, notEmpty)
	imageText     = ruledText("image by digest, or \"builtin\"", false, image)
	names         = ruledList("list of names", false, true, validID)
	phaseNames    = ruledList("list of phases", false, true, phaseName)
	words         = ruledList("list of strings", false, true, notEmpty)
	argv          = ruledList("list of strings", true, false, nil)
	credentials   = ruledList("list of credential names", false, true, credential)
	hosts         = ruledList("list of hosts", false, true, host)
	kinds         = enum(plan.KindJSON, plan.KindYAML, plan.KindMarkdown, plan.KindText, plan.KindFile, plan.KindDirectory, plan.KindProvenance)
	requiredWords = enum(plan.RequiredAlways, plan.RequiredAtEnd, plan.Optional)
)

var sandboxSpec = &blockSpec{
	name: "sandbox", doc: "where processes run; what is not written comes from the enclosing block, then is the least privilege",
	attrs: []attrSpec{
		attr("mode", func(s *Sandbox) *Text { return &s.Mode }, enum(plan.SandboxLocal, plan.SandboxContainer), "local isolates nothing; container is a boundary"),
		attr("image", func(s *Sandbox) *Text { return &s.Image }, imageText, "the image that processes run in"),
		attr("network", func(s *Sandbox) *Text { return &s.Network }, enum(plan.NetworkNone, plan.NetworkProvider, plan.NetworkEgress, plan.NetworkBridge), "what may be reached"),
		attr("egress_hosts", func(s *Sandbox) *Names { return &s.EgressHosts }, hosts, "hosts that may be reached with network = \"egress\""),
		attr("credentials", func(s *Sandbox) *Names { return &s.Credentials }, credentials, "credentials that the broker may use for this worker"),
		attr("worker_credentials", func(s *Sandbox) *Names { return &s.WorkerCredentials }, credentials, "credentials that enter the sandbox"),
		attr("memory", func(s *Sandbox) *Int { return &s.MemoryBytes }, size, "memory limit"),
		attr("cpu", func(s *Sandbox) *Int { return &s.CPUMillis }, cpus, "cores that may be used"),
		attr("pids", func(s *Sandbox) *Int { return &s.PIDs }, integer(1, maxPIDs), "processes and threads"),
		attr("tmp", func(s *Sandbox) *Int { return &s.TmpBytes }, size, "size of /tmp"),
		attr("scratch", func(s *Sandbox) *Int { return &s.ScratchBytes }, size, "size of the home and working folder"),
		attr("allow_shell", func(s *Sandbox) *Bool { return &s.AllowShell }, boolean, "a shell may be a program of an argv"),
		attr("allow_fetch", func(s *Sandbox) *Bool { return &s.AllowFetch }, boolean, "a program that fetches code may be one"),
	},
	open: func(d *decoder, parent any, _ string, at diag.Range) any {
		s := &Sandbox{At: at}
		switch p := parent.(type) {
		case *Policy:
			p.Sandbox = s
		case *Phase:
			p.Sandbox = s
		case *Loop:
			p.self().Sandbox = s
		}
		return s
	},
}

// runBudgetSpec bounds a run, or a judge.
func runBudgetSpec(doc string, set func(parent any, b *RunBudget)) *blockSpec {
	return &blockSpec{
		name: "budget", doc: doc,
		attrs: []attrSpec{
			attr("wall", func(b *RunBudget) *Int { return &b.WallSeconds }, duration, "time"),
			attr("cost_usd", func(b *RunBudget) *Int { return &b.CostMicroUSD }, money, "spend at the providers"),
			attr("tokens", func(b *RunBudget) *Int { return &b.Tokens }, integer(0, math.MaxInt64), "tokens, in and out"),
			attr("unknown", func(b *RunBudget) *Text { return &b.Unknown }, enum(plan.UnknownFail, plan.UnknownWarn), "what happens when a worker's spend is not known; without it, fail"),
		},
		open: func(d *decoder, parent any, _ string, at diag.Range) any {
			b := &RunBudget{At: at}
			set(parent, b)
			return b
		},
	}
}

var nodeBudgetSpec = &blockSpec{
	name: "budget", doc: "bounds of one attempt",
	attrs: []attrSpec{
		attr("wall", func(b *NodeBudget) *Int { return &b.WallSeconds }, duration, "time"),
		attr("turns", func(b *NodeBudget) *Int { return &b.Turns }, integer(0, math.MaxInt64), "turns of the worker"),
		attr("tool_calls", func(b *NodeBudget) *Int { return &b.ToolCalls }, integer(0, math.MaxInt64), "calls of tools"),
		attr("tokens", func(b *NodeBudget) *Int { return &b.Tokens }, integer(0, math.MaxInt64), "tokens, in and out"),
		attr("cost_usd", func(b *NodeBudget) *Int { return &b.CostMicroUSD }, money, "spend at the provider"),
		attr("output", func(b *NodeBudget) *Int { return &b.OutputBytes }, size, "bytes of all outputs"),
		attr("files", func(b *NodeBudget) *Int { return &b.OutputFiles }, integer(0, math.MaxInt64), "files of all outputs"),
	},
	open: func(d *decoder, parent any, _ string, at diag.Range) any {
		b := &NodeBudget{At: at}
		switch p := parent.(type) {
		case *Phase:
			p.Budget = b
		case *Loop:
			p.self().Budget = b
		case *Check:
			p.Budget = b
		}
		return b
	},
}

var outputSpec = &blockSpec{
	name: "output", doc: "changes one output of a phase", label: artifactLabel,
	attrs: []attrSpec{
		attr("required", func(o *Output) *Text { return &o.Required }, requiredWords, "when it must be there"),
		attr("filename", func(o *Output) *Text { return &o.Filename }, line, "its file name"),
		attr("kind", func(o *Output) *Text { return &o.Kind }, kinds, "its kind"),
		attr("schema", func(o *Output) *Text { return &o.Schema }, name, "the schema that it must satisfy"),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		o := &Output{Artifact: label, At: at}
		switch p := parent.(type) {
		case *Phase:
			p.Outputs = append(p.Outputs, o)
		case *Loop:
			p.self().Outputs = append(p.self().Outputs, o)
		}
		return o
	},
}

var checkSpec = &blockSpec{
	name: "check", doc: "a deterministic process that proves something", label: idLabel,
	attrs: []attrSpec{
		attr("tool", func(c *Check) *Text { return &c.Tool }, name, "the tool that it runs"),
		need(attr("argv", func(c *Check) *Names { return &c.Argv }, argv, "the program and its arguments, no shell line")),
		attr("image", func(c *Check) *Text { return &c.Image }, imageText, "the image that it runs in"),
		attr("assert", func(c *Check) *Expr { return &c.Assert }, expression, "what must hold of its result; without it, exit code 0"),
		attr("blocking", func(c *Check) *Bool { return &c.Blocking }, boolean, "whether later phases wait for it to pass"),
		attr("trusted_host", func(c *Check) *Bool { return &c.TrustedHost }, boolean, "whether it runs on this machine instead of in a container, which it does wherever its step runs"),
	},
	blocks: []*blockSpec{nodeBudgetSpec},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		c := &Check{Name: label, At: at}
		switch p := parent.(type) {
		case *Phase:
			p.Checks = append(p.Checks, c)
		case *Loop:
			p.Checks = append(p.Checks, c)
		case *Branch:
			p.Checks = append(p.Checks, c)
		}
		return c
	},
	check: func(d *decoder, target any, at diag.Range) {
		if c := target.(*Check); len(c.Argv.Items) == 0 || c.Argv.Items[0].Value == "" {
			d.errorf(c.Argv.At, "Empty argv", "The argv of a check starts with the program to run.")
		}
	},
}

// sharedAttrs are what phases and defaults have.
func sharedAttrs[T any](of func(*T) *Phase) []attrSpec {
	return []attrSpec{
		attr("harness", func(t *T) *Text { return &of(t).Harness }, name, "the harness that works on it"),
		attr("optional", func(t *T) *Names { return &of(t).Optional }, names, "input artifacts that may be missing"),
		attr("submit_attempts", func(t *T) *Int { return &of(t).SubmitAttempts }, integer(1, plan.MaxSubmitAttempts), "how often artifacts may be submitted; 1 = invalid ones are never handed back"),
		attr("require_activation", func(t *T) *Bool { return &of(t).RequireActivation }, boolean, "an attempt that does not prove that it used its skill fails"),
	}
}

// phaseAttrs are what a phase has, and a loop of one phase.
func phaseAttrs[T any](of func(*T) *Phase) []attrSpec {
	return append(sharedAttrs(of),
		attr("inputs", func(t *T) *Names { return &of(t).Inputs }, names, "the artifacts that it reads, where its skill declares none; [] says none"),
		attr("task", func(t *T) *Text { return &of(t).Task }, prose, "what the worker is asked to do"),
		attr("not_applicable", func(t *T) *Names { return &of(t).NotApplicable }, names, "artifacts that its skill reads and this pipeline never has"),
		attr("nested_skills", func(t *T) *Names { return &of(t).NestedSkills }, names, "further skills that the worker may use"))
}

var phaseSpec = &blockSpec{
	name: "phase", doc: "what the policy says of one phase of the assembly", label: phaseLabel,
	attrs:  phaseAttrs(func(p *Phase) *Phase { return p }),
	blocks: []*blockSpec{outputSpec, checkSpec, sandboxSpec, nodeBudgetSpec},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		ph := &Phase{Name: label, At: at}
		switch p := parent.(type) {
		case *Policy:
			p.Phases = append(p.Phases, ph)
		case *Loop:
			p.Body = append(p.Body, ph)
		case *Branch:
			p.Phases = append(p.Phases, ph)
		}
		return ph
	},
}

var defaultsSpec = &blockSpec{
	name: "defaults", doc: "every phase, unless it says otherwise",
	attrs:  sharedAttrs(func(p *Phase) *Phase { return p }),
	blocks: []*blockSpec{sandboxSpec, nodeBudgetSpec},
	open: func(d *decoder, parent any, _ string, at diag.Range) any {
		p := parent.(*Policy)
		p.Defaults = &Phase{At: at}
		return p.Defaults
	},
}

// self is the phase of a loop's own name.
func (l *Loop) self() *Phase {
	if l.Self == nil {
		l.Self = &Phase{Name: l.Name, At: l.At}
	}
	return l.Self
}

var loopSpec = &blockSpec{
	name: "loop", doc: "one phase or several consecutive ones, repeated", label: loopLabel,
	attrs: append([]attrSpec{
		attr("phases", func(l *Loop) *Names { return &l.Phases }, phaseNames, "the phases of its body; without it, the phase of its own name"),
		need(attr("max_iterations", func(l *Loop) *Int { return &l.MaxIterations }, integer(plan.MinIterations, plan.MaxIterations), "the bound on its iterations")),
		need(attr("until", func(l *Loop) *Expr { return &l.Until }, expression, "when it is done, over what an iteration recorded")),
	}, phaseAttrs((*Loop).self)...),
	blocks: []*blockSpec{checkSpec, phaseSpec, outputSpec, sandboxSpec, nodeBudgetSpec},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		l := &Loop{Name: label, At: at}
		p := parent.(*Policy)
		p.Loops = append(p.Loops, l)
		return l
	},
	check: func(d *decoder, target any, at diag.Range) {
		l := target.(*Loop)
		if l.Phases.Set() && len(l.Phases.Items) == 0 {
			d.errorf(l.Phases.At, "Empty loop", "A loop has at least one phase.")
		}
		if len(l.Phases.Items) > 1 && l.Self != nil {
			d.errorf(at, "Word of a phase in a loop", "A loop of several phases has no harness, inputs, task, budget … of its own: write them in a phase block within the loop, or in defaults.")
		}
	},
}

var branchSpec = &blockSpec{
	name: "branch", doc: "a fallback chain", label: branchLabel,
	attrs: []attrSpec{
		attr("accept", func(b *Branch) *Expr { return &b.Accept }, expression, "whether an alternative's outputs will do"),
		attr("otherwise", func(b *Branch) *Expr { return &b.Otherwise }, value[Expr]{"input.NAME or \"fail\"", expression.read}, "what stands in when no alternative is accepted"),
	},
	blocks: []*blockSpec{phaseSpec, checkSpec},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		b := &Branch{Name: label, At: at}
		p := parent.(*Policy)
		p.Branches = append(p.Branches, b)
		return b
	},
}

var inputSpec = &blockSpec{
	name: "input", doc: "an artifact from outside the pipeline", label: artifactLabel,
	attrs: []attrSpec{
		attr("path", func(i *Input) *Text { return &i.Path }, pathText, "its file or folder"),
		attr("digest", func(i *Input) *Text { return &i.Digest }, ruledText("sha256:…", false, digest), "pins its bytes"),
		attr("kind", func(i *Input) *Text { return &i.Kind }, kinds, "its kind, where the ending of its name does not say it"),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		i := &Input{Name: label, At: at}
		switch p := parent.(type) {
		case *Policy:
			p.Inputs = append(p.Inputs, i)
		case *Scenario:
			p.Inputs = append(p.Inputs, i)
		}
		return i
	},
	check: func(d *decoder, target any, at diag.Range) {
		if i := target.(*Input); !i.Path.Set() && !i.Digest.Set() {
			d.errorf(at, "Missing attribute", "An input block needs a path, or the digest of bytes that are known already.")
		}
	},
}

var scenarioSpec = &blockSpec{
	name: "scenario", doc: "one more run of the pipeline, with other inputs", label: idLabel,
	blocks: []*blockSpec{inputSpec},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		s := &Scenario{Name: label, At: at}
		p := parent.(*Policy)
		p.Scenarios = append(p.Scenarios, s)
		return s
	},
}

var modelSpec = &blockSpec{
	name: "model", doc: "a model that exists for the policy", label: modelLabel,
	attrs: []attrSpec{
		{name: "price", kind: "object of USD strings for a million tokens: input, output, cache_read, cache_write", doc: "what it costs", required: true, set: price},
		need(attr("max_output", func(m *Model) *Int { return &m.MaxOutput }, integer(1, math.MaxInt64), "the most tokens of one answer")),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		m := &Model{ID: label, At: at}
		p := parent.(*Provider)
		p.Models = append(p.Models, m)
		return m
	},
}

var providerSpec = &blockSpec{
	name: "provider", doc: "an API that models are reached through", label: idLabel,
	attrs: []attrSpec{
		need(attr("api", func(p *Provider) *Text { return &p.API }, name, "the protocol that it speaks")),
		attr("base_url", func(p *Provider) *Text { return &p.BaseURL }, ruledText("URL", false, baseURL), "where it is"),
		attr("credential", func(p *Provider) *Text { return &p.Credential }, ruledText("credential name", false, credential), "the name of its credential, never the value"),
		attr("script", func(p *Provider) *Text { return &p.Script }, pathText, "the answers of a scripted provider, for tests: it reaches nobody"),
	},
	blocks: []*blockSpec{modelSpec},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		v := &Provider{Name: label, At: at}
		p := parent.(*Policy)
		p.Providers = append(p.Providers, v)
		return v
	},
}

var harnessSpec = &blockSpec{
	name: "harness", doc: "a named worker", label: idLabel,
	attrs: []attrSpec{
		need(attr("adapter", func(h *Harness) *Text { return &h.Adapter }, name, "what drives it")),
		attr("version", func(h *Harness) *Text { return &h.Version }, line, "the adapter's program version"),
		attr("provider", func(h *Harness) *Text { return &h.Provider }, name, "the provider of its model"),
		attr("model", func(h *Harness) *Text { return &h.Model }, line, "its model, which the provider lists"),
		attr("thinking", func(h *Harness) *Text { return &h.Thinking }, name, "its level of thinking"),
		attr("tools", func(h *Harness) *Names { return &h.Tools }, words, "the tools that it may use"),
		attr("auth_store", func(h *Harness) *Text { return &h.Auth }, name, "the label of a login of the agent's own that a local run lends to it, past the broker"),
		attr("test_stub", func(h *Harness) *Bool { return &h.TestStub }, boolean, "it is no agent but a stub for tests and demos"),
		attr("script", func(h *Harness) *Text { return &h.Script }, pathText, "a stub's script"),
		attr("recorded", func(h *Harness) *Text { return &h.Recorded }, pathText, "the folder that a stub copies from"),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		h := &Harness{Name: label, At: at}
		p := parent.(*Policy)
		p.Harnesses = append(p.Harnesses, h)
		return h
	},
}

var toolSpec = &blockSpec{
	name: "tool", doc: "how a required tool is had: one of its attributes", label: toolLabel,
	attrs: []attrSpec{
		attr("by", func(t *Tool) *Text { return &t.By }, enum(plan.ToolSchema), "its published schema stands in its place"),
		attr("image", func(t *Tool) *Text { return &t.Image }, imageText, "it is run from an image"),
		attr("unavailable", func(t *Tool) *Text { return &t.Unavailable }, line, "why it is done without"),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		t := &Tool{Name: label, At: at}
		p := parent.(*Policy)
		p.Tools = append(p.Tools, t)
		return t
	},
	check: func(d *decoder, target any, at diag.Range) {
		n := 0
		t := target.(*Tool)
		for _, a := range []Text{t.By, t.Image, t.Unavailable} {
			if a.Set() {
				n++
			}
		}
		if n != 1 {
			d.errorf(at, "Undecided tool", "A tool block has exactly one of by, image and unavailable; this has %d of them.", n)
		}
	},
}

var probeSpec = &blockSpec{
	name: "probe", doc: "replaces the availability check of a required tool", label: toolLabel,
	attrs: []attrSpec{
		need(attr("argv", func(p *Probe) *Names { return &p.Argv }, argv, "the program and its arguments")),
		attr("expect", func(p *Probe) *Text { return &p.Expect }, line, "a word of its output; without it, exit code 0"),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		b := &Probe{Tool: label, At: at}
		p := parent.(*Policy)
		p.Probes = append(p.Probes, b)
		return b
	},
	check: func(d *decoder, target any, at diag.Range) {
		if p := target.(*Probe); len(p.Argv.Items) == 0 || p.Argv.Items[0].Value == "" {
			d.errorf(p.Argv.At, "Empty argv", "The argv of a probe starts with the program to run.")
		}
	},
}

var artifactSpec = &blockSpec{
	name: "artifact", doc: "something of an artifact wherever it is written or read", label: artifactLabel,
	attrs: []attrSpec{
		need(attr("required", func(a *Artifact) *Text { return &a.Required }, enum(plan.Optional), "every producer may leave it out, and every consumer accepts that")),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		a := &Artifact{ID: label, At: at}
		p := parent.(*Policy)
		p.Artifacts = append(p.Artifacts, a)
		return a
	},
}

// Severities of a guard.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

var guardSpec = &blockSpec{
	name: "guard", doc: "a rule over the compiled plan", label: idLabel,
	attrs: []attrSpec{
		need(attr("assert", func(g *Guard) *Expr { return &g.Assert }, value[Expr]{"rule over plan", expression.read}, "what must hold of the plan")),
		need(attr("message", func(g *Guard) *Text { return &g.Message }, prose, "what to say when it does not")),
		attr("severity", func(g *Guard) *Text { return &g.Severity }, enum(SeverityError, SeverityWarning), "whether breaking it fails the plan"),
	},
	open: func(d *decoder, parent any, label string, at diag.Range) any {
		g := &Guard{Name: label, At: at}
		p := parent.(*Policy)
		p.OwnGuards = append(p.OwnGuards, g)
		return g
	},
}

var judgeSpec = &blockSpec{
	name: "judge", doc: "who grades what no process can decide",
	attrs: []attrSpec{
		need(attr("harness", func(e *Evaluation) *Text { return &e.JudgeHarness }, name, "the harness of the judge")),
	},
	blocks: []*blockSpec{runBudgetSpec("bounds of all judging", func(parent any, b *RunBudget) { parent.(*Evaluation).JudgeBudget = b })},
	open:   func(d *decoder, parent any, _ string, at diag.Range) any { return parent },
}

var evaluationSpec = &blockSpec{
	name: "evaluation", doc: "how a run is graded",
	attrs: []attrSpec{
		need(attr("properties", func(e *Evaluation) *Names { return &e.Properties }, pathList, "files of properties; * is any one folder")),
		attr("require", func(e *Evaluation) *Text { return &e.Require }, enum("all", "supported"), "which properties must hold"),
	},
	blocks: []*blockSpec{judgeSpec},
	open: func(d *decoder, parent any, _ string, at diag.Range) any {
		p := parent.(*Policy)
		p.Evaluation = &Evaluation{At: at}
		return p.Evaluation
	},
}

// Variables, locals and includes are read before the rest; here they only have
// their place in the table.
var variableSpec = &blockSpec{
	name: "variable", doc: "a value that is given from outside", label: variableLabel,
	attrs: []attrSpec{
		{name: "type", kind: "one of string, number, bool, path, list(string); a keyword without quotes", doc: "its type", required: true},
		{name: "default", kind: "literal", doc: "its value when none is given"},
		{name: "description", kind: "text", doc: "what it is for"},
	},
	open: func(*decoder, any, string, diag.Range) any { return nil },
}

var localsSpec = &blockSpec{
	name: "locals", doc: "names for expressions: NAME = expression", anyAttrs: true,
	open: func(*decoder, any, string, diag.Range) any { return nil },
}

var policySpec = &blockSpec{
	attrs: []attrSpec{
		{name: "include", kind: "list of file names", doc: "files beneath this file's folder that are read too", set: func(*decoder, any, *hclsyntax.Attribute) {}},
		attr("assembly", func(p *Policy) *Text { return &p.Assembly }, pathText, "the _assembly.json of the pipeline"),
		attr("skills", func(p *Policy) *Text { return &p.Skills }, pathText, "the folder of the published skill bundles"),
		attr("order", func(p *Policy) *Text { return &p.Order }, enum(plan.OrderAssembly, plan.OrderDataflow), "whether each phase waits for the one before it, or for its inputs alone"),
		{name: "strict", kind: "bool", doc: "warnings about drifted bundles are errors", set: func(d *decoder, t any, a *hclsyntax.Attribute) { t.(*Policy).Strict = boolean.read(d, a).Value }},
		attr("guards", func(p *Policy) *Names { return &p.Guards }, names, "built-in sets of guards"),
	},
	blocks: []*blockSpec{variableSpec, localsSpec, inputSpec, providerSpec, harnessSpec, sandboxSpec,
		runBudgetSpec("bounds of the whole run", func(parent any, b *RunBudget) { parent.(*Policy).Budget = b }),
		defaultsSpec, phaseSpec, loopSpec, branchSpec, toolSpec, probeSpec, artifactSpec, scenarioSpec, guardSpec, evaluationSpec},
}

func validVariable(s string) bool {
	return plan.ValidID(strings.TrimLeft(s, "_")) && !strings.ContainsRune(s, '.') && (s[0] < '0' || s[0] > '9')
}
