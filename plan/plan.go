package plan

import "slices"

// FormatVersion is the one version of plan.json that this program reads and
// writes. It is matched exactly; a plan of another version is refused.
const FormatVersion = 1

// Plan is the only thing the executor reads, beside the blobs it names by
// digest. The field order is the order in the file. Slices without omitempty
// are always written, empty ones as []; optional ones are left out when empty.
// Inputs, bundles, providers, harnesses and tools are sorted by their ids,
// probes by tool, argv and image; nodes are in topological order.
type Plan struct {
	FormatVersion int         `json:"format_version"`
	Mode          string      `json:"mode"`
	Order         string      `json:"order"`
	Pipeline      Pipeline    `json:"pipeline"`
	Inputs        []Input     `json:"inputs"`
	Bundles       []Bundle    `json:"bundles"`
	Providers     []Provider  `json:"providers"`
	Harnesses     []Harness   `json:"harnesses"`
	Budget        RunBudget   `json:"budget"`
	WorstCase     WorstCase   `json:"worst_case"`
	Nodes         []Node      `json:"nodes"`
	Loops         []Loop      `json:"loops"`
	Branches      []Branch    `json:"branches"`
	Probes        []Probe     `json:"probes"`
	Tools         []Tool      `json:"tools"`
	Package       *Package    `json:"package,omitempty"`
	Guards        []Guard     `json:"guards"`
	Evaluation    *Evaluation `json:"evaluation,omitempty"`
}

// Modes of a plan.
const (
	ModeTrace    = "trace"    // the controller walks the DAG, one worker per step
	ModeBlackBox = "blackbox" // one parent agent runs the published pipeline package
)

// Orders of a plan.
const (
	OrderAssembly = "assembly" // each phase waits for the one before it
	OrderDataflow = "dataflow" // data edges alone
)

// Pipeline names what was compiled.
type Pipeline struct {
	Name           string   `json:"name"`
	SourceRevision int64    `json:"source_revision"`
	Options        []string `json:"options"`            // of the assembly, sorted
	Digest         string   `json:"digest"`             // sha256 of the _assembly.json bytes
	Scenario       string   `json:"scenario,omitempty"` // the scenario whose inputs were taken
}

// Input is an artifact that the policy brings from outside the pipeline.
type Input struct {
	ID       string `json:"id"`
	Bundle   string `json:"bundle"`   // id of the bundle that holds its bytes
	Kind     string `json:"kind"`     // KindFile… or KindDirectory
	Filename string `json:"filename"` // base name of a file; "" of a folder
}

// Artifact kinds. A kind decides how the bytes are validated before promotion.
const (
	KindJSON       = "json"
	KindYAML       = "yaml"
	KindMarkdown   = "markdown"
	KindText       = "text"
	KindFile       = "file" // any bytes
	KindDirectory  = "directory"
	KindProvenance = "galaxy-tool-provenance"
)

// Bundle is a set of files that is mounted as one thing: a skill, a schema, an
// input, recorded files. Each is listed once; its digest covers the file list.
type Bundle struct {
	ID     string       `json:"id"` // class:name, such as skill:summarize-cwl
	Digest string       `json:"digest"`
	Mold   *Mold        `json:"mold,omitempty"` // a skill's source, from its _provenance.json
	Files  []BundleFile `json:"files"`
}

// Classes of bundle ids, the part before the colon.
const (
	BundleSkill    = "skill"
	BundleSchema   = "schema"
	BundleInput    = "input"
	BundleRecorded = "recorded"
	BundlePackage  = "package"
	BundleOracle   = "oracle"
	BundleScript   = "script" // the answers of a scripted provider
)

// Mold is where a skill was cast from, as its _provenance.json says it.
type Mold struct {
	Name             string `json:"name"`
	Revision         int64  `json:"revision"`
	Commit           string `json:"commit"`
	ContentHash      string `json:"content_hash"`
	ProvenanceDigest string `json:"provenance_digest"` // sha256 of _provenance.json
	CastBundleSHA256 string `json:"cast_bundle_sha256,omitempty"`
}

// BundleFile is one file or empty folder of a bundle. Mode is "0644", "0755"
// (the executable bit is all that is kept) or "dir" for an empty folder, which
// has no digest and no bytes.
type BundleFile struct {
	Path   string `json:"path"`
	Mode   string `json:"mode"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest,omitempty"`
}

// Modes of a BundleFile.
const (
	ModeRegular    = "0644"
	ModeExecutable = "0755"
	ModeDir        = "dir"
)

// Provider is an API that models are reached through. Credential is the name
// of a credential that the broker may use, never its value. One with a Script
// is a test stub: the broker answers from that bundle's file, and reaches
// nobody.
type Provider struct {
	Name       string  `json:"name"`
	API        string  `json:"api"`
	BaseURL    string  `json:"base_url,omitempty"`
	Credential string  `json:"credential,omitempty"`
	Script     string  `json:"script,omitempty"` // bundle id
	Models     []Model `json:"models"`
}

// Model is one model of a provider with its price: decimal strings in USD per
// million tokens.
type Model struct {
	ID        string `json:"id"`
	MaxOutput int64  `json:"max_output_tokens"`
	Price     Price  `json:"price_usd_per_million_tokens"`
}

// Price holds canonical decimal strings (no sign, no exponent, no trailing
// zero of a fraction).
type Price struct {
	Input      string `json:"input"`
	Output     string `json:"output"`
	CacheRead  string `json:"cache_read"`
	CacheWrite string `json:"cache_write"`
}

// Harness is a named way to run a worker.
type Harness struct {
	Name     string   `json:"name"`
	Adapter  string   `json:"adapter"`
	Version  string   `json:"version"`
	Provider string   `json:"provider,omitempty"`
	Model    string   `json:"model,omitempty"`
	Thinking string   `json:"thinking,omitempty"`
	Tools    []string `json:"tools"` // sorted
	// AuthStore is the label of a login of the agent's own, which a local run
	// lends to it: the provider is then reached past the broker.
	AuthStore string `json:"auth_store,omitempty"`
	TestStub  bool   `json:"test_stub,omitempty"`
}

// What happens when the spend of a node is unknown, and a budget bounds it.
const (
	UnknownFail = "fail" // the node fails: an unknown number could be any
	UnknownWarn = "warn" // it is recorded as unknown, and counts as nothing
)

// RunBudget bounds a whole run.
type RunBudget struct {
	WallSeconds  int64  `json:"wall_seconds"`
	CostMicroUSD int64  `json:"cost_micro_usd"`
	Tokens       int64  `json:"tokens"`
	Unknown      string `json:"unknown"` // UnknownFail or UnknownWarn; "" where nothing is spent
}

// WorstCase is the largest spend the plan allows: iterations × alternatives ×
// attempts, without and with the run's cap.
type WorstCase struct {
	UncappedCostMicroUSD int64 `json:"uncapped_cost_micro_usd"`
	CostMicroUSD         int64 `json:"cost_micro_usd"`
	UncappedWallSeconds  int64 `json:"uncapped_wall_seconds"`
	WallSeconds          int64 `json:"wall_seconds"`
	UncappedTokens       int64 `json:"uncapped_tokens"`
	Tokens               int64 `json:"tokens"`
}

// Kinds of node.
const (
	NodeAgent  = "agent"  // a worker runs a skill
	NodeCheck  = "check"  // a deterministic process
	NodeJudge  = "judge"  // a read-only grader
	NodeParent = "parent" // black-box mode: one agent runs the whole package
)

// Gates reports whether n is a check of the node of, and runs before it: of
// names it in its needs. Every other check runs after what it belongs to.
func (n *Node) Gates(of *Node) bool {
	return n.Kind == NodeCheck && n.Check != nil && n.Check.Of == of.ID && slices.Contains(of.Needs, n.ID)
}

// Node is one step.
type Node struct {
	ID            string       `json:"id"`
	Kind          string       `json:"kind"`
	Phase         int64        `json:"phase"`
	Needs         []string     `json:"needs"` // node, loop or branch ids, sorted
	Skill         string       `json:"skill,omitempty"`
	NestedSkills  []string     `json:"nested_skills,omitempty"`
	Harness       string       `json:"harness,omitempty"`
	Check         *Check       `json:"check,omitempty"`
	Prompt        string       `json:"prompt,omitempty"`
	Process       Process      `json:"process"`
	Files         []File       `json:"files"`
	Inputs        []NodeInput  `json:"inputs"`
	NotApplicable []string     `json:"not_applicable,omitempty"`
	Outputs       []NodeOutput `json:"outputs"`
	Sandbox       Sandbox      `json:"sandbox"`
	Budget        NodeBudget   `json:"budget"`

	SubmitAttempts    int64 `json:"submit_attempts"`    // 1 = invalid artifacts are never handed back
	RequireActivation bool  `json:"require_activation"` // an unproven activation fails the attempt
}

// Check says what a check node proves. The node's id is Of, a dot and Name.
type Check struct {
	Name        string `json:"name"`
	Of          string `json:"of"` // the node, loop or branch it belongs to
	Tool        string `json:"tool,omitempty"`
	Assert      *Expr  `json:"assert,omitempty"`
	Blocking    bool   `json:"blocking"`
	TrustedHost bool   `json:"trusted_host,omitempty"`
}

// Process is what is executed: argv, never a shell line. Entries may hold the
// closed set of tokens (see Tokens).
type Process struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"` // KEY=value, sorted
	Cwd  string   `json:"cwd"`
	User string   `json:"user"` // uid:gid inside a container
}

// File is a small file that the runtime writes before the process starts.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// NodeInput binds one consumed artifact.
//
// From is "input:ID" (policy input), "node:ID" or "branch:ID" (the version
// that producer promoted), or "none" when nothing before the node produces it.
// CarriedFrom names the node of the same loop body whose version is read from
// the second iteration on.
type NodeInput struct {
	Artifact    string `json:"artifact"`
	From        string `json:"from"`
	CarriedFrom string `json:"carried_from,omitempty"`
	Required    bool   `json:"required"`
	Kind        string `json:"kind"`
	Path        string `json:"path"` // below the node's input root, slash-separated
	Schema      string `json:"schema,omitempty"`
}

// FromNone is the From of an input that no earlier step produces.
const FromNone = "none"

// When an output is required.
const (
	RequiredAlways = "always"
	RequiredAtEnd  = "at_end" // of a loop: when its predicate holds
	Optional       = "optional"
)

// NodeOutput is one declared artifact. Nothing undeclared is promoted.
type NodeOutput struct {
	Artifact string `json:"artifact"`
	Filename string `json:"filename"` // below the output folder, slash-separated
	Kind     string `json:"kind"`
	Schema   string `json:"schema,omitempty"`
	Required string `json:"required"`
}

// Sandbox modes.
const (
	SandboxLocal     = "local"
	SandboxContainer = "container"
)

// Networks of a sandbox. The zero value of a policy is NetworkNone.
const (
	NetworkNone     = "none"
	NetworkProvider = "provider" // only lo, and a socket to the broker
	NetworkEgress   = "egress"   // only lo, and a CONNECT proxy with a host list
	NetworkBridge   = "bridge"   // CNI, unrestricted
)

// ImageBuiltin is the reserved image that is made from this program.
const ImageBuiltin = "builtin"

// Sandbox is where and with what a node's process runs.
type Sandbox struct {
	Mode              string    `json:"mode"`
	Image             string    `json:"image,omitempty"`
	Network           string    `json:"network"`
	EgressHosts       []string  `json:"egress_hosts,omitempty"`
	Credentials       []string  `json:"credentials"`                  // names the broker may use, sorted
	WorkerCredentials []string  `json:"worker_credentials,omitempty"` // names that would enter the sandbox
	Mounts            []Mount   `json:"mounts"`
	Resources         Resources `json:"resources"`
	AllowShell        bool      `json:"allow_shell,omitempty"`
	AllowFetch        bool      `json:"allow_fetch,omitempty"`
}

// Mount modes.
const (
	MountReadOnly  = "ro"
	MountReadWrite = "rw"
)

// Sources of a mount that are no bundle and no input.
const (
	MountOutput  = "output"  // the one folder artifacts are collected from
	MountScratch = "scratch" // HOME and working folder, thrown away
	MountTmpfs   = "tmpfs"
)

// Mount is one line of the mount manifest. Source is a bundle id, "in:ID" (the
// staged input artifact), or one of the reserved words. Bytes bounds what a
// writable mount may hold.
type Mount struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Mode        string `json:"mode"`
	Bytes       int64  `json:"bytes,omitempty"`
}

// Resources are the limits of one attempt.
type Resources struct {
	MemoryBytes int64 `json:"memory_bytes"`
	PIDs        int64 `json:"pids"`
	CPUMillis   int64 `json:"cpu_millis"`
}

// NodeBudget bounds one attempt of one node. Everything is above 0, but for
// what cannot be spent: a check has no turns, tools, tokens or cost, a harness
// without a provider no tokens or cost, and a node without outputs no output.
// There 0 means none at all.
type NodeBudget struct {
	WallSeconds  int64 `json:"wall_seconds"`
	Turns        int64 `json:"turns"`
	ToolCalls    int64 `json:"tool_calls"`
	Tokens       int64 `json:"tokens"`
	CostMicroUSD int64 `json:"cost_micro_usd"`
	OutputBytes  int64 `json:"output_bytes"`
	OutputFiles  int64 `json:"output_files"`
}

// Bounds of a loop, from the design.
const (
	MinIterations = 1
	MaxIterations = 10_000
)

// Loop runs its body, one node or several consecutive ones, until the
// predicate holds or the bound is reached.
type Loop struct {
	ID            string   `json:"id"`
	Body          []string `json:"body"` // node ids in order, checks included
	Until         Expr     `json:"until"`
	MaxIterations int64    `json:"max_iterations"`
	Carries       []string `json:"carries"` // artifact ids, sorted
}

// Branch tries its alternatives in order.
type Branch struct {
	ID           string   `json:"id"`
	Pattern      string   `json:"pattern"`
	Alternatives []string `json:"alternatives"` // node ids in order
	Accept       Expr     `json:"accept"`
	Otherwise    string   `json:"otherwise"` // "input:ID", or OtherwiseFail
	Artifacts    []string `json:"artifacts"` // what consumers may read from it, sorted
}

// OtherwiseFail ends a branch without an accepted alternative as a failure.
const OtherwiseFail = "fail"

// Probe asks whether a tool is there before anything is spent: it runs Argv
// and looks for the word Expect in its output ("" = exit code 0 is enough).
type Probe struct {
	Tool   string   `json:"tool"`
	Argv   []string `json:"argv"`
	Expect string   `json:"expect,omitempty"`
	Image  string   `json:"image,omitempty"`
}

// How a tool is had.
const (
	ToolImage       = "image"       // run from an image
	ToolSchema      = "schema"      // its published JSON Schema stands in its place
	ToolUnavailable = "unavailable" // waived, with a reason
)

// Tool is the policy's decision on one required tool.
type Tool struct {
	Name   string `json:"name"`
	By     string `json:"by"`
	Image  string `json:"image,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Package is what a black-box parent gets: the published pipeline skill, and
// one budgeted template for each skill it may call.
type Package struct {
	Bundle   string     `json:"bundle"`
	Callable []Callable `json:"callable"`
}

// Callable is the template of one skill that a parent may ask for.
type Callable struct {
	Skill    string       `json:"skill"`
	Harness  string       `json:"harness"`
	MaxCalls int64        `json:"max_calls"`
	Prompt   string       `json:"prompt"`
	Process  Process      `json:"process"`
	Files    []File       `json:"files"`
	Outputs  []NodeOutput `json:"outputs"`
	Sandbox  Sandbox      `json:"sandbox"`
	Budget   NodeBudget   `json:"budget"`
}

// Guard results.
const (
	GuardPass = "pass"
	GuardWarn = "warn"
	GuardFail = "fail"
)

// Guard is a rule over the plan and its verdict. Guards see the plan without
// this list.
type Guard struct {
	Set    string `json:"set"` // "" for a guard of the policy itself
	Digest string `json:"digest"`
	Name   string `json:"name"`
	Result string `json:"result"`
}

// Kinds of property.
const (
	PropertyDeterministic = "deterministic"
	PropertyJudged        = "llm-judged"
)

// Evaluation is how a run is graded. The oracle texts are grade-only blobs: no
// mount, prompt or feedback of a worker may hold them.
type Evaluation struct {
	Require    string     `json:"require"` // all | supported
	Judge      string     `json:"judge,omitempty"`
	Budget     RunBudget  `json:"budget"`
	Properties []Property `json:"properties"`
	Cases      []Case     `json:"cases"`
}

// Property is one thing that must hold of a run.
type Property struct {
	Key     string `json:"key"`
	Kind    string `json:"kind"`
	Digest  string `json:"digest"`
	Binding string `json:"binding,omitempty"`
}

// Case is one scenario of the oracle: a fixture and what is expected of it.
type Case struct {
	Key     string `json:"key"`
	Fixture string `json:"fixture,omitempty"`
	Digest  string `json:"digest"`
}

// PlaysScript reports whether a provider plays a script: no model answers.
func (p *Plan) PlaysScript(provider string) bool {
	return slices.ContainsFunc(p.Providers, func(o Provider) bool { return o.Name == provider && o.Script != "" })
}
