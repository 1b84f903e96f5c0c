package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/exec/record"
)

// processesWith counts the living processes whose command line holds a text.
func processesWith(t testing.TB, text string) int {
	t.Helper()
	n := 0
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, []byte(text)) {
			n++
		}
	}
	return n
}

// TestInterrupted stops a run by signal while its worker sleeps (B16): the
// record is whole and says cancelled, the exit code is 130, nothing runs on,
// and the run goes on afterwards.
func TestInterrupted(t *testing.T) {
	exe := foundry(t)
	sandboxes := []string{"local"}
	if canContain(t) {
		sandboxes = append(sandboxes, "container")
	}
	for _, sandbox := range sandboxes {
		for name, signals := range map[string][]syscall.Signal{
			"INT":       {syscall.SIGINT},
			"INT twice": {syscall.SIGINT, syscall.SIGINT},
			"TERM":      {syscall.SIGTERM},
			"HUP":       {syscall.SIGHUP},
		} {
			t.Run(sandbox+" "+name, func(t *testing.T) {
				dir := slowQuickstart(t)
				run := filepath.Join(dir, "run")
				env := append(os.Environ(), "FOUNDRY_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
				cmd := exec.Command(exe, "apply", "--yes", "--sandbox", sandbox, "--run-dir", run, dir)
				cmd.Env = env
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				underWay(t, run, out.String)
				for _, s := range signals {
					if err := cmd.Process.Signal(s); err != nil {
						t.Fatal(err)
					}
					time.Sleep(50 * time.Millisecond)
				}
				err := cmd.Wait()
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok || exit.ExitCode() != exitInterrupted {
					t.Fatalf("it ended with %v, want exit code 130\n%s", err, out.String())
				}
				cancelled(t, exe, env, run)
			})
		}
	}
}

// slowQuickstart is a copy of the quickstart whose second step sleeps.
func slowQuickstart(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, filepath.Join(repository(t), "examples", "quickstart"), dir)
	script := filepath.Join(dir, "scripts", "release-notes.json")
	before, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	slow := strings.Replace(string(before), `"classify-changes": [`, `"classify-changes": [{"sleep_ms": 1500},`, 1)
	if slow == string(before) {
		t.Fatal("the script has no such step")
	}
	write(t, script, []byte(slow))
	return dir
}

// underWay waits for the step that sleeps.
func underWay(t *testing.T, run string, said func() string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		data, _ := os.ReadFile(filepath.Join(run, record.EventsFile))
		if bytes.Contains(data, []byte(`"node_started"`)) && bytes.Contains(data, []byte(`"node":"classify-changes"`)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the second step never started\n%s", said())
		}
	}
}

// cancelled checks what an interrupted run leaves, and goes on with it: what is
// finished is not repeated.
func cancelled(t *testing.T, exe string, env []string, run string) {
	t.Helper()
	r, err := record.ReadRun(run)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != record.StatusCancelled || r.Nodes[0].Status != record.StatusSucceeded {
		t.Errorf("status %s, first step %s", r.Status, r.Nodes[0].Status)
	}
	if n := processesWith(t, run); n > 0 {
		t.Errorf("%d processes of the run are alive", n)
	}
	if _, err := os.Stat(filepath.Join(run, "artifacts", "classify-changes")); err == nil {
		t.Error("the interrupted step's artifacts were promoted")
	}
	again := exec.Command(exe, "apply", "--yes", "--resume", run)
	again.Env = env
	if text, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r, err = record.ReadRun(run)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != record.StatusSucceeded || len(r.Nodes[0].Attempts) != 1 || len(r.Nodes[1].Attempts) != 2 {
		t.Errorf("after going on: %s, attempts %s", r.Status, fmt.Sprint(len(r.Nodes[0].Attempts), len(r.Nodes[1].Attempts)))
	}
}
