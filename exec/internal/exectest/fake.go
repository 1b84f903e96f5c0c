package exectest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// Worker is one fake process.
type Worker struct {
	Task   sandbox.Task
	Out    string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Killed <-chan struct{}
}

// Events writes events to standard output.
func (w *Worker) Events(events ...contract.Event) {
	for _, ev := range events {
		ev.ProtocolVersion = contract.ProtocolVersion
		w.Stdout.Write(contract.Encode(ev))
	}
}

// File writes an output.
func (w *Worker) File(name, text string) {
	path := filepath.Join(w.Out, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		panic(err)
	}
}

// Started, Finished and others make events.
func Started() contract.Event {
	return contract.Event{Type: contract.Started, Harness: &contract.Identity{Name: "stub", Version: "1"}}
}

// Finished is the final event.
func Finished(status string) contract.Event {
	return contract.Event{Type: contract.Finished, Harness: &contract.Identity{Name: "stub", Version: "1"}, Status: status}
}

// Runtime runs Go functions as processes.
type Runtime struct {
	Work     func(w *Worker) sandbox.Exit
	Prepared error  // of Prepare
	Started  error  // of Start
	Waited   error  // of Wait
	Dead     error  // of Kill
	Closed   error  // of Close
	Losing   string // attempt whose first sandbox is lost before its start
	Boundary bool
	Like     string // the mode that it passes for, "" for local

	mu    sync.Mutex
	Tasks []sandbox.Task
	Open  int // sandboxes that are not closed
}

// Mode implements sandbox.Runtime.
func (r *Runtime) Mode() string {
	if r.Like != "" {
		return r.Like
	}
	return plan.SandboxLocal
}

// Count is how many sandboxes were prepared so far.
func (r *Runtime) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Tasks)
}

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error { return nil }

// Prepare implements sandbox.Runtime.
func (r *Runtime) Prepare(_ context.Context, task sandbox.Task) (sandbox.Sandbox, error) {
	if r.Prepared != nil {
		return nil, r.Prepared
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Tasks = append(r.Tasks, task)
	r.Open++
	out := filepath.Join(task.Dir, "out")
	lost := r.Losing != "" && r.Losing == task.Attempt
	if lost {
		r.Losing = ""
	}
	return &box{r: r, task: task, out: out, lost: lost, killed: make(chan struct{}), done: make(chan struct{})}, os.Mkdir(out, 0o755)
}

type box struct {
	r      *Runtime
	task   sandbox.Task
	out    string
	lost   bool
	begun  bool
	once   sync.Once
	shut   sync.Once
	killed chan struct{}
	done   chan struct{}
	exit   sandbox.Exit
}

func (b *box) Expand(s string) (string, error) {
	place := func(m plan.Mount) string { return m.Destination }
	return plan.Expand(s, b.task.Lookup(place, "/foundry"))
}

// Lost implements sandbox.Perishable.
func (b *box) Lost() bool { return b.lost }

func (b *box) Start(_ context.Context, std sandbox.Stdio) error {
	if b.r.Started != nil {
		return b.r.Started
	}
	b.begun = true
	go func() {
		defer close(b.done)
		b.exit = b.r.Work(&Worker{Task: b.task, Out: b.out, Stdin: std.Stdin, Stdout: std.Stdout, Stderr: std.Stderr, Killed: b.killed})
	}()
	return nil
}

func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-b.done:
		return b.exit, b.r.Waited
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

func (b *box) Kill(context.Context) error {
	b.once.Do(func() { close(b.killed) })
	if b.begun {
		<-b.done
	}
	return b.r.Dead
}

func (b *box) Output() string { return b.out }

func (b *box) Facts() sandbox.Facts {
	return sandbox.Facts{Mode: plan.SandboxLocal, SecurityBoundary: b.r.Boundary, Network: plan.NetworkNone, User: "1:1",
		Runtimes: map[string]string{"fake": "1"}, Spec: json.RawMessage(`{"fake":true}`),
		Properties: []sandbox.Property{{Name: sandbox.PropMemory, State: sandbox.NotEnforced}}}
}

func (b *box) Close(context.Context) error {
	b.shut.Do(func() {
		b.r.mu.Lock()
		b.r.Open--
		b.r.mu.Unlock()
	})
	return errors.Join(sandbox.RemoveTree(b.out), b.r.Closed)
}

// Adapter passes the contract's events on.
type Adapter struct{}

// Name implements harness.Adapter.
func (Adapter) Name() string { return "fake" }

// Capabilities implements harness.Adapter.
func (Adapter) Capabilities(string) (harness.Capabilities, error) {
	return harness.Capabilities{TestStub: true}, nil
}

// Lower implements harness.Adapter; exec never calls it.
func (Adapter) Lower(harness.Request) (harness.Lowered, error) {
	return harness.Lowered{}, errors.New("exectest: exec does not lower")
}

// Session implements harness.Adapter.
func (Adapter) Session(cfg harness.SessionConfig) harness.Session { return &session{cfg: cfg} }

type session struct {
	cfg   harness.SessionConfig
	noise int64
}

func (s *session) Begin() []byte { return []byte(s.cfg.Prompt + "\n") }

func (s *session) Line(line []byte) ([]contract.Event, []byte) {
	ev, err := contract.DecodeEvent(line)
	if err != nil {
		s.noise++
		return nil, nil
	}
	return []contract.Event{ev}, nil
}

func (s *session) CloseInput() bool      { return true }
func (s *session) End() []contract.Event { return nil }
func (s *session) Abort() []byte         { return nil }
func (s *session) Noise() int64          { return s.noise }
func (s *session) Violation() string     { return "" }
