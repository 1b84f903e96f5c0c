package policy

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"foundry/compile/internal/diag"
)

// Policy is a policy after includes are merged and every expression that is
// not a predicate or a guard is evaluated. Units are the plan's: seconds,
// bytes, micro-dollars, millis. A zero Range at a field means "not written".
type Policy struct {
	Assembly  Text // path of _assembly.json
	Skills    Text // path of the folder of skill bundles
	Order     Text // "" = assembly
	Strict    bool
	Variables []Variable

	Inputs    []*Input
	Providers []*Provider
	Harnesses []*Harness
	Sandbox   *Sandbox
	Budget    *RunBudget
	Defaults  *Phase // harness, budget, sandbox, submit_attempts, optional
	Phases    []*Phase
	Loops     []*Loop
	Branches  []*Branch
	Tools     []*Tool
	Probes    []*Probe
	Artifacts []*Artifact
	Scenarios []*Scenario

	Guards     Names // built-in sets
	OwnGuards  []*Guard
	Evaluation *Evaluation

	// Files are the policy's files in the order they were read, for diagnostics.
	Files map[string][]byte
}

// Text is a string with its place.
type Text struct {
	Value string
	At    diag.Range
}

// Set reports whether the policy wrote it.
func (t Text) Set() bool { return t.At != diag.Range{} }

// Int is an integer with its place.
type Int struct {
	Value int64
	At    diag.Range
}

// Set reports whether the policy wrote it.
func (i Int) Set() bool { return i.At != diag.Range{} }

// Bool is a boolean with its place.
type Bool struct {
	Value bool
	At    diag.Range
}

// Set reports whether the policy wrote it.
func (b Bool) Set() bool { return b.At != diag.Range{} }

// Names is a list of strings with their places; Set distinguishes [] from
// nothing.
type Names struct {
	Items []Text
	At    diag.Range
}

// Set reports whether the policy wrote it.
func (n Names) Set() bool { return n.At != diag.Range{} }

// Expr is an expression that is lowered, not evaluated: predicates and guards.
type Expr struct {
	Syntax hclsyntax.Expression // nil = not written
	At     diag.Range
	Scope  *Scope // what var.x and local.x mean in it
}

// Variable is one declared variable with its final value as text.
type Variable struct {
	Name string
	Type string // string number bool path list(string)
	At   diag.Range
}

// Input is an artifact from outside the pipeline.
type Input struct {
	Name   string
	At     diag.Range
	Path   Text // path below the file's folder or a path variable
	Digest Text // pins the bytes: sha256:…
	Kind   Text // artifact kind, where the name's ending does not say it
}

// Provider lists the models that exist for the policy.
type Provider struct {
	Name       string
	At         diag.Range
	API        Text
	BaseURL    Text
	Credential Text
	Script     Text // path of the answers of a scripted provider
	Models     []*Model
}

// Model has prices as canonical decimal strings, USD per million tokens.
type Model struct {
	ID                                   string
	At                                   diag.Range
	Input, Output, CacheRead, CacheWrite Text
	MaxOutput                            Int
}

// Harness is a named worker.
type Harness struct {
	Name     string
	At       diag.Range
	Adapter  Text
	Version  Text
	Provider Text
	Model    Text
	Thinking Text
	Tools    Names
	Auth     Text // label of the agent's own login, for local runs
	TestStub Bool
	Script   Text // path of a test stub's script
	Recorded Text // path of the folder that a test stub copies from
}

// Sandbox is where processes run. A nil or unset field falls back to the
// enclosing block, then to least privilege.
type Sandbox struct {
	At                diag.Range
	Mode              Text
	Image             Text
	Network           Text
	EgressHosts       Names
	Credentials       Names
	WorkerCredentials Names
	MemoryBytes       Int
	CPUMillis         Int
	PIDs              Int
	TmpBytes          Int
	ScratchBytes      Int
	AllowShell        Bool
	AllowFetch        Bool
}

// RunBudget bounds the run.
type RunBudget struct {
	At           diag.Range
	WallSeconds  Int
	CostMicroUSD Int
	Tokens       Int
	Unknown      Text // unset = fail
}

// NodeBudget bounds one attempt.
type NodeBudget struct {
	At           diag.Range
	WallSeconds  Int
	Turns        Int
	ToolCalls    Int
	Tokens       Int
	CostMicroUSD Int
	OutputBytes  Int
	OutputFiles  Int
}

// Phase is what the policy says of one phase; also the form of defaults.
type Phase struct {
	Name              string // "validate-cwl#2" names the second node of a skill
	At                diag.Range
	Harness           Text
	Inputs            Names
	Task              Text
	NotApplicable     Names
	Optional          Names // input artifacts that may be missing
	NestedSkills      Names
	SubmitAttempts    Int
	RequireActivation Bool
	Sandbox           *Sandbox
	Budget            *NodeBudget
	Outputs           []*Output
	Checks            []*Check
}

// Output overrides one output of a phase.
type Output struct {
	Artifact string
	At       diag.Range
	Required Text
	Filename Text
	Kind     Text
	Schema   Text
}

// Check is a deterministic process that proves something of a phase, a loop or
// a branch.
type Check struct {
	Name        string
	At          diag.Range
	Tool        Text
	Argv        Names
	Image       Text
	Assert      Expr
	Blocking    Bool
	TrustedHost Bool
	Budget      *NodeBudget
}

// Loop is one phase or several consecutive ones, repeated.
type Loop struct {
	Name          string
	At            diag.Range
	Phases        Names // unset: the phase of the loop's own name
	MaxIterations Int
	Until         Expr
	Checks        []*Check
	Body          []*Phase // phase blocks inside
	// Of a loop of one phase, the phase's own attributes may stand in the loop.
	Self *Phase
}

// Branch is a fallback chain.
type Branch struct {
	Name      string
	At        diag.Range
	Accept    Expr
	Otherwise Expr // input.NAME or "fail"
	Phases    []*Phase
	Checks    []*Check
}

// Tool decides how a required tool is had.
type Tool struct {
	Name        string
	At          diag.Range
	By          Text
	Image       Text
	Unavailable Text
}

// Probe replaces the availability check of a required tool.
type Probe struct {
	Tool   string
	At     diag.Range
	Argv   Names
	Expect Text
}

// Artifact says something of an artifact wherever it is produced or consumed.
type Artifact struct {
	ID       string
	At       diag.Range
	Required Text // "optional": every producer may leave it out, every consumer accepts that
}

// Scenario replaces inputs for one named run of the same pipeline.
type Scenario struct {
	Name   string
	At     diag.Range
	Inputs []*Input
}

// Guard is a rule over the compiled plan.
type Guard struct {
	Name     string
	At       diag.Range
	Assert   Expr
	Message  Text
	Severity Text
}

// Evaluation says how a run is graded.
type Evaluation struct {
	At           diag.Range
	Properties   Names // paths, with a * for one folder
	Require      Text
	JudgeHarness Text
	JudgeBudget  *RunBudget
}
