package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"foundry/sandbox"
)

// One client is killed beside a living one: what is of the dead is seen, then
// removed, and the living one's attempt goes on.
func TestCleanBesideLive(t *testing.T) {
	need(t)
	before := takeInventory()
	o := Options{Base: newBase(t)}
	if a := os.Getenv("FOUNDRY_TEST_CONTAINERD"); a != "" {
		o = Options{Address: a}
	}
	live, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	s, err := live.Prepare(t.Context(), demo(t, "clean-live", "daemonize"))
	if err != nil {
		t.Fatal(err)
	}
	ready := &waiter{seen: make(chan struct{})}
	if err := s.Start(t.Context(), sandbox.Stdio{Stdout: ready}); err != nil {
		t.Fatal(err)
	}
	<-ready.seen
	mine := takeInventory()
	crash(t, o, demo(t, "clean-dead", "daemonize"))

	left, err := Look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ours := func(list []string, what string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, what) })
	}
	if !ours(left.Containers, "clean-dead") || len(left.Leases) == 0 || left.Empty() {
		t.Errorf("the dead one's: %+v", left)
	}
	seenMounts(t, left, "clean-dead")
	if ours(left.Containers, "clean-live") {
		t.Errorf("the living one's: %+v", left)
	}
	for _, m := range left.Mounts {
		if ours(mine.mounts, m+" ") {
			t.Errorf("%s is the living one's", m)
		}
	}
	if again, err := Look(t.Context(), o); err != nil || !slices.Equal(again.Containers, left.Containers) {
		t.Errorf("looking changed something: %+v, %v", again, err)
	}
	swept, err := Clean(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if swept.Containers < 1 || swept.Leases < 1 {
		t.Errorf("removed %+v", swept)
	}
	if after := takeInventory().since(mine); after != "" {
		t.Errorf("left behind: %s", after)
	}
	if left, err = Look(t.Context(), o); err != nil || ours(left.Containers, marker) {
		t.Errorf("then there is %+v, %v", left, err)
	}
	if !strings.Contains(takeInventory().since(before), "clean-live") {
		t.Error("the living attempt is gone")
	}
	if err := errors.Join(s.Kill(t.Context()), s.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

// seenMounts checks that the mounts of an attempt that are there still were
// seen. Any other process that opens a runtime meanwhile removes them, which is
// as it should be.
func seenMounts(t *testing.T, left Left, attempt string) {
	t.Helper()
	for _, line := range takeInventory().mounts {
		at := strings.Fields(line)[4]
		if strings.Contains(line, " "+mountPrefix) && strings.Contains(line, attempt) && !slices.Contains(left.Mounts, at) {
			t.Errorf("%s is not among what was left: %+v", at, left)
		}
	}
}

// Client and daemon are killed, and the folder of their store stays.
func TestCleanAfterAll(t *testing.T) {
	need(t)
	before := takeInventory()
	o := Options{Base: newBase(t)}
	if swept, err := Clean(t.Context(), o); err != nil || swept.Containers > 0 {
		t.Errorf("before anything: %+v, %v", swept, err)
	}
	if _, err := os.Stat(o.Base); !os.IsNotExist(err) {
		t.Fatal("cleaning made a base")
	}
	// Nobody may leave in order: the daemon would clean up by itself.
	holder, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	crash(t, o, demo(t, "clean-all", "daemonize"))
	killDaemon(t, o.Base)
	holder.embedded.users.Close()
	left, err := Look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	state := layoutOf(o.Base).state
	if !slices.Contains(left.Folders, state) || len(left.Containers) > 0 {
		t.Errorf("left: %+v", left)
	}
	seenMounts(t, left, "clean-all")
	swept, err := Clean(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if swept.Containers < 1 {
		t.Errorf("removed %+v", swept)
	}
	if left := takeInventory().since(before); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state is still there: %v", err)
	}
}

// Client and daemon are killed, and the folder of their store is removed: there
// is no daemon any more that could tell what was left.
func TestCleanWithoutBase(t *testing.T) {
	need(t)
	before := takeInventory()
	o := Options{Base: newBase(t)}
	holder, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	crash(t, o, demo(t, "clean-lost", "daemonize"))
	state := layoutOf(o.Base).state
	if len(shimsOf(state)) == 0 {
		t.Error("no shim is to be seen")
	}
	killDaemon(t, o.Base)
	holder.embedded.users.Close()
	if err := os.RemoveAll(o.Base); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(lostStates(), state) {
		t.Error("it is lost while a client of it lives")
	}
	if err := os.RemoveAll(holder.own); err != nil { // as if the client had ended
		t.Fatal(err)
	}
	if left, err := Look(t.Context(), o); err != nil || !slices.Contains(left.Folders, state) {
		t.Errorf("left: %+v, %v", left, err)
	}
	if _, err := Clean(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if left := takeInventory().since(before); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state is still there: %v", err)
	}
	if err := poll(t.Context(), func() (bool, error) { return len(shimsOf(state)) == 0, nil }); err != nil {
		t.Errorf("shims are left: %v", shimsOf(state))
	}
}

func killDaemon(t *testing.T, base string) {
	t.Helper()
	killed := 0
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, c := range commands {
		b, _ := os.ReadFile(c)
		if string(b) != daemonName+"\x00"+base+"\x00" {
			continue
		}
		pid := 0
		for _, r := range filepath.Base(filepath.Dir(c)) {
			pid = pid*10 + int(r-'0')
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if killed != 1 {
		t.Fatalf("%d daemons of %s", killed, base)
	}
	if err := poll(t.Context(), func() (bool, error) {
		running, err := daemonRuns(layoutOf(base))
		return !running, err
	}); err != nil {
		t.Fatal(err)
	}
}

// The state of a daemon whose base is gone goes; anything that is not surely
// one stays.
func TestLostStates(t *testing.T) {
	need(t)
	base := newBase(t)
	lost := layoutOf(base)
	other := layoutOf(base + "-other")
	t.Cleanup(func() {
		if err := errors.Join(os.RemoveAll(lost.state), os.RemoveAll(other.state)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(
		os.MkdirAll(lost.state, 0o711), os.Symlink(lost.kept(), lost.root()),
		os.MkdirAll(other.state, 0o711), os.Symlink("/nowhere/containerd", other.root()), // another base's
	); err != nil {
		t.Fatal(err)
	}
	if got := lostStates(); !slices.Contains(got, lost.state) || slices.Contains(got, other.state) {
		t.Errorf("lost: %v", got)
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := lostStates(); slices.Contains(got, lost.state) {
		t.Errorf("its base is there, and it is lost: %v", got)
	}
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if _, err := Clean(t.Context(), Options{Base: base}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(lost.state); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Lstat(other.state); err != nil {
		t.Errorf("the other is gone: %v", err)
	}
}
