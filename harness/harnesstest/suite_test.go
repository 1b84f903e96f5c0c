package harnesstest

import (
	"io"
	"strings"
	"testing"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
)

// The suite finds each way to break the contract.
func TestProblemsAreFound(t *testing.T) {
	id := &contract.Identity{Name: "h", Version: "1", Model: "m"}
	started := contract.Event{ProtocolVersion: 2, Type: contract.Started, Harness: id}
	done := contract.Event{ProtocolVersion: 2, Type: contract.Finished, Harness: id, Status: contract.Settled}
	subject := Subject{Config: harness.SessionConfig{Harness: plan.Harness{Name: "h", Version: "1", Model: "m"}}}
	good := Result{Events: []contract.Event{started, done}, Status: contract.Settled}
	if p := problems(subject, good, contract.Settled); len(p) > 0 {
		t.Fatalf("a good stream: %v", p)
	}
	for want, res := range map[string]Result{
		"breaks the contract":   {Events: good.Events, Status: contract.Settled, Violation: "x"},
		"status is":             {Events: good.Events, Status: contract.Errored},
		"secret":                {Events: good.Events, Status: contract.Settled, Raw: []byte("a " + Canary)},
		"first event":           {Events: []contract.Event{done}, Status: contract.Settled},
		"names":                 {Events: []contract.Event{{ProtocolVersion: 2, Type: contract.Started, Harness: &contract.Identity{Name: "x", Version: "1"}}, done}, Status: contract.Settled},
		"not valid":             {Events: []contract.Event{started, {ProtocolVersion: 2, Type: "boast"}, done}, Status: contract.Settled},
		"0 finished events":     {Events: []contract.Event{started}, Status: contract.Settled},
		"2 finished events":     {Events: []contract.Event{started, done, done}, Status: contract.Settled},
		"first event is not st": {Status: contract.Settled},
	} {
		if p := strings.Join(problems(subject, res, contract.Settled), "\n"); !strings.Contains(p, want) {
			t.Errorf("%q not found in %q", want, p)
		}
	}
}

// echo is a session that asks for the same number of lines as it gets, as an
// agent with a dialogue does, and closes the input when it has seen "end".
type echo struct {
	noise  int64
	closed bool
}

func (e *echo) Begin() []byte { return []byte("begin\n") }
func (e *echo) Line(line []byte) ([]contract.Event, []byte) {
	e.noise++
	if string(line) == "end" {
		e.closed = true
		return nil, nil
	}
	return nil, []byte("reply to " + string(line) + "\n")
}
func (e *echo) CloseInput() bool      { return e.closed }
func (e *echo) End() []contract.Event { return nil }
func (e *echo) Abort() []byte         { return nil }
func (e *echo) Noise() int64          { return e.noise }
func (e *echo) Violation() string     { return "" }

// Drive answers line by line and closes the input only when the session says
// so: agents that keep standard input open for a dialogue need both.
func TestDriveHoldsADialogue(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	heard := make(chan string, 1)
	go func() {
		var got []string
		lines := contract.NewLineReader(inR, 0)
		say := []string{"one\n", "two\n", "end"}
		for i := 0; ; i++ {
			line, err := lines.Next()
			if err != nil {
				break
			}
			got = append(got, string(line))
			io.WriteString(outW, say[i])
			if i == len(say)-1 {
				outW.Close()
			}
		}
		heard <- strings.Join(got, ", ")
	}()
	res, err := Drive(&echo{}, Agent{Stdin: inW, Stdout: outR, Wait: func() int { return 7 }}, Options{})
	if err != nil || res.Exit != 7 || res.Noise != 3 || res.Status != contract.NoStatus || string(res.Raw) != "one\ntwo\nend" {
		t.Errorf("%+v, %v", res, err)
	}
	if got := <-heard; got != "begin, reply to one, reply to two" {
		t.Errorf("the agent heard %q", got)
	}
}
