package compile

import (
	"cmp"
	"context"
	"io/fs"
	"path"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/harness"
	"foundry/plan"
	"foundry/plan/spend"
)

// Diagnostic is one finding; see its fields.
type Diagnostic = diag.Diagnostic

// Severity says whether a Diagnostic stops the compilation.
type Severity = diag.Severity

// Range is a part of a file, and Pos a place in it.
type (
	Range = diag.Range
	Pos   = diag.Pos
)

// Severities of a Diagnostic.
const (
	Error   = diag.Error
	Warning = diag.Warning
)

// Assignment is one variable given on the command line.
type Assignment = policy.Assignment

// Options are the inputs of a compilation beside the policy's path.
type Options struct {
	// Open gives the files below a folder. Paths are those of the command line
	// and of the policy, joined; nothing else is ever read.
	Open     func(dir string) (fs.FS, error)
	Vars     []Assignment
	VarFiles []string
	// Adapters are the harness adapters that this program has, by name.
	Adapters map[string]harness.Adapter
	Override Override
	Scenario string // name of the scenario block whose inputs are taken, "" for none
}

// Override is what the command line says over the policy. Zero fields leave
// the policy as it is.
type Override struct {
	Sandbox     string            // plan.SandboxLocal or plan.SandboxContainer
	Image       string            // digest reference or plan.ImageBuiltin
	Network     string            // plan.Network…
	Credentials []string          // names of credentials that are added
	Harness     map[string]string // harness NAME is replaced by another one of the policy
	Provider    string            // of every harness that names a provider
	Model       string            // likewise
	Thinking    string            // likewise
}

// Result is what a compilation gives. Plan and Encoded are nil when a
// diagnostic is an error.
type Result struct {
	Plan        *plan.Plan
	Encoded     []byte            // the bytes of plan.json
	Digest      string            // their identity
	Blobs       map[string][]byte // every file of the plan's bundles, by digest
	Diagnostics []Diagnostic      // sorted
	Sources     map[string][]byte // files that diagnostics point into
	// Refused is the plan where all that is wrong with it is that it breaks its
	// guards, with their verdicts: to show, never to run.
	Refused *plan.Plan

	compiler *compiler // for Place
}

// Compile reads a policy, a file or a folder of *.hcl, and everything that it
// names. All that can be found wrong is reported at once.
func Compile(ctx context.Context, policyPath string, opts Options) *Result {
	c := newCompiler(ctx, policyPath, opts)
	c.run(policyPath)
	c.diags.Sort()
	res := &Result{Diagnostics: c.diags, Blobs: c.blobs, Sources: c.sources}
	if c.diags.HasErrors() {
		if c.refused {
			res.Refused = c.plan
		}
		return res
	}
	encoded, err := plan.Encode(c.plan)
	if err != nil {
		c.diags.Errorat(diag.Range{}, "Plan cannot be encoded", sentence(err.Error()))
		res.Diagnostics = c.diags
		return res
	}
	res.Plan, res.Encoded, res.Digest, res.compiler = c.plan, encoded, plan.Digest(encoded), c
	return res
}

func newCompiler(ctx context.Context, policyPath string, opts Options) *compiler {
	return &compiler{
		ctx:     ctx,
		opts:    opts,
		skills:  map[string]*bundle.Skill{},
		schemas: map[string]*schema{},
		bundles: map[string]*plan.Bundle{},
		blobs:   map[string][]byte{},
		sources: map[string][]byte{},
		roots:   map[string]fs.FS{},
		units:   map[string]*unit{},
		steps:   map[string]*step{},
		inputs:  map[string]*input{},
		bound:   map[[2]string]string{},
		unread:  map[string]bool{},
		policy:  diag.Range{File: path.Clean(policyPath)},
	}
}

// compiler is the state of one compilation.
type compiler struct {
	ctx   context.Context
	opts  Options
	diags diag.List

	pol    *policy.Policy
	asm    *bundle.Assembly
	policy diag.Range // the policy as a whole

	roots   map[string]fs.FS // opened folders, by path
	skills  map[string]*bundle.Skill
	schemas map[string]*schema      // by name
	bundles map[string]*plan.Bundle // by id
	blobs   map[string][]byte       // by digest
	sources map[string][]byte       // by file name
	inputs  map[string]*input       // policy inputs, by name
	unread  map[string]bool         // policy inputs that could not be read, by name
	bound   map[[2]string]string    // skill and schema name → bundle id
	answers map[string][]byte       // of scripted providers, by name

	order   []*unit          // top-level units in assembly order
	units   map[string]*unit // loops and branches, by id
	steps   map[string]*step // by node id
	walk    []*step          // every step, in assembly order
	harness harnesses

	readGraph *readGraph // built for the first unbound artifact
	found     *findings  // of a starter policy: what is open is no error

	plan    *plan.Plan
	refused bool // it breaks its guards, and nothing else is wrong
	first   int  // how many of its nodes stand before all steps
}

// run does the work in stages. A stage that finds errors does not always stop
// the next one: as much as can be said is said at once.
func (c *compiler) run(policyPath string) {
	pol, ds := policy.Load(c.ctx, policyPath, policy.Options{Open: c.opts.Open, Vars: c.opts.Vars, VarFiles: c.opts.VarFiles})
	c.diags = append(c.diags, ds...)
	c.pol = pol
	if pol != nil {
		for name, data := range pol.Files {
			c.sources[name] = data
		}
	}
	if pol == nil || ds.HasErrors() {
		return
	}
	c.refuseUnbuilt()
	if !c.readAssembly() {
		return
	}
	c.readInputs()
	c.layout()
	c.readSkills()
	c.resolveHarnesses()
	if c.diags.HasErrors() && len(c.walk) == 0 {
		return
	}
	c.bind()
	c.plan = &plan.Plan{
		FormatVersion: plan.FormatVersion,
		Mode:          plan.ModeTrace,
		Order:         cmp.Or(c.pol.Order.Value, plan.OrderAssembly),
		Pipeline: plan.Pipeline{
			Name: c.asm.Pipeline, SourceRevision: c.asm.SourceRevision,
			Options: sortedSet(c.asm.Options), Digest: c.asm.Digest, Scenario: c.opts.Scenario,
		},
	}
	c.lowerNodes()
	c.lowerLoops()
	c.lowerBranches()
	c.lowerTools()
	c.lowerRun()
	c.checkCredentials()
	if c.diags.HasErrors() {
		return
	}
	c.finish()
}

// finish fills the lists that depend on everything before and proves the plan
// against the rules of its format.
func (c *compiler) finish() {
	c.collectBundles()
	c.plan.WorstCase = spend.WorstCase(c.plan)
	if c.judgeGuards(); c.diags.HasErrors() {
		c.refused = c.onlyBroken() && len(plan.Validate(c.plan)) == 0
		return
	}
	for _, p := range plan.Validate(c.plan) {
		c.diags.Errorat(c.problemPlace(p.Path), sentence(p.Summary)[:len(p.Summary)], p.Path+": "+sentence(p.Detail))
	}
}

// refuseUnbuilt refuses the parts of the language that this version reads but
// does not yet honour: ignoring them would be green by default.
func (c *compiler) refuseUnbuilt() {
	if e := c.pol.Evaluation; e != nil {
		c.diags.Errorat(e.At, "Not built yet", "This version does not grade runs, so a plan would say nothing of it. Remove the `evaluation` block until it does.")
	}
}
