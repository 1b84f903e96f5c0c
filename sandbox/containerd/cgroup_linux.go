package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

func skipGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// oomKills counts what the kernel killed in a cgroup for memory.
func (t cgroupTree) oomKills(cgroup string) (int64, error) {
	file := "memory.oom_control"
	if t.unified {
		file = "memory.events"
	}
	text, err := t.read("memory", cgroup, file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no oom_kill", file)
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
