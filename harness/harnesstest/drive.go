package harnesstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"

	"foundry/harness"
	"foundry/harness/contract"
)

// Agent is a started agent. Wait may be called once, after Stdout has ended; it
// gives the exit code.
type Agent struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Wait   func() int
	Stop   func()          // ends the process at once; may be called at any time
	Out    string          // its output folder
	Stderr fmt.Stringer    // what it said there, complete after Wait
	Heard  func() []string // what its model was asked, one request each; nil where there is none
	// Secrets are values, beside Canary, that no tool's environment may hold.
	Secrets []string
}

// Start starts a command as an agent and ends it with the test.
func Start(t *testing.T, cmd *exec.Cmd) Agent {
	t.Helper()
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait := sync.OnceFunc(func() { _ = cmd.Wait() })
	stop := func() { _ = cmd.Process.Kill() } // an error says that it has ended
	t.Cleanup(func() {
		stop()
		wait()
	})
	return Agent{Stdin: stdin, Stdout: stdout, Stop: stop, Stderr: stderr, Wait: func() int {
		wait()
		return cmd.ProcessState.ExitCode()
	}}
}

// Options are what a driver does beside reading; the zero value is nothing.
type Options struct {
	Turns     int64 // the agent is stopped at the first turn beyond; 0: never
	ToolCalls int64 // and at the first call of a tool beyond
	// AbortAt is the type of event at which the agent is asked to stop. One that
	// cannot be asked is stopped.
	AbortAt string
	// Problems are what is wrong with the n-th submission, from 1; nil accepts.
	Problems func(n int64) []string
}

// Result is what a driven attempt said.
type Result struct {
	Events    []contract.Event
	Raw       []byte // all of standard output, as long as it is below 4 MiB
	Written   []byte // what the agent was told on standard input
	Status    string // of the finished event, contract.NoStatus without one
	Usage     contract.Totals
	Turns     int64
	ToolCalls int64
	Submits   int64
	Stopped   bool // by the driver
	Noise     int64
	Violation string
	Mismatch  string
	Exit      int
}

// keptOutput bounds Result.Raw.
const keptOutput = 4 << 20

// Drive plays the executor: it writes what the session wants written and reads
// until standard output ends. An agent that does not read its input is no
// error: a broken pipe on standard input is passed over.
func Drive(s harness.Session, a Agent, opts Options) (Result, error) {
	d := &driver{s: s, a: a, opts: opts, open: true, calls: map[string]bool{}}
	d.send(s.Begin())
	lines := contract.NewLineReader(io.TeeReader(a.Stdout, &limited{dst: &d.res.Raw}), 0)
	var readErr error
	for !d.res.Stopped { // what comes after counts for nothing here
		line, err := lines.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				readErr = err
			}
			break
		}
		d.take(s.Line(line))
		if v, ok := s.(harness.Verifier); ok && v.Mismatch() != "" && d.res.Mismatch == "" {
			d.res.Mismatch = v.Mismatch()
			d.stop()
		}
	}
	d.take(s.End(), nil)
	if d.open {
		a.Stdin.Close()
	}
	res := &d.res
	res.Exit = a.Wait()
	res.Status, res.Usage, res.Noise, res.ToolCalls = d.checker.Status(), d.checker.Usage(), s.Noise(), int64(len(d.calls))
	if v := s.Violation(); v != "" {
		res.Violation = v
	}
	return *res, readErr
}

type driver struct {
	s       harness.Session
	a       Agent
	opts    Options
	res     Result
	checker contract.Checker
	calls   map[string]bool
	open    bool
	aborted bool
}

func (d *driver) take(events []contract.Event, reply []byte) {
	submitted := false
	for _, ev := range events {
		d.res.Events = append(d.res.Events, ev)
		if err := d.checker.Add(ev); err != nil && d.res.Violation == "" {
			d.res.Violation = err.Error()
		}
		switch ev.Type {
		case contract.Turn:
			d.res.Turns = max(d.res.Turns+1, ev.Turn)
		case contract.Tool:
			d.calls[ev.ToolCall] = true
		case contract.Submitted:
			submitted = true
			d.res.Submits++
		}
		if ev.Type == d.opts.AbortAt && !d.aborted {
			d.aborted = true
			if ask := d.s.Abort(); ask != nil {
				d.send(ask)
			} else {
				d.stop()
			}
		}
	}
	d.send(reply)
	if d.opts.Turns > 0 && d.res.Turns > d.opts.Turns || d.opts.ToolCalls > 0 && int64(len(d.calls)) > d.opts.ToolCalls {
		d.stop()
	}
	if re, ok := d.s.(harness.Resubmitter); ok && submitted {
		var problems []string
		if d.opts.Problems != nil {
			problems = d.opts.Problems(d.res.Submits)
		}
		d.take(re.Answer(problems))
	}
}

func (d *driver) stop() {
	d.res.Stopped = true
	d.a.Stop()
}

func (d *driver) send(data []byte) {
	if d.open && len(data) > 0 {
		d.res.Written = append(d.res.Written, data...)
		_, err := d.a.Stdin.Write(data)
		d.open = err == nil
	}
	if d.open && d.s.CloseInput() {
		d.open = false
		d.a.Stdin.Close()
	}
}

// limited keeps the first bytes and never fails.
type limited struct{ dst *[]byte }

func (l *limited) Write(p []byte) (int, error) {
	room := max(0, keptOutput-len(*l.dst))
	*l.dst = append(*l.dst, p[:min(room, len(p))]...)
	return len(p), nil
}
