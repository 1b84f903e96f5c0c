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

// awaitExit returns at once: here a process cannot be awaited without being
// reaped.
func awaitExit(int) {}

// hunt kills the process group of one attempt.
type hunt struct{ leader int }

func newHunt(leader int, _ string) *hunt { return &hunt{leader} }

// strike has nothing to do: without /proc only the group is found.
func (h *hunt) strike() {}

// sweep has nothing to do: the group is killed when its leader is reaped.
func (h *hunt) sweep(time.Time) error { return nil }

// reaped kills what is left of the group and waits until it is gone.
func (h *hunt) reaped() error {
	for deadline := time.Now().Add(killBound); ; time.Sleep(5 * time.Millisecond) {
		if err := unix.Kill(-h.leader, unix.SIGKILL); err == unix.ESRCH || err == unix.EPERM {
			return nil // no member, or zombies alone
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process group %d has members after SIGKILL", h.leader)
		}
	}
}
