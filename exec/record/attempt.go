package record

// Attempt is attempt.json: one execution of one node in one sandbox.
type Attempt struct {
	FormatVersion int         `json:"format_version"`
	Node          string      `json:"node"`
	Iteration     int64       `json:"iteration"`
	Attempt       int64       `json:"attempt"`
	Status        string      `json:"status"`
	Failure       *Failure    `json:"failure,omitempty"`
	Started       string      `json:"started"`
	Ended         string      `json:"ended"`
	Invocation    *Invocation `json:"invocation,omitempty"`
	Harness       *Harness    `json:"harness,omitempty"`
	Fixture       *Bundle     `json:"fixture,omitempty"`
	Activation    *Activation `json:"activation,omitempty"` // of an agent
	Worker        Worker      `json:"worker"`
	Submitted     int64       `json:"submitted,omitempty"` // how often the living worker was judged, where it may submit more than once
	Exit          *Exit       `json:"exit,omitempty"`      // nil: the process never started, or its end was not seen
	Dead          bool        `json:"dead"`                // everything of the attempt was shown to be gone
	Usage         Usage       `json:"usage"`
	Broker        *Broker     `json:"broker,omitempty"` // nil: the attempt had none
	// Skipped says why a check did not run: what it reads may be absent, and is.
	Skipped    string       `json:"skipped,omitempty"`
	Check      *CheckResult `json:"check,omitempty"`
	Inputs     []InputUse   `json:"inputs"`
	Outputs    []Output     `json:"outputs"`
	Refused    []Refused    `json:"refused"` // what lay in the output folder and may not cross
	Undeclared Undeclared   `json:"undeclared"`
	Stdout     Stream       `json:"stdout"`
	Stderr     Stream       `json:"stderr"`
	Sandbox    *Sandbox     `json:"sandbox,omitempty"`
}

// States of the proof that a worker activated its skill.
const (
	ActivationProven       = "proven"
	ActivationUnprovenStub = "unproven (test stub)"
	ActivationUnproven     = "unproven"
)

// Activation is how the skill of an attempt was asked for, and what proves that
// it came before the model. Where there is a broker both proofs are needed.
type Activation struct {
	State     string   `json:"state"`
	Skill     string   `json:"skill_sha256"`          // digest of the frozen bundle
	Requested string   `json:"requested,omitempty"`   // the words that asked for it
	Text      string   `json:"text_sha256,omitempty"` // of what an activation puts before the model
	Stream    bool     `json:"stream"`                // the worker's own stream held that text
	Request   *Request `json:"request,omitempty"`     // the first request to the provider that held it, as the broker saw it
}

// Request is one request to a provider.
type Request struct {
	Number int64  `json:"number"` // of the attempt, from 1
	SHA256 string `json:"sha256"` // of its body, as the worker sent it
}

// Broker is what the broker saw of an attempt. Its figures are the provider's.
type Broker struct {
	Requests        int64  `json:"requests"` // that came from the worker
	Forwarded       int64  `json:"forwarded"`
	Clamped         int64  `json:"clamped"` // whose answer was bounded below what was asked for
	Cut             int64  `json:"cut"`     // whose answer was cut off
	InputTokens     int64  `json:"input_tokens"`
	OutputTokens    int64  `json:"output_tokens"`
	CacheRead       int64  `json:"cache_read_tokens"`
	CacheWrite      int64  `json:"cache_write_tokens"`
	CostMicroUSD    int64  `json:"cost_micro_usd"`
	UnsettledTokens int64  `json:"unsettled_tokens"`           // reserved for answers whose usage never came: counted as spent
	UnsettledCost   int64  `json:"unsettled_cost_micro_usd"`   // the same
	Provider        string `json:"provider_failure,omitempty"` // what the last answer was, when it was none: refused or unreachable, and why
	Worker          *Usage `json:"worker_usage,omitempty"`     // what the worker itself reported
	Differs         bool   `json:"usage_differs,omitempty"`    // the worker's figures are not the provider's
}

// Worker is what the worker said of itself; nothing here decides success alone.
type Worker struct {
	Status    string `json:"status"` // settled stopped_length errored aborted none
	Message   string `json:"message,omitempty"`
	Name      string `json:"name,omitempty"` // from its started event
	Version   string `json:"version,omitempty"`
	Model     string `json:"model,omitempty"`
	Noise     int64  `json:"noise"` // lines that were no event
	Violation string `json:"violation,omitempty"`
}

// Exit is how the process ended. Killed says that the controller ended it.
type Exit struct {
	Code   int64  `json:"code"`
	Signal string `json:"signal,omitempty"`
	OOM    bool   `json:"oom,omitempty"`
	Killed bool   `json:"killed,omitempty"`
}

// InputUse is one input as it was given. An absent optional one has no digest.
type InputUse struct {
	Artifact string    `json:"artifact"`
	From     string    `json:"from"`
	Source   string    `json:"source,omitempty"` // what From came to where that is open: node:ID, or user-supplied
	Digest   string    `json:"digest,omitempty"`
	Schema   string    `json:"schema_digest,omitempty"`
	Problems []Problem `json:"problems"`
}

// States of a declared output.
const (
	OutputPromoted = "promoted"
	OutputValid    = "valid"   // valid, but the attempt failed: not promoted
	OutputInvalid  = "invalid" // frozen and refused
	OutputAbsent   = "absent"
)

// Output is one declared output as it was found.
type Output struct {
	Artifact string    `json:"artifact"`
	Filename string    `json:"filename"`
	Kind     string    `json:"kind"`
	Required string    `json:"required"`
	State    string    `json:"state"`
	Digest   string    `json:"digest,omitempty"`
	Bytes    int64     `json:"bytes"`
	Files    int64     `json:"files"`
	Schema   string    `json:"schema_digest,omitempty"`
	Problems []Problem `json:"problems"`
	Dropped  int64     `json:"problems_dropped,omitempty"` // beyond the listed ones
}

// Problem is one thing that is wrong with an artifact. Pointer is an RFC 6901
// pointer into the document, "" for the whole of it.
type Problem struct {
	Pointer string `json:"pointer"`
	Rule    string `json:"rule"` // the schema keyword, or format, encoding, empty
	Message string `json:"message"`
}

// Refused is something in the output folder that may not cross.
type Refused struct {
	Artifact string `json:"artifact,omitempty"`
	Path     string `json:"path"`
	Reason   string `json:"reason"`
	Detail   string `json:"detail"`
}

// Undeclared is what the output folder held beside the declared outputs. None
// of it crossed.
type Undeclared struct {
	Count int64    `json:"count"`
	Names []string `json:"names"` // the first of them
	More  bool     `json:"more,omitempty"`
}

// Stream is a standard stream as it was kept: its head and its tail.
type Stream struct {
	Bytes   int64 `json:"bytes"`   // all that was written
	Dropped int64 `json:"dropped"` // between head and tail
}

// Sandbox is what a runtime applied.
type Sandbox struct {
	Mode             string        `json:"mode"`
	SecurityBoundary bool          `json:"security_boundary"`
	Image            string        `json:"image,omitempty"`
	ImageDigest      string        `json:"image_digest,omitempty"`       // of this machine's platform
	ImageIndex       string        `json:"image_index,omitempty"`        // of the multi-platform index that it was taken from
	Repositories     []string      `json:"repository_digests,omitempty"` // NAME@digest, where a registry knows the image
	ConfigDigest     string        `json:"config_digest,omitempty"`
	ProgramDigest    string        `json:"program_digest,omitempty"`
	Agent            *AgentProgram `json:"agent,omitempty"` // of a local agent
	Runtimes         []Version     `json:"runtimes"`        // sorted by name
	User             string        `json:"user"`
	Network          string        `json:"network"`
	Credentials      []string      `json:"credentials"`        // names that the broker may use for it
	WorkerCreds      []string      `json:"worker_credentials"` // names that entered it
	Mounts           []Mount       `json:"mounts"`
	Properties       []Property    `json:"properties"`
	Measured         Measured      `json:"measured"`
}

// AgentProgram is the program of this machine that a local agent was: found
// once, on the user's PATH or where the user said.
type AgentProgram struct {
	Name              string `json:"name"` // in the plan's argv
	Path              string `json:"path"` // without links
	Digest            string `json:"digest"`
	Version           string `json:"version"` // in its own words; "" if it was not asked
	Interpreter       string `json:"interpreter,omitempty"`
	InterpreterDigest string `json:"interpreter_digest,omitempty"`
}

// Measured is what the kernel counted for an attempt.
type Measured struct {
	PeakMemoryBytes Count `json:"peak_memory_bytes"`
	CPUMicros       Count `json:"cpu_micros"` // of all processes, user and system
	OOMKills        Count `json:"oom_kills"`
	PIDsRefused     Count `json:"pids_refused"` // forks and threads refused for the limit
	ThrottledMicros Count `json:"throttled_micros"`
	OutputBytes     Count `json:"output_bytes"` // in use on the output file system at the end
	OutputFiles     Count `json:"output_files"`
}

// Version is a program and its version.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Mount is a mount as it was made; Bytes is the bound that holds, 0 if none.
type Mount struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Mode        string `json:"mode"`
	Bytes       int64  `json:"bytes"`
}

// Property is one thing that a sandbox promises (enforced) or cannot give
// (not_enforced).
type Property struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}
