package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"foundry/sandbox"
)

// Each limit is a fact of its own, and so is what was used.
func TestMeasured(t *testing.T) {
	rt := runtimeOf(t)
	value := func(n *int64) int64 {
		if n == nil {
			t.Helper()
			t.Error("a number is unknown")
			return -1
		}
		return *n
	}
	task := demo(t, "measure-calm", "produce")
	m := run(t, rt, task, nil).facts.Measured
	if peak := value(m.PeakMemoryBytes); peak < 1<<20 || peak > task.Sandbox.Resources.MemoryBytes {
		t.Errorf("peak memory %d", peak)
	}
	if cpu := value(m.CPUMicros); cpu < 100 || cpu > 60e6 {
		t.Errorf("%d µs of CPU", cpu)
	}
	if n := value(m.OOMKills) + value(m.PIDsRefused); n != 0 {
		t.Errorf("a calm worker hit %d limits: %+v", n, m)
	}
	if b, f := value(m.OutputBytes), value(m.OutputFiles); b < 3 || b > 1<<20 || f < 1 || f > 10 {
		t.Errorf("%d bytes, %d files of output", b, f)
	}
	task = demo(t, "measure-memory", "child", "eat")
	task.Sandbox.Resources.MemoryBytes = 64 << 20
	m = run(t, rt, task, nil).facts.Measured
	if value(m.OOMKills) < 1 || value(m.PeakMemoryBytes) < 60<<20 || value(m.PIDsRefused) != 0 {
		t.Errorf("the kernel killed a child: %+v", m)
	}
	task = demo(t, "measure-pids", "threads", "100")
	task.Sandbox.Resources.PIDs = 24
	if m = run(t, rt, task, nil).facts.Measured; value(m.PIDsRefused) < 1 || value(m.OOMKills) != 0 {
		t.Errorf("too many processes: %+v", m)
	}
	task = demo(t, "measure-cpu", "spin", "600")
	task.Sandbox.Resources.CPUMillis = 200
	m = run(t, rt, task, nil).facts.Measured
	if value(m.ThrottledMicros) < 1000 || value(m.CPUMicros) < 50_000 {
		t.Errorf("too much CPU: %+v", m)
	}
}

// A limit that another value has been put in place of stops the attempt.
func TestLimitNotEnforced(t *testing.T) {
	rt := runtimeOf(t)
	if rt.host.cgroups.unified {
		t.Skip("the files of version 1 are changed here")
	}
	for limit, file := range map[string]string{
		sandbox.PropMemory: "memory/%/memory.limit_in_bytes",
		sandbox.PropPIDs:   "pids/%/pids.max",
		sandbox.PropCPU:    "cpu/%/cpu.cfs_quota_us",
	} {
		task := demo(t, "loose-"+limit, "sleep")
		s, err := rt.Prepare(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		controller, rest, _ := cutTwo(file)
		loosened := filepath.Join(rt.host.cgroups.root, controller, s.(*container).cgroup(), rest)
		if limit == sandbox.PropMemory { // memory and swap together come first
			if err := os.WriteFile(filepath.Join(filepath.Dir(loosened), "memory.memsw.limit_in_bytes"), []byte("-1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(loosened, []byte("-1"), 0); err != nil {
			if err := os.WriteFile(loosened, []byte("max"), 0); err != nil {
				t.Fatal(err)
			}
		}
		err = s.Start(t.Context(), sandbox.Stdio{})
		var loose *sandbox.LimitNotEnforced
		if !errors.As(err, &loose) || loose.Limit != limit || loose.Want == "" || loose.Got == "" {
			t.Errorf("%s: %v", limit, err)
		}
		if pids, err := rt.host.cgroups.pids(s.(*container).cgroup()); err != nil || len(pids) > 0 {
			t.Errorf("%s: it runs: %v, %v", limit, pids, err)
		}
		for _, p := range s.Facts().Properties {
			if p.Name == limit && p.State != sandbox.NotEnforced {
				t.Errorf("the record says %+v", p)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func cutTwo(file string) (controller, rest string, ok bool) {
	for i := range file {
		if file[i] == '%' {
			return file[:i-1], file[i+2:], true
		}
	}
	return "", "", false
}

// What ignores signals, forks twice, leaves its session and goes on writing,
// and what forks without end, is dead within two seconds of a kill, and no
// byte changes from then on.
func TestEverythingDies(t *testing.T) {
	rt := runtimeOf(t)
	for _, probe := range []string{"stubborn", "bomb"} {
		t.Run(probe, func(t *testing.T) {
			ctx := t.Context()
			s, err := rt.Prepare(ctx, demo(t, "dies-"+probe, probe))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			ready := &waiter{seen: make(chan struct{})}
			if err := s.Start(ctx, sandbox.Stdio{Stdout: ready}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ready.seen:
			case <-time.After(30 * time.Second):
				t.Fatal("the worker does not come up")
			}
			tick := filepath.Join(s.Output(), "tick")
			for range 400 {
				if _, err := os.Stat(tick); err == nil || probe == "bomb" {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			begun := time.Now()
			if err := s.Kill(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			if pids, err := rt.host.cgroups.pids(s.(*container).cgroup()); err != nil || len(pids) > 0 {
				t.Errorf("left: %v, %v", pids, err)
			}
			before, _ := os.ReadFile(tick)
			time.Sleep(150 * time.Millisecond)
			if after, _ := os.ReadFile(tick); string(before) != string(after) {
				t.Error("it still writes")
			}
			if probe == "stubborn" && len(before) == 0 {
				t.Error("nothing was written")
			}
			exit, err := s.Wait(ctx)
			if err != nil || exit.Signal != "SIGKILL" {
				t.Errorf("%+v %v", exit, err)
			}
			if m := s.Facts().Measured; probe == "bomb" && (m.PIDsRefused == nil || *m.PIDsRefused == 0) {
				t.Errorf("the bomb was not bounded: %+v", m)
			}
		})
	}
}
