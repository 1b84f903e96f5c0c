package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Types of event of the journal.
const (
	EventRunStarted   = "run_started"
	EventRunResumed   = "run_resumed" // another controller took over, or the same plan is tried again
	EventNodeStarted  = "node_started"
	EventNodeFinished = "node_finished"
	EventDecided      = "decided" // a predicate was evaluated
	EventProbed       = "probed"  // an availability probe ended, before the first node
	EventCancel       = "cancel_requested"
	EventRunFinished  = "run_finished"
)

// Event is one line of events.jsonl. The journal is all that the walk's
// decisions depend on: a reducer over it gives the same commands again.
type Event struct {
	Seq       int64      `json:"seq"`  // from 1, without gaps
	Time      string     `json:"time"` // RFC 3339, UTC; no decision reads it
	Type      string     `json:"type"`
	ElapsedMS int64      `json:"elapsed_ms"` // that the run has worked; the time between two controllers does not count
	Run       string     `json:"run,omitempty"`
	Plan      string     `json:"plan,omitempty"`    // digest
	Program   string     `json:"program,omitempty"` // of run_started: digest of this program
	Through   string     `json:"through,omitempty"`
	Node      string     `json:"node,omitempty"`
	Iteration int64      `json:"iteration,omitempty"`
	Attempt   int64      `json:"attempt,omitempty"`
	Status    string     `json:"status,omitempty"`
	Failure   *Failure   `json:"failure,omitempty"`
	Outputs   []Artifact `json:"outputs,omitempty"`
	Usage     *Usage     `json:"usage,omitempty"`

	Parallelism int64        `json:"parallelism,omitempty"` // of run_started and run_resumed
	KeepGoing   bool         `json:"keep_going,omitempty"`  // of run_started and run_resumed
	Reserved    *Reservation `json:"reserved,omitempty"`    // of node_started
	Worker      string       `json:"worker,omitempty"`      // of node_finished: the worker's status
	Check       *CheckResult `json:"check,omitempty"`       // of node_finished: a check that ran to its end
	Boundary    bool         `json:"boundary,omitempty"`    // of node_finished: the sandbox was a security boundary
	Decision    *Decision    `json:"decision,omitempty"`    // of decided
	Probe       *Probe       `json:"probe,omitempty"`       // of probed
}

// Reservation is what a node may spend of the run's budget. It is written
// before the node starts: of a controller that is killed it counts as spent.
type Reservation struct {
	WallSeconds  int64 `json:"wall_seconds"`
	Tokens       int64 `json:"tokens"`
	CostMicroUSD int64 `json:"cost_micro_usd"`
}

// CheckResult is what a check's process came to: the facts of a predicate.
type CheckResult struct {
	ExitCode  int64  `json:"exit_code"`
	Stdout    string `json:"stdout"`              // digest of the kept bytes, in the run's store
	Bytes     int64  `json:"stdout_bytes"`        // all that was written
	Truncated bool   `json:"truncated,omitempty"` // more was written than is kept
}

// Kinds of Decision.
const (
	DecidedUntil  = "until"
	DecidedAccept = "accept"
	DecidedAssert = "assert"
)

// Verdicts of a Decision.
const (
	VerdictTrue  = "true"
	VerdictFalse = "false"
	VerdictError = "error"
)

// Decision is an evaluated predicate. Facts names what it looked at, with the
// digests under which the bytes are in the run's store: with the plan it can
// be evaluated again.
type Decision struct {
	Kind    string          `json:"kind"`
	Of      string          `json:"of"` // id of the loop, the branch or the check
	Verdict string          `json:"verdict"`
	Line    string          `json:"line"` // the evaluated tree in one line, for people
	Facts   []Fact          `json:"facts"`
	Trace   json.RawMessage `json:"trace"` // a predicates.Trace
}

// Fact is one source of facts that a predicate names.
type Fact struct {
	Name   string `json:"name"`             // output.ARTIFACT, check.NAME, iteration, worker.status
	From   string `json:"from,omitempty"`   // the node that brought it
	Digest string `json:"digest,omitempty"` // of the artifact, or of the check's output
	Value  string `json:"value,omitempty"`  // exit code, iteration or status
	Note   string `json:"note,omitempty"`   // why there is nothing, or no document in it
}

// ReadEvents reads a journal. A last line without its line end is what a
// killed controller was writing: it is left out.
func ReadEvents(path string) ([]Event, error) {
	events, _, err := readJournal(path)
	return events, err
}

// readJournal also returns the number of bytes that the whole lines have.
func readJournal(path string) ([]Event, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	var events []Event
	var size int64
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, size, nil
		}
		if err != nil {
			return nil, 0, err
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var e Event
		if err := dec.Decode(&e); err != nil {
			return nil, 0, fmt.Errorf("record: journal line %d: %w", len(events)+1, err)
		}
		if e.Seq != int64(len(events))+1 {
			return nil, 0, fmt.Errorf("record: journal line %d has seq %d: the file was changed", len(events)+1, e.Seq)
		}
		events = append(events, e)
		size += int64(len(line))
	}
}
