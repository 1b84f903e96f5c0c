package containerd

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"foundry/plan"
	"foundry/sandbox"

	"golang.org/x/sys/unix"
)

// applied is what the kernel says holds for a container.
type applied struct {
	memory, pids, cpu string // "" when unreadable
	outBytes          int64
	outInodes         int64
	outDisk           bool     // the output is a file system on disk
	noLoop            string   // why it is not, where it should be
	interfaces        []string // of the network namespace
	verifiedDead      bool
}

// readBack asks the kernel what holds, once the container's first process is
// there and waits for its start. An attempt whose processes cannot be seen is
// refused: its death could not be verified.
func (c *container) readBack() error {
	a, groups := &c.applied, c.rt.host.cgroups
	if pids, err := groups.pids(c.cgroup()); err != nil || len(pids) == 0 {
		return fmt.Errorf("sandbox: the cgroup %s of the container is not to be seen below %s: its limits and its end cannot be verified: %w", c.cgroup(), groups.root, cmp.Or[error](err, unix.ENOENT))
	}
	if err := c.checkLimits(); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Join(c.dir, outDir), &fs); err == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.EXT4_SUPER_MAGIC) {
		a.outDisk = fs.Type == unix.EXT4_SUPER_MAGIC
		a.outBytes, a.outInodes = int64(fs.Blocks)*fs.Bsize, int64(fs.Files)
	}
	// A line for each interface after two of headings.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", c.ctrTask.Pid()))
	if err != nil {
		return nil // unknown, and said so
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, line := range lines[min(2, len(lines)):] {
		name, _, _ := strings.Cut(line, ":")
		a.interfaces = append(a.interfaces, strings.TrimSpace(name))
	}
	return nil
}

// checkLimits reads the limits back from the container's cgroup. One that does
// not hold is a *sandbox.LimitNotEnforced.
func (c *container) checkLimits() error {
	memory, pids, cpu := c.rt.host.cgroups.limits(c.cgroup())
	c.mu.Lock()
	c.applied.memory, c.applied.pids, c.applied.cpu = memory, pids, cpu
	c.mu.Unlock()
	r := c.task.Sandbox.Resources
	switch {
	case !atMost(memory, r.MemoryBytes):
		return &sandbox.LimitNotEnforced{Limit: sandbox.PropMemory, Want: fmt.Sprint(r.MemoryBytes, " bytes"), Got: read(memory)}
	case !atMost(pids, r.PIDs):
		return &sandbox.LimitNotEnforced{Limit: sandbox.PropPIDs, Want: fmt.Sprint(r.PIDs, " processes"), Got: read(pids)}
	case !cpuAtMost(cpu, r.CPUMillis):
		return &sandbox.LimitNotEnforced{Limit: sandbox.PropCPU, Want: fmt.Sprintf("%d/1000 of a CPU", r.CPUMillis), Got: read(cpu) + " (quota and period in µs)"}
	}
	return nil
}

// Facts is what was applied and measured.
func (c *container) Facts() sandbox.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sandbox.Facts{
		Mode:             plan.SandboxContainer,
		SecurityBoundary: true,
		Image:            c.task.Sandbox.Image,
		ImageDigest:      c.image.manifest,
		ImageIndex:       c.image.index,
		Repositories:     c.image.repositories,
		ConfigDigest:     c.image.config,
		Program:          sandbox.Program{Digest: c.image.program},
		Runtimes:         maps.Clone(c.rt.versions),
		User:             c.task.Process.User,
		Network:          c.task.Sandbox.Network,
		Mounts:           c.appliedMounts(),
		Properties:       c.properties(),
		Measured:         c.measured,
		Spec:             c.specJSON,
	}
}

func (c *container) appliedMounts() []sandbox.AppliedMount {
	list := []sandbox.AppliedMount{}
	for _, m := range c.task.Sandbox.Mounts {
		if c.task.Absent(m) {
			continue
		}
		bytes := m.Bytes
		if m.Source == plan.MountOutput {
			bytes = c.applied.outBytes
		}
		list = append(list, sandbox.AppliedMount{Source: m.Source, Destination: m.Destination, Mode: m.Mode, Bytes: bytes})
	}
	return list
}

// properties compares what the kernel said with what the plan asks for.
func (c *container) properties() []sandbox.Property {
	a, r := c.applied, c.task.Sandbox.Resources
	swap := ", swap included"
	if !c.rt.host.swapLimit {
		swap = ", swap not counted by this kernel"
	}
	user := "host uid 65534, no user namespace on this machine"
	if c.rt.host.userNamespace {
		user = fmt.Sprintf("host uid %d in a user namespace", sandbox.HostWorkerUID)
	}
	dead := "pid namespace and cgroup"
	if a.verifiedDead {
		dead += "; cgroup seen empty after the kill"
	}
	kind, memory := "tmpfs", ", which count against memory"
	if a.outDisk {
		kind, memory = "ext4 in a file of its own", ""
	} else if a.noLoop != "" {
		memory += "; no file system on disk: " + a.noLoop
	}
	network := "own network namespace, no resolver; its interfaces: " + read(strings.Join(a.interfaces, " "))
	if c.task.BrokerSocket != "" {
		network += "; and the broker's socket"
	}
	list := []sandbox.Property{
		is(sandbox.PropFilesystem, true, "own mount namespace on a read-only root"),
		is(sandbox.PropReadOnly, true, "read-only root, skill and inputs"),
		is(sandbox.PropNetwork, slices.Equal(a.interfaces, []string{"lo"}), network),
		is(sandbox.PropUser, true, "uid 65534, no capability, no new privileges; "+user),
		is(sandbox.PropSyscalls, c.spec.Linux.Seccomp != nil, "containerd's default seccomp profile"),
		is(sandbox.PropMemory, atMost(a.memory, r.MemoryBytes), "cgroup limit in bytes "+read(a.memory)+swap),
		is(sandbox.PropPIDs, atMost(a.pids, r.PIDs), "cgroup limit "+read(a.pids)),
		is(sandbox.PropCPU, cpuAtMost(a.cpu, r.CPUMillis), "cgroup quota and period in µs "+read(a.cpu)),
		is(sandbox.PropOutputBytes, a.outBytes > 0, fmt.Sprintf("%s of %d bytes%s", kind, a.outBytes, memory)),
		is(sandbox.PropOutputFiles, a.outInodes > 0, fmt.Sprintf("%s of %d inodes", kind, a.outInodes)),
		is(sandbox.PropWall, true, "the deadline kills the cgroup"),
		is(sandbox.PropProcessGroup, true, dead),
	}
	slices.SortFunc(list, func(a, b sandbox.Property) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func is(name string, enforced bool, detail string) sandbox.Property {
	state := sandbox.NotEnforced
	if enforced {
		state = sandbox.Enforced
	}
	return sandbox.Property{Name: name, State: state, Detail: detail}
}

// read shows a number of the kernel's, which may be missing.
func read(s string) string {
	return cmp.Or(s, "unreadable")
}

func atMost(got string, want int64) bool {
	n, err := strconv.ParseInt(got, 10, 64)
	return err == nil && n > 0 && n <= want
}

// cpuAtMost reads "quota period".
func cpuAtMost(got string, millis int64) bool {
	quota, period, _ := strings.Cut(got, " ")
	q, errQ := strconv.ParseInt(quota, 10, 64)
	p, errP := strconv.ParseInt(period, 10, 64)
	return errQ == nil && errP == nil && q > 0 && p > 0 && q*1000 <= millis*p
}
