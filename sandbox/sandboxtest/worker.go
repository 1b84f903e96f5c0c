//go:build unix

package sandboxtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// workerWord is the first argument that makes a test binary a worker.
const workerWord = "sandboxtest-worker"

// WorkerMain ends the process when it was started as a worker of this suite,
// and returns at once when it was not.
func WorkerMain() {
	if len(os.Args) < 3 || os.Args[1] != workerWord {
		return
	}
	op, ok := ops[os.Args[2]]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: unknown operation %q\n", workerWord, os.Args[2])
		os.Exit(125)
	}
	if err := op(os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", workerWord, os.Args[2], err)
		os.Exit(124)
	}
	os.Exit(0)
}

// ops are what a worker can do. They take paths, numbers and text.
var ops = map[string]func(args []string) error{}

func init() {
	maps.Copy(ops, map[string]func([]string) error{
		"self":     opSelf,
		"cat":      opCat,
		"write":    func(a []string) error { return os.WriteFile(a[0], []byte(a[1]), 0o644) },
		"trywrite": opTryWrite,
		"mess":     opMess,
		"pour":     opPour,
		"both":     opBoth,
		"echo":     opEcho,
		"exit":     func(a []string) error { n, err := strconv.Atoi(a[0]); os.Exit(n); return err },
		"sleep":    func([]string) error { fmt.Println("ready"); return sleep() },
		"linger":   func(a []string) error { return opLinger(a, false) },
		"leave":    func(a []string) error { return opLinger(a, true) },
		"fork":     func(a []string) error { return spawn(os.Environ(), append([]string{"append"}, a...)...) },
		"append":   opAppend,
	})
}

func sleep() error {
	time.Sleep(time.Hour)
	return nil
}

// self is what a worker says of itself.
type self struct {
	Env  []string `json:"env"`
	Args []string `json:"args"`
	Cwd  string   `json:"cwd"`
	SID  bool     `json:"sid"` // it leads its session, or is the first of its PID namespace
}

func opSelf(args []string) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	pid := os.Getpid()
	return json.NewEncoder(os.Stdout).Encode(self{Env: os.Environ(), Args: args, Cwd: cwd, SID: pid == 1 || syscall.Getpgrp() == pid})
}

// opCat prints path → content; a file that cannot be read is left out.
func opCat(paths []string) error {
	got := map[string]string{}
	for _, p := range paths {
		if data, err := os.ReadFile(p); err == nil {
			got[p] = string(data)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// opTryWrite prints path → whether it could be written to, after the worker
// did what it can to make it so.
func opTryWrite(paths []string) error {
	got := map[string]bool{}
	for _, p := range paths {
		_ = os.Chmod(filepath.Dir(p), 0o777)
		_ = os.Chmod(p, 0o666)
		got[p] = os.WriteFile(p, []byte("changed by a worker"), 0o644) == nil
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// opMess leaves things below a folder that are hard to remove.
func opMess(args []string) error {
	for _, root := range args {
		dir := root
		for range 50 {
			dir = filepath.Join(dir, "d")
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
			return err
		}
		if err := os.Symlink("/", filepath.Join(root, "link")); err != nil {
			return err
		}
		for ; dir != root; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func opBoth(args []string) error {
	n, err := strconv.Atoi(args[0])
	for i := 0; i < n && err == nil; i++ {
		if _, err = io.WriteString(os.Stdout, "out\n"); err == nil {
			_, err = io.WriteString(os.Stderr, "err\n")
		}
	}
	return err
}

func opEcho([]string) error {
	n, err := io.Copy(os.Stdout, os.Stdin)
	fmt.Fprintln(os.Stderr, n)
	return err
}

// opLinger starts a grandchild in a session of its own that appends to a file
// for ever and holds the standard streams; then it ends or sleeps.
// With the argument "bare" the grandchild's environment is empty.
func opLinger(args []string, leave bool) error {
	env := os.Environ()
	if len(args) > 1 && args[1] == "bare" {
		env = []string{}
	}
	if err := spawn(env, "fork", args[0]); err != nil {
		return err
	}
	for {
		if info, err := os.Stat(args[0]); err == nil && info.Size() > 10 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	if leave {
		return nil
	}
	return sleep()
}

// spawn starts this program as another worker in a new session.
func spawn(env []string, args ...string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, append([]string{workerWord}, args...)...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// opAppend writes for half an hour at most, so that a suite that failed leaves
// nothing behind for ever.
func opAppend(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	for end := time.Now().Add(30 * time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := f.WriteString("x"); err != nil {
			return err
		}
	}
	return nil
}
