//go:build unix && !linux

package local

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"foundry/sandbox"
)

var processGroup = sandbox.Property{
	Name: sandbox.PropProcessGroup, State: sandbox.NotEnforced,
	Detail: "the process group is killed; a descendant that leaves it is not found on this system",
}

func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// strike has nothing to do: without /proc only the group is found.
func strike(int, string) {}

// awaitExit returns at once: here a process cannot be awaited without being
// reaped.
func awaitExit(int) {}

// sweep has nothing to do: the group is killed when its leader is reaped.
func sweep(int, string, time.Time) error { return nil }

// sweepReaped kills what is left of the group and waits until it is gone.
func sweepReaped(leader int) error {
	for deadline := time.Now().Add(killBound); ; time.Sleep(5 * time.Millisecond) {
		if err := unix.Kill(-leader, unix.SIGKILL); err == unix.ESRCH || err == unix.EPERM {
			return nil // no member, or zombies alone
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process group %d has members after SIGKILL", leader)
		}
	}
}
