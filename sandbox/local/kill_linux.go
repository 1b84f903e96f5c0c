package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"foundry/sandbox"
)

var processGroup = sandbox.Property{
	Name: sandbox.PropProcessGroup, State: sandbox.Enforced,
	Detail: "process group, session, and every descendant that keeps the marker in its environment or its parent; one that drops all of these is not found",
}

func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has ended and does not reap it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// strike kills what can be found of an attempt whose leader lives.
func strike(leader int, marker string) {
	found, _, _ := find(leader, marker, startOf(leader)) // the sweep reports errors
	for _, pid := range found {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// sweepReaped has nothing to do where sweep sees all processes.
func sweepReaped(int) error { return nil }

// sweep kills everything of an attempt until a look at all processes finds
// nothing alive, or the deadline passes. leader is the process that leads
// session and group and is not reaped yet, or 0.
func sweep(leader int, marker string, deadline time.Time) error {
	if leader > 0 {
		_ = unix.Kill(-leader, unix.SIGKILL)
	}
	since := startOf(leader)
	clean := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		found, unsure, err := find(leader, marker, since)
		if err != nil {
			return err
		}
		for _, pid := range found {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if len(found) == 0 {
			// A process in the middle of execve shows no environment: look again.
			if clean++; unsure == 0 || clean > 3 {
				return nil
			}
		} else {
			clean = 0
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v live after SIGKILL", found[:min(len(found), 10)])
		}
		time.Sleep(pause)
	}
}

// process is one line of /proc.
type process struct {
	pid, parent, group, session int
	state                       byte
	start                       uint64 // clock ticks since boot
}

func startOf(pid int) uint64 {
	p, err := readProcess(pid)
	if err != nil {
		return 0
	}
	return p.start
}

// find lists the living processes of an attempt. unsure counts those of which
// the environment could not be seen yet.
func find(leader int, marker string, since uint64) (found []int, unsure int, err error) {
	pids, err := allPIDs()
	if err != nil {
		return nil, 0, err
	}
	own := os.Getpid()
	mine := map[int]bool{}
	var others []process
	for _, pid := range pids {
		p, err := readProcess(pid)
		// What is older than the attempt is not of it; a zombie does nothing.
		if err != nil || p.start < since || pid == own || pid == leader || p.state == 'Z' || p.state == 'X' {
			continue
		}
		if leader > 0 && (p.session == leader || p.group == leader) {
			mine[pid] = true
			continue
		}
		has, seen := hasMarker(pid, marker)
		if has {
			mine[pid] = true
			continue
		}
		if !seen && p.parent != 2 { // 2 makes the kernel's own threads
			unsure++
		}
		others = append(others, p)
	}
	for grown := true; grown; {
		grown = false
		for _, p := range others {
			if !mine[p.pid] && (mine[p.parent] || leader > 0 && p.parent == leader) {
				mine[p.pid], grown = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(mine)), unsure, nil
}

func allPIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, errors.Join(errors.New("/proc shows no process"), err)
	}
	return pids, nil
}

// readProcess parses /proc/PID/stat, whose second field is a name that may
// hold anything.
func readProcess(pid int) (process, error) {
	var buf [1024]byte
	data, err := readProc(pid, "stat", buf[:])
	if err != nil {
		return process{}, err
	}
	i := bytes.LastIndexByte(data, ')')
	fields := bytes.Fields(data[i+1:])
	if i < 0 || len(fields) < 20 {
		return process{}, errors.New("/proc: unexpected stat line")
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(fields[i]))
		return n
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return process{pid: pid, state: fields[0][0], parent: number(1), group: number(2), session: number(3), start: start}, err
}

func readProc(pid int, name string, buf []byte) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	return buf[:max(n, 0)], err
}

// maxEnviron bounds how much of an environment is searched. The kernel allows
// a quarter of the stack limit (2 MiB by default) for arguments and
// environment together.
const maxEnviron = 8 << 20

// hasMarker looks for the marker in a process's environment. seen is false
// when there was none to look at.
func hasMarker(pid int, marker string) (has, seen bool) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false, true // gone, or another user's
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return false, true
	}
	entry := []byte(marker)
	return bytes.HasPrefix(data, append(entry, 0)) || bytes.Contains(data, append(append([]byte{0}, entry...), 0)), len(data) > 0
}
