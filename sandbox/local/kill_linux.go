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
	"sync"
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

// hunt finds and kills what belongs to one attempt. It is safe for concurrent
// use.
type hunt struct {
	marker string
	begun  time.Time

	mu     sync.Mutex
	leader int            // leads session and group; 0 once it is reaped
	since  uint64         // when it started: what is older is not of the attempt
	known  map[int]uint64 // start of each process ever found, by pid
}

func newHunt(leader int, marker string) *hunt {
	return &hunt{marker: marker, begun: time.Now(), leader: leader, known: map[int]uint64{}}
}

// strike kills once what can be found while the leader lives.
func (h *hunt) strike() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leader > 0 {
		_, _, _ = h.round() // the sweep reports errors
	}
}

// sweep kills everything of the attempt until a look at all processes finds
// nothing alive, or the deadline passes.
func (h *hunt) sweep(deadline time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leader > 0 {
		_ = unix.Kill(-h.leader, unix.SIGKILL)
		if h.leader == lastPID() {
			return nil // nothing has been forked since: there is no descendant
		}
	}
	clean := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		found, unsure, err := h.round()
		if err != nil {
			return err
		}
		if len(found) > 0 {
			clean = 0
		} else if clean++; unsure == 0 || clean > 3 {
			// A process in the middle of execve shows no environment: where there
			// is one, one look is not enough.
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v live after SIGKILL", found[:min(len(found), 10)])
		}
		time.Sleep(pause)
	}
}

// reaped says that the leader's number may belong to another process now.
func (h *hunt) reaped() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leader = 0
	return nil
}

// round kills what one look at all processes finds. unsure counts the
// processes of which the environment could not be seen yet.
func (h *hunt) round() (found []int, unsure int, err error) {
	pids, err := allPIDs()
	if err != nil {
		return nil, 0, err
	}
	if h.leader > 0 && h.since == 0 {
		if p, err := readProcess(h.leader); err == nil { // a zombie shows it, too
			h.since = p.start
		}
	}
	young := h.young()
	own := os.Getpid()
	mine := map[int]uint64{}
	var others []process
	for _, pid := range pids {
		if !young(pid) {
			continue
		}
		p, err := readProcess(pid)
		// A zombie does nothing any more.
		if err != nil || p.start < h.since || pid == own || pid == h.leader || p.state == 'Z' || p.state == 'X' {
			continue
		}
		has, seen := h.owns(p), true
		if !has {
			has, seen = hasMarker(pid, h.marker)
		}
		if has {
			mine[pid] = p.start
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
			if _, done := mine[p.pid]; done {
				continue
			}
			if _, below := mine[p.parent]; below || h.leader > 0 && p.parent == h.leader {
				mine[p.pid], grown = p.start, true
			}
		}
	}
	maps.Copy(h.known, mine)
	found = slices.Sorted(maps.Keys(mine))
	for _, pid := range found {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return found, unsure, nil
}

// wrapBound is how long the kernel cannot have given away all its numbers
// (32,768 at least) since a process began.
const wrapBound = time.Second

// young is a look at the number alone that spares a look at the process: the
// kernel counts up, so what was made since a young leader has a number between
// the leader's and the last one.
func (h *hunt) young() func(pid int) bool {
	last := lastPID()
	if h.leader == 0 || last == 0 || len(h.known) > 0 || time.Since(h.begun) > wrapBound {
		return func(int) bool { return true }
	}
	return func(pid int) bool {
		if h.leader <= last {
			return h.leader < pid && pid <= last
		}
		return pid > h.leader || pid <= last
	}
}

// owns says that a process is of the attempt by its session or group, or
// because it was found before.
func (h *hunt) owns(p process) bool {
	start, found := h.known[p.pid]
	return found && start == p.start || h.leader > 0 && (p.session == h.leader || p.group == h.leader)
}

// process is one line of /proc.
type process struct {
	pid, parent, group, session int
	state                       byte
	start                       uint64 // clock ticks since boot
}

// lastPID is the number that the kernel gave away last, to a process or a
// thread of this PID namespace; 0 if it does not say. Reading it costs a
// hundredth of a look at all processes.
func lastPID() int {
	var buf [256]byte
	fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf[:])
	fields := bytes.Fields(buf[:max(n, 0)])
	if err != nil || len(fields) < 5 {
		return 0
	}
	pid, _ := strconv.Atoi(string(fields[4]))
	return pid
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
