//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"
)

// killBound is what the suite allows Kill: the two seconds that a sandbox
// promises, thrice, because machines that test are busy.
const killBound = 6 * time.Second

// Stand-ins for what nothing would bound on a sandbox that is no boundary.
const (
	standInProcesses = 200
	standInMemory    = 512 * mib
)

func (s *suite) enforced(t *testing.T, box sandbox.Sandbox, name string) bool {
	t.Helper()
	return property(t, box.Facts(), name).State == sandbox.Enforced
}

// dies kills an attempt that goes on, within its bound, and checks that
// nothing of its output changes afterwards.
func dies(t *testing.T, box sandbox.Sandbox) {
	t.Helper()
	begin := time.Now()
	kill(t, box)
	took := time.Since(begin)
	before := digestOf(t, box.Output())
	time.Sleep(350 * time.Millisecond) // three writes and a half
	if after := digestOf(t, box.Output()); after != before {
		t.Error("the output changed after Kill")
	}
	if took > killBound {
		t.Errorf("Kill took %v", took)
	}
	exit := wait(t, box)
	if exit.Code != 137 || exit.Signal != "SIGKILL" {
		t.Errorf("exit %+v", exit)
	}
	t.Logf("killed in %v", took.Round(time.Millisecond))
}

// digestOf is a digest over the names, sizes, times and bytes below a folder.
func digestOf(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, p, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			h.Write(data)
			return err
		}
		return nil
	}))
	return hex.EncodeToString(h.Sum(nil))
}

// usable checks that the host still makes processes.
func (s *suite) usable(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, s.exe, workerWord, "exit", "0").CombinedOutput(); err != nil {
		t.Errorf("the host cannot start a process: %v %s", err, out)
	}
}

// forkBomb: the wall ends it with all that it made, and the host stays usable.
func (s *suite) forkBomb(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the bomb is built for Linux alone")
	}
	n := standInProcesses
	task := s.task(t, "bomb", "{out}/bytes", strconv.Itoa(n))
	task.Sandbox.Resources.PIDs = 64
	box := s.prepare(t, task)
	bounded := s.enforced(t, box, sandbox.PropPIDs)
	if bounded {
		must(t, box.Close(t.Context()))
		task = s.task(t, "bomb", "{out}/bytes", "0")
		task.Sandbox.Resources.PIDs = 64
		box = s.prepare(t, task)
	} else if !s.enforced(t, box, sandbox.PropProcessGroup) {
		t.Skip("the runtime says that it can neither bound nor find processes")
	}
	out := newReady()
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: out}))
	out.await(t)
	// All of a stand-in write; a bomb without bound has met its limit by then.
	s.until(t, func() bool {
		info, err := os.Stat(filepath.Join(box.Output(), "bytes"))
		return err == nil && info.Size() > int64(n)
	})
	s.usable(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if exit, err := box.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the bomb ended by itself: %+v, %v", exit, err)
	}
	dies(t, box)
}

func (s *suite) until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

// memoryHog: a child that takes more memory than it may is killed, and that is
// told although its parent exits with 0.
func (s *suite) memoryHog(t *testing.T) {
	task := s.task(t, "hog", strconv.Itoa(standInMemory))
	task.Sandbox.Resources.MemoryBytes = 96 * mib
	for i := range task.Sandbox.Mounts {
		task.Sandbox.Mounts[i].Bytes = min(task.Sandbox.Mounts[i].Bytes, 4*mib)
	}
	task.OutputBytes = 4 * mib
	r := s.ok(t, task, nil)
	end := r.stdout.String()
	if s.enforced(t, r.box, sandbox.PropMemory) {
		if !r.exit.OOM || end != "signal: killed" {
			t.Errorf("exit %+v, the child ended with %q", r.exit, end)
		}
	} else if r.exit.OOM || end != "exit status 0" {
		t.Errorf("without a bound: exit %+v, the child ended with %q", r.exit, end)
	}
	s.usable(t)
}

// ender kills an attempt when it has written so many bytes, as the executor
// does.
type ender struct {
	box  sandbox.Sandbox
	mu   sync.Mutex
	n    int64
	cap  int64
	over chan struct{}
}

func (e *ender) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.n
	e.n += int64(len(p))
	if before <= e.cap && e.n > e.cap {
		close(e.over)
	}
	return len(p), nil
}

func (e *ender) bytes() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

// yes: a flood ends with its writer's decision, and nothing comes after Wait.
func (s *suite) yes(t *testing.T) {
	box := s.prepare(t, s.task(t, "yes"))
	e := &ender{box: box, cap: size(16*mib, 256*mib), over: make(chan struct{})}
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: e}))
	select {
	case <-e.over:
	case <-time.After(patience):
		t.Fatal("the flood did not come")
	}
	s.usable(t)
	dies(t, box)
	n := e.bytes()
	time.Sleep(50 * time.Millisecond)
	if after := e.bytes(); after != n {
		t.Errorf("%d bytes came after Wait", after-n)
	}
}

// trapper: a worker that traps the signals that ask and has a grandchild in a
// session of its own write dies whole.
func (s *suite) trapper(t *testing.T) {
	box := s.prepare(t, s.task(t, "trapper", "{out}"))
	if !s.enforced(t, box, sandbox.PropProcessGroup) {
		t.Skip("the runtime says that it cannot end such a child")
	}
	out := newReady()
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: out}))
	out.await(t)
	dies(t, box)
}

// cpu: two busy threads get no more of a processor than the plan gives.
func (s *suite) cpu(t *testing.T) {
	task := s.task(t, "burn", "1000")
	task.Sandbox.Resources.CPUMillis = 200
	r := s.ok(t, task, nil)
	got := decode[burnt](t, r.stdout.Bytes())
	share := float64(got.CPUNanos) / float64(got.WallNanos)
	// Whole periods are counted, and starting costs, too.
	if s.enforced(t, r.box, sandbox.PropCPU) && share > 0.4 {
		t.Errorf("it got %.2f of a processor, the plan gives 0.20", share)
	}
	t.Logf("%.2f of a processor", share)
}

// pids: a worker gets no more processes than the plan gives.
func (s *suite) pids(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the crowd is built for Linux alone")
	}
	task := s.task(t, "crowd", strconv.Itoa(standInProcesses))
	task.Sandbox.Resources.PIDs = 64
	r := s.ok(t, task, nil)
	got := decode[tried](t, r.stdout.Bytes())
	if s.enforced(t, r.box, sandbox.PropPIDs) {
		if got.Done >= 64 || got.Error == "" {
			t.Errorf("with 64 processes it made %d more: %q", got.Done, got.Error)
		}
	} else if got.Done != standInProcesses {
		t.Errorf("without a bound it made %d: %q", got.Done, got.Error)
	}
}

// outputBytes and outputFiles: what exceeds the plan's bound meets the bound
// while it is written, or is refused when it is collected.
func (s *suite) outputBytes(t *testing.T) {
	const limit = 8 * mib
	task := s.task(t, "fill", "{out}/big", strconv.Itoa(3*limit))
	task.OutputBytes = limit
	r := s.ok(t, task, nil)
	got := decode[tried](t, r.stdout.Bytes())
	s.bounded(t, r, got, sandbox.PropOutputBytes, limit, 3*limit)
	s.refusedFor(t, r.box, sandbox.Limits{Bytes: limit - 1, Files: 100}, sandbox.RefusedTooLarge)
}

func (s *suite) outputFiles(t *testing.T) {
	const limit, allowance = 200, 100 // folders and files in the making count little
	task := s.task(t, "names", "{out}", "1000")
	task.OutputFiles = limit
	r := s.ok(t, task, nil)
	got := decode[tried](t, r.stdout.Bytes())
	s.bounded(t, r, got, sandbox.PropOutputFiles, limit+allowance, 1000)
	s.refusedFor(t, r.box, sandbox.Limits{Bytes: mib, Files: limit}, sandbox.RefusedTooManyFiles)
}

func (s *suite) bounded(t *testing.T, r *ran, got tried, name string, limit, want int64) {
	t.Helper()
	if s.enforced(t, r.box, name) {
		if got.Done > limit || got.Error == "" {
			t.Errorf("%s: it came to %d of at most %d: %q", name, got.Done, limit, got.Error)
		}
	} else if got.Done != want || got.Error != "" {
		t.Errorf("%s, not enforced: it came to %d of %d: %q", name, got.Done, want, got.Error)
	}
}

// places: what programs expect to write to is there and bounded, without an
// entry in /etc/passwd.
func (s *suite) places(t *testing.T) {
	task := s.task(t, "places")
	boundary := s.runtime.Mode() == plan.SandboxContainer
	if boundary {
		task = s.task(t, "places", "/tmp", "/dev/shm")
	}
	r := s.ok(t, task, nil)
	for _, p := range decode[[]place](t, r.stdout.Bytes()) {
		if p.Error != "" {
			t.Errorf("writing to %s: %s", p.Path, p.Error)
		}
	}
	if !boundary {
		return
	}
	for path, limit := range map[string]int64{"/tmp/x": 16 * mib, "{scratch}/x": 16 * mib, "{scratch}/tmp/x": 16 * mib, "/dev/shm/x": 64 * mib} {
		r := s.ok(t, s.task(t, "fill", path, strconv.Itoa(100*mib)), nil)
		if got := decode[tried](t, r.stdout.Bytes()); got.Done == 0 || got.Done > limit || got.Error == "" || r.exit.OOM {
			t.Errorf("%s: %d bytes of %d: %q, %+v", path, got.Done, limit, got.Error, r.exit)
		}
	}
}

// secrets: the value of a token is in the environment of the attempt's
// processes and nowhere else on the host that can be seen: no argument list,
// no other environment, no fact that is kept.
func (s *suite) secrets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other processes are seen in /proc alone")
	}
	box := s.prepare(t, s.task(t, "sleep"))
	out := newReady()
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: out}))
	out.await(t)
	holders := 0
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, dir := range dirs {
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(argv, []byte(secret)) {
			t.Errorf("the token is an argument of %s: %q", dir, argv)
		}
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !bytes.Contains(env, []byte(secret)) {
			continue
		}
		if bytes.Contains(argv, []byte(workerWord+"\x00sleep\x00")) {
			holders++
		} else {
			t.Errorf("the token is in the environment of %s: %q", dir, argv)
		}
	}
	if holders != 1 {
		t.Errorf("%d processes hold the token", holders)
	}
	kill(t, box)
	if facts := fmt.Sprintf("%+v %s", box.Facts(), box.Facts().Spec); bytes.Contains([]byte(facts), []byte(secret)) {
		t.Error("the facts hold the token")
	}
}

// refusedFor collects the whole output folder and checks that it is refused
// for a reason, within seconds, and that nothing is frozen.
func (s *suite) refusedFor(t *testing.T, box sandbox.Sandbox, limits sandbox.Limits, reason string) {
	t.Helper()
	frozen := filepath.Join(t.TempDir(), "frozen")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := sandbox.Collect(ctx, box.Output(), nil, limits, frozen)
	must(t, err)
	if !slices.ContainsFunc(got.Refusals, func(r sandbox.Refusal) bool { return r.Reason == reason }) {
		t.Errorf("refusals %+v, want %s", got.Refusals, reason)
	}
	empty(t, frozen)
}
