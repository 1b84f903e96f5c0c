package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/cmd/foundry/internal/closure"
	"foundry/compile"
	runner "foundry/exec"
	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/containerd"
	"foundry/sandbox/local"
)

// hostile is a worker that speaks the contract and misbehaves. On the local
// sandbox, which bounds nothing, bomb and hog are stand-ins of 200 processes and
// 512 MB.
func hostile(mode, out string, bounded bool) {
	who := &contract.Identity{Name: "replay", Version: "1"}
	os.Stdout.Write(contract.Encode(contract.Event{Type: contract.Started, ProtocolVersion: contract.ProtocolVersion, Harness: who}))
	settle := func() {
		os.WriteFile(filepath.Join(out, "changes.json"), []byte(`{"changes": [{"id": "a", "kind": "fix", "summary": "A."}]}`), 0o644)
		os.Stdout.Write(contract.Encode(contract.Event{Type: contract.Finished, ProtocolVersion: contract.ProtocolVersion, Harness: who, Status: contract.Settled}))
	}
	self := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", append([]string{"hostile"}, args...)...)
		return cmd
	}
	switch mode {
	case "bomb":
		for n := 0; !bounded || n < 200; n++ {
			if self("sleep", out, "x").Start() != nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(time.Hour)
	case "sleep":
		time.Sleep(time.Hour)
	case "hog":
		self("allocate", out, strconv.FormatBool(bounded)).Run()
		settle() // the parent does not care
	case "allocate":
		var kept [][]byte
		for n := 0; !bounded || n < 32; n++ {
			b := make([]byte, 16<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
		time.Sleep(100 * time.Millisecond)
		_ = kept
	case "yes":
		line := []byte(strings.Repeat(strings.Repeat("y", 1000)+"\n", 64))
		for {
			if _, err := os.Stdout.Write(line); err != nil {
				os.Exit(1)
			}
		}
	case "fill":
		f, err := os.Create(filepath.Join(out, "changes.json"))
		if err == nil {
			_, err = io.Copy(f, zeros{})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case "trap":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		child := self("fork", out, "x")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		child.Start()
		time.Sleep(time.Hour)
	case "fork":
		child := self("scribble", out, "x")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		child.Start()
	case "scribble":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		for i := 0; ; i++ {
			os.WriteFile(filepath.Join(out, "changes.json"), []byte(strconv.Itoa(i)), 0o644)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestHostileWorkers: each ends with its own reason within its bound, and what
// was collected does not change afterwards.
func TestHostileWorkers(t *testing.T) {
	exe := foundry(t)
	runtimes := map[string]func() (sandbox.Runtime, error){
		plan.SandboxLocal: func() (sandbox.Runtime, error) { return local.New(), nil },
	}
	if canContain(t) {
		base := t.TempDir()
		runtimes[plan.SandboxContainer] = func() (sandbox.Runtime, error) {
			return containerd.New(context.Background(), containerd.Options{Base: base})
		}
	}
	for mode, open := range runtimes {
		rt, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		})
		// What the local sandbox cannot see it does not name.
		for behaviour, want := range map[string]map[string]string{
			"bomb": {plan.SandboxContainer: "resource_exceeded:pids", plan.SandboxLocal: "budget_exceeded:wall"},
			"hog":  {plan.SandboxContainer: "resource_exceeded:memory", plan.SandboxLocal: ""},
			"yes":  {plan.SandboxContainer: "resource_exceeded:stdout", plan.SandboxLocal: "resource_exceeded:stdout"},
			"trap": {plan.SandboxContainer: "budget_exceeded:wall", plan.SandboxLocal: "budget_exceeded:wall"},
			"fill": {plan.SandboxContainer: "resource_exceeded:disk"},
		} {
			if _, tried := want[mode]; !tried {
				continue // nothing but the disk bounds it there
			}
			t.Run(mode+" "+behaviour, func(t *testing.T) {
				reason, took, dir := misbehave(t, exe, mode, behaviour, rt)
				if reason != want[mode] {
					t.Errorf("it ended with %q, want %q", reason, want[mode])
				}
				if took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := processesWith(t, dir); n > 0 {
					t.Errorf("%d processes are alive", n)
				}
				said(t, dir, mode, behaviour)
				before := tree(t, dir)
				time.Sleep(300 * time.Millisecond)
				if after := tree(t, dir); after != before {
					t.Error("something still writes")
				}
			})
		}
	}
}

// said checks what the record says of the attempt: in a container every property
// is enforced and what the kernel counted is there; on the local sandbox all but
// the wall and the group is not_enforced, and what nobody counted is unknown.
func said(t *testing.T, dir, mode, behaviour string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, record.NodesDir, "*", "1-1", record.AttemptFile))
	if err != nil || len(files) != 1 {
		t.Fatalf("the records %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var rec record.Attempt
	if err := json.Unmarshal(data, &rec); err != nil {
		t.Fatal(err)
	}
	if rec.Sandbox == nil || !rec.Dead || len(rec.Sandbox.Properties) < 12 {
		t.Fatalf("sandbox %+v, dead %v", rec.Sandbox, rec.Dead)
	}
	contained := mode == plan.SandboxContainer
	for _, p := range rec.Sandbox.Properties {
		want := sandbox.NotEnforced
		if contained || p.Name == sandbox.PropWall || p.Name == sandbox.PropProcessGroup && runtime.GOOS == "linux" {
			want = sandbox.Enforced
		}
		if p.State != want {
			t.Errorf("%s is recorded as %s: %s", p.Name, p.State, p.Detail)
		}
	}
	versions := map[string]bool{}
	for _, v := range rec.Sandbox.Runtimes {
		versions[v.Name] = v.Version != ""
	}
	if contained && (!versions["runc"] || !versions["containerd"]) {
		t.Errorf("the versions of what ran it: %+v", rec.Sandbox.Runtimes)
	}
	m := rec.Sandbox.Measured
	for name, c := range map[string]struct {
		counted   record.Count
		behaviour string
	}{
		"oom_kills": {m.OOMKills, "hog"}, "pids_refused": {m.PIDsRefused, "bomb"},
		"peak_memory_bytes": {m.PeakMemoryBytes, behaviour}, "cpu_micros": {m.CPUMicros, behaviour}, "output_bytes": {m.OutputBytes, "fill"},
	} {
		n, known := c.counted.Value()
		if known != contained || known && behaviour == c.behaviour && n == 0 {
			t.Errorf("%s is %q", name, c.counted)
		}
	}
	if flood := behaviour == "yes"; flood != (rec.Stdout.Dropped > 0) {
		t.Errorf("stdout: %+v", rec.Stdout)
	}
}

func tree(t testing.TB, dir string) string {
	t.Helper()
	return treeDigest(t, dir)
}

// misbehave runs the first step of the quickstart with a hostile worker in it.
func misbehave(t *testing.T, exe, mode, behaviour string, rt sandbox.Runtime) (reason string, took time.Duration, dir string) {
	t.Helper()
	res := compile.Compile(context.Background(), filepath.ToSlash(filepath.Join(repository(t), "examples", "quickstart")), compile.Options{
		Open: openFolder, Adapters: adapters(), Override: compile.Override{Sandbox: mode},
	})
	if res.Plan == nil {
		t.Fatalf("%v", res.Diagnostics)
	}
	p := res.Plan
	n := &p.Nodes[0]
	n.Process.Argv = []string{"{foundry}", "hostile", behaviour, "{out}", strconv.FormatBool(mode == plan.SandboxLocal)}
	n.Budget.WallSeconds = 4
	n.Sandbox.Resources = plan.Resources{MemoryBytes: 256 << 20, PIDs: 64, CPUMillis: 1000}
	p.WorstCase.UncappedWallSeconds, p.WorstCase.WallSeconds = 124, 124
	encoded, err := plan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "run")
	start := time.Now()
	run, err := runner.Run(context.Background(), runner.Options{
		Plan: p, PlanBytes: encoded, Blobs: closure.Memory(res.Blobs), RunDir: dir, Runtimes: map[string]sandbox.Runtime{mode: rt},
		Adapters: adapters(), Through: n.ID, Executable: exe, Version: version, Now: time.Now, Nonce: nonce,
	})
	if err != nil {
		t.Fatal(err)
	}
	if run.Failure != nil {
		reason = run.Failure.Reason
		t.Logf("%s: %s (limit %s, observed %s)", reason, run.Failure.Detail, run.Failure.Limit, run.Failure.Observed)
	} else if run.Status != record.StatusSucceeded {
		t.Fatalf("status %s", run.Status)
	}
	return reason, time.Since(start), dir
}
