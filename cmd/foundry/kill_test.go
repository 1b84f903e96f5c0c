package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/exec/record"
)

// killBench is what the killed runs share: the program, a state folder with the
// image of the checks in it, and what an undisturbed run came to.
type killBench struct {
	exe, policy, state string
	image              string
	env                []string
	events             []record.Event // of the undisturbed run
	artifacts          string         // digest of its artifacts
	took               time.Duration  // from its first run.json to its end
	shot               int            // daemons that were killed
}

// blow is when a controller is killed: after a line of the journal, or a time
// after run.json is there.
type blow struct {
	name      string
	line      int64  // seq of the line, or
	kind      string // the first line of this type, or
	after     time.Duration
	daemon    bool   // the embedded daemon dies with it
	interrupt bool   // a SIGINT goes before it, as the first node starts
	resumed   string // the one that goes on is killed too, after the first line of this type that it writes
}

// TestKilledInContainers kills the controller of a run in containers (alone, or
// with the embedded daemon) at one write of each kind and at 20 random instants,
// and goes on with it: the artifacts are those of an undisturbed run, nothing
// that finished ran twice, nothing is left. With FOUNDRY_LONG=1 it does so at
// every write, or within a millisecond of it. FOUNDRY_TEST_SEED repeats the
// instants, as shares of an undisturbed run's time.
func TestKilledInContainers(t *testing.T) {
	needContainers(t)
	k := newKillBench(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FOUNDRY_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("FOUNDRY_TEST_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("FOUNDRY_TEST_SEED=%d, %d lines in the journal, %v undisturbed", seed, len(k.events), k.took)
	for _, b := range k.blows(t, seed) {
		t.Run(b.name, func(t *testing.T) { k.strike(t, b) })
	}
	if k.shot == 0 {
		t.Error("no daemon was ever killed")
	}
}

func newKillBench(t *testing.T) *killBench {
	busybox := needBusybox(t)
	dir := t.TempDir()
	k := &killBench{exe: foundry(t), policy: filepath.Join(dir, "policy"), state: filepath.Join(dir, "state")}
	k.env = append(os.Environ(), "FOUNDRY_STATE_DIR="+k.state, "CONTAINERD_ADDRESS=")
	data, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "rootfs", "bin", "busybox")
	write(t, program, data)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := k.command("image", "import", filepath.Join(dir, "rootfs"), "--name", "test/kill:1").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	words := strings.Fields(string(out))
	k.image = words[len(words)-1]
	copyTree(t, filepath.Join("testdata", "kill"), k.policy)

	// The first one makes the builtin image; the second one is the measure.
	for i := range 2 {
		run := filepath.Join(dir, "undisturbed-"+strconv.Itoa(i))
		c := k.start(t, run, false)
		begun := c.until(t, func() bool { return c.recorded })
		if code := c.wait(); code != exitOK {
			t.Fatalf("exit %d\n%s", code, c.said.String())
		}
		k.took = time.Since(begun)
		if k.events, err = record.ReadEvents(filepath.Join(run, record.EventsFile)); err != nil {
			t.Fatal(err)
		}
		k.artifacts = treeDigest(t, filepath.Join(run, record.ArtifactsDir))
		k.attempts(t, run, nil, 0)
		r, err := record.ReadRun(run)
		if err != nil {
			t.Fatal(err)
		}
		if r.Loops[0].Iterations != 2 || r.Branches[0].Accepted != "pick/two" || len(r.Branches[0].Tried) != 2 || !r.Isolated {
			t.Fatalf("the run is not what is to be killed: %+v %+v", r.Loops, r.Branches)
		}
		k.residue(t, run, r.ID)
	}
	return k
}

// blows are the instants, each second one with the daemon.
func (k *killBench) blows(t *testing.T, seed uint64) []blow {
	random := rand.New(rand.NewPCG(seed, 0))
	var list []blow
	if os.Getenv("FOUNDRY_LONG") != "" {
		for _, e := range k.events {
			list = append(list, blow{name: fmt.Sprintf("write %d %s", e.Seq, e.Type), line: e.Seq})
		}
	} else {
		byKind := map[string][]int64{}
		var kinds []string
		for _, e := range k.events {
			if byKind[e.Type] == nil {
				kinds = append(kinds, e.Type)
			}
			byKind[e.Type] = append(byKind[e.Type], e.Seq)
		}
		for _, kind := range []string{record.EventRunStarted, record.EventProbed, record.EventNodeStarted, record.EventNodeFinished, record.EventDecided, record.EventRunFinished} {
			if byKind[kind] == nil {
				t.Errorf("the undisturbed run wrote no %s", kind)
			}
		}
		for _, kind := range kinds {
			line := byKind[kind][random.IntN(len(byKind[kind]))]
			list = append(list, blow{name: fmt.Sprintf("%s at %d", kind, line), line: line})
		}
	}
	list = append(list,
		blow{name: record.EventRunResumed, line: 5, resumed: record.EventRunResumed},
		blow{name: record.EventCancel, kind: record.EventCancel, interrupt: true})
	for i := range 20 {
		after := time.Duration(random.Int64N(int64(k.took)))
		b := blow{name: fmt.Sprintf("instant %d after %v", i+1, after), after: after}
		if i%3 == 2 { // and once more, while it is gone on with
			b.resumed = record.EventNodeFinished
		}
		list = append(list, b)
	}
	for i := range list {
		if list[i].daemon = i%2 == 1; list[i].daemon {
			list[i].name += " with the daemon"
		}
	}
	return list
}

// strike is one run, killed and gone on with.
func (k *killBench) strike(t *testing.T, b blow) {
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(k.state, "daemon.log")); t.Failed() && err == nil {
			t.Logf("the last daemon said:\n%s", log)
		}
	})
	run := filepath.Join(t.TempDir(), "run")
	c := k.start(t, run, false)
	at := c.until(t, func() bool { return c.recorded })
	if b.interrupt {
		c.until(t, func() bool { return c.wrote(record.EventNodeStarted, 0) })
		if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case b.kind != "":
		c.until(t, func() bool { return c.wrote(b.kind, 0) })
	case b.line > 0:
		c.until(t, func() bool { return c.lines >= b.line })
	default:
		c.until(t, func() bool { return time.Since(at) >= b.after })
	}
	kills := k.kill(t, c, b.daemon)
	t.Logf("killed after line %d of the journal", c.lines)
	done := k.finished(t, run)
	if b.resumed != "" {
		before := c.lines
		c = k.start(t, run, true)
		c.until(t, func() bool { return c.wrote(b.resumed, before) })
		kills += k.kill(t, c, b.daemon)
		k.kept(t, run, done)
		done = k.finished(t, run)
	}

	c = k.start(t, run, true)
	c.until(t, func() bool { return false })
	if code := c.wait(); code != exitOK {
		t.Fatalf("going on: exit %d\n%s", code, c.said.String())
	}
	r, err := record.ReadRun(run)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != record.StatusSucceeded {
		t.Errorf("the run is %s: %+v", r.Status, r.Failure)
	}
	if got := treeDigest(t, filepath.Join(run, record.ArtifactsDir)); got != k.artifacts {
		t.Errorf("the artifacts are not those of the undisturbed run")
	}
	k.kept(t, run, done)
	k.attempts(t, run, k.events, kills)
	k.residue(t, run, r.ID)
}

// controller is a process that runs or resumes, watched through its folder.
type controller struct {
	cmd      *exec.Cmd
	run      string
	said     bytes.Buffer
	ended    chan struct{}
	recorded bool  // run.json is there
	lines    int64 // whole ones in the journal
	journal  []byte
}

func (k *killBench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(k.exe, args...)
	cmd.Env = k.env
	return cmd
}

func (k *killBench) start(t *testing.T, run string, resume bool) *controller {
	t.Helper()
	args := []string{"apply", "--yes", "--resume", run}
	if !resume {
		args = []string{"apply", "--yes", "--run-dir", run, "--var", "tools=" + k.image, filepath.Join(k.policy, "policy.hcl")}
	}
	c := &controller{cmd: k.command(args...), run: run, ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	c.cmd.WaitDelay = 10 * time.Second
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // its state says how
		close(c.ended)
	}()
	t.Cleanup(func() { // of a test that failed
		_ = c.cmd.Process.Kill()
		<-c.ended
	})
	return c
}

// until waits for something that the folder shows, or the process' end. At
// every look run.json is whole.
func (c *controller) until(t *testing.T, there func() bool) time.Time {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		select {
		case <-c.ended:
			c.look(t)
			return time.Now()
		default:
		}
		c.look(t)
		if there() {
			return time.Now()
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not come\n%s", c.journal)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func (c *controller) look(t *testing.T) {
	t.Helper()
	if data, err := os.ReadFile(filepath.Join(c.run, record.EventsFile)); err == nil {
		c.journal, c.lines = data, int64(bytes.Count(data, []byte("\n")))
	}
	_, err := record.ReadRun(c.run)
	switch {
	case err == nil:
		c.recorded = true
	case c.recorded || !errors.Is(err, fs.ErrNotExist):
		t.Fatalf("run.json: %v", err)
	}
}

// wrote reports whether a line of a type stands after the first ones.
func (c *controller) wrote(kind string, after int64) bool {
	lines := bytes.SplitAfter(c.journal, []byte("\n"))
	return slices.ContainsFunc(lines[min(after, c.lines):], func(line []byte) bool {
		return bytes.Contains(line, []byte(`"type":"`+kind+`"`))
	})
}

func (c *controller) wait() int {
	<-c.ended
	return c.cmd.ProcessState.ExitCode()
}

// kill kills the controller, and the daemon with it, and returns how many
// attempts that may have cost.
func (k *killBench) kill(t *testing.T, c *controller, daemon bool) int {
	t.Helper()
	var pids []int
	if daemon {
		pids = k.daemons(t)
		t.Logf("%d daemons die too", len(pids))
		k.shot += len(pids)
	}
	for _, pid := range append([]int{c.cmd.Process.Pid}, pids...) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	switch code := c.wait(); {
	case code == exitOK: // it was quicker
		t.Log("the run had ended before it was killed")
	case code != -1:
		t.Fatalf("exit %d\n%s", code, c.said.String())
	}
	c.look(t)
	return 1
}

// daemons are the embedded ones of this test's state folder.
func (k *killBench) daemons(t *testing.T) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil || string(data) != "foundry-containerd\x00"+k.state+"\x00" {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// execution is one iteration of a node.
type execution struct {
	node      string
	iteration int64
}

// finished is the folder of each execution that the journal says is done, with
// the digest of what is in it.
func (k *killBench) finished(t *testing.T, run string) map[execution][2]string {
	t.Helper()
	events, err := record.ReadEvents(filepath.Join(run, record.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	done := map[execution][2]string{}
	for _, e := range events {
		if e.Type == record.EventNodeFinished && e.Status == record.StatusSucceeded {
			folder := filepath.Join(run, filepath.FromSlash(record.AttemptFolder(e.Node, e.Iteration, e.Attempt)))
			done[execution{e.Node, e.Iteration}] = [2]string{folder, treeDigest(t, folder)}
		}
	}
	return done
}

// kept says that what was finished was not touched, and that no worker began
// for it again.
func (k *killBench) kept(t *testing.T, run string, done map[execution][2]string) {
	t.Helper()
	for e, was := range done {
		if treeDigest(t, was[0]) != was[1] {
			t.Errorf("%s, iteration %d was finished, and its folder changed", e.node, e.iteration)
		}
		folders, err := filepath.Glob(filepath.Join(filepath.Dir(was[0]), strconv.FormatInt(e.iteration, 10)+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(folders)
		if folders[len(folders)-1] != was[0] {
			t.Errorf("%s, iteration %d was finished, and ran again: %v", e.node, e.iteration, folders)
		}
	}
}

// attempts counts the marks of workers against the journal: each execution
// succeeded once, in its last attempt; all others were cut off by a kill.
func (k *killBench) attempts(t *testing.T, run string, undisturbed []record.Event, kills int) {
	t.Helper()
	events, err := record.ReadEvents(filepath.Join(run, record.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	begun, done, want := map[execution]int64{}, map[execution]int64{}, map[execution]bool{}
	for _, e := range undisturbed {
		if e.Type == record.EventNodeFinished {
			want[execution{e.Node, e.Iteration}] = true
		}
	}
	for _, e := range events {
		at := execution{e.Node, e.Iteration}
		switch {
		case e.Type == record.EventNodeStarted:
			begun[at]++
			if e.Attempt != begun[at] {
				t.Errorf("%v: attempt %d is the %d. one", at, e.Attempt, begun[at])
			}
		case e.Type == record.EventNodeFinished && e.Status == record.StatusSucceeded:
			done[at]++
		}
	}
	over := 0
	for at, n := range begun {
		if done[at] != 1 {
			t.Errorf("%v succeeded %d times", at, done[at])
		}
		if undisturbed != nil && !want[at] {
			t.Errorf("%v ran, and not in the undisturbed run", at)
		}
		over += int(n - 1)
		// The worker's own mark is the first line that it says.
		said, marks := 0, 0
		for a := int64(1); a <= n; a++ {
			data, err := os.ReadFile(filepath.Join(run, filepath.FromSlash(record.AttemptFolder(at.node, at.iteration, a)), record.StdoutFile))
			if err == nil {
				said++
				marks += bytes.Count(data, []byte(`"type":"started"`))
			}
		}
		if check := strings.Contains(at.node, "."); !check && (marks < 1 || marks > said) || said < 1 {
			t.Errorf("%v: %d marks in %d attempts", at, marks, said)
		}
		folders, err := filepath.Glob(filepath.Join(run, record.NodesDir, record.FolderName(at.node), strconv.FormatInt(at.iteration, 10)+"-*"))
		if err != nil || int64(len(folders)) > n {
			t.Errorf("%v: %d attempts begun, %d folders, %v", at, n, len(folders), err)
		}
	}
	if undisturbed != nil && len(begun) != len(want) {
		t.Errorf("%d executions, %d undisturbed", len(begun), len(want))
	}
	if over > kills {
		t.Errorf("%d attempts too many after %d kills", over, kills)
	}
}

// residue looks for what a run must not leave: processes, mounts, cgroups,
// containers, the daemon's state.
func (k *killBench) residue(t *testing.T, run, id string) {
	t.Helper()
	sum := sha256.Sum256([]byte(k.state))
	daemon := "/run/foundry-" + hex.EncodeToString(sum[:6])
	look := func() string {
		var left []string
		for _, text := range []string{run, k.state, daemon, id} {
			if n := processesWith(t, text); n > 0 {
				left = append(left, fmt.Sprintf("%d processes with %s", n, text))
			}
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, run+"/") || strings.Contains(line, k.state+"/") || strings.Contains(line, daemon) || strings.Contains(line, id) {
				left = append(left, "mount "+strings.TrimSpace(line))
			}
		}
		for _, pattern := range []string{"/sys/fs/cgroup/*" + id + "*", "/sys/fs/cgroup/*/*" + id + "*", daemon,
			filepath.Join(run, record.WorkDir), filepath.Join(run, "*.new"), filepath.Join(run, record.StoreDir, ".put-*")} {
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, found...)
		}
		return strings.Join(left, "\n")
	}
	// The daemon ends by itself after its last user has.
	left := look()
	for end := time.Now().Add(10 * time.Second); left != "" && time.Now().Before(end); left = look() {
		time.Sleep(10 * time.Millisecond)
	}
	if left != "" {
		t.Errorf("left behind:\n%s", left)
	}
	// What a daemon alone knows, it removes as it starts. Mounts and states of
	// other runs on this machine may be found beside.
	out, err := k.command("clean").CombinedOutput()
	if err != nil {
		t.Fatalf("clean: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if kind, ok := strings.CutPrefix(line, "removed "); ok && !strings.Contains(kind, " mount") && !strings.Contains(kind, " folder") {
			t.Errorf("clean found something of a run that had ended:\n%s", out)
		}
	}
}
