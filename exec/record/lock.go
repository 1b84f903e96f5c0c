package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy is wrapped by the error for a folder that a living controller owns.
var ErrBusy = errors.New("record: the run folder is in use")

// owner is what the lock file says of who holds it. Ticks is the start time of
// the process in the kernel's count: a number of a process that was given out
// again has another one. "" where the system does not tell.
type owner struct {
	PID     int    `json:"pid"`
	Ticks   string `json:"ticks,omitempty"`
	Started string `json:"started"` // RFC 3339, UTC
}

// takeLock makes this process the owner. The kernel gives a lock up when its
// holder dies, so that a killed controller leaves no stale one; where the file
// system has no locks, the process that the file names decides. The file stays
// and names the last owner.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record: the lock cannot be opened: %w", err)
	}
	fail := func(err error) (*os.File, error) { return nil, errors.Join(err, f.Close()) }
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return fail(fmt.Errorf("record: the lock cannot be read: %w", err))
	}
	var last owner
	_ = json.Unmarshal(data, &last) // a torn one names nobody
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fail(fmt.Errorf("%w by process %d, which took it at %s: wait for it, or stop it", ErrBusy, last.PID, last.Started))
	case err != nil && last.alive():
		return fail(fmt.Errorf("%w by process %d, which took it at %s (the file system has no locks)", ErrBusy, last.PID, last.Started))
	}
	me := owner{PID: os.Getpid(), Ticks: startTicks(os.Getpid()), Started: time.Now().UTC().Format(time.RFC3339)}
	data, err = json.Marshal(me)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(data, '\n'), 0)
	}
	if err != nil {
		return fail(fmt.Errorf("record: the lock cannot be written: %w", err))
	}
	return f, nil
}

// alive reports whether the very process still runs.
func (o owner) alive() bool {
	if o.PID <= 0 || o.PID == os.Getpid() {
		return false
	}
	err := unix.Kill(o.PID, 0)
	return (err == nil || errors.Is(err, unix.EPERM)) && startTicks(o.PID) == o.Ticks
}

// startTicks is field 22 of /proc/PID/stat, "" where there is none.
func startTicks(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The name of the program is in parentheses and may hold anything.
	_, rest, ok := strings.Cut(string(data[max(0, strings.LastIndexByte(string(data), ')')):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return ""
	}
	return fields[19]
}
