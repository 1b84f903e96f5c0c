package record

// FormatVersion is the version of run.json and attempt.json.
const FormatVersion = 1

// Run is run.json: what was executed, by what, and how it ended. Status is
// running while the controller works, and stays so if it is killed.
type Run struct {
	FormatVersion int          `json:"format_version"`
	ID            string       `json:"id"`
	Status        string       `json:"status"`
	Failure       *Failure     `json:"failure,omitempty"` // the first one; it ended the walk
	TestStub      bool         `json:"test_stub"`         // some executed node is driven by a test stub, no agent
	PlaysScript   bool         `json:"plays_script"`      // some executed node's provider plays a script: no model
	Isolated      bool         `json:"isolated"`          // every executed attempt had a security boundary
	Plan          PlanIdentity `json:"plan"`
	Program       Program      `json:"program"`
	Through       string       `json:"through,omitempty"` // the last node that was asked for
	Started       string       `json:"started"`           // RFC 3339, UTC
	Ended         string       `json:"ended,omitempty"`
	Usage         Usage        `json:"usage"`
	Inputs        []Bundle     `json:"inputs"`   // policy inputs, by bundle
	Fixtures      []Bundle     `json:"fixtures"` // recorded files that a test stub may copy
	Probes        []Probe      `json:"probes"`
	Tools         []Tool       `json:"tools"` // how each required tool was had
	Nodes         []Node       `json:"nodes"` // in the plan's order
	Loops         []Loop       `json:"loops"`
	Branches      []Branch     `json:"branches"`
	Resumed       int64        `json:"resumed,omitempty"` // how often a controller took the run over
	Leftovers     []string     `json:"leftovers,omitempty"`
}

// PlanIdentity says which plan was executed.
type PlanIdentity struct {
	Digest         string `json:"digest"`
	Mode           string `json:"mode"`
	Pipeline       string `json:"pipeline"`
	SourceRevision int64  `json:"source_revision"`
	AssemblyDigest string `json:"assembly_digest"`
}

// Program is this program.
type Program struct {
	Version string `json:"version"`
	Digest  string `json:"digest"` // sha256 of the executable's bytes
}

// Bundle is a bundle of the plan by its identity.
type Bundle struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

// Statuses of a probe.
const (
	ProbeNotRun = "not_run"
	ProbePassed = "passed"
	ProbeFailed = "failed"
)

// How a tool was had.
const (
	ToolImage       = "image"
	ToolSubstituted = "substituted" // its published JSON Schema stood in its place
	ToolUnavailable = "unavailable" // its checks are unsupported, never green
)

// Tool is the policy's decision on a tool that the pipeline requires.
type Tool struct {
	Name   string `json:"name"`
	Had    string `json:"had"`
	Detail string `json:"detail,omitempty"` // the image, or the reason
}

// Probe is an availability probe and what came of it.
type Probe struct {
	Tool   string `json:"tool"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
	Folder string `json:"folder,omitempty"` // of the last attempt, below the run folder
}

// Node is one node of the plan and how it ended.
type Node struct {
	ID         string       `json:"id"`
	Kind       string       `json:"kind"`
	Phase      int64        `json:"phase"`
	Status     string       `json:"status"`
	Failure    *Failure     `json:"failure,omitempty"`
	Invocation *Invocation  `json:"invocation,omitempty"`
	Harness    *Harness     `json:"harness,omitempty"`
	Fixture    *Bundle      `json:"fixture,omitempty"`
	Usage      Usage        `json:"usage"`
	Outputs    []Artifact   `json:"outputs"` // promoted by the last attempt that succeeded, in the plan's order
	Check      *CheckResult `json:"check,omitempty"`
	Attempts   []AttemptRef `json:"attempts"`
}

// Loop is a loop and how it ended.
type Loop struct {
	ID            string   `json:"id"`
	Status        string   `json:"status"`
	Iterations    int64    `json:"iterations"` // begun
	MaxIterations int64    `json:"max_iterations"`
	Decided       string   `json:"decided,omitempty"` // the last evaluation of its predicate
	Failure       *Failure `json:"failure,omitempty"`
}

// UserSupplied is the Accepted of a branch that fell back to its declared
// input.
const UserSupplied = "user-supplied"

// Branch is a branch and how it ended.
type Branch struct {
	ID       string   `json:"id"`
	Status   string   `json:"status"`
	Accepted string   `json:"accepted,omitempty"` // node id, or UserSupplied
	Tried    []Tried  `json:"tried"`
	Failure  *Failure `json:"failure,omitempty"`
}

// Tried is one alternative that was tried, and why it was accepted or not.
type Tried struct {
	Node      string `json:"node"`
	Iteration int64  `json:"iteration"`
	Accepted  bool   `json:"accepted"`
	Why       string `json:"why"`
}

// Invocation is the identity of the skill that was invoked.
type Invocation struct {
	Skill       string `json:"skill"`
	SkillSHA256 string `json:"skill_sha256"` // digest of the skill's tree
	Provenance  *Mold  `json:"provenance,omitempty"`
}

// Mold is the skill's source, as its _provenance.json says it.
type Mold struct {
	Digest      string `json:"digest"` // sha256 of _provenance.json
	Name        string `json:"name"`
	Revision    int64  `json:"revision"`
	Commit      string `json:"commit"`
	ContentHash string `json:"content_hash"`
}

// Harness is who worked, as the plan has it.
type Harness struct {
	Name     string `json:"name"`
	Adapter  string `json:"adapter"`
	Version  string `json:"version"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Thinking string `json:"thinking,omitempty"`
	TestStub bool   `json:"test_stub"`
}

// Artifact is one promoted version of an artifact.
type Artifact struct {
	Artifact string `json:"artifact"`
	Filename string `json:"filename"`
	Kind     string `json:"kind"`
	Digest   string `json:"digest"` // of the file, or of the folder's canonical file list
	Bytes    int64  `json:"bytes"`
	Files    int64  `json:"files"`
	Exec     bool   `json:"executable,omitempty"` // of a file
}

// AttemptRef points to the folder of an attempt.
type AttemptRef struct {
	Iteration int64    `json:"iteration"`
	Attempt   int64    `json:"attempt"`
	Folder    string   `json:"folder"` // below the run folder
	Status    string   `json:"status"`
	Failure   *Failure `json:"failure,omitempty"`
}
