package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"foundry/sandbox"

	"golang.org/x/sys/unix"
)

// cgroupTree is where the kernel's control groups are mounted.
type cgroupTree struct {
	root    string
	unified bool // version 2 alone; else one hierarchy for each controller
}

func findCgroups() cgroupTree {
	const root = "/sys/fs/cgroup"
	var fs unix.Statfs_t
	err := unix.Statfs(root, &fs)
	return cgroupTree{root: root, unified: err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC}
}

func (t cgroupTree) countsSwap() bool {
	if t.unified {
		// The root has no such file; a kernel that counts swap has it below.
		return true
	}
	_, err := os.Stat(filepath.Join(t.root, "memory", "memory.memsw.limit_in_bytes"))
	return err == nil
}

// dir is a controller's folder of a container's cgroup.
func (t cgroupTree) dir(controller, cgroup string) string {
	if t.unified {
		return filepath.Join(t.root, cgroup)
	}
	return filepath.Join(t.root, controller, cgroup)
}

// read reads one file of a cgroup.
func (t cgroupTree) read(controller, cgroup, file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(t.dir(controller, cgroup), file))
	return strings.TrimSpace(string(b)), err
}

// pids lists the processes of a cgroup and of those below it; none when it is
// gone.
func (t cgroupTree) pids(cgroup string) ([]int, error) {
	var found []int
	err := filepath.WalkDir(t.dir("pids", cgroup), func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return skipGone(err)
		}
		b, err := os.ReadFile(filepath.Join(p, "cgroup.procs"))
		if err != nil {
			return skipGone(err)
		}
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return fmt.Errorf("cgroup.procs holds %q", f)
			}
			found = append(found, pid)
		}
		return nil
	})
	return found, err
}

// kill kills every process of a cgroup and of those below it until none is
// left, or ctx ends. It needs no daemon, and reaches what left its session,
// its group and its parent: nothing leaves a cgroup by itself.
func (t cgroupTree) kill(ctx context.Context, cgroup string) error {
	return poll(ctx, func() (bool, error) {
		if t.unified { // at once, and no fork escapes it
			_ = os.WriteFile(filepath.Join(t.dir("pids", cgroup), "cgroup.kill"), []byte("1"), 0) // kernels before 5.14 have none
		}
		pids, err := t.pids(cgroup)
		if err != nil || len(pids) == 0 {
			return err == nil, err
		}
		for _, pid := range pids {
			if err := t.killMember(cgroup, pid); err != nil {
				return false, err
			}
		}
		return false, nil
	})
}

// killMember kills a process that is in the cgroup still: its number may be
// another's by now.
func (t cgroupTree) killMember(cgroup string, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !member(string(b), cgroup) {
		return nil // gone, or the number is another's
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	return nil
}

// member says whether the text of /proc/PID/cgroup names a cgroup or one below
// it.
func member(text, cgroup string) bool {
	for line := range strings.Lines(text) {
		if strings.Contains(strings.TrimSpace(line)+"/", "/"+cgroup+"/") {
			return true
		}
	}
	return false
}

func skipGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// counter reads one number of a file of "name number" lines.
func (t cgroupTree) counter(controller, cgroup, file, name string) *int64 {
	text, err := t.read(controller, cgroup, file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return number(f[1])
		}
	}
	return nil
}

// whole reads a file that is one number.
func (t cgroupTree) whole(controller, cgroup, file string) *int64 {
	text, err := t.read(controller, cgroup, file)
	if err != nil {
		return nil
	}
	return number(text)
}

func number(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// measure reads what the kernel counted for a cgroup; nil is what this kernel
// does not tell.
func (t cgroupTree) measure(cgroup string) sandbox.Measured {
	micros := func(nanos *int64) *int64 {
		if nanos != nil {
			*nanos /= 1000
		}
		return nanos
	}
	m := sandbox.Measured{PIDsRefused: t.counter("pids", cgroup, "pids.events", "max"), OOMKills: t.oomKills(cgroup)}
	if t.unified {
		m.PeakMemoryBytes = t.whole("memory", cgroup, "memory.peak")
		m.CPUMicros = t.counter("cpu", cgroup, "cpu.stat", "usage_usec")
		m.ThrottledMicros = t.counter("cpu", cgroup, "cpu.stat", "throttled_usec")
		return m
	}
	m.PeakMemoryBytes = t.whole("memory", cgroup, "memory.max_usage_in_bytes")
	m.CPUMicros = micros(t.whole("cpuacct", cgroup, "cpuacct.usage"))
	m.ThrottledMicros = micros(t.counter("cpu", cgroup, "cpu.stat", "throttled_time"))
	return m
}

// oomKills counts what the kernel killed in a cgroup for memory.
func (t cgroupTree) oomKills(cgroup string) *int64 {
	if t.unified {
		return t.counter("memory", cgroup, "memory.events", "oom_kill")
	}
	return t.counter("memory", cgroup, "memory.oom_control", "oom_kill")
}

// remove removes what is left of a cgroup in every hierarchy. Only empty ones
// can be removed.
func (t cgroupTree) remove(cgroup string) error {
	folders := []string{filepath.Join(t.root, cgroup)}
	if !t.unified {
		folders, _ = filepath.Glob(filepath.Join(t.root, "*", cgroup)) // the pattern is ours and good
	}
	var errs []error
	for _, f := range folders {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sandbox: removing a cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

// limits reads back the limits that hold: the numbers in the kernel's own
// words, "" where one cannot be read.
func (t cgroupTree) limits(cgroup string) (memory, pids, cpu string) {
	get := func(controller, v1, v2 string) string {
		file := v1
		if t.unified {
			file = v2
		}
		s, err := t.read(controller, cgroup, file)
		if err != nil {
			return ""
		}
		return s
	}
	memory = get("memory", "memory.limit_in_bytes", "memory.max")
	pids = get("pids", "pids.max", "pids.max")
	cpu = get("cpu", "cpu.cfs_quota_us", "cpu.max")
	if cpu != "" && !t.unified {
		cpu += " " + get("cpu", "cpu.cfs_period_us", "")
	}
	return memory, pids, cpu
}
