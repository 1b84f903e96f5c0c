package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addKernelEscapes adds what asks the kernel for a right.
func addKernelEscapes(add func(kind, name string, try func(*hostFacts) (string, error))) {
	add("mount", "mount-a-tmpfs", func(h *hostFacts) (string, error) {
		return apart(func() error { return unix.Mount("x", h.Scratch, "tmpfs", 0, "size=4k") })
	})
	add("mount", "mount-a-new-proc", func(h *hostFacts) (string, error) {
		return apart(func() error { return unix.Mount("x", h.Scratch, "proc", 0, "") })
	})
	add("mount", "remount-the-root-writable", func(*hostFacts) (string, error) {
		return apart(func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") })
	})
	add("mount", "uncover-masked-paths", func(*hostFacts) (string, error) {
		return apart(func() error { return unix.Unmount("/proc", unix.MNT_DETACH) })
	})
	add("mount", "new-mount-interface", func(*hostFacts) (string, error) {
		fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
		if err != nil {
			return "", err
		}
		return "has a file system in the making", unix.Close(fd)
	})
	add("mount", "pivot-root", func(h *hostFacts) (string, error) {
		return apart(func() error {
			err := unix.PivotRoot(h.Scratch, h.Scratch)
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EBUSY) {
				return nil // allowed, and the folder is no mount point
			}
			return err
		})
	})
	add("namespace", "new-user-namespace", func(*hostFacts) (string, error) { return childWith(unix.CLONE_NEWUSER) })
	add("namespace", "new-mount-namespace", func(*hostFacts) (string, error) { return childWith(unix.CLONE_NEWNS) })
	add("namespace", "clone3-user-namespace", clone3)
	add("namespace", "join-the-namespaces-of-pid-1", func(*hostFacts) (string, error) {
		runtime.LockOSThread()
		fd, err := unix.Open("/proc/1/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		return "joined", unix.Setns(fd, unix.CLONE_NEWNET)
	})
	add("capability", "raise-all-capabilities", raiseCapabilities)
	add("capability", "give-a-file-to-root", func(h *hostFacts) (string, error) {
		name := filepath.Join(h.Scratch, "owned")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return "", err
		}
		return "gave it away", os.Chown(name, 0, 0)
	})
	add("capability", "set-the-host-name", func(*hostFacts) (string, error) {
		name, err := os.Hostname()
		if err != nil {
			return "", err
		}
		return "set it to what it was", unix.Sethostname([]byte(name))
	})
	add("capability", "load-a-module", func(*hostFacts) (string, error) {
		return allowedUpTo(unix.FinitModule(-1, "", 0), unix.EBADF)
	})
	add("capability", "reboot", func(*hostFacts) (string, error) {
		// With wrong magic numbers: only the right to do it is asked for.
		_, _, errno := unix.Syscall6(unix.SYS_REBOOT, 1, 1, 0, 0, 0, 0)
		return allowedUpTo(errno, unix.EINVAL)
	})
	add("setuid", "become-root", func(*hostFacts) (string, error) {
		return "is root", errors.Join(unix.Setresuid(0, 0, 0), unix.Setresgid(0, 0, 0))
	})
	add("setuid", "run-a-setuid-file", runSetuid)
	add("keyring", "add-a-key", func(*hostFacts) (string, error) {
		_, err := unix.AddKey("user", "sandboxtest", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return "added to the process's own keyring", err
	})
	add("bpf", "make-a-bpf-map", func(*hostFacts) (string, error) {
		attr := struct{ kind, key, value, entries, flags uint32 }{2, 4, 4, 1, 0}
		return descriptor(unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)))
	})
	add("bpf", "watch-all-processors", func(*hostFacts) (string, error) {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
		fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return "", err
		}
		return "has a counter", unix.Close(fd)
	})
	add("io_uring", "make-an-io-uring", func(*hostFacts) (string, error) {
		var params [120]byte
		return descriptor(unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0))
	})
	add("kernel", "read-the-kernel-log", func(*hostFacts) (string, error) {
		n, err := unix.Klogctl(10, nil) // its size alone
		return fmt.Sprintf("%d bytes", n), err
	})
	add("kernel", "handle-page-faults", func(*hostFacts) (string, error) {
		return descriptor(unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0))
	})
	add("time", "set-the-clock", func(*hostFacts) (string, error) {
		now := unix.Timex{}
		if _, err := unix.Adjtimex(&now); err != nil {
			return "", err
		}
		same := unix.Timex{Modes: unix.ADJ_FREQUENCY, Freq: now.Freq}
		_, err := unix.Adjtimex(&same)
		return "set its rate to what it was", err
	})
	add("resource", "raise-a-hard-limit", func(*hostFacts) (string, error) {
		var l unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return "", err
		}
		l.Max++
		return "raised", unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	})
	add("resource", "allow-core-dumps", func(*hostFacts) (string, error) {
		l := unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}
		return "allowed", unix.Setrlimit(unix.RLIMIT_CORE, &l)
	})
	add("resource", "raise-the-priority", func(*hostFacts) (string, error) {
		return "raised", unix.Setpriority(unix.PRIO_PROCESS, 0, -5)
	})
	add("resource", "hide-from-the-oom-killer", func(*hostFacts) (string, error) {
		return "hidden", os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	})
}

// apart does something to mounts where nobody else sees it: where a mount
// namespace of one's own can be had it is made first.
func apart(do func() error) (string, error) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the process
	if err := unix.Unshare(unix.CLONE_NEWNS); err == nil {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return "", err
		}
	} else if os.Geteuid() == 0 {
		return "", err
	}
	return "done", do()
}

// allowedUpTo takes an error that comes after the question of rights for a
// success.
func allowedUpTo(err error, after syscall.Errno) (string, error) {
	if errors.Is(err, after) {
		return "allowed: the next error is " + after.Error(), nil
	}
	if err == nil {
		return "allowed", nil
	}
	return "", err
}

func descriptor(fd, _ uintptr, errno syscall.Errno) (string, error) {
	if errno != 0 {
		return "", errno
	}
	return "has it", unix.Close(int(fd))
}

// clone3 asks for a process in a user namespace by the call whose flags a
// filter cannot read.
func clone3(*hostFacts) (string, error) {
	args := struct{ flags, pidfd, childTID, parentTID, exit, stack, stackSize, tls uint64 }{flags: unix.CLONE_NEWUSER, exit: uint64(unix.SIGCHLD)}
	pid, errno := rawClone3(unsafe.Pointer(&args), unsafe.Sizeof(args))
	if errno != 0 {
		return "", errno
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return "made one", err
}

// rawClone3 ends the child at once: it has one thread of a Go program.
//
//go:norace
func rawClone3(args unsafe.Pointer, size uintptr) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(args), size, 0)
	if errno == 0 && pid == 0 {
		for {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return pid, errno
}

func raiseCapabilities(*hostFacts) (string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{{Effective: 1<<32 - 1, Permitted: 1<<32 - 1}, {Effective: 1<<9 - 1, Permitted: 1<<9 - 1}}
	runtime.LockOSThread()
	return "has all", unix.Capset(&header, &all[0])
}

// runSetuid makes a copy of this program root's and setuid, and asks it who it
// is.
func runSetuid(h *hostFacts) (string, error) {
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	name := filepath.Join(h.Scratch, "setuid")
	defer os.Remove(name)
	if err := os.WriteFile(name, exe, 0o755); err != nil {
		return "", err
	}
	own := os.Chown(name, 0, 0)
	if err := os.Chmod(name, 0o755|os.ModeSetuid); err != nil {
		return "", errors.Join(own, err)
	}
	out, err := exec.Command(name, workerWord, "euid").Output()
	if err != nil {
		return "", errors.Join(own, err)
	}
	if string(out) != "0" {
		return "", errors.Join(own, fmt.Errorf("it ran as %s", out))
	}
	return "it ran as root", nil
}

func init() {
	ops["euid"] = func([]string) error {
		fmt.Print(os.Geteuid())
		return nil
	}
}
