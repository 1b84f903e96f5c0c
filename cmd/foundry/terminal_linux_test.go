package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"foundry/exec/record"
)

// terminal is a pseudo terminal with a program on it.
type terminal struct {
	master *os.File
	cmd    *exec.Cmd
	mu     sync.Mutex
	shown  bytes.Buffer
	gone   chan struct{} // closed when nothing more will be shown
}

// onTerminal starts a program that leads a session on a terminal of its own.
func onTerminal(t *testing.T, env []string, name string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine makes no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	// Not by Fd, which makes reads that closing does not end.
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var peer uintptr
	var unlocked error
	var refused syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		unlocked = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		peer, _, refused = unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	}); err != nil || unlocked != nil {
		t.Fatal(err, unlocked)
	}
	if refused != 0 {
		t.Skipf("this machine gives no pseudo terminal: %v", refused)
	}
	slave := os.NewFile(peer, "terminal")
	defer slave.Close()
	c := &terminal{master: master, cmd: exec.Command(name, args...), gone: make(chan struct{})}
	c.cmd.Env = append(env, "TERM=xterm")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.gone)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			c.mu.Lock()
			c.shown.Write(b[:n])
			c.mu.Unlock()
			if err != nil {
				return // the last one that had it open has closed it
			}
		}
	}()
	return c
}

func (c *terminal) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

// answer waits for a question and types.
func (c *terminal) answer(t *testing.T, question, line string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(c.text(), question); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not ask:\n%s", c.text())
		}
	}
	if _, err := io.WriteString(c.master, line); err != nil {
		t.Fatal(err)
	}
}

// wait is the exit code.
func (c *terminal) wait(t *testing.T) int {
	t.Helper()
	_ = c.cmd.Wait() // its state says how
	return c.cmd.ProcessState.ExitCode()
}

// TestOnATerminal: before a run, the plan and what all trials may cost are shown
// and asked for; only "yes" runs it; and a line that is rewritten says how far
// it is.
func TestOnATerminal(t *testing.T) {
	exe := foundry(t)
	env := append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())
	for _, answer := range []string{"yes", "y", ""} {
		t.Run("answer "+answer, func(t *testing.T) {
			run := filepath.Join(t.TempDir(), "run")
			c := onTerminal(t, env, exe, "apply", "--trials", "2", "--run-dir", run, filepath.Join(repository(t), "examples", "quickstart"))
			c.answer(t, `Only "yes" runs it:`, answer+"\n")
			code := c.wait(t)
			<-c.gone
			text := c.text()
			if !strings.Contains(text, "2 trials: at most $") || !strings.Contains(text, "collect-changes") {
				t.Errorf("the plan, or the cost of all trials, was not shown:\n%s", text)
			}
			if answer != "yes" {
				if _, err := os.Lstat(run); code != exitNo || !errors.Is(err, os.ErrNotExist) {
					t.Errorf("exit %d, run folder: %v\n%s", code, err, text)
				}
				return
			}
			if code != exitOK || !strings.Contains(text, "   2 of 2 ") {
				t.Errorf("exit %d\n%s", code, text)
			}
			if !strings.Contains(text, "\r\x1b[K") || !strings.Contains(text, "0 steps done  collect-changes") {
				t.Errorf("no line says how far it is:\n%q", text)
			}
		})
	}
}

// TestClosedTerminal closes the terminal of a run while its worker sleeps (B16):
// as an interruption by a signal.
func TestClosedTerminal(t *testing.T) {
	exe := foundry(t)
	source := slowQuickstart(t)
	run := filepath.Join(t.TempDir(), "run")
	env := append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())
	c := onTerminal(t, env, exe, "apply", "--yes", "--run-dir", run, source)
	underWay(t, run, c.text)
	if err := c.master.Close(); err != nil {
		t.Fatal(err)
	}
	if code := c.wait(t); code != exitInterrupted {
		t.Fatalf("exit %d\n%s", code, c.text())
	}
	cancelled(t, exe, env, run)
}

// TestNobodyReads: a run whose progress nobody reads any more goes on to its end.
func TestNobodyReads(t *testing.T) {
	exe := foundry(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(exe, "apply", "--yes", "--run-dir", run, filepath.Join(repository(t), "examples", "quickstart"))
	cmd.Env = append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())
	cmd.Stderr = w
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "succeeded") {
		t.Errorf("%v\n%s", err, out)
	}
	if back, err := record.ReadRun(run); err != nil || back.Status != record.StatusSucceeded {
		t.Errorf("%+v, %v", back, err)
	}
}
