package local

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"
)

// controllerWord makes this test binary a controller: it starts an attempt
// whose worker leaves its session, and is then killed.
const controllerWord = "local-test-controller" // TestMain knows it

func controllerMain(run, dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	box, err := lingering(New(), run, dir)
	if err != nil {
		fail(err)
	}
	ready, w := io.Pipe()
	if err := box.Start(context.Background(), sandbox.Stdio{Stdout: w}); err != nil {
		fail(err)
	}
	line, _ := bufio.NewReader(ready).ReadString('\n')
	fmt.Print(line)
	time.Sleep(time.Hour)
}

// lingering prepares an attempt of a worker that forks a writer in a session of
// its own.
func lingering(r *Runtime, run, dir string) (sandbox.Sandbox, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return r.Prepare(context.Background(), sandbox.Task{
		Run: run, Attempt: "a1", Dir: dir, Executable: exe, Wall: time.Minute, OutputBytes: 1 << 20, OutputFiles: 10,
		Process: plan.Process{Argv: []string{"{foundry}", "sandboxtest-worker", "linger", "{out}/tick"}, Env: []string{"PATH=/usr/bin:/bin"}, Cwd: "{scratch}", User: "65534:65534"},
		Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Network: plan.NetworkNone, Mounts: []plan.Mount{
			{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: 1 << 20},
			{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: 1 << 20},
		}},
	})
}

func grows(t *testing.T, file string) bool {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	for range 100 {
		if time.Sleep(5 * time.Millisecond); size() > before {
			return true
		}
	}
	return false
}

// A process that left the session of its attempt outlives a controller that is
// killed. It is found by its marker and ended; what is of a living controller
// goes on.
func TestStraysOfADeadControllerAreEnded(t *testing.T) {
	dir := t.TempDir()
	mkdir := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		return p
	}
	id := fmt.Sprint("stray", os.Getpid())
	living, err := lingering(New(), id, mkdir("living"))
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close(context.Background())
	ready, w := io.Pipe()
	if err := living.Start(t.Context(), sandbox.Stdio{Stdout: w}); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(ready).ReadString('\n') //nolint:errcheck // the file's growth says it

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dead := mkdir("dead")
	cmd := exec.Command(exe, controllerWord, id, dead)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the controller said %q", line)
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()

	tick := filepath.Join(dead, "out", "tick")
	if !grows(t, tick) {
		t.Fatal("the stray does not outlive its controller: there is nothing to show")
	}
	if other, err := EndStrays(t.Context(), "another"); err != nil || len(other) > 0 {
		t.Errorf("of another run: %v, %v", other, err)
	}
	ended, err := EndStrays(t.Context(), id)
	if err != nil || len(ended) == 0 {
		t.Fatalf("ended %v, %v", ended, err)
	}
	for _, s := range ended {
		if s.Run != id || s.Attempt != "a1" {
			t.Errorf("ended %+v", s)
		}
	}
	if grows(t, tick) {
		t.Error("the stray lives")
	}
	if !grows(t, filepath.Join(living.Output(), "tick")) {
		t.Error("a living controller's worker was ended")
	}
	if again, err := EndStrays(t.Context(), id); err != nil || len(again) > 0 {
		t.Errorf("the second time: %v, %v", again, err)
	}
}

// A controller that cannot be seen is not taken for dead.
func TestControllerGone(t *testing.T) {
	space := pidNamespace("self")
	self, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for mark, want := range map[string]bool{
		controllerMark(): false,
		fmt.Sprintf("%d-%d-%d", os.Getpid(), self.start+1, space): true, // its number was given out again
		fmt.Sprintf("%d-%d-%d", 1<<30, self.start, space):         true,
		fmt.Sprintf("%d-%d-%d", 1<<30, self.start, space+1):       false, // another namespace's
		fmt.Sprintf("%d-%d-0", 1<<30, self.start):                 false,
		"":      false,
		"1-2":   false,
		"a-b-c": false,
	} {
		if got := controllerGone(mark); got != want {
			t.Errorf("%q: %v", mark, got)
		}
	}
}
