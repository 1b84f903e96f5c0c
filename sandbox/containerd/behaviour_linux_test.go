package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"

	"golang.org/x/sys/unix"
)

func TestExitCodes(t *testing.T) {
	rt := runtimeOf(t)
	for _, code := range []int{0, 1, 42, 255} {
		r := run(t, rt, demo(t, fmt.Sprint("exit-", code), "exit", fmt.Sprint(code)), nil)
		if r.Code != code || r.OOM || code <= 128 && r.Signal != "" || r.Ended.Before(r.Started) {
			t.Errorf("exit %d gave %+v", code, r.Exit)
		}
	}
}

func TestStreams(t *testing.T) {
	rt := runtimeOf(t)
	t.Run("echo", func(t *testing.T) {
		// The worker sees the end of its input although the pipe stays open on
		// the host's side until then.
		r := run(t, rt, demo(t, "echo", "echo"), strings.NewReader("one\ntwo\n"))
		if r.stdout != "got one\ngot two\n" || r.stderr != "end of input\n" {
			t.Errorf("%q %q", r.stdout, r.stderr)
		}
	})
	t.Run("conversation", func(t *testing.T) {
		task := demo(t, "talk", "echo")
		ctx := t.Context()
		s, err := rt.Prepare(ctx, task)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		in, toWorker := io.Pipe()
		fromWorker, out := io.Pipe()
		if err := s.Start(ctx, sandbox.Stdio{Stdin: in, Stdout: out}); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		for i := range 3 {
			fmt.Fprintf(toWorker, "line %d\n", i)
			n, err := fromWorker.Read(buf)
			if want := fmt.Sprintf("got line %d\n", i); err != nil || string(buf[:n]) != want {
				t.Fatalf("%q, %v; want %q", buf[:n], err, want)
			}
		}
		toWorker.Close()
		if exit, err := s.Wait(ctx); err != nil || exit.Code != 0 {
			t.Errorf("%+v %v", exit, err)
		}
	})
	t.Run("flood", func(t *testing.T) {
		r := run(t, rt, demo(t, "flood", "flood", "50"), nil)
		if want := strings.Repeat("0123456789abcde\n", 50<<16); r.stdout != want || r.stderr != "done" {
			t.Errorf("%d bytes of %d, stderr %q", len(r.stdout), len(want), r.stderr)
		}
	})
	t.Run("writer fails", func(t *testing.T) {
		task := demo(t, "writer", "flood", "1")
		s, err := rt.Prepare(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		if err := s.Start(t.Context(), sandbox.Stdio{Stdout: failing{}}); err != nil {
			t.Fatal(err)
		}
		exit, err := s.Wait(t.Context())
		if err != nil || exit.Code != 0 {
			t.Errorf("%+v %v", exit, err)
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the store is full") }

func TestBounds(t *testing.T) {
	rt := runtimeOf(t)
	const full = "no space left on device\n"
	for name, probe := range map[string][]string{
		"out":     {"write", "/out/big", "5"},
		"inodes":  {"files", "/out", "100"},
		"scratch": {"write", "/scratch/big", "5"},
		"tmp":     {"write", "/tmp/big", "3"},
	} {
		if r := run(t, rt, demo(t, name, probe...), nil); r.stdout != full {
			t.Errorf("%s: %q %q", name, r.stdout, r.stderr)
		}
	}
	if r := run(t, rt, demo(t, "fits", "write", "/out/big", "4"), nil); r.stdout != "\n" {
		t.Errorf("what fits: %q", r.stdout)
	}
	task := demo(t, "oom", "eat")
	task.Sandbox.Resources.MemoryBytes = 64 << 20
	if r := run(t, rt, task, nil); !r.OOM || r.Code != 137 || r.Signal != "SIGKILL" {
		t.Errorf("without memory: %+v %s", r.Exit, r.stderr)
	}
	task = demo(t, "oom-child", "child", "eat")
	task.Sandbox.Resources.MemoryBytes = 64 << 20
	if r := run(t, rt, task, nil); !r.OOM || r.Code != 0 || r.stdout != "signal: killed\n" {
		t.Errorf("a child without memory: %+v %q", r.Exit, r.stdout)
	}
	// Names without bytes take the kernel's memory, which is the attempt's, too.
	for _, place := range []string{"/scratch", "/tmp", "/dev/shm"} {
		task = demo(t, "names-"+strings.ReplaceAll(place, "/", ""), "files", place, "10000000")
		task.Sandbox.Resources.MemoryBytes = 32 << 20
		if r := run(t, rt, task, nil); !r.OOM && r.stdout != full {
			t.Errorf("10 million files in %s: %+v %q", place, r.Exit, r.stdout)
		}
	}
	task = demo(t, "pids", "threads", "100")
	task.Sandbox.Resources.PIDs = 24
	if r := run(t, rt, task, nil); !strings.Contains(r.stdout, "resource temporarily unavailable") {
		t.Errorf("too many processes: %q", r.stdout)
	}
}

func TestOutput(t *testing.T) {
	rt := runtimeOf(t)
	task := demo(t, "produce", "produce")
	ctx := t.Context()
	s, err := rt.Prepare(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	if err := s.Start(ctx, sandbox.Stdio{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.Output(), "result.json"))
	if err != nil || string(b) != "{}\n" {
		t.Errorf("%q %v", b, err)
	}
	if err := errors.Join(s.Close(ctx), s.Close(ctx)); err != nil {
		t.Error(err)
	}
}

func TestKill(t *testing.T) {
	rt := runtimeOf(t)
	task := demo(t, "kill", "daemonize")
	ctx := t.Context()
	s, err := rt.Prepare(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	ready := &waiter{seen: make(chan struct{})}
	if err := s.Start(ctx, sandbox.Stdio{Stdout: ready}); err != nil {
		t.Fatal(err)
	}
	<-ready.seen
	tick := filepath.Join(s.Output(), "tick")
	for range 1000 {
		if _, err := os.Stat(tick); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := s.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for what goes on: %v", err)
	}
	if pids, err := rt.host.cgroups.pids("foundry-" + marker + ".kill"); err != nil || len(pids) != 2 {
		t.Errorf("processes %v, %v", pids, err)
	}
	for range 2 {
		if err := s.Kill(ctx); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(tick)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if after, _ := os.ReadFile(tick); !bytes.Equal(before, after) {
		t.Error("it still writes")
	}
	if exit, err := s.Wait(ctx); err != nil || exit.Signal != "SIGKILL" || exit.OOM {
		t.Errorf("%+v %v", exit, err)
	}
}

// waiter tells when something was written.
type waiter struct {
	once sync.Once
	seen chan struct{}
}

func (w *waiter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.seen) })
	return len(p), nil
}

func TestNotStarted(t *testing.T) {
	rt := runtimeOf(t)
	task := demo(t, "idle", "sleep")
	s, err := rt.Prepare(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Prepare(t.Context(), task); err == nil {
		t.Error("one attempt was prepared twice")
	}
	if err := errors.Join(s.Kill(t.Context()), s.Close(t.Context()), s.Kill(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), sandbox.Stdio{}); err == nil {
		t.Error("a closed attempt was started")
	}
	if _, err := s.Wait(t.Context()); err == nil {
		t.Error("what never started has ended well")
	}
	if left, _ := os.ReadDir(task.Dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What cannot be prepared is refused, and nothing of it stays.
func TestRefused(t *testing.T) {
	rt := runtimeOf(t)
	for name, spoil := range map[string]func(*sandbox.Task){
		`network "egress"`:      func(t *sandbox.Task) { t.Sandbox.Network = plan.NetworkEgress },
		`image "example`:        func(t *sandbox.Task) { t.Sandbox.Image = "example@sha256:0" },
		"must be absolute":      func(t *sandbox.Task) { t.Dir = "here" },
		"has no bound":          func(t *sandbox.Task) { t.OutputBytes = 0 },
		"user":                  func(t *sandbox.Task) { t.Process.User = "0:0" },
		"not below {scratch}":   func(t *sandbox.Task) { t.Files[0].Path = "{scratch}/../skills/demo/x" },
		"{broker.url}":          func(t *sandbox.Task) { t.Process.Env = []string{"URL={broker.url}"} },
		"is no folder":          func(t *sandbox.Task) { t.Trees["skill:demo"] += "-gone" },
		"nothing was staged":    func(t *sandbox.Task) { delete(t.Trees, "skill:demo") },
		"argv is empty":         func(t *sandbox.Task) { t.Process.Argv = nil },
		"executable file not":   func(t *sandbox.Task) { t.Process.Argv = []string{"foundry"} },
		"only output and":       func(t *sandbox.Task) { t.Sandbox.Mounts[0].Mode = plan.MountReadWrite },
		"no clean absolute":     func(t *sandbox.Task) { t.Sandbox.Mounts[0].Destination = "/skills/../proc" },
		"an attempt needs":      func(t *sandbox.Task) { t.Attempt = "" },
		"resource has no bound": func(t *sandbox.Task) { t.Sandbox.Resources.PIDs = 0 },
	} {
		task := demo(t, "refused", "exit", "0")
		dir := task.Dir
		spoil(&task)
		s, err := rt.Prepare(t.Context(), task)
		if err == nil {
			// What only the start can tell.
			err = s.Start(t.Context(), sandbox.Stdio{})
			if errC := s.Close(t.Context()); errC != nil {
				t.Errorf("%s: %v", name, errC)
			}
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

func TestParallel(t *testing.T) {
	rt := runtimeOf(t)
	var all sync.WaitGroup
	for i := range 4 {
		task := demo(t, fmt.Sprint("parallel-", i), "exit", fmt.Sprint(i))
		all.Go(func() {
			if r := run(t, rt, task, nil); r.Code != i {
				t.Errorf("%d: %+v", i, r.Exit)
			}
		})
	}
	all.Wait()
}

// Two users of one base share its daemon, which ends with the last of them;
// what an attempt left open goes with its runtime.
func TestSharedBase(t *testing.T) {
	need(t)
	before := takeInventory()
	o := Options{Base: filepath.Join(newBase(t), "a base with a rather long name that no socket path could hold, and that goes on and on")}
	first, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	daemons := slices.DeleteFunc(takeInventory().processes, func(s string) bool {
		return slices.Contains(before.processes, s)
	})
	if len(daemons) != 1 {
		t.Errorf("daemons: %v", daemons)
	}
	open, err := first.Prepare(t.Context(), demo(t, "left-open", "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Start(t.Context(), sandbox.Stdio{}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Prepare(t.Context(), demo(t, "late", "sleep")); err == nil {
		t.Error("a closed runtime prepares")
	}
	if r := run(t, second, demo(t, "second", "exit", "3"), nil); r.Code != 3 {
		t.Errorf("%+v", r.Exit)
	}
	if err := errors.Join(second.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if left := takeInventory().since(before); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestMissing(t *testing.T) {
	need(t)
	for name, o := range map[string]Options{
		"runc":       {Base: t.TempDir(), RuncPath: "/nowhere/runc"},
		"containerd": {Address: filepath.Join(t.TempDir(), "none.sock")},
	} {
		_, err := New(t.Context(), o)
		var missing *Unavailable
		if !errors.As(err, &missing) || !strings.Contains(missing.Need, name) || missing.Fix == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(t.Context(), Options{Base: "relative"}); err == nil {
		t.Error("a relative base was taken")
	}
}

// On a machine without user namespaces the worker is uid 65534 of the host,
// and the record says so.
func TestWithoutUserNamespace(t *testing.T) {
	need(t)
	rt, err := New(t.Context(), Options{Base: newBase(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	rt.host.userNamespace, rt.host.cgroupNamespace, rt.host.swapLimit = false, false, false
	r := run(t, rt, demo(t, "plain", "inspect"), nil)
	var p probeResult
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
		t.Fatalf("%v: %s %s", err, r.stdout, r.stderr)
	}
	if p.Status["Uid"] != "65534 65534 65534 65534" || p.Status["CapEff"] != zeroCaps || p.Status["CapBnd"] != zeroCaps || p.Write["/out"] != "" || p.Write["/scratch"] != "" || p.Write["/skills/demo"] == "" {
		t.Errorf("%+v", p)
	}
	for _, prop := range r.facts.Properties {
		if prop.Name == sandbox.PropUser && !strings.Contains(prop.Detail, "no user namespace") {
			t.Errorf("%+v", prop)
		}
	}
}

// A Prepare that is cut off anywhere leaves nothing.
func TestCancelledPrepare(t *testing.T) {
	rt := runtimeOf(t)
	run(t, rt, demo(t, "warm", "exit", "0"), nil) // the image is there now
	prepared := 0
	for i := range 12 {
		task := demo(t, fmt.Sprint("cancelled-", i), "sleep")
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*12)*time.Millisecond)
		s, err := rt.Prepare(ctx, task)
		cancel()
		if err == nil {
			prepared++
			err = s.Close(t.Context())
		} else if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "deadline exceeded") {
			t.Errorf("%d: %v", i, err)
		}
		if left, _ := os.ReadDir(task.Dir); len(left) > 0 {
			t.Errorf("%d left %v (%v)", i, left, err)
		}
		if err := rt.removals.settle(containerID(task)); err != nil {
			t.Error(err)
		}
		rt.mu.Lock()
		if _, open := rt.open[containerID(task)]; open {
			t.Errorf("%d is still open: %v", i, err)
		}
		rt.mu.Unlock()
	}
	if prepared == 12 {
		t.Error("nothing was cut off")
	}
	if left := takeInventory(); len(left.mounts)+len(left.cgroups) > len(shared.before.mounts)+len(shared.before.cgroups) {
		t.Errorf("left behind: %+v", left)
	}
}

// The shim of a container that was prepared and not started may be killed: the
// container says so, and the runtime starts another shim for the next one.
func TestLostBeforeItsStart(t *testing.T) {
	need(t)
	base := newBase(t)
	rt, err := New(t.Context(), Options{Base: base})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}()
	box, err := rt.Prepare(t.Context(), demo(t, "lost", "exit", "0"))
	if err != nil {
		t.Fatal(err)
	}
	perishable := box.(sandbox.Perishable)
	if perishable.Lost() {
		t.Error("it is lost before anything happened")
	}
	shims := processes(func(args []string) bool {
		owner, ok := groupOwner(after(args, "-id"))
		return ok && owner == rt.owner
	})
	if len(shims) == 0 {
		t.Fatal("no shim is to be seen")
	}
	for _, pid := range shims {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if err := poll(t.Context(), func() (bool, error) { return perishable.Lost(), nil }); err != nil {
		t.Errorf("it does not know: %v", err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Errorf("closing it: %v", err)
	}
	if r := run(t, rt, demo(t, "next", "exit", "7"), nil); r.Code != 7 {
		t.Errorf("the next one: %+v, %s", r.Exit, r.stderr)
	}
}
