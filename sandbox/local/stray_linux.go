package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// controllerMark names this process, as a part of the marker: its number, its
// start in the kernel's count, and the PID namespace that both are of. So a
// process of an attempt tells whether its controller is still there.
func controllerMark() string {
	pid := os.Getpid()
	p, err := readProcess(pid)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d-%d-%d", pid, p.start, pidNamespace("self"))
}

// pidNamespace is the inode of a process's PID namespace, 0 if it is not told.
func pidNamespace(pid string) uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/"+pid+"/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// controllerGone reports whether the controller that a marker names is dead,
// and can be seen to be: one in another PID namespace is left alone.
func controllerGone(mark string) bool {
	fields := strings.Split(mark, "-")
	if len(fields) != 3 {
		return false
	}
	pid, errP := strconv.Atoi(fields[0])
	start, errS := strconv.ParseUint(fields[1], 10, 64)
	space, errN := strconv.ParseUint(fields[2], 10, 64)
	if errP != nil || errS != nil || errN != nil || space == 0 || space != pidNamespace("self") {
		return false
	}
	p, err := readProcess(pid)
	return err != nil && os.IsNotExist(err) || err == nil && (p.start != start || p.state == 'Z' || p.state == 'X')
}

// strays looks at all processes of this user and finds those of attempts whose
// controller is dead, and their descendants.
func strays(run string) ([]Stray, error) {
	pids, err := allPIDs()
	if err != nil {
		return nil, err
	}
	found := map[int]Stray{}
	var others []process
	for _, pid := range pids {
		p, err := readProcess(pid)
		if err != nil || p.state == 'Z' || p.state == 'X' || !ownedByMe(pid) {
			continue
		}
		m, ok := markOf(pid)
		if !ok {
			others = append(others, p)
			continue
		}
		if (run == "" || m.run == run) && controllerGone(m.controller) {
			found[pid] = Stray{PID: pid, Run: m.run, Attempt: m.attempt, start: p.start}
		}
	}
	for grown := len(found) > 0; grown; {
		grown = false
		for _, p := range others {
			above, below := found[p.parent]
			if _, done := found[p.pid]; below && !done {
				found[p.pid] = Stray{PID: p.pid, Run: above.Run, Attempt: above.Attempt, start: p.start}
				grown = true
			}
		}
	}
	list := make([]Stray, 0, len(found))
	for _, s := range found {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Stray) int { return a.PID - b.PID })
	return list, nil
}

func ownedByMe(pid int) bool {
	var st unix.Stat_t
	return unix.Stat("/proc/"+strconv.Itoa(pid), &st) == nil && int(st.Uid) == os.Geteuid()
}

// mark is a marker's value, taken apart.
type mark struct{ run, attempt, controller string }

func markOf(pid int) (mark, bool) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return mark{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return mark{}, false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		value, ok := strings.CutPrefix(string(entry), MarkerVar+"=")
		if !ok {
			continue
		}
		fields := strings.Split(value, ".")
		if len(fields) != 4 {
			return mark{}, false
		}
		return mark{run: fields[0], attempt: fields[1], controller: fields[3]}, true
	}
	return mark{}, false
}

// end kills one stray. Its number may belong to another process by now: a
// handle on the process is compared once more.
func (s Stray) end() error {
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		return nil // gone
	}
	defer unix.Close(fd)
	if p, err := readProcess(s.PID); err != nil || p.start != s.start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("local sandbox: process %d of run %s: %w", s.PID, s.Run, err)
	}
	return nil
}

// EndStrays kills what is left of local attempts whose controller is dead, of
// one run or of all ("") of this user, and returns when none is found any more.
// What is of a living controller is not touched. It lists what it ended.
func EndStrays(ctx context.Context, run string) ([]Stray, error) {
	var ended []Stray
	deadline := time.Now().Add(killBound)
	for {
		found, err := strays(run)
		if err != nil || len(found) == 0 {
			return ended, err
		}
		for _, s := range found {
			if err := s.end(); err != nil {
				return ended, err
			}
			if !slices.Contains(ended, s) {
				ended = append(ended, s)
			}
		}
		if time.Now().After(deadline) {
			return ended, fmt.Errorf("local sandbox: %d processes of dead runs live after SIGKILL, such as %d of run %s", len(found), found[0].PID, found[0].Run)
		}
		select {
		case <-ctx.Done():
			return ended, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
