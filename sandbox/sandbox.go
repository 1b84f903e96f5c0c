package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"foundry/plan"
)

// Runtime runs tasks. Implementations are safe for concurrent use.
type Runtime interface {
	// Mode is the plan's word for it: plan.SandboxLocal or plan.SandboxContainer.
	Mode() string
	// Prepare makes everything that the task's process needs and starts nothing
	// of it. On error nothing is left behind.
	Prepare(ctx context.Context, task Task) (Sandbox, error)
	// Close frees what the runtime itself holds (a daemon, a connection).
	Close() error
}

// Reclaimer is a Runtime that can find what a controller that was killed left
// alive. It is asked before a run goes on.
type Reclaimer interface {
	// Reclaim ends it, for one run, and touches nothing else.
	Reclaim(ctx context.Context, run string) error
}

// Task is one attempt of one node, joined with the verified bytes that it may
// see.
type Task struct {
	Run     string // id of the run: a-z, 0-9 and '-'
	Attempt string // id of the attempt, unique in the run: a-z, 0-9 and '-'
	Dir     string // absolute; an empty folder of this attempt's own on the host

	Process plan.Process // with tokens
	Files   []plan.File  // with tokens, below {scratch}
	Sandbox plan.Sandbox
	Wall    time.Duration // informs the spec; the caller enforces it

	// OutputBytes and OutputFiles bound the output folder.
	OutputBytes int64
	OutputFiles int64

	// Skill is the bundle id that {skill} stands for, "" if none.
	Skill string
	// InputPaths maps an artifact id to its plan.NodeInput.Path; {in:ID} stands
	// for that path below the input's mount. Absent inputs are absent here, and
	// their mounts are skipped.
	InputPaths map[string]string
	// Trees maps each source of the mount manifest that is no reserved word
	// (skill:X, recorded:X, in:X) to a folder on the host. The folders are
	// shared between attempts: a runtime copies them or mounts them read-only.
	// They must exist at Prepare. In a container (Runtime.Mode) they may be
	// empty until Start and be filled until then, in place: mounts show what is
	// in them. They must be neither replaced nor renamed. The local runtime
	// copies at Prepare.
	Trees map[string]string
	// Tokens are the values of broker.url, broker.token, subagent.socket and
	// subagent.token, where the attempt has them.
	Tokens map[string]string
	// BrokerSocket is the socket of the broker on the host, absolute; "" where
	// the attempt has no provider. A container sees it at plan.BrokerSocketPath, and
	// it is all of the network that it has.
	BrokerSocket string
	// Executable is the absolute path of this program, which {foundry} stands
	// for.
	Executable string
	// ImageLabels are labels that the image must have (see LabelProtocol and the
	// like); "" is any value. The builtin image is not asked. The local runtime
	// holds the agent's version against the program that it starts.
	ImageLabels map[string]string
}

// Sandbox is a prepared attempt. Its methods are called in this order: Expand
// (any time), Start, Wait, Kill, Output, Facts, Close. Kill and Close may be
// called at any point and more than once.
type Sandbox interface {
	// Expand replaces the tokens of s by paths as the process sees them.
	Expand(s string) (string, error)
	// Start starts the process. Stdout and stderr are written to from separate
	// goroutines; a nil Stdin is an empty one.
	Start(ctx context.Context, io Stdio) error
	// Wait returns when the process has ended and all that it wrote to stdout
	// and stderr has been handed on. When ctx ends first it returns ctx.Err()
	// and the process goes on.
	Wait(ctx context.Context) (Exit, error)
	// Kill ends every process of the attempt and verifies that none is left;
	// after it returns nil nothing writes to the output folder any more. An
	// error says what could not be shown to be dead.
	Kill(ctx context.Context) error
	// Output is the output folder on the host, to be read after Kill.
	Output() string
	// Facts is what was applied and measured; complete after Kill.
	Facts() Facts
	// Close removes everything that Prepare made on the host: mounts, snapshots,
	// containers, folders below Task.Dir.
	Close(ctx context.Context) error
}

// Perishable is a Sandbox that may be lost before it is started, such as by the
// death of what keeps it.
type Perishable interface {
	// Lost reports that Start would fail, through no fault of the task.
	Lost() bool
}

// Stdio is where the standard streams of a process go.
type Stdio struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Exit is how a process ended.
type Exit struct {
	Code    int    // exit code; 128 + signal when a signal ended it
	Signal  string // "SIGKILL", or "" when it exited by itself
	OOM     bool   // the kernel killed something of the attempt for memory
	Started time.Time
	Ended   time.Time
}

// Facts is what a runtime says of an attempt for the record.
type Facts struct {
	Mode             string            `json:"mode"`
	SecurityBoundary bool              `json:"security_boundary"`
	Image            string            `json:"image,omitempty"`         // reference of the plan
	ImageDigest      string            `json:"image_digest,omitempty"`  // manifest, of this machine's platform
	ImageIndex       string            `json:"image_index,omitempty"`   // the multi-platform index that it was taken from
	Repositories     []string          `json:"repositories,omitempty"`  // NAME@digest, as registries know the image; sorted
	ConfigDigest     string            `json:"config_digest,omitempty"` // image config
	Program          Program           `json:"program"`
	Agent            *ProgramFile      `json:"agent,omitempty"`    // of a local agent that was found on this machine
	Runtimes         map[string]string `json:"runtimes,omitempty"` // name → version: runc, containerd, …
	User             string            `json:"user"`
	Network          string            `json:"network"` // what the process really has
	Mounts           []AppliedMount    `json:"mounts"`
	Properties       []Property        `json:"properties"` // sorted by name
	Measured         Measured          `json:"measured"`
	Spec             json.RawMessage   `json:"-"` // the OCI spec, or the local process, kept as a file beside the record
}

// Measured is what the kernel counted for an attempt; nil is unknown, never 0.
// Each is a fact of its own: what an attempt failed for is decided elsewhere.
type Measured struct {
	PeakMemoryBytes *int64 `json:"peak_memory_bytes,omitempty"`
	CPUMicros       *int64 `json:"cpu_micros,omitempty"`       // of all processes, user and system
	OOMKills        *int64 `json:"oom_kills,omitempty"`        // processes that the kernel killed for memory, of whatever parent
	PIDsRefused     *int64 `json:"pids_refused,omitempty"`     // forks and threads refused for the limit
	ThrottledMicros *int64 `json:"throttled_micros,omitempty"` // waited for the CPU quota, summed over CPUs
	OutputBytes     *int64 `json:"output_bytes,omitempty"`     // blocks in use on the output file system at the end
	OutputFiles     *int64 `json:"output_files,omitempty"`     // inodes in use there
}

// LimitNotEnforced is the error of a limit that was asked for and that the
// kernel, read back, does not hold to. The attempt does not run.
type LimitNotEnforced struct {
	Limit string // a Prop constant
	Want  string // with its unit
	Got   string // the kernel's own words, "unreadable" when it gave none
}

func (e *LimitNotEnforced) Error() string {
	return fmt.Sprintf("sandbox: the limit of %s is not enforced: %s was asked for, the kernel says %s; nothing was let run without it", e.Limit, e.Want, e.Got)
}

// Program is this program, as the sandbox holds it.
type Program struct {
	Digest string `json:"digest"` // sha256 of the executable's bytes
}

// AppliedMount is a mount as it was made.
type AppliedMount struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Mode        string `json:"mode"`
	Bytes       int64  `json:"bytes,omitempty"` // the bound that holds, 0 if none does
}

// States of a property.
const (
	Enforced    = "enforced"
	NotEnforced = "not_enforced"
)

// Property is one thing that a sandbox promises or cannot give.
type Property struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Names of the properties every runtime reports.
const (
	PropFilesystem   = "filesystem"    // sees only its mounts
	PropReadOnly     = "read_only"     // cannot write to skill, inputs or root
	PropNetwork      = "network"       // has no network beyond the plan's
	PropUser         = "user"          // runs unprivileged, no capability, no new privileges
	PropSyscalls     = "syscalls"      // a seccomp filter is on
	PropMemory       = "memory"        // bounded
	PropPIDs         = "pids"          // bounded
	PropCPU          = "cpu"           // bounded
	PropOutputBytes  = "output_bytes"  // bounded while the process runs
	PropOutputFiles  = "output_files"  // bounded while the process runs
	PropWall         = "wall"          // the deadline kills everything
	PropProcessGroup = "process_group" // every descendant dies with the attempt
)
