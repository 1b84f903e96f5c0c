package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/harness/pi"
	"foundry/sandbox/image/build"
)

// TestImageBuildInterrupted stops a build by signal in each of its long steps:
// the exit code is 130, and no file, process or mount is left.
func TestImageBuildInterrupted(t *testing.T) {
	needContainers(t)
	cache := filepath.Join(repository(t), ".cache", "packages")
	if _, err := os.Stat(filepath.Join(repository(t), ".cache", "pi-image", "key")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no image of Pi, and in CI its build must be tested: .ci/pi-image builds it")
		}
		t.Skip("there is no cache of packages: .ci/pi-image makes it")
	}
	exe := foundry(t)
	lock := []string{}
	if own := filepath.Join(repository(t), ".cache", "pi-image", "debian.lock.json"); exists(own) {
		lock = []string{"--lock", own}
	}
	for step, c := range map[string]struct {
		signal  syscall.Signal
		pattern string // of a file that is there in the midst of the step
	}{
		"mmdebstrap": {syscall.SIGINT, "foundry-image-build-*/mmdebstrap/mmdebstrap.*/usr/bin/dpkg"},
		"npm":        {syscall.SIGTERM, "foundry-image-build-*/npm-agent/node_modules"},
	} {
		t.Run(step, func(t *testing.T) {
			temp, out := t.TempDir(), t.TempDir()
			cmd := exec.Command(exe, append([]string{"image", "build", "--adapter", "pi", "--version", "1.6.0", "--no-store", "-o", filepath.Join(out, "image.tar"), "--cache", cache}, lock...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
				if found, err := filepath.Glob(filepath.Join(temp, c.pattern)); err != nil || len(found) > 0 {
					break
				}
				if time.Now().After(deadline) || len(ended) > 0 {
					_ = cmd.Process.Kill()
					t.Fatalf("%s never began: %s", step, said.String())
				}
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			err := <-ended
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitInterrupted {
				t.Errorf("%v, not exit %d: %s", err, exitInterrupted, said.String())
			}
			for _, dir := range []string{temp, out} {
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
			}
			if n := processesWith(t, temp); n > 0 {
				t.Errorf("%d processes run on", n)
			}
			if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), temp) {
				t.Errorf("mounts are left: %v\n%s", err, mounts)
			}
		})
	}
}

// There is an image of each version that the adapter knows, and of no other.
func TestImageVersions(t *testing.T) {
	known := pi.Adapter{}.Versions()
	slices.Sort(known)
	if have := build.Versions(pi.Name); !slices.Equal(have, known) {
		t.Errorf("there are images for %v, and the adapter knows %v", have, known)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
