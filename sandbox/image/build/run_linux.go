package build

import (
	"os"
	"syscall"
)

// apart gives a program a group of its own, and to root's programs mounts of
// their own too: those that mmdebstrap makes end with it, however it ends.
func apart() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		a.Unshareflags = syscall.CLONE_NEWNS
	}
	return a
}
