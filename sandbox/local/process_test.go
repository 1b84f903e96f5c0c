//go:build unix

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"foundry/plan"
	"foundry/sandbox"
)

// tool is the path of a system program, or skips the test.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("this machine has no %s", name)
	}
	return path
}

func task(t testing.TB, argv ...string) sandbox.Task {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "attempt")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return sandbox.Task{
		Run: "run", Attempt: "a1", Dir: dir,
		Process: plan.Process{Argv: argv, Env: []string{}, Cwd: "{scratch}"},
		Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Mounts: []plan.Mount{
			{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite},
			{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite},
		}},
	}
}

func prepare(t testing.TB, k sandbox.Task) sandbox.Sandbox {
	t.Helper()
	b, err := New().Prepare(context.Background(), k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestSignalOfProcess(t *testing.T) {
	b := prepare(t, task(t, tool(t, "sh"), "-c", "kill -TERM $$"))
	if err := b.Start(t.Context(), sandbox.Stdio{}); err != nil {
		t.Fatal(err)
	}
	exit, err := b.Wait(t.Context())
	if err != nil || exit.Code != 128+15 || exit.Signal != "SIGTERM" {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestProgramIsFoundByThePlansPath(t *testing.T) {
	dir := filepath.Dir(tool(t, "true"))
	found := task(t, "true")
	found.Process.Env = []string{"PATH=/nowhere:" + dir}
	b := prepare(t, found)
	if err := b.Start(t.Context(), sandbox.Stdio{}); err != nil {
		t.Fatal(err)
	}
	if exit, err := b.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	// A relative folder would be one below wherever this program was started.
	t.Chdir(t.TempDir())
	if err := os.Symlink(tool(t, "true"), "true"); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{"no PATH": {}, "other PATH": {"PATH=/nowhere"}, "relative PATH": {"PATH=.:bin"}} {
		k := task(t, "true")
		k.Process.Env = env
		if _, err := New().Prepare(t.Context(), k); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrepareRefusesNames(t *testing.T) {
	for _, name := range []string{`a"b`, `a\b`, "a{b", "a}b", "a\nb", "a\x7fb"} {
		k := task(t, "/bin/true")
		k.Dir = filepath.Join(k.Dir, name)
		if err := os.Mkdir(k.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := New().Prepare(t.Context(), k); err == nil || !strings.Contains(err.Error(), "pasted") {
			t.Errorf("folder %q: %v", name, err)
		}
	}
	space := task(t, tool(t, "true"))
	space.Dir = filepath.Join(space.Dir, "a b ü")
	if err := os.Mkdir(space.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	prepare(t, space)
	for name, change := range map[string]func(*sandbox.Task){
		"marker":         func(k *sandbox.Task) { k.Process.Env = []string{MarkerVar + "=x"} },
		"no entry":       func(k *sandbox.Task) { k.Process.Env = []string{"NOVALUE"} },
		"relative":       func(k *sandbox.Task) { k.Dir = "attempt" },
		"not empty":      func(k *sandbox.Task) { os.WriteFile(filepath.Join(k.Dir, "x"), nil, 0o600) },
		"token":          func(k *sandbox.Task) { k.Tokens = map[string]string{"broker.url": `"`} },
		"attempt id":     func(k *sandbox.Task) { k.Attempt = "../x" },
		"input path":     func(k *sandbox.Task) { k.InputPaths = map[string]string{"a": "../x"} },
		"relative cwd":   func(k *sandbox.Task) { k.Process.Cwd = "x" },
		"climbing mount": func(k *sandbox.Task) { k.Sandbox.Mounts[0] = plan.Mount{Source: "skill:a", Destination: "/../x"} },
	} {
		k := task(t, tool(t, "true"))
		change(&k)
		if _, err := New().Prepare(t.Context(), k); err == nil {
			t.Errorf("%s was prepared", name)
		}
	}
}

func TestFoldersThatProgramsExpect(t *testing.T) {
	k := task(t, tool(t, "true"))
	k.Process.Env = []string{"HOME={scratch}/home", "TMPDIR={scratch}/tmp", "XDG_CACHE_HOME={scratch}/home/.cache", "OTHER={scratch}/other"}
	k.Process.Cwd = "{scratch}/work"
	b := prepare(t, k)
	for dir, want := range map[string]bool{"home": true, "tmp": true, "home/.cache": true, "work": true, "other": false} {
		path, err := b.Expand("{scratch}/" + dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want %v", dir, err, want)
		}
	}
}

// TestKillFindsChildOfLivingParent: a child without session and marker is
// found as long as its parent lives.
func TestKillFindsChildOfLivingParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("without /proc only the process group is found")
	}
	env, setsid, sleep := tool(t, "env"), tool(t, "setsid"), tool(t, "sleep")
	b := prepare(t, task(t, tool(t, "sh"), "-c", env+" -i "+setsid+" "+tool(t, "sh")+" -c 'echo $$; exec "+sleep+" 1000' & wait"))
	out := &firstLine{line: make(chan string, 1)}
	if err := b.Start(t.Context(), sandbox.Stdio{Stdout: out}); err != nil {
		t.Fatal(err)
	}
	var pid int
	select {
	case line := <-out.line:
		if _, err := fmt.Sscan(line, &pid); err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the child did not start")
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err := readState(pid); err == nil && p != 'Z' {
		t.Errorf("process %d is in state %c", pid, p)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func readState(pid int) (byte, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(data, []byte(") "))
	return append(rest, 'Z')[0], nil
}

type firstLine struct {
	buf  bytes.Buffer
	line chan string
}

func (f *firstLine) Write(b []byte) (int, error) {
	f.buf.Write(b)
	if line, _, ok := strings.Cut(f.buf.String(), "\n"); ok {
		select {
		case f.line <- line:
		default:
		}
	}
	return len(b), nil
}

// TestSlowReader: what the process wrote before it ended is handed on, however
// late its reader is.
func TestSlowReader(t *testing.T) {
	b := prepare(t, task(t, tool(t, "sh"), "-c", "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done"))
	w := &slow{}
	if err := b.Start(t.Context(), sandbox.Stdio{Stdout: w}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(w.buf.Bytes(), []byte("\n")); got != 2000 || !bytes.HasSuffix(w.buf.Bytes(), []byte("\n1999\n")) {
		t.Errorf("%d lines came", got)
	}
}

// TestFailedWriterGetsNoMore: after an error a writer is left alone, and the
// process is read to its end.
func TestFailedWriterGetsNoMore(t *testing.T) {
	b := prepare(t, task(t, tool(t, "sh"), "-c", "i=0; while [ $i -lt 50000 ]; do echo $i; i=$((i+1)); done"))
	w := &failing{}
	if err := b.Start(t.Context(), sandbox.Stdio{Stdout: w}); err != nil {
		t.Fatal(err)
	}
	if exit, err := b.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if w.calls != 1 {
		t.Errorf("it was called %d times", w.calls)
	}
}

type failing struct{ calls int }

func (f *failing) Write([]byte) (int, error) {
	f.calls++
	return 0, errors.New("the reader is gone")
}

type slow struct{ buf bytes.Buffer }

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return s.buf.Write(b)
}

// TestDescriptorsStay: what a shell left open for this process is not the
// worker's.
func TestDescriptorsStay(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open descriptors are seen in /proc alone")
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil { // inherited unless somebody says otherwise
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	b := prepare(t, task(t, tool(t, "sh"), "-c", fmt.Sprintf("[ ! -e /proc/self/fd/%d ] && [ ! -e /proc/self/fd/%d ]", pipe[0], pipe[1])))
	if err := b.Start(t.Context(), sandbox.Stdio{}); err != nil {
		t.Fatal(err)
	}
	if exit, err := b.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestStartFails(t *testing.T) {
	k := task(t, "{scratch}/no-program")
	k.Files = []plan.File{{Path: "{scratch}/no-program", Content: "\x7fELF is not enough"}}
	if _, err := New().Prepare(t.Context(), k); err == nil {
		t.Fatal("a file that is no program was prepared")
	}
	before := runtime.NumGoroutine()
	k = task(t, tool(t, "true"))
	b := prepare(t, k)
	if err := os.RemoveAll(filepath.Join(k.Dir, scratchDir)); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), sandbox.Stdio{Stdin: strings.NewReader("x"), Stdout: io.Discard}); err == nil {
		t.Error("it was started without its working folder")
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 100 {
			t.Fatalf("%d goroutines more", runtime.NumGoroutine()-before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// BenchmarkAttempt is a no-op from Prepare to Close. It alternates with raw
// fork+exec of the same program, and reports how many times as long it takes
// (x-fork+exec: of the medians; x-fork+exec-sum: of the sums).
func BenchmarkAttempt(b *testing.B) {
	path := tool(b, "true")
	r := New()
	base := b.TempDir()
	var attempts, raws []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		attempt(b, r, task0(base, i, path))
		attempts = append(attempts, time.Since(begin))
		b.StopTimer()
		begin = time.Now()
		if err := exec.Command(path).Run(); err != nil {
			b.Fatal(err)
		}
		raws = append(raws, time.Since(begin))
		b.StartTimer()
	}
	sum := func(list []time.Duration) (t time.Duration) {
		for _, d := range list {
			t += d
		}
		return t
	}
	median := func(list []time.Duration) time.Duration {
		slices.Sort(list)
		return list[len(list)/2]
	}
	b.ReportMetric(float64(median(attempts))/float64(median(raws)), "x-fork+exec")
	b.ReportMetric(float64(sum(attempts))/float64(sum(raws)), "x-fork+exec-sum")
}

func attempt(b *testing.B, r *Runtime, k sandbox.Task) {
	if err := os.Mkdir(k.Dir, 0o700); err != nil {
		b.Fatal(err)
	}
	box, err := r.Prepare(b.Context(), k)
	if err != nil {
		b.Fatal(err)
	}
	if err := box.Start(b.Context(), sandbox.Stdio{Stdout: io.Discard, Stderr: io.Discard}); err != nil {
		b.Fatal(err)
	}
	if _, err := box.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(box.Kill(b.Context()), box.Close(b.Context()), os.Remove(k.Dir)); err != nil {
		b.Fatal(err)
	}
}

func task0(base string, i int, argv ...string) sandbox.Task {
	return sandbox.Task{
		Run: "run", Attempt: fmt.Sprint("a", i), Dir: filepath.Join(base, fmt.Sprint(i)),
		Process: plan.Process{Argv: argv, Cwd: "{scratch}"},
		Sandbox: plan.Sandbox{Mounts: []plan.Mount{{Source: plan.MountScratch, Destination: "/scratch"}, {Source: plan.MountOutput, Destination: "/out"}}},
	}
}
