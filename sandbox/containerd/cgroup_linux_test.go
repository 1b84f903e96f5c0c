package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"

	"golang.org/x/sys/unix"
)

// Where version 2 alone is mounted, limits are read back from its files, in its
// words, and what the kernel counted too.
func TestUnifiedFiles(t *testing.T) {
	good := map[string]string{
		"memory.max": "67108864\n", "pids.max": "64\n", "cpu.max": "50000 100000\n",
		"memory.peak": "1234567\n", "memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n",
		"pids.events": "max 7\n", "cpu.stat": "usage_usec 4200\nuser_usec 4000\nsystem_usec 200\nnr_periods 3\nnr_throttled 1\nthrottled_usec 150\n",
	}
	lay := func(t *testing.T, change map[string]string) *container {
		c := &container{rt: &Runtime{host: hostFeatures{cgroups: cgroupTree{root: t.TempDir(), unified: true}}}, id: "unified"}
		c.task.Sandbox.Resources = plan.Resources{MemoryBytes: 64 << 20, PIDs: 64, CPUMillis: 500}
		dir := c.rt.host.cgroups.dir("memory", c.cgroup())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, files := range []map[string]string{good, change} {
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, text := range change {
			if text == "" {
				os.Remove(filepath.Join(dir, name))
			}
		}
		return c
	}
	for name, tt := range map[string]struct {
		file, text string
		limit      string // that does not hold
	}{
		"as asked":         {"memory.high", "max\n", ""},
		"memory unlimited": {"memory.max", "max\n", sandbox.PropMemory},
		"memory more":      {"memory.max", "67108865\n", sandbox.PropMemory},
		"memory less":      {"memory.max", "67104768\n", ""},
		"no memory file":   {"memory.max", "", sandbox.PropMemory},
		"pids unlimited":   {"pids.max", "max\n", sandbox.PropPIDs},
		"no pids file":     {"pids.max", "", sandbox.PropPIDs},
		"cpu unlimited":    {"cpu.max", "max 100000\n", sandbox.PropCPU},
		"cpu more":         {"cpu.max", "50001 100000\n", sandbox.PropCPU},
		"cpu, same share":  {"cpu.max", "5000 10000\n", ""},
		"no cpu file":      {"cpu.max", "", sandbox.PropCPU},
	} {
		t.Run(name, func(t *testing.T) {
			err := lay(t, map[string]string{tt.file: tt.text}).checkLimits()
			var loose *sandbox.LimitNotEnforced
			switch {
			case tt.limit == "" && err != nil:
				t.Error(err)
			case tt.limit != "" && (!errors.As(err, &loose) || loose.Limit != tt.limit || loose.Want == "" || loose.Got == ""):
				t.Errorf("%v, want %s", err, tt.limit)
			}
		})
	}
	c := lay(t, nil)
	m := c.rt.host.cgroups.measure(c.cgroup())
	for name, n := range map[string]struct {
		got  *int64
		want int64
	}{
		"peak memory": {m.PeakMemoryBytes, 1234567}, "oom kills": {m.OOMKills, 2}, "pids refused": {m.PIDsRefused, 7},
		"cpu": {m.CPUMicros, 4200}, "throttled": {m.ThrottledMicros, 150},
	} {
		if n.got == nil || *n.got != n.want {
			t.Errorf("%s: %v, want %d", name, n.got, n.want)
		}
	}
	c = lay(t, map[string]string{"memory.peak": "", "cpu.stat": "", "memory.events": ""}) // an older kernel
	if m := c.rt.host.cgroups.measure(c.cgroup()); m.PeakMemoryBytes != nil || m.CPUMicros != nil || m.OOMKills != nil || m.PIDsRefused == nil {
		t.Errorf("what is not told is unknown: %+v", m)
	}
}

// A group of version 2 is killed whole, with what left its session and what
// stands in a group below, and is removed.
func TestUnifiedKill(t *testing.T) {
	tree := cgroupTree{unified: true}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(root, &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			tree.root = root
		}
	}
	if tree.root == "" || os.Geteuid() != 0 {
		t.Skip("needs root, and a hierarchy of version 2")
	}
	const group = "foundry-test-unified"
	below := filepath.Join(tree.root, group, "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Skipf("no group can be made here: %v", err)
	}
	t.Cleanup(func() {
		_ = tree.kill(context.Background(), group)
		_, _ = os.Remove(below), os.Remove(filepath.Dir(below))
	})
	var started []*exec.Cmd
	for i := range 6 {
		dir := filepath.Dir(below)
		if i%2 == 1 {
			dir = below
		}
		fd, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(fd.Fd()), Setsid: true}
		err = cmd.Start()
		fd.Close()
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, cmd)
	}
	pids, err := tree.pids(group)
	for _, cmd := range started {
		if !slices.Contains(pids, cmd.Process.Pid) {
			t.Errorf("process %d is not seen: %v, %v", cmd.Process.Pid, pids, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	done := make(chan string, len(started))
	for _, cmd := range started { // whoever is reaped has left its group
		go func() { _ = cmd.Wait(); done <- cmd.ProcessState.String() }()
	}
	if err := tree.kill(ctx, group); err != nil {
		t.Fatal(err)
	}
	if pids, err := tree.pids(group); err != nil || len(pids) > 0 {
		t.Errorf("left: %v, %v", pids, err)
	}
	for range started {
		if how := <-done; !strings.Contains(how, "killed") {
			t.Errorf("a process ended with %q", how)
		}
	}
	if err := os.Remove(below); err != nil {
		t.Fatal(err)
	}
	if err := tree.remove(group); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(below)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
	if pids, err := tree.pids(group); err != nil || len(pids) > 0 {
		t.Errorf("of a group that is gone: %v, %v", pids, err)
	}
}
