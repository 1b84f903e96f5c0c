package sandboxtest

import (
	"strconv"
	"syscall"
	"unsafe"
)

func init() { ops["crowd"] = opCrowd }

// Set before the first fork and never again: what a forked process uses must
// neither allocate nor take a lock.
var (
	bombByte  = [1]byte{'x'}
	bombPause = syscall.Timespec{Nsec: 100e6}
	crowdNap  = syscall.Timespec{Sec: 3600}
)

// fork makes a process of this one thread, 0 in the child. The child may do
// nothing but system calls: the Go runtime has but one thread there.
//
//go:norace
func fork() (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// bomb makes n processes that write for ever, each in a session of its own, or
// without a number as many as it gets.
//
//go:norace
func bomb(fd, n int) error {
	endless := n == 0
	for {
		for endless || n > 1 {
			give := n / 2
			pid, errno := fork()
			if errno != 0 {
				break // full: it tries again later
			}
			if pid == 0 {
				syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
				n = give
				continue
			}
			n -= give
		}
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&bombByte)), 1)
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&bombPause)), 0, 0)
	}
}

// opCrowd makes so many processes that sleep, and says how many it got.
//
//go:norace
func opCrowd(args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	var r tried
	for ; r.Done < n; r.Done++ {
		pid, errno := fork()
		if errno != 0 {
			return r.tell(errno)
		}
		if pid == 0 {
			for {
				syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&crowdNap)), 0, 0)
			}
		}
	}
	return r.tell(nil)
}
