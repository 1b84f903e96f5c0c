//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"foundry/sandbox/image"

	"golang.org/x/sys/unix"
)

// peer runs the same spec with the tools of others.
type peer struct {
	dir    string
	rootfs string
	spec   map[string]any
	count  int
	daemon *exec.Cmd
	socket string
	why    string // there is no ctr run
}

// newPeer makes a bundle of a spec as it was run: the same but for the root,
// which is a folder, and for output and scratch, which are made once here and
// afresh for each step there.
func newPeer(dir string, spec []byte) (*peer, error) {
	p := &peer{dir: filepath.Join(dir, "peer"), rootfs: filepath.Join(dir, "peer", "rootfs")}
	if err := json.Unmarshal(spec, &p.spec); err != nil {
		return nil, err
	}
	noop, err := exec.LookPath("true")
	if err != nil {
		return nil, err
	}
	if noop, err = filepath.EvalSymlinks(noop); err != nil {
		return nil, err
	}
	made, err := image.Builtin(noop, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the container's root passes
		return nil, err
	}
	if err := errors.Join(os.Mkdir(p.dir, 0o711), extract(made.Layer.Bytes, p.rootfs)); err != nil {
		return nil, err
	}
	p.spec["root"] = map[string]any{"path": p.rootfs, "readonly": true}
	for _, m := range p.spec["mounts"].([]any) {
		mount := m.(map[string]any)
		if mount["type"] != "bind" {
			continue
		}
		folder := filepath.Join(p.dir, filepath.Base(mount["destination"].(string)))
		if err := os.Mkdir(folder, 0o777); err != nil {
			return nil, err
		}
		if err := unix.Mount("foundry-bench", folder, "tmpfs", 0, "size=16m,mode=0777"); err != nil {
			return nil, err
		}
		mount["source"] = folder
	}
	return p, nil
}

func extract(layer []byte, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	in := tar.NewReader(bytes.NewReader(layer))
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		at := filepath.Join(to, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(at, os.FileMode(h.Mode)); err != nil {
				return err
			}
			continue
		}
		b, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, b, os.FileMode(h.Mode)); err != nil {
			return err
		}
	}
}

// bundle writes the spec of the next step.
func (p *peer) bundle() (id, folder string, err error) {
	p.count++
	id = fmt.Sprintf("foundry-bench-%d-%d", os.Getpid(), p.count)
	p.spec["linux"].(map[string]any)["cgroupsPath"] = "/" + id
	b, err := json.Marshal(p.spec)
	if err != nil {
		return "", "", err
	}
	folder = filepath.Join(p.dir, "bundle")
	err = os.MkdirAll(folder, 0o700)
	return id, folder, errors.Join(err, os.WriteFile(filepath.Join(folder, "config.json"), b, 0o600))
}

func (p *peer) timed(into *series, cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	into.critical = append(into.critical, time.Since(begun))
	into.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return nil
}

func (p *peer) runc(ctx context.Context, n int, into *series) error {
	for range n {
		id, folder, err := p.bundle()
		if err != nil {
			return err
		}
		if err := p.timed(into, exec.CommandContext(ctx, "runc", "--root", filepath.Join(p.dir, "runc"), "run", "--bundle", folder, id)); err != nil {
			return err
		}
	}
	return nil
}

// ctr starts a containerd of the system's for `ctr run`, and says whether
// there is one.
func (p *peer) ctr(ctx context.Context) bool {
	if _, err := exec.LookPath("ctr"); err != nil {
		p.why = "there is no ctr"
		return false
	}
	found, err := exec.LookPath("containerd")
	if err != nil {
		p.why = "there is no containerd"
		return false
	}
	p.socket = filepath.Join(p.dir, "c.sock")
	p.daemon = exec.CommandContext(ctx, found, "--root", filepath.Join(p.dir, "root"), "--state", filepath.Join(p.dir, "state"), "--address", p.socket, "--log-level", "error", "--config", "/dev/null")
	p.daemon.Dir = p.dir // it would take a shim that lies about
	if err := p.daemon.Start(); err != nil {
		p.why, p.daemon = err.Error(), nil
		return false
	}
	for range 300 {
		if exec.CommandContext(ctx, "ctr", "--address", p.socket, "version").Run() == nil {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.why = "containerd does not come up"
	return false
}

func (p *peer) ctrRun(ctx context.Context, n int, into *series) error {
	before, err := processTime(p.socket, p.daemon.Process.Pid)
	if err != nil {
		return err
	}
	for range n {
		id, folder, err := p.bundle()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "ctr", "--address", p.socket, "run", "--rm", "--config", filepath.Join(folder, "config.json"), id)
		if err := p.timed(into, cmd); err != nil {
			return err
		}
	}
	after, err := processTime(p.socket, p.daemon.Process.Pid)
	into.cpu += after - before
	return err
}

func (p *peer) close() {
	if p.daemon != nil {
		_ = p.daemon.Process.Signal(syscall.SIGTERM)
		_ = p.daemon.Wait() // it was told to end
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], p.dir+"/") {
			if err := unix.Unmount(f[4], 0); err != nil {
				fmt.Fprintln(os.Stderr, "unmounting", f[4], err)
			}
		}
	}
}

// processTime is the CPU time so far of this process, where no others are
// named, of the processes whose session began with one that has a word in its
// command line, and of all that they waited for.
func processTime(word string, others ...int) (time.Duration, error) {
	var total time.Duration
	if len(others) == 0 {
		var self unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
			return 0, err
		}
		total = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	sessions := map[string]bool{}
	for _, pid := range others {
		sessions[strconv.Itoa(pid)] = true
	}
	stats := map[string][]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it ended
		}
		pid := filepath.Base(filepath.Dir(f))
		stats[pid] = strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
		cmd, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		if pid != strconv.Itoa(os.Getpid()) && bytes.Contains(cmd, []byte(word)) {
			sessions[pid] = true
		}
	}
	for pid, f := range stats {
		// Fields after the name: state ppid pgrp session … utime stime cutime cstime.
		if len(f) < 15 || !sessions[f[3]] && !sessions[pid] {
			continue
		}
		for _, ticks := range f[11:15] {
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, err
			}
			total += time.Duration(n) * 10 * time.Millisecond // USER_HZ is 100 everywhere
		}
	}
	return total, nil
}
