package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var escapes []Escape

func init() {
	add := func(kind, name string, try func(*hostFacts) (string, error)) {
		escapes = append(escapes, Escape{Name: name, Kind: kind, Property: kinds[kind], try: try})
	}
	add("filesystem", "read-a-host-file", func(h *hostFacts) (string, error) { return h.read(h.File) })
	add("filesystem", "list-the-run-folder", func(h *hostFacts) (string, error) {
		entries, err := os.ReadDir(h.Folder)
		return fmt.Sprintf("%d entries", len(entries)), err
	})
	add("filesystem", "read-etc-shadow", readShadow)
	add("filesystem", "write-to-the-root", writeRoot)
	add("filesystem", "open-by-handle", openByHandle)
	add("filesystem", "climb-out-of-a-chroot", climbChroot)
	add("read-only", "overwrite-the-skill", func(h *hostFacts) (string, error) { return overwrite(h.Skill) })
	add("read-only", "overwrite-an-input", func(h *hostFacts) (string, error) { return overwrite(h.Input) })
	add("read-only", "overwrite-the-program", func(*hostFacts) (string, error) { return openForWriting("/proc/self/exe") })
	add("link", "read-through-a-link", readThroughLink)
	add("link", "hard-link-an-input", func(h *hostFacts) (string, error) {
		return "linked", os.Link(h.Input, filepath.Join(h.Out, "linked-input"))
	})
	add("proc", "climb-through-the-root-of-pid-1", func(h *hostFacts) (string, error) { return h.read("/proc/1/root" + h.File) })
	add("proc", "environment-of-a-host-process", environOfVictim)
	add("proc", "memory-of-a-host-process", memoryOfVictim)
	for _, f := range [][2]string{
		{"open-sysrq-trigger", "/proc/sysrq-trigger"}, {"open-core-pattern", "/proc/sys/kernel/core_pattern"},
		{"open-modprobe-path", "/proc/sys/kernel/modprobe"}, {"open-binfmt-register", "/proc/sys/fs/binfmt_misc/register"},
		{"open-uevent-helper", "/sys/kernel/uevent_helper"},
	} {
		add("proc", f[0], func(*hostFacts) (string, error) { return openForWriting(f[1]) })
	}
	add("proc", "read-kernel-memory", func(*hostFacts) (string, error) { return readSome("/proc/kcore") })
	add("device", "make-the-host-disk", makeDisk)
	add("device", "read-dev-mem", func(*hostFacts) (string, error) { return readSome("/dev/mem") })
	add("device", "open-dev-kmsg", func(*hostFacts) (string, error) { return openForWriting("/dev/kmsg") })
	add("device", "open-loop-control", func(*hostFacts) (string, error) { return openForWriting("/dev/loop-control") })
	add("device", "open-dev-fuse", func(*hostFacts) (string, error) { return openForWriting("/dev/fuse") })
	addKernelEscapes(add)
	addNetworkEscapes(add)
	add("ptrace", "attach-to-a-host-process", attachToVictim)
	add("ptrace", "take-a-descriptor-of-a-host-process", descriptorOfVictim)
	add("signal", "signal-a-host-process", func(h *hostFacts) (string, error) {
		if err := h.seeVictim(); err != nil {
			return "", err
		}
		return "signal 0 arrives", unix.Kill(h.Victim, 0)
	})
	add("ipc", "read-shared-memory", readSegment)
	add("ipc", "read-dev-shm-of-the-host", func(h *hostFacts) (string, error) { return h.read(h.Shared) })
	add("cgroup", "open-a-cgroup", openCgroup)
	add("cgroup", "open-a-release-agent", func(*hostFacts) (string, error) { return openAny("/sys/fs/cgroup/*/release_agent") })
	add("secret", "arguments-of-other-processes", argumentsOfOthers)
	add("secret", "inherited-environment", func(h *hostFacts) (string, error) {
		for _, e := range os.Environ() {
			if _, v, _ := strings.Cut(e, "="); h.is(v) {
				return e[:strings.IndexByte(e, '=')], nil
			}
		}
		return "", errors.New("it is not there")
	})
	add("descriptor", "inherited-descriptor", inheritedDescriptor)
}

// read reads a file that should hold the canary.
func (h *hostFacts) read(path string) (string, error) {
	if path == "" {
		return "", errors.New("the host has none")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !h.is(string(b)) {
		return "", errors.New("it is another file")
	}
	return "read " + path, nil
}

func readSome(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	n, err := f.Read(make([]byte, 64))
	return fmt.Sprintf("%d bytes of %s", n, path), err
}

// openForWriting opens and writes nothing.
func openForWriting(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return "opened " + path + " for writing", unix.Close(fd)
}

func openAny(pattern string) (string, error) {
	paths, _ := filepath.Glob(pattern)
	err := errors.New("there is none")
	for _, p := range paths {
		evidence, errP := openForWriting(p)
		if errP == nil {
			return evidence, nil
		}
		err = errP
	}
	return "", err
}

func openCgroup(*hostFacts) (string, error) {
	for _, p := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs", "/sys/fs/cgroup/*/tasks"} {
		if evidence, err := openAny(p); err == nil {
			return evidence, nil
		}
	}
	return "", errors.New("no cgroup can be opened for writing")
}

func readShadow(*hostFacts) (string, error) {
	b, err := os.ReadFile("/etc/shadow")
	return fmt.Sprintf("%d bytes", len(b)), err
}

// writeRoot makes a file in / that has no name, or one that it removes again.
func writeRoot(*hostFacts) (string, error) {
	fd, err := unix.Open("/", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) {
		name := fmt.Sprintf("/.sandboxtest-%d", os.Getpid())
		if fd, err = unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
			err = os.Remove(name)
		}
	}
	if err != nil {
		return "", err
	}
	_, err = unix.Write(fd, []byte("x"))
	return "wrote to /", errors.Join(err, unix.Close(fd))
}

// openByHandle opens the root of the file system that an input lies on by the
// number that roots have (the attack called Shocker).
func openByHandle(h *hostFacts) (string, error) {
	dir, err := unix.Open(filepath.Dir(h.Input), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	handle := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0})
	fd, err := unix.OpenByHandleAt(dir, handle, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return "", err
	}
	return "opened the root of a file system", unix.Close(fd)
}

func climbChroot(h *hostFacts) (string, error) {
	runtime.LockOSThread()
	dir := filepath.Join(h.Scratch, "jail")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := unix.Chroot(dir); err != nil {
		return "", err
	}
	if err := unix.Chdir("/" + strings.Repeat("../", 60)); err != nil {
		return "", err
	}
	return "chroot is allowed", nil
}

// overwrite opens a file for writing, after it did what it can to be allowed.
func overwrite(path string) (string, error) {
	_ = os.Chmod(filepath.Dir(path), 0o777)
	_ = os.Chmod(path, 0o666)
	return openForWriting(path)
}

func readThroughLink(h *hostFacts) (string, error) {
	link := filepath.Join(h.Out, "link-to-host")
	if err := os.Symlink(h.File, link); err != nil {
		return "", err
	}
	defer os.Remove(link)
	return h.read(link)
}

func (h *hostFacts) procOfVictim(name string) string {
	return "/proc/" + strconv.Itoa(h.Victim) + "/" + name
}

// seeVictim checks that the number of the host's process is that process here.
func (h *hostFacts) seeVictim() error {
	b, err := os.ReadFile(h.procOfVictim("cmdline"))
	if err != nil {
		return err
	}
	for arg := range bytes.SplitSeq(b, []byte{0}) {
		if h.is(string(arg)) {
			return nil
		}
	}
	return errors.New("the number is another process here")
}

func environOfVictim(h *hostFacts) (string, error) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if f == fmt.Sprintf("/proc/%d/environ", os.Getpid()) {
			continue
		}
		b, _ := os.ReadFile(f)
		for e := range strings.SplitSeq(string(b), "\x00") {
			if _, v, _ := strings.Cut(e, "="); h.is(v) {
				return f, nil
			}
		}
	}
	return "", fmt.Errorf("not in the %d environments that are seen", len(files))
}

func argumentsOfOthers(h *hostFacts) (string, error) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for arg := range strings.SplitSeq(string(b), "\x00") {
			if h.is(arg) {
				return f, nil
			}
		}
	}
	return "", fmt.Errorf("not in the %d argument lists that are seen", len(files))
}

func memoryOfVictim(h *hostFacts) (string, error) {
	if err := h.seeVictim(); err != nil {
		return "", err
	}
	f, err := os.Open(h.procOfVictim("mem"))
	if err != nil {
		return "", err
	}
	return "opened its memory", f.Close()
}

func attachToVictim(h *hostFacts) (string, error) {
	if err := h.seeVictim(); err != nil {
		return "", err
	}
	runtime.LockOSThread()
	if err := unix.PtraceSeize(h.Victim); err != nil {
		return "", err
	}
	return "seized", nil // it is let go when this process ends
}

func descriptorOfVictim(h *hostFacts) (string, error) {
	if err := h.seeVictim(); err != nil {
		return "", err
	}
	fd, err := unix.PidfdOpen(h.Victim, 0)
	if err != nil {
		return "", err
	}
	got, err := unix.PidfdGetfd(fd, 1, 0)
	if err != nil {
		return "", err
	}
	return "has its stdout", unix.Close(got)
}

func readSegment(h *hostFacts) (string, error) {
	id, err := unix.SysvShmGet(h.Segment, 0, 0)
	if err != nil {
		return "", err
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return "", err
	}
	text, _, _ := bytes.Cut(b, []byte{0})
	found := h.is(string(text))
	if err := unix.SysvShmDetach(b); err != nil || !found {
		return "", errors.Join(errors.New("it is another segment"), err)
	}
	return "read the segment", nil
}

// makeDisk makes the device of the host's root and reads its first bytes.
func makeDisk(h *hostFacts) (string, error) {
	name := filepath.Join(h.Scratch, "disk")
	if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(h.RootDevice)); err != nil {
		return "", err
	}
	evidence, err := readSome(name)
	if err != nil {
		return "made the device, and cannot read it: " + err.Error(), nil
	}
	return evidence, nil
}

// ownDescriptors are what the Go runtime opens for itself.
var ownDescriptors = regexp.MustCompile(`^(anon_inode:\[event.*|/proc/(self|[0-9]+)/fd|/sys/fs/cgroup/.*/cpu\.(max|cfs_quota_us|cfs_period_us))$`)

// openDescriptors are the descriptors that this process was started with,
// beyond the standard streams.
func openDescriptors() []string {
	entries, _ := os.ReadDir("/proc/self/fd")
	list := []string{}
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if n < 3 || err != nil || ownDescriptors.MatchString(target) {
			continue
		}
		list = append(list, e.Name()+" "+target)
	}
	return list
}

func inheritedDescriptor(h *hostFacts) (string, error) {
	if len(h.Descriptors) == 0 {
		return "", errors.New("there is none")
	}
	return strings.Join(h.Descriptors, ", "), nil
}

func addNetworkEscapes(add func(kind, name string, try func(*hostFacts) (string, error))) {
	dial := func(network string, address func(*hostFacts) string) func(*hostFacts) (string, error) {
		return func(h *hostFacts) (string, error) {
			a := address(h)
			if a == "" {
				return "", errors.New("the host has none")
			}
			c, err := net.DialTimeout(network, a, 2*time.Second)
			if err != nil {
				return "", err
			}
			return "connected to " + a, c.Close()
		}
	}
	fixed := func(a string) func(*hostFacts) string { return func(*hostFacts) string { return a } }
	add("network", "connect-to-the-host-s-loopback", dial("tcp", func(h *hostFacts) string { return h.Loopback }))
	add("network", "connect-to-the-host-s-address", dial("tcp", func(h *hostFacts) string { return h.Address }))
	// Connecting a datagram socket sends nothing: it asks for a route.
	add("network", "route-to-the-internet", dial("udp4", fixed("192.0.2.1:9")))
	add("network", "route-to-the-metadata-service", dial("udp4", fixed("169.254.169.254:80")))
	add("network", "raw-packets", func(*hostFacts) (string, error) {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		return "has a packet socket", unix.Close(fd)
	})
	add("network", "enter-the-host-s-network", func(h *hostFacts) (string, error) {
		got, err := os.Readlink("/proc/self/ns/net")
		if err == nil && got != h.Network {
			err = errors.New("it is in " + got + ", the host in " + h.Network)
		}
		return got, err
	})
	add("dns", "resolve-a-name", func(*hostFacts) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		addresses, err := net.DefaultResolver.LookupHost(ctx, "example.com")
		return strings.Join(addresses, " "), err
	})
	add("socket", "abstract-socket", dial("unix", func(h *hostFacts) string { return h.Abstract }))
	add("socket", "socket-by-path", dial("unix", func(h *hostFacts) string { return h.Socket }))
	add("socket", "socket-of-a-daemon", func(h *hostFacts) (string, error) {
		err := errors.New("there is none")
		for _, a := range append(slices.Clone(h.Daemons), "/run/containerd/containerd.sock", "/var/run/docker.sock") {
			evidence, errA := dial("unix", fixed(a))(h)
			if errA == nil {
				return evidence, nil
			}
			err = errA
		}
		return "", err
	})
	add("socket", "socket-to-the-hypervisor", func(*hostFacts) (string, error) {
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		return "has a vsock", unix.Close(fd)
	})
}

// childWith runs this program in new namespaces.
func childWith(flags uintptr) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(exe, workerWord, "exit", "0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return "ran in a new namespace", cmd.Run()
}
