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
// system has no locks, the process that the file names decides. The file stays.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record: the lock cannot be opened: %w", err)
	}
	fail := func(err error) (*os.File, error) { return nil, errors.Join(err, f.Close()) }
	last, err := lockOf(f)
	if err != nil {
		return fail(fmt.Errorf("record: the lock cannot be read: %w", err))
	}
	for begun := time.Now(); ; time.Sleep(lockPause) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		// A killed owner's child that was about to become a worker holds the lock
		// too, for the moment that it still lives.
		if !errors.Is(err, unix.EWOULDBLOCK) || last.alive() || time.Since(begun) > lockWait {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fail(fmt.Errorf("%w by process %d, which took it at %s: wait for it, or stop it", ErrBusy, last.PID, last.Started))
	case err != nil && last.alive():
		return fail(fmt.Errorf("%w by process %d, which took it at %s (the file system has no locks)", ErrBusy, last.PID, last.Started))
	}
	me := owner{PID: os.Getpid(), Ticks: startTicks(os.Getpid()), Started: time.Now().UTC().Format(time.RFC3339)}
	data, err := json.Marshal(me)
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

// How long a lock is waited for whose owner is dead.
const (
	lockWait  = 2 * time.Second
	lockPause = 10 * time.Millisecond
)

func lockOf(f *os.File) (owner, error) {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	var last owner
	_ = json.Unmarshal(data, &last) // a torn one names nobody
	return last, err
}

// dropLock gives the folder up. Unlocked in so many words: a child that was
// forked and has not yet become a worker holds the file open for a moment.
func dropLock(f *os.File) error {
	return errors.Join(f.Truncate(0), unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// alive reports whether the very process still runs.
func (o owner) alive() bool {
	if o.PID <= 0 {
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
