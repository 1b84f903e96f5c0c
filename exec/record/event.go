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
	EventNodeStarted  = "node_started"
	EventNodeFinished = "node_finished"
	EventCancel       = "cancel_requested"
	EventRunFinished  = "run_finished"
)

// Event is one line of events.jsonl. The journal is all that the walk's
// decisions depend on: a reducer over it gives the same commands again.
type Event struct {
	Seq       int64      `json:"seq"`  // from 1, without gaps
	Time      string     `json:"time"` // RFC 3339, UTC; no decision reads it
	Type      string     `json:"type"`
	ElapsedMS int64      `json:"elapsed_ms"` // since the run started
	Run       string     `json:"run,omitempty"`
	Plan      string     `json:"plan,omitempty"` // digest
	Through   string     `json:"through,omitempty"`
	Node      string     `json:"node,omitempty"`
	Iteration int64      `json:"iteration,omitempty"`
	Attempt   int64      `json:"attempt,omitempty"`
	Status    string     `json:"status,omitempty"`
	Failure   *Failure   `json:"failure,omitempty"`
	Outputs   []Artifact `json:"outputs,omitempty"`
	Usage     *Usage     `json:"usage,omitempty"`
}

// ReadEvents reads a journal. A last line without its line end is what a
// killed controller was writing: it is left out.
func ReadEvents(path string) ([]Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var events []Event
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var e Event
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("record: journal line %d: %w", len(events)+1, err)
		}
		if e.Seq != int64(len(events))+1 {
			return nil, fmt.Errorf("record: journal line %d has seq %d: the file was changed", len(events)+1, e.Seq)
		}
		events = append(events, e)
	}
}
