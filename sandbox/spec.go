package sandbox

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"foundry/plan"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// SpecInput is a task and what its runtime knows of the host. Spec is a pure
// function of it.
type SpecInput struct {
	Task Task
	ID   string // of the container; names its cgroup

	// Sources are the folders on the host that are bound for the mounts of the
	// plan, by source; tmpfs mounts have none.
	Sources map[string]string
	// Program is the file on the host that is bound at FoundryPath; "" where the
	// image was made from this program and holds it.
	Program string
	// Labels become annotations. They hold no secret.
	Labels map[string]string
	// Seccomp is the system call filter; nil is none.
	Seccomp *specs.LinuxSeccomp

	// Features of the host.
	UserNamespace   bool
	CgroupNamespace bool
	SwapLimit       bool // the kernel counts swap, so that memory can be bounded with it
	// OpenFiles is the limit of open files of a process; 0 is DefaultOpenFiles.
	// A host may not be able to give more than it has itself.
	OpenFiles uint64
}

// Ids of the process. Inside it is always Worker; in a user namespace the host
// knows it by an id that belongs to nobody, as it does the namespace's root,
// which owns nothing and which no process runs as.
const (
	WorkerUID   = 65534
	hostRootUID = 2_000_000_000
	// HostWorkerUID is the worker on the host, in a user namespace.
	HostWorkerUID = hostRootUID + WorkerUID
)

// DefaultOpenFiles is how many files a process may hold open.
const DefaultOpenFiles = 65536

// ociVersion is the lowest version of the runtime spec that has all we use.
const ociVersion = "1.0.2"

// cpuPeriod is the scheduling period in microseconds that CPU limits are
// expressed in, the kernel's default.
const cpuPeriod = 100_000

// shmBytes bounds /dev/shm, which counts against the memory limit.
const shmBytes = 64 << 20

// Spec is the whole OCI runtime spec of a task: everything that a runtime
// would otherwise fill in by a default is spelled out, and nothing is taken
// from an image. It fails on a token without a value and on a mount without a
// source.
func Spec(in SpecInput) (*specs.Spec, error) {
	process, err := specProcess(in)
	if err != nil {
		return nil, err
	}
	mounts, err := specMounts(in)
	if err != nil {
		return nil, err
	}
	return &specs.Spec{
		Version:     ociVersion,
		Process:     process,
		Root:        &specs.Root{Path: "rootfs", Readonly: true},
		Hostname:    "sandbox",
		Mounts:      mounts,
		Annotations: in.Labels,
		Linux:       specLinux(in),
	}, nil
}

func specProcess(in SpecInput) (*specs.Process, error) {
	t := in.Task
	uid, gid, err := user(t.Process.User)
	if err != nil {
		return nil, err
	}
	lookup := t.ContainerLookup()
	expand := func(what string, list []string) ([]string, error) {
		out := make([]string, len(list))
		for i, s := range list {
			if out[i], err = plan.Expand(s, lookup); err != nil {
				return nil, fmt.Errorf("sandbox: %s %d of the process: %w", what, i+1, err)
			}
		}
		return out, nil
	}
	argv, err := expand("argument", t.Process.Argv)
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, fmt.Errorf("sandbox: the process has no program: its argv is empty")
	}
	env, err := expand("environment entry", t.Process.Env)
	if err != nil {
		return nil, err
	}
	cwd, err := expand("working folder", []string{t.Process.Cwd})
	if err != nil {
		return nil, err
	}
	if !path.IsAbs(cwd[0]) {
		return nil, fmt.Errorf("sandbox: the working folder %q is not absolute", cwd[0])
	}
	none, files := []string{}, cmp.Or(in.OpenFiles, DefaultOpenFiles)
	return &specs.Process{
		User:            specs.User{UID: uid, GID: gid, AdditionalGids: []uint32{}},
		Args:            argv,
		Env:             env,
		Cwd:             cwd[0],
		NoNewPrivileges: true,
		Capabilities: &specs.LinuxCapabilities{
			Bounding: none, Effective: none, Inheritable: none, Permitted: none, Ambient: none,
		},
		Rlimits: []specs.POSIXRlimit{
			{Type: "RLIMIT_CORE"},
			{Type: "RLIMIT_NOFILE", Hard: files, Soft: files},
		},
	}, nil
}

// user parses uid:gid. Anything but the worker is refused: only its ids are
// mapped, and root has no place in a sandbox.
func user(s string) (uid, gid uint32, err error) {
	u, g, ok := strings.Cut(s, ":")
	x, errU := strconv.ParseUint(u, 10, 32)
	y, errG := strconv.ParseUint(g, 10, 32)
	if !ok || errU != nil || errG != nil || x != WorkerUID || y != WorkerUID {
		return 0, 0, fmt.Errorf("sandbox: the process cannot run as user %q: a container knows %d:%d alone", s, WorkerUID, WorkerUID)
	}
	return uint32(x), uint32(y), nil
}

func specMounts(in SpecInput) ([]specs.Mount, error) {
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", sizeOption(shmBytes)}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	if in.Program != "" {
		mounts = append(mounts, specs.Mount{Destination: FoundryPath, Type: "bind", Source: in.Program, Options: []string{"bind", "private", "nosuid", "nodev", "ro"}})
	}
	if in.Task.BrokerSocket != "" {
		// A socket is connected to whatever the mount's mode; ro keeps its inode as
		// it is.
		mounts = append(mounts, specs.Mount{Destination: plan.BrokerSocketPath, Type: "bind", Source: in.Task.BrokerSocket, Options: []string{"bind", "private", "nosuid", "nodev", "noexec", "ro"}})
	}
	manifest := slices.Clone(in.Task.Sandbox.Mounts)
	slices.SortStableFunc(manifest, func(a, b plan.Mount) int { // a folder before what lies in it
		return cmp.Compare(a.Destination, b.Destination)
	})
	for i, m := range manifest {
		if err := checkDestination(m, manifest[:i]); err != nil {
			return nil, err
		}
		if in.Task.Absent(m) {
			continue
		}
		made, err := specMount(in, m)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, made)
	}
	return mounts, nil
}

// checkDestination refuses a place that would cover one of the runtime's, or
// that cannot be made because it lies in another mount than an empty one.
func checkDestination(m plan.Mount, before []plan.Mount) error {
	d := m.Destination
	if !path.IsAbs(d) || path.Clean(d) != d || d == "/" {
		return fmt.Errorf("sandbox: the mount of %s has the destination %q, which is no clean absolute path below /", m.Source, d)
	}
	for _, taken := range []string{"/proc", "/dev", "/sys", path.Dir(FoundryPath)} {
		if d == taken || strings.HasPrefix(d, taken+"/") {
			return fmt.Errorf("sandbox: the mount of %s at %s is refused: %s is a place of the runtime's", m.Source, d, taken)
		}
	}
	for _, b := range before {
		if b.Destination == d {
			return fmt.Errorf("sandbox: %s and %s are mounted at %s, which can hold one of them", b.Source, m.Source, d)
		}
		if strings.HasPrefix(d, b.Destination+"/") && b.Source != plan.MountScratch && b.Source != plan.MountTmpfs {
			return fmt.Errorf("sandbox: the mount of %s at %s lies in the mount of %s: only scratch and tmpfs can hold another one", m.Source, d, b.Source)
		}
	}
	return nil
}

func specMount(in SpecInput, m plan.Mount) (specs.Mount, error) {
	if m.Source == plan.MountTmpfs {
		options := []string{"nosuid", "nodev", "mode=1777", sizeOption(m.Bytes)}
		if m.Mode != plan.MountReadWrite {
			options = append(options, "ro")
		}
		return specs.Mount{Destination: m.Destination, Type: "tmpfs", Source: "tmpfs", Options: options}, nil
	}
	source := in.Sources[m.Source]
	if source == "" {
		return specs.Mount{}, fmt.Errorf("sandbox: nothing was staged for the mount of %s at %s", m.Source, m.Destination)
	}
	options := []string{"bind", "private", "nosuid", "nodev"}
	switch {
	case m.Source == plan.MountOutput && m.Mode == plan.MountReadWrite:
		options = append(options, "rw", "noexec") // nothing that is produced is a program here
	case m.Source == plan.MountScratch && m.Mode == plan.MountReadWrite:
		options = append(options, "rw")
	case m.Mode == plan.MountReadOnly:
		options = append(options, "ro")
	default:
		return specs.Mount{}, fmt.Errorf("sandbox: %s cannot be mounted %q: only output and scratch are writable", m.Source, m.Mode)
	}
	return specs.Mount{Destination: m.Destination, Type: "bind", Source: source, Options: options}, nil
}

func sizeOption(bytes int64) string { return fmt.Sprintf("size=%d", bytes) }

func specLinux(in SpecInput) *specs.Linux {
	namespaces := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
		{Type: specs.MountNamespace}, {Type: specs.NetworkNamespace},
	}
	if in.CgroupNamespace {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	linux := &specs.Linux{
		CgroupsPath: "/foundry-" + in.ID,
		Resources:   specResources(in),
		Seccomp:     in.Seccomp,
		MaskedPaths: []string{
			"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
			"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
			"/sys/devices/virtual/powercap", "/sys/firmware",
		},
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
	if in.UserNamespace {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		ids := []specs.LinuxIDMapping{
			{ContainerID: 0, HostID: hostRootUID, Size: 1},
			{ContainerID: WorkerUID, HostID: HostWorkerUID, Size: 1},
		}
		linux.UIDMappings, linux.GIDMappings = ids, slices.Clone(ids)
	}
	linux.Namespaces = namespaces
	return linux
}

func specResources(in SpecInput) *specs.LinuxResources {
	r := in.Task.Sandbox.Resources
	memory, pids := r.MemoryBytes, r.PIDs
	quota, period := r.CPUMillis*cpuPeriod/1000, uint64(cpuPeriod)
	limit := &specs.LinuxMemory{Limit: &memory}
	if in.SwapLimit {
		limit.Swap = &memory // memory and swap together: no swap beyond the memory
	}
	return &specs.LinuxResources{
		Devices: deviceRules(),
		Memory:  limit,
		Pids:    &specs.LinuxPids{Limit: &pids},
		CPU:     &specs.LinuxCPU{Quota: &quota, Period: &period},
	}
}

// deviceRules deny every device; the runtime adds the harmless ones that the
// spec requires of it (null, zero, full, random, urandom, tty, ptmx, pts).
func deviceRules() []specs.LinuxDeviceCgroup {
	return []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
}
