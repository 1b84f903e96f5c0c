package harness

import (
	"foundry/harness/contract"
	"foundry/plan"
)

// Adapter knows one kind of agent. Adapters are values without state; cmd
// hands the compiler and the executor one table of them by name.
type Adapter interface {
	// Name is the word in the policy's adapter attribute.
	Name() string
	// Capabilities of one pinned version; an error names the versions there are.
	Capabilities(version string) (Capabilities, error)
	// Lower turns one step into a process. It is pure: the same request gives
	// the same bytes.
	Lower(req Request) (Lowered, error)
	// Session drives one attempt's event stream.
	Session(cfg SessionConfig) Session
}

// Capabilities is what an adapter can give.
type Capabilities struct {
	Tools          []string // names a harness may list, sorted
	Thinking       []string // levels a harness may name, in order; nil: none
	APIs           []string // provider APIs it can speak; nil: it needs no provider
	NeedsProvider  bool     // a provider and a model are mandatory
	ReadOnlyShell  bool     // its shell honours a read-only policy
	TestStub       bool     // no agent: the policy must say test_stub = true
	AuthStore      bool     // keeps a login of its own, which a local run can lend to it
	BuiltinImage   bool     // runs in the image made from this program
	WorkerPrograms []string // programs the image must hold
	VersionArgs    []string // make the agent print its version and end; nil: it cannot
}

// Request is what an adapter lowers.
type Request struct {
	Node         string // id of the node
	Harness      plan.Harness
	Provider     *plan.Provider // nil where the adapter needs none
	Skill        string         // name of the skill to activate
	SkillBundle  *plan.Bundle   // its frozen bundle
	NestedSkills []string       // names, each mounted and reachable as {skill:NAME}
	Inputs       []plan.NodeInput
	Outputs      []plan.NodeOutput
	Task         string // the policy's own words, with tokens
	Script       []byte // of a test stub: the script file, nil for real agents; nobody changes it
}

// Lowered is the process of a step. Tokens stand for run-time values.
type Lowered struct {
	Process  plan.Process
	Files    []plan.File
	Prompt   string
	Network  string   // least network the agent can work with
	Recorded []string // of a test stub: paths it copies from its recorded folder, sorted
}

// SessionConfig is one attempt, as the executor starts it.
type SessionConfig struct {
	Harness   plan.Harness
	Node      string
	Iteration int64
	Attempt   int64
	Prompt    string // tokens expanded

	Skill     string // name of the skill to activate
	SkillDir  string // where the agent sees its bundle
	SkillFile []byte // its SKILL.md, of the frozen bundle
	// NestedSkills are the names of those that may be there beside it.
	NestedSkills []string

	// SubmitAttempts is how often the worker may submit; 1 is once. Of more than
	// one, the session holds the final event back until Resubmitter.Answer.
	SubmitAttempts int64
}

// Session is the state machine over one attempt's standard streams. It is used
// from one goroutine.
type Session interface {
	// Begin is what to write to the worker's standard input first.
	Begin() []byte
	// Line takes one line of standard output without its line end; the last one
	// may be unterminated. It returns the contract events in it and what to
	// write to standard input in answer. Noise is no error: it is counted.
	Line(line []byte) (events []contract.Event, reply []byte)
	// CloseInput says whether standard input is to be closed now.
	CloseInput() bool
	// End is called once, when standard output has ended. If no finished event
	// was seen, it returns none: the executor records contract.NoStatus.
	End() []contract.Event
	// Abort is what to write to ask the worker to stop; nil: there is no way.
	Abort() []byte
	// Noise counts the lines that were no event.
	Noise() int64
	// Violation says how the stream broke the contract ("" if it did not), such
	// as a second finished event or another protocol version.
	Violation() string
}

// Lender is an Adapter whose agent keeps a login of its own (AuthStore).
type Lender interface {
	// AuthFile is where the agent looks for it, below {scratch}.
	AuthFile() string
}

// Prover is a Session of an agent whose activation of a skill can be proven.
type Prover interface {
	// Activation may be called at any time; what it says of the stream is final
	// after Session.End.
	Activation() Activation
}

// Activation is how a skill is activated and what shows it.
type Activation struct {
	Requested string // the words that ask for it
	// Text is what an activation puts before the model, to the byte. It is
	// sought in the requests to the provider.
	Text string
	// Seen says that the agent's own stream held Text.
	Seen bool
}

// Verifier is a Session that asks the agent what it started as.
type Verifier interface {
	// Mismatch says what is not as the plan has it, "" while all is. The attempt
	// ends when there is something.
	Mismatch() string
}

// ProviderWitness is a Session that can tell a failure of the provider from one
// of the worker. Where a broker stands between, the broker's word counts.
type ProviderWitness interface {
	// ProviderFailure is ProviderRefused, ProviderUnreachable or "".
	ProviderFailure() string
}

// What a provider did to a worker that could then not go on.
const (
	ProviderRefused     = "refused"     // it answered, and will answer so again: no key, no credit, no such model
	ProviderUnreachable = "unreachable" // it did not answer, or is overloaded
)

// Resubmitter is a Session whose worker can be told what is wrong with what it
// submitted. After a submitted event the executor checks a copy and answers
// once.
type Resubmitter interface {
	// Answer hands the problems back, each a pointer and a rule; none is
	// acceptance. It returns the events that were held back, and what to write to
	// standard input.
	Answer(problems []string) (events []contract.Event, reply []byte)
}
