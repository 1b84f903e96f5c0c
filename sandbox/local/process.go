//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"foundry/sandbox"
)

// box is one attempt. It implements sandbox.Sandbox.
type box struct {
	task   sandbox.Task
	marker string // the environment entry that the attempt is found by
	digest string // of this program
	agent  *sandbox.ProgramFile
	lookup func(string) (string, bool)

	path   string // of the program
	argv   []string
	env    []string
	cwd    string
	mounts []sandbox.AppliedMount

	mu      sync.Mutex // guards the following
	started bool
	closed  bool // nothing may start any more
	proc    *os.Process
	hunt    *hunt
	exit    sandbox.Exit
	left    error // what the first sweep could not end

	reaped chan struct{} // closed when the process is reaped
	ended  chan struct{} // closed when the streams have been handed on, too
}

// Output implements sandbox.Sandbox.
func (b *box) Output() string { return filepath.Join(b.task.Dir, outDir) }

// Start implements sandbox.Sandbox. The process does not end with ctx: that is
// what Kill is for.
func (b *box) Start(ctx context.Context, stdio sandbox.Stdio) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errors.New("local sandbox: cannot start: the attempt has been killed")
	case b.started:
		return errors.New("local sandbox: cannot start: the attempt has been started before")
	case ctx.Err() != nil:
		return ctx.Err()
	}
	// Dir and Env are set in full, so that nothing of this process is inherited.
	cmd := &exec.Cmd{Path: b.path, Args: b.argv, Env: b.env, Dir: b.cwd, SysProcAttr: procAttr()}
	s, err := newStreams(cmd, stdio)
	if err != nil {
		return fmt.Errorf("local sandbox: cannot start: %w", err)
	}
	launched := make(chan error)
	go b.run(cmd, s, launched)
	if err := <-launched; err != nil {
		return fmt.Errorf("local sandbox: cannot start %s: %w", b.path, err)
	}
	b.started = true
	return nil
}

// run starts the process and sees it to its end. It keeps one thread for that,
// because the process dies with the thread that made it (Pdeathsig).
func (b *box) run(cmd *exec.Cmd, s *streams, launched chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		s.abandon()
		launched <- err
		return
	}
	hunt := newHunt(cmd.Process.Pid, b.marker)
	b.hunt, b.proc = hunt, cmd.Process // Start holds the lock and waits
	s.begin()
	launched <- nil
	// While the process is a zombie no other process can get its number: what
	// is killed by group and session now is of this attempt.
	awaitExit(cmd.Process.Pid)
	end := time.Now()
	left := hunt.sweep(end.Add(killBound))
	_ = cmd.Wait() // the state says it all
	left = errors.Join(left, hunt.reaped())

	b.mu.Lock()
	b.exit = exitOf(cmd.ProcessState, begin, end)
	b.left = left
	b.mu.Unlock()
	close(b.reaped)
	s.finish()
	close(b.ended)
}

func exitOf(state *os.ProcessState, begin, end time.Time) sandbox.Exit {
	e := sandbox.Exit{Code: state.ExitCode(), Started: begin, Ended: end}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Code = 128 + int(ws.Signal())
		e.Signal = unix.SignalName(ws.Signal())
	}
	return e
}

// Wait implements sandbox.Sandbox.
func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	b.mu.Lock()
	started := b.started
	b.mu.Unlock()
	if !started {
		return sandbox.Exit{}, errors.New("local sandbox: cannot wait: nothing has been started")
	}
	select {
	case <-b.ended:
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exit, nil
}

// killBound is how long Kill goes on: what is not dead two seconds after
// SIGKILL hangs in the kernel or belongs to another user.
const killBound = 2 * time.Second

// Kill implements sandbox.Sandbox.
func (b *box) Kill(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	started, proc, hunt := b.started, b.proc, b.hunt
	b.mu.Unlock()
	if !started {
		return nil
	}
	deadline := time.Now().Add(killBound)
	select {
	case <-b.reaped:
	default:
		// As long as the process lives, even a child without marker and session
		// has a parent that leads to it.
		hunt.strike()
		_ = proc.Kill() // an error says that it has ended by itself
	}
	select {
	case <-b.reaped:
	case <-ctx.Done():
		return fmt.Errorf("local sandbox: cannot show that the attempt is dead: %w", ctx.Err())
	case <-time.After(time.Until(deadline) + killBound): // run sweeps for one bound more
		return fmt.Errorf("local sandbox: cannot show that the attempt is dead: the process is still there %s after SIGKILL", 2*killBound)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left != nil {
		b.left = hunt.sweep(time.Now().Add(killBound))
	}
	if b.left != nil {
		return fmt.Errorf("local sandbox: cannot show that the attempt is dead: %w", b.left)
	}
	return nil
}

// Close implements sandbox.Sandbox.
func (b *box) Close(ctx context.Context) error {
	return errors.Join(b.Kill(ctx), b.remove())
}

// streams are the pipes between the process and its Stdio. They are made here
// and not by os/exec, whose Wait waits for the reader given as Stdin and for
// every descendant that holds a pipe.
type streams struct {
	child []*os.File // the process's ends
	in    *os.File
	stdin io.Reader
	pumps []*pump
	done  sync.WaitGroup
}

func newStreams(cmd *exec.Cmd, stdio sandbox.Stdio) (*streams, error) {
	s := &streams{}
	if stdio.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.child = append(s.child, r)
		s.in, s.stdin = w, stdio.Stdin
		cmd.Stdin = r
	}
	for _, o := range [...]struct {
		to  io.Writer
		end *io.Writer
	}{{stdio.Stdout, &cmd.Stdout}, {stdio.Stderr, &cmd.Stderr}} {
		if o.to == nil {
			continue // os/exec takes the null device
		}
		r, w, err := os.Pipe()
		if err != nil {
			s.abandon()
			return nil, err
		}
		s.child = append(s.child, w)
		s.pumps = append(s.pumps, &pump{from: r, to: o.to})
		*o.end = w
	}
	return s, nil
}

func (s *streams) closeChild() {
	for _, f := range s.child {
		f.Close()
	}
}

// abandon is for a process that did not start.
func (s *streams) abandon() {
	s.closeChild()
	if s.in != nil {
		s.in.Close()
	}
	for _, p := range s.pumps {
		p.from.Close()
	}
}

func (s *streams) begin() {
	s.closeChild()
	if s.in != nil {
		go func() {
			_, _ = io.Copy(s.in, s.stdin) // a process may leave its input unread
			s.in.Close()
		}()
	}
	for _, p := range s.pumps {
		s.done.Go(p.run)
	}
}

// finish is called when the process is dead: it hands on what the pipes hold.
func (s *streams) finish() {
	if s.in != nil {
		s.in.Close()
	}
	for _, p := range s.pumps {
		// Wakes the pump; it then reads what is there and no more.
		_ = p.from.SetReadDeadline(time.Unix(1, 0))
	}
	s.done.Wait()
}

// pump hands one stream on. A writer that fails gets no more, but the process
// is read to its end all the same: it must not hang because a reader died.
type pump struct {
	from *os.File
	to   io.Writer
}

// drainBound ends the reading of a pipe that a descendant which was not found
// fills without end. A pipe holds 1 MiB at most (fs.pipe-max-size).
const drainBound = 16 << 20

func (p *pump) run() {
	defer p.from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.from.Read(buf)
		p.hand(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.drain(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *pump) hand(b []byte) {
	if len(b) == 0 || p.to == nil {
		return
	}
	if _, err := p.to.Write(b); err != nil {
		p.to = nil
	}
}

// drain reads until the pipe is empty for now.
func (p *pump) drain(buf []byte) {
	conn, err := p.from.SyscallConn()
	if err != nil || p.from.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for total := 0; total < drainBound; {
		n := 0
		err := conn.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf)
			for err == unix.EINTR {
				n, err = unix.Read(int(fd), buf)
			}
			return true
		})
		if err != nil || n <= 0 {
			return // empty, or all writers are gone
		}
		p.hand(buf[:n])
		total += n
	}
}
