package harnesstest

import (
	"errors"
	"io"

	"foundry/harness"
	"foundry/harness/contract"
)

// Agent is a started agent. Wait may be called once, after Stdout has ended; it
// gives the exit code.
type Agent struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Wait   func() int
}

// Result is what a driven attempt said.
type Result struct {
	Events    []contract.Event
	Raw       []byte // all of standard output, as long as it is below 4 MiB
	Status    string // of the finished event, contract.NoStatus without one
	Usage     contract.Totals
	Noise     int64
	Violation string
	Exit      int
}

// keptOutput bounds Result.Raw.
const keptOutput = 4 << 20

// Drive plays the executor: it writes what the session wants written and reads
// until standard output ends. An agent that does not read its input is no
// error: a broken pipe on standard input is passed over.
func Drive(s harness.Session, a Agent) (Result, error) {
	var res Result
	var checker contract.Checker
	take := func(events []contract.Event) {
		for _, ev := range events {
			res.Events = append(res.Events, ev)
			if err := checker.Add(ev); err != nil && res.Violation == "" {
				res.Violation = err.Error()
			}
		}
	}
	open := true
	send := func(data []byte) {
		if open && len(data) > 0 {
			_, err := a.Stdin.Write(data)
			open = err == nil
		}
		if open && s.CloseInput() {
			open = false
			a.Stdin.Close()
		}
	}
	send(s.Begin())
	lines := contract.NewLineReader(io.TeeReader(a.Stdout, &limited{dst: &res.Raw}), 0)
	var readErr error
	for {
		line, err := lines.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				readErr = err
			}
			break
		}
		events, reply := s.Line(line)
		take(events)
		send(reply)
	}
	take(s.End())
	if open {
		a.Stdin.Close()
	}
	res.Exit = a.Wait()
	res.Status, res.Usage, res.Noise = checker.Status(), checker.Usage(), s.Noise()
	if v := s.Violation(); v != "" {
		res.Violation = v
	}
	return res, readErr
}

// limited keeps the first bytes and never fails.
type limited struct{ dst *[]byte }

func (l *limited) Write(p []byte) (int, error) {
	room := max(0, keptOutput-len(*l.dst))
	*l.dst = append(*l.dst, p[:min(room, len(p))]...)
	return len(p), nil
}
