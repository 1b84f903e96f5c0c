//go:build unix

package sandboxtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func init() {
	ops["burn"] = opBurn
	ops["fill"] = opFill
	ops["names"] = opNames
	ops["hog"] = opHog
	ops["eat"] = opEat
	ops["trapper"] = opTrapper
	ops["bomb"] = opBomb
	ops["places"] = opPlaces
}

// burnt is what two busy threads got of a processor.
type burnt struct {
	WallNanos int64 `json:"wall_ns"`
	CPUNanos  int64 `json:"cpu_ns"`
}

func opBurn(args []string) error {
	millis, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(2)
	begin := time.Now()
	done := make(chan struct{})
	spin := func() {
		for time.Since(begin) < time.Duration(millis)*time.Millisecond {
			for range 1 << 16 {
				_ = *new(int)
			}
		}
		done <- struct{}{}
	}
	go spin()
	go spin()
	<-done
	<-done
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(burnt{time.Since(begin).Nanoseconds(), u.Utime.Nano() + u.Stime.Nano()})
}

// tried is how far a worker came, and what stopped it.
type tried struct {
	Done  int64  `json:"done"`
	Error string `json:"error"` // the errno's text, "" for none
}

func (r tried) tell(err error) error {
	if err != nil {
		r.Error = err.Error()
		var n syscall.Errno
		if errors.As(err, &n) {
			r.Error = n.Error()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// opFill writes to a file until it fails or holds so many bytes.
func opFill(args []string) error {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return tried{}.tell(err)
	}
	defer f.Close()
	var r tried
	for block := make([]byte, 1<<16); r.Done < n; {
		k, err := f.Write(block)
		r.Done += int64(k)
		if err != nil {
			return r.tell(err)
		}
	}
	return r.tell(nil)
}

// opNames makes empty files in a folder until it fails or there are so many.
func opNames(args []string) error {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	var r tried
	for ; r.Done < n; r.Done++ {
		f, err := os.OpenFile(filepath.Join(args[0], fmt.Sprintf("n%06d", r.Done)), os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return r.tell(err)
		}
		f.Close()
	}
	return r.tell(nil)
}

// opHog has a child eat memory, says how that ended, and exits with 0.
func opHog(args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	end := "exit status 0"
	if err := exec.Command(exe, append([]string{workerWord, "eat"}, args...)...).Run(); err != nil {
		end = err.Error()
	}
	fmt.Print(end)
	return nil
}

// opEat takes so many bytes of memory and touches each page.
func opEat(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	kept := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		kept[i] = 1
	}
	runtime.KeepAlive(kept)
	return nil
}

// opTrapper ignores the signals that ask, has a grandchild in a session of its
// own write each 100 ms, and writes itself.
func opTrapper(args []string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if err := spawn(os.Environ(), "fork", filepath.Join(args[0], "grandchild")); err != nil {
		return err
	}
	for i := 0; ; i++ {
		f, err := os.OpenFile(filepath.Join(args[0], "own"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		if _, err := f.WriteString("x"); err != nil {
			return err
		}
		f.Close()
		if info, err := os.Stat(filepath.Join(args[0], "grandchild")); err == nil && info.Size() > 0 {
			fmt.Println("ready")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// opBomb forks: so many processes, or with 0 as many as it can, each of which
// appends to a file.
func opBomb(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return bomb(int(f.Fd()), n)
}

// place is a folder that programs expect to be able to write to.
type place struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// opPlaces writes to the folders of the environment and to those given.
func opPlaces(paths []string) error {
	home, errHome := os.UserHomeDir()
	cache, errCache := os.UserCacheDir()
	if err := errors.Join(errHome, errCache); err != nil {
		return err
	}
	var got []place
	for _, dir := range append([]string{home, os.TempDir(), cache}, paths...) {
		p := place{Path: dir}
		f, err := os.CreateTemp(dir, "place-*")
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
		if err != nil {
			p.Error = err.Error()
		}
		got = append(got, p)
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}
