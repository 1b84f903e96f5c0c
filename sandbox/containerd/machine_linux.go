package containerd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"foundry/sandbox"

	"github.com/containerd/containerd/v2/version"
	"golang.org/x/sys/unix"
)

// Inspect looks at what this machine gives containers. It starts nothing but
// `runc --version`, and changes nothing.
func Inspect(ctx context.Context, o Options) Machine {
	var m Machine
	add := func(f Fact) { m.Facts = append(m.Facts, f) }
	h := features()
	add(inspectSystem())
	add(inspectRoot())
	add(inspectRunc(ctx, o.RuncPath))
	add(inspectDaemon(ctx, o.Address))
	add(h.cgroups.inspect())
	add(inspectUserNamespaces(h))
	add(inspectSeccomp())
	add(inspectOverlay(o.Base))
	add(inspectLoop())
	add(inspectMkfs())
	if len(m.Missing()) == 0 {
		m.Properties = foreseen(h)
	}
	return m
}

func inspectSystem() Fact {
	f := Fact{Name: "system", State: FactOK, Detail: runtime.GOOS + "/" + runtime.GOARCH}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		f.Detail += ", kernel " + unix.ByteSliceToString(u.Release[:])
	}
	return f
}

func inspectRoot() Fact {
	uid := os.Geteuid()
	f := Fact{Name: "root", State: FactOK, Detail: fmt.Sprintf("uid %d", uid)}
	if uid != 0 {
		f.State, f.Fix = FactMissing, "run as root, or use --sandbox local"
	}
	return f
}

func inspectRunc(ctx context.Context, path string) Fact {
	found, err := findRunc(path)
	if err != nil {
		return Fact{Name: "runc", State: FactMissing, Detail: "not found on the PATH", Fix: "install it", Package: "runc"}
	}
	v := runcVersion(ctx, found)
	f := Fact{Name: "runc", State: FactOK, Detail: v + " at " + found}
	faults, err := runcFault(v)
	switch {
	case err != nil:
		f.State, f.Fix = FactWarning, "its version could not be read, so that it is not known to be good: see what it prints for --version"
	case faults != "":
		f.State = FactWarning
		f.Detail += ", known to be bad: " + faults
		f.Fix = "update it; a distribution may have mended it and kept the version: its changelog says"
	}
	return f
}

func inspectDaemon(ctx context.Context, address string) Fact {
	if address == "" {
		return Fact{Name: "containerd", State: FactOK, Detail: version.Version + " (embedded)"}
	}
	address = strings.TrimPrefix(address, "unix://")
	c, err := dial(ctx, address)
	if err != nil {
		return Fact{Name: "containerd", State: FactMissing, Detail: "none answers at " + address + ": " + err.Error(), Fix: "start it, or leave --containerd out to use the embedded one", Package: "containerd"}
	}
	defer c.Close()
	v, err := c.Version(ctx)
	if err != nil {
		return Fact{Name: "containerd", State: FactMissing, Detail: "none answers at " + address + ": " + err.Error(), Fix: "start it, or leave --containerd out to use the embedded one"}
	}
	return Fact{Name: "containerd", State: FactOK, Detail: v.Version + " at " + address}
}

// controllers are those that a container's limits need.
var controllers = []string{"cpu", "memory", "pids"}

// inspect looks for the controllers, and whether groups can be made.
func (t cgroupTree) inspect() Fact {
	f := Fact{Name: "cgroups", State: FactOK, Detail: "version 1"}
	var have []string
	if t.unified {
		f.Detail = "version 2"
		b, _ := os.ReadFile(filepath.Join(t.root, "cgroup.controllers")) // none is told below
		have = strings.Fields(string(b))
	} else {
		for _, c := range controllers {
			if info, err := os.Stat(filepath.Join(t.root, c, "cgroup.procs")); err == nil && info.Mode().IsRegular() {
				have = append(have, c)
			}
		}
	}
	var lacking, closed []string
	for _, c := range controllers {
		if !slices.Contains(have, c) {
			lacking = append(lacking, c)
		} else if unix.Access(t.dir(c, "."), unix.W_OK) != nil {
			closed = append(closed, c)
		}
	}
	switch {
	case len(lacking) > 0:
		f.State, f.Detail = FactMissing, f.Detail+" below "+t.root+", without "+strings.Join(lacking, ", ")
		f.Fix = "mount them, or have them delegated to this machine or container: limits cannot be enforced without"
	case len(closed) > 0:
		f.State, f.Detail = FactMissing, f.Detail+" below "+t.root+", not writable: "+strings.Join(closed, ", ")
		f.Fix = "run where cgroups can be made: as root, outside of a container or in one that may"
	default:
		f.Detail += ": " + strings.Join(controllers, ", ")
	}
	return f
}

func inspectUserNamespaces(h hostFeatures) Fact {
	if h.userNamespace {
		return Fact{Name: "user namespaces", State: FactOK, Detail: "on"}
	}
	return Fact{Name: "user namespaces", State: FactWarning, Detail: fmt.Sprintf("off: a worker is uid %d of the host", sandbox.WorkerUID), Fix: "set user.max_user_namespaces above 0 with sysctl"}
}

func inspectSeccomp() Fact {
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err == nil {
		return Fact{Name: "seccomp", State: FactOK, Detail: "on"}
	}
	return Fact{Name: "seccomp", State: FactMissing, Detail: "this kernel has none", Fix: "use a kernel with CONFIG_SECCOMP_FILTER"}
}

// inspectOverlay sees how images are unpacked: an overlay cannot lie on one.
func inspectOverlay(base string) Fact {
	f := Fact{Name: "overlayfs", State: FactOK, Detail: "on"}
	b, _ := os.ReadFile("/proc/filesystems")
	if !slices.Contains(strings.Fields(string(b)), "overlay") {
		return Fact{Name: "overlayfs", State: FactWarning, Detail: "this kernel does not list it: root file systems are copied, which takes time and space", Fix: "modprobe overlay"}
	}
	var fs unix.Statfs_t
	for at := base; filepath.IsAbs(at); at = filepath.Dir(at) {
		if err := unix.Statfs(at, &fs); err == nil {
			if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
				f.State, f.Detail = FactWarning, "the state folder lies on an overlay itself: root file systems are copied, which takes time and space"
				f.Fix = "set FOUNDRY_STATE_DIR to a folder on another file system"
			}
			break
		}
		if at == "/" {
			break
		}
	}
	return f
}

func inspectLoop() Fact {
	if _, err := os.Stat("/dev/loop-control"); err == nil {
		return Fact{Name: "loop devices", State: FactOK, Detail: "/dev/loop-control"}
	}
	return Fact{Name: "loop devices", State: FactWarning, Detail: "no /dev/loop-control: outputs larger than memory allows cannot be bounded", Fix: "modprobe loop, and let this container have the device"}
}

func inspectMkfs() Fact {
	for _, name := range []string{"mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"} {
		if found, err := exec.LookPath(name); err == nil {
			return Fact{Name: "mkfs.ext4", State: FactOK, Detail: found}
		}
	}
	return Fact{Name: "mkfs.ext4", State: FactWarning, Detail: "not found: outputs larger than memory allows cannot be bounded", Fix: "install it", Package: "e2fsprogs"}
}

// foreseen is what a container would have here. An attempt whose limits do not
// hold when they are read back does not run.
func foreseen(h hostFeatures) []sandbox.Property {
	user := fmt.Sprintf("host uid %d, no user namespace", sandbox.WorkerUID)
	if h.userNamespace {
		user = "an id of nobody's in a user namespace"
	}
	swap := "cgroup, swap included"
	if !h.swapLimit {
		swap = "cgroup, swap not counted by this kernel"
	}
	list := []sandbox.Property{
		is(sandbox.PropFilesystem, true, "own mount namespace"),
		is(sandbox.PropReadOnly, true, "root, skill and inputs"),
		is(sandbox.PropNetwork, true, "own network namespace with lo alone"),
		is(sandbox.PropUser, true, "no capability, no new privileges, "+user),
		is(sandbox.PropSyscalls, true, "containerd's default seccomp profile"),
		is(sandbox.PropMemory, true, swap),
		is(sandbox.PropPIDs, true, "cgroup"),
		is(sandbox.PropCPU, true, "cgroup"),
		is(sandbox.PropOutputBytes, true, "a file system of that size"),
		is(sandbox.PropOutputFiles, true, "a file system of that many inodes"),
		is(sandbox.PropWall, true, "the deadline kills the cgroup"),
		is(sandbox.PropProcessGroup, true, "pid namespace and cgroup, seen empty"),
	}
	slices.SortFunc(list, func(a, b sandbox.Property) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
