package contract

// ProtocolVersion is the only version that is spoken. Another one is refused.
const ProtocolVersion = 2

// Input is the first line on a worker's standard input.
type Input struct {
	ProtocolVersion int      `json:"protocol_version"`
	Agent           string   `json:"agent"` // name of the adapter
	Harness         Identity `json:"harness"`
	Node            string   `json:"node"`
	Iteration       int64    `json:"iteration"` // from 1
	Attempt         int64    `json:"attempt"`   // from 1
	Prompt          string   `json:"prompt"`
	TestStub        bool     `json:"test_stub,omitempty"`
}

// Answer is what a worker reads after it submitted, where it may submit more
// than once. The input ends instead when nobody answers any more: what was left
// is then judged as it stands.
type Answer struct {
	ProtocolVersion int      `json:"protocol_version"`
	Problems        []string `json:"problems"` // each a pointer and a rule; none: it is accepted
}

// Identity names who works. In an event the version is empty where the agent
// does not tell it; an input has it.
type Identity struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model"`
}

// Types of event. A stream starts with one started and ends with exactly one
// finished; the others stand between them in any number.
const (
	Started   = "started"
	Turn      = "turn"
	Tool      = "tool"
	UsageType = "usage"
	Submitted = "submitted"
	Finished  = "finished"
)

// Event is one line of a worker's standard output.
type Event struct {
	ProtocolVersion int       `json:"protocol_version"`
	Type            string    `json:"type"`
	Harness         *Identity `json:"harness,omitempty"`   // started and finished
	Turn            int64     `json:"turn,omitempty"`      // turn: its number, from 1
	ToolName        string    `json:"tool_name,omitempty"` // tool
	ToolCall        string    `json:"tool_call,omitempty"` // tool: id of the call
	Usage           *Usage    `json:"usage,omitempty"`     // usage
	Artifacts       []string  `json:"artifacts,omitempty"` // submitted: ids that the worker says are ready; none: whatever it left
	Status          string    `json:"status,omitempty"`    // finished
	Message         string    `json:"message,omitempty"`   // finished, for people
}

// Usage counts the tokens of one provider message. Events with one Message id
// describe the same message: the last one holds. CostMicroUSD is nil when the
// worker does not know it; unknown is never 0.
type Usage struct {
	Message      string `json:"message"`
	Input        int64  `json:"input"`
	Output       int64  `json:"output"`
	CacheRead    int64  `json:"cache_read"`
	CacheWrite   int64  `json:"cache_write"`
	CostMicroUSD *int64 `json:"cost_micro_usd,omitempty"`
}

// Statuses of a finished event. A status never decides success by itself.
const (
	Settled       = "settled"
	StoppedLength = "stopped_length"
	Errored       = "errored"
	Aborted       = "aborted"
	NoStatus      = "none" // the stream ended without a finished event
)

// AdapterReport is what `foundry worker --self-test` says of one adapter.
type AdapterReport struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
	Error    string   `json:"error,omitempty"` // "": it passed
}
