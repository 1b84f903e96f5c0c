package containerd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"foundry/sandbox"
)

// crashArg makes this test binary a client that is going to be killed: it
// starts the task of a file on the daemon of the options, both as JSON.
const crashArg = "@crash"

func crashMain(options, task string) {
	var o Options
	var t sandbox.Task
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fail(json.Unmarshal([]byte(options), &o))
	fail(json.Unmarshal([]byte(task), &t))
	ctx := context.Background()
	rt, err := New(ctx, o)
	fail(err)
	s, err := rt.Prepare(ctx, t)
	fail(err)
	fail(s.Start(ctx, sandbox.Stdio{Stdout: os.Stdout}))
	select {}
}

// crash starts a client that runs a task, and kills it.
func crash(t *testing.T, o Options, task sandbox.Task) {
	t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(task.Executable, crashArg, string(options), string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	if err != nil || line != "ready\n" {
		t.Fatalf("the client said %q, %v", line, err)
	}
}

// A client that is killed leaves nothing: the daemon sees that it has no user
// any more, and takes all with it.
func TestClientKilled(t *testing.T) {
	need(t)
	before := takeInventory()
	o := Options{Base: newBase(t)}
	crash(t, o, demo(t, "crashed", "daemonize"))
	var left string
	for range 200 {
		if left = takeInventory().since(before); left == "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if left != "" {
		t.Fatalf("left behind: %s", left)
	}
	if _, err := os.Stat(layoutOf(o.Base).state); !os.IsNotExist(err) {
		t.Errorf("the state of the daemon is still there: %v", err)
	}
}

// When another client uses the daemon on, the next one to come cleans up.
func TestClientKilledBesideAnother(t *testing.T) {
	need(t)
	before := takeInventory()
	base := newBase(t)
	o := Options{Base: base}
	if a := os.Getenv("FOUNDRY_TEST_CONTAINERD"); a != "" {
		o = Options{Address: a}
	}
	other, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	task := demo(t, "crashed-beside", "daemonize")
	crash(t, o, task)
	if left := takeInventory().since(before); !strings.Contains(left, "crashed-beside") {
		t.Fatalf("the attempt went by itself: %s", left)
	}
	next, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	left := takeInventory().since(before)
	if strings.Contains(left, "crashed-beside") || strings.Contains(left, probeArg) {
		t.Errorf("left behind: %s", left)
	}
	// The same attempt can be run again, in a folder of its own.
	again := demo(t, "crashed-beside", "exit", "0")
	if r := run(t, next, again, nil); r.Code != 0 {
		t.Errorf("%+v", r.Exit)
	}
}

// A daemon that dies takes no attempt with it.
func TestDaemonKilled(t *testing.T) {
	need(t)
	before := takeInventory()
	o := Options{Base: newBase(t)}
	rt, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	s, err := rt.Prepare(t.Context(), demo(t, "orphan", "daemonize"))
	if err != nil {
		t.Fatal(err)
	}
	ready := &waiter{seen: make(chan struct{})}
	if err := s.Start(t.Context(), sandbox.Stdio{Stdout: ready}); err != nil {
		t.Fatal(err)
	}
	<-ready.seen
	for _, p := range takeInventory().processes {
		if pid, rest, _ := strings.Cut(strings.TrimPrefix(p, "/proc/"), "/"); strings.Contains(rest, daemonName) && strings.Contains(rest, o.Base) {
			if err := exec.Command("kill", "-9", pid).Run(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The shim goes on, and tells the end.
	if err := s.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if exit, err := s.Wait(t.Context()); err != nil || exit.Signal != "SIGKILL" {
		t.Errorf("%+v %v", exit, err)
	}
	if left := takeInventory().since(before); strings.Contains(left, probeArg+" tick") {
		t.Errorf("still running: %s", left)
	}
	// A new daemon takes over, for what there was and for what comes.
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if r := run(t, rt, demo(t, "after", "exit", "7"), nil); r.Code != 7 {
		t.Errorf("%+v", r.Exit)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if left := takeInventory().since(before); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// A daemon that ends touches nothing of another base.
func TestOtherBase(t *testing.T) {
	rt := runtimeOf(t)
	s, err := rt.Prepare(t.Context(), demo(t, "beside", "produce"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	before := takeInventory()
	other, err := New(t.Context(), Options{Base: newBase(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if after := takeInventory(); len(after.mounts) != len(before.mounts) {
		t.Errorf("mounts before %v, after %v", before.mounts, after.mounts)
	}
}

func TestDead(t *testing.T) {
	me, err := newOwner()
	if err != nil {
		t.Fatal(err)
	}
	next, err := newOwner()
	if err != nil || next == me {
		t.Errorf("two runtimes are both %s, %v", me, err)
	}
	parts := strings.Split(me, "-")
	for owner, want := range map[string]bool{
		me:                                       false,
		parts[0] + "-" + parts[1] + "-1-1":       true, // an earlier process of that pid
		parts[0] + "-4999999-" + parts[2] + "-1": true,
		"1-" + parts[1] + "-1-1":                 false, // of another pid namespace
		"":                                       false,
		"nonsense":                               false,
		parts[0] + "-x-" + parts[2] + "-1":       false,
		parts[0] + "-" + parts[1] + "-1":         false,
		me + "-more":                             false,
	} {
		if got := dead(owner); got != want {
			t.Errorf("dead(%q) = %v", owner, got)
		}
	}
}
