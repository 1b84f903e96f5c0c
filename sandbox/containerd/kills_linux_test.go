package containerd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

	"foundry/sandbox"

	"github.com/containerd/containerd/v2/core/snapshots"
)

// roundsArg makes this test binary a client that runs a task again and again,
// for a number of rounds, on the daemon of the options. It goes on after errors.
const roundsArg = "@rounds"

func roundsMain(options, task, dir string, rounds int) {
	var o Options
	var t sandbox.Task
	if err := errors.Join(json.Unmarshal([]byte(options), &o), json.Unmarshal([]byte(task), &t)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	ctx := context.Background()
	fmt.Println("begun")
	rt, err := New(ctx, o)
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	name := t.Attempt
	for i := range rounds {
		t.Attempt, t.Dir = fmt.Sprint(name, "-", i), filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(t.Dir, 0o700); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		s, err := rt.Prepare(ctx, t)
		if err != nil {
			fmt.Println(err)
			continue
		}
		if err = s.Start(ctx, sandbox.Stdio{}); err == nil {
			_, err = s.Wait(ctx)
		}
		fmt.Println(i, errors.Join(err, s.Kill(ctx), s.Close(ctx)))
	}
	fmt.Println("closed", rt.Close())
	os.Exit(0)
}

// residue is all that a run has on the machine and in its daemon, one line for
// each thing.
func residue(t *testing.T, l layout, live *Runtime) []string {
	t.Helper()
	var all []string
	add := func(kind string, names ...string) {
		for _, n := range names {
			all = append(all, kind+" "+n)
		}
	}
	files := func(pattern string) []string {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, marker) || strings.Contains(line, l.state) {
			_, rest, _ := strings.Cut(line, " ") // the first numbers change
			add("mount", strings.Fields(rest)[3])
		}
	}
	add("cgroup", files("/sys/fs/cgroup/*/foundry-"+marker+"*")...)
	add("cgroup", files("/sys/fs/cgroup/foundry-"+marker+"*")...)
	for _, f := range files("/proc/[0-9]*/cmdline") {
		b, _ := os.ReadFile(f)
		cmd := strings.ReplaceAll(string(b), "\x00", " ")
		if strings.Contains(cmd, probeArg+" short") || strings.Contains(cmd, roundsArg) || strings.Contains(cmd, l.state) {
			add("process", cmd)
		}
	}
	add("bundle", files(l.state+"/d/*/"+namespace+"/*")...)
	add("runc", files(l.runc()+"/"+namespace+"/*")...)
	add("socket", files(l.sockets()+"/*")...)
	for _, f := range files(l.owners() + "/*") {
		add("folder", f)
		add("pipe", files(f+"/*/*")...)
	}
	for _, f := range files("/sys/block/loop*/loop/backing_file") {
		b, _ := os.ReadFile(f)
		if strings.Contains(string(b), marker) {
			add("loop", f)
		}
	}
	ctx := t.Context()
	containers, err := live.client.Containers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		add("container", c.ID())
		if task, err := c.Task(ctx, nil); err == nil {
			add("task", task.ID())
		}
	}
	boxes, err := live.client.SandboxStore().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range boxes {
		add("sandbox", b.ID)
	}
	leases, err := live.client.LeasesService().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		add("lease", l.ID)
	}
	for _, name := range snapshotters {
		err := live.client.SnapshotService(name).Walk(ctx, func(_ context.Context, i snapshots.Info) error {
			if i.Labels[ownerLabel] != "" {
				add("snapshot", i.Name)
			}
			return nil
		})
		if err != nil && name == snapshotters[0] {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

// processes finds the pids of the processes whose command line a match takes.
func processes(match func(args []string) bool) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if len(b) == 0 || !match(strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Whatever is killed, and at whatever instant: the next start, or Clean,
// leaves nothing of it, and a run beside it lives through all of it.
//
// FOUNDRY_LONG=1 makes 60 kills of it; FOUNDRY_TEST_SEED repeats a run.
func TestKills(t *testing.T) {
	need(t)
	instants := 3
	if os.Getenv("FOUNDRY_LONG") != "" {
		instants = 15
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FOUNDRY_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("FOUNDRY_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	o := Options{Base: newBase(t)}
	l := layoutOf(o.Base)
	live, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	beside, err := live.Prepare(t.Context(), demo(t, "beside", "stubborn"))
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close(context.Background())
	ready := &waiter{seen: make(chan struct{})}
	if err := beside.Start(t.Context(), sandbox.Stdio{Stdout: ready}); err != nil {
		t.Fatal(err)
	}
	<-ready.seen
	tick := filepath.Join(beside.Output(), "tick")

	for _, victim := range []string{"client", "daemon", "shim", "all"} {
		for i := range instants {
			// A start takes some 100 ms, a round some 150.
			at := time.Duration((float64(i)+random.Float64())/float64(instants)*700) * time.Millisecond
			t.Run(fmt.Sprintf("%s-%dms", victim, at.Milliseconds()), func(t *testing.T) {
				before := residue(t, l, live)
				said := killOne(t, o, victim, fmt.Sprintf("killed-%s-%d", victim, i), at)
				if i%2 == 0 {
					if _, err := Clean(t.Context(), o); err != nil {
						t.Errorf("cleaning: %v", err)
					}
				} else {
					next, err := New(t.Context(), o)
					if err != nil {
						t.Fatal(err)
					}
					if err := next.Close(); err != nil {
						t.Errorf("the next one: %v", err)
					}
				}
				if err := live.daemon(t.Context()); err != nil {
					t.Fatal(err)
				}
				after := residue(t, l, live)
				for _, thing := range after {
					if !slices.Contains(before, thing) {
						t.Errorf("left behind: %s", thing)
					}
				}
				for _, thing := range before {
					if !slices.Contains(after, thing) && !strings.HasPrefix(thing, "process "+daemonName) {
						t.Errorf("taken from the living: %s", thing)
					}
				}
				was, _ := os.ReadFile(tick)
				time.Sleep(20 * time.Millisecond)
				if is, err := os.ReadFile(tick); err != nil || bytes.Equal(was, is) {
					t.Errorf("the run beside it does not go on: %q, %q, %v", was, is, err)
				}
				if r := run(t, live, demo(t, fmt.Sprintf("more-%s-%d", victim, i), "exit", "5"), nil); r.Code != 5 {
					t.Errorf("the run beside it: %+v", r.Exit)
				}
				if err := live.Settle(t.Context()); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					t.Logf("the client said:\n%s", said)
				}
			})
		}
	}
	if err := beside.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if exit, err := beside.Wait(t.Context()); err != nil || exit.Signal != "SIGKILL" {
		t.Errorf("the run beside all: %+v, %v", exit, err)
	}
}

// killOne starts a client and kills a victim some time later. A client that is
// no victim comes to its own end.
func killOne(t *testing.T, o Options, victim, name string, at time.Duration) string {
	t.Helper()
	task := demo(t, name, "short", "60")
	if strings.HasPrefix(victim, "all") {
		task.OutputBytes = maxTmpfsOutput + 1 // on a loop device
	}
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(task.Executable, roundsArg, string(options), string(text), t.TempDir(), "3")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("%q %v", line, err)
	}
	time.Sleep(at)
	clients := []int{cmd.Process.Pid}
	daemons := processes(func(args []string) bool { return args[0] == daemonName && slices.Contains(args, o.Base) })
	shims := processes(func(args []string) bool {
		owner, ok := groupOwner(after(args, "-id"))
		return ok && strings.Contains(owner, fmt.Sprintf("-%d-", cmd.Process.Pid))
	})
	victims := map[string][]int{"client": clients, "daemon": daemons, "shim": shims, "all": slices.Concat(clients, daemons, shims)}[victim]
	for _, pid := range victims {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
	end := time.AfterFunc(20*time.Second, func() {
		t.Error("the client does not come to its end")
		_ = cmd.Process.Signal(syscall.SIGQUIT) // it may have ended by now; else it tells where it waits
	})
	defer end.Stop()
	if _, err := lines.WriteTo(&said); err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	_ = cmd.Wait() // a victim does not end well
	return said.String()
}
