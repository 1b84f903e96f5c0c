//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"
)

// patience is how long the suite waits for what should take milliseconds: it
// fails a runtime that hangs, not one on a slow machine. The long variants make
// 200,000 files.
var patience = map[bool]time.Duration{false: 60 * time.Second, true: 5 * time.Minute}[Long()]

// Run tests a runtime. open makes one for a test and registers what cleans up
// what Close does not; exe is the absolute path of a program whose main calls
// WorkerMain first.
func Run(t *testing.T, open func(t *testing.T) sandbox.Runtime, exe string) {
	s := &suite{runtime: open(t), exe: exe}
	t.Cleanup(func() {
		if err := s.runtime.Close(); err != nil {
			t.Errorf("closing the runtime: %v", err)
		}
	})
	for _, c := range append([]suiteCase{
		{"staging", (*suite).staging},
		{"output", (*suite).output},
		{"environment", (*suite).environment},
		{"read-only", (*suite).readOnly},
		{"big stdout", (*suite).bigStdout},
		{"big stderr", (*suite).bigStderr},
		{"one long line", (*suite).bigLine},
		{"slow reader", (*suite).slowReader},
		{"streams closed by the worker", (*suite).closedByWorker},
		{"stdin", (*suite).stdin},
		{"no stdin", (*suite).noStdin},
		{"two streams", (*suite).twoStreams},
		{"failing writer", (*suite).failingWriter},
		{"exit codes", (*suite).exitCodes},
		{"wall", (*suite).wall},
		{"cancellation", (*suite).cancellation},
		{"escaped child", (*suite).escapedChild},
		{"child left behind", (*suite).childLeftBehind},
		{"side by side", (*suite).sideBySide},
		{"order of calls", (*suite).orderOfCalls},
		{"cannot prepare", (*suite).cannotPrepare},
		{"facts", (*suite).facts},
		{"nothing left", (*suite).nothingLeft},
		{"fork bomb", (*suite).forkBomb},
		{"memory hog", (*suite).memoryHog},
		{"yes", (*suite).yes},
		{"trapper", (*suite).trapper},
		{"cpu", (*suite).cpu},
		{"pids", (*suite).pids},
		{"output bytes", (*suite).outputBytes},
		{"output files", (*suite).outputFiles},
		{"places", (*suite).places},
		{"secrets", (*suite).secrets},
		{"promotion", (*suite).promotion},
		{"link of an input", (*suite).linkedInput},
		{"declared name", (*suite).declaredName},
		{"swapped", (*suite).swapped},
		{"no programs", (*suite).noPrograms},
	}, platformCases...) {
		t.Run(c.name, func(t *testing.T) { c.test(s, t) })
	}
}

type suiteCase struct {
	name string
	test func(*suite, *testing.T)
}

// platformCases are those that one system alone can run.
var platformCases []suiteCase

type suite struct {
	runtime  sandbox.Runtime
	exe      string
	attempts atomic.Int64
}

// secret is the value of a token that no record may hold: another one for each
// process, so that suites that run at the same time do not find each other's.
var secret, _ = newCanary()

// runID names what the suite makes, for the same reason.
var runID = fmt.Sprint("suite", os.Getpid())

// task is an attempt of a worker operation, with every kind of mount.
func (s *suite) task(t *testing.T, op ...string) sandbox.Task {
	t.Helper()
	host, err := filepath.EvalSymlinks(t.TempDir()) // a process sees where it is without links
	must(t, err)
	for p, content := range map[string]string{
		"demo/SKILL.md":     "---\nname: demo\n---\n",
		"demo/sub/tool":     "tool",
		"other/SKILL.md":    "other skill",
		"data/sub/data.txt": "input bytes",
		"rec/r.txt":         "recorded bytes",
	} {
		file := filepath.Join(host, "trees", p)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(content), 0o644))
	}
	dir := filepath.Join(host, "attempt")
	must(t, os.Mkdir(dir, 0o755))
	tree := func(name string) string { return filepath.Join(host, "trees", name) }
	image := ""
	if s.runtime.Mode() == plan.SandboxContainer {
		image = plan.ImageBuiltin
	}
	return sandbox.Task{
		Run: runID, Attempt: "a" + itoa(s.attempts.Add(1)), Dir: dir,
		Process: plan.Process{
			Argv: append([]string{"{foundry}", workerWord}, op...),
			Env:  []string{"HOME={scratch}", "PATH=/usr/bin:/bin", "TMPDIR={scratch}/tmp", "XDG_CACHE_HOME={scratch}/home/.cache", "TOKEN={broker.token}", "WORD=a b\"c"},
			Cwd:  "{scratch}",
			User: "65534:65534",
		},
		Files: []plan.File{{Path: "{scratch}/conf/app.json", Content: `{"out":"{out}","in":"{in:data}","literal":"{nothing}"}`}},
		Sandbox: plan.Sandbox{
			Mode: s.runtime.Mode(), Image: image, Network: plan.NetworkNone, Credentials: []string{},
			Mounts: []plan.Mount{
				{Source: "skill:demo", Destination: "/skills/demo", Mode: plan.MountReadOnly},
				{Source: "skill:other", Destination: "/skills/other", Mode: plan.MountReadOnly},
				{Source: "in:data", Destination: "/in/data", Mode: plan.MountReadOnly},
				{Source: "in:absent", Destination: "/in/absent", Mode: plan.MountReadOnly},
				{Source: "recorded:rec", Destination: "/recorded", Mode: plan.MountReadOnly},
				{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: 16 * mib},
				{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: 16 * mib},
				{Source: plan.MountTmpfs, Destination: "/tmp", Mode: plan.MountReadWrite, Bytes: 16 * mib},
			},
			Resources: plan.Resources{MemoryBytes: 512 * mib, PIDs: 128, CPUMillis: 1000},
		},
		Wall: patience, OutputBytes: 16 * mib, OutputFiles: 1000,
		Skill:      "skill:demo",
		InputPaths: map[string]string{"data": "sub/data.txt"},
		Trees:      map[string]string{"skill:demo": tree("demo"), "skill:other": tree("other"), "in:data": tree("data"), "recorded:rec": tree("rec")},
		Tokens:     map[string]string{"broker.token": secret, "broker.url": "http://127.0.0.1:1"},
		Executable: s.exe,
	}
}

func (s *suite) prepare(t *testing.T, task sandbox.Task) sandbox.Sandbox {
	t.Helper()
	box, err := s.runtime.Prepare(t.Context(), task)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := box.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return box
}

// ran is an attempt from start to Kill.
type ran struct {
	box            sandbox.Sandbox
	exit           sandbox.Exit
	stdout, stderr bytes.Buffer
}

// run runs a task to its end.
func (s *suite) run(t *testing.T, task sandbox.Task, stdin io.Reader) *ran {
	t.Helper()
	r := &ran{box: s.prepare(t, task)}
	must(t, r.box.Start(t.Context(), sandbox.Stdio{Stdin: stdin, Stdout: &r.stdout, Stderr: &r.stderr}))
	r.exit = wait(t, r.box)
	kill(t, r.box)
	return r
}

// ok is run for a worker that must exit with 0.
func (s *suite) ok(t *testing.T, task sandbox.Task, stdin io.Reader) *ran {
	t.Helper()
	r := s.run(t, task, stdin)
	if r.exit.Code != 0 || r.exit.Signal != "" {
		t.Fatalf("exit %+v, stderr %s", r.exit, r.stderr.String())
	}
	return r
}

func wait(t *testing.T, box sandbox.Sandbox) sandbox.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := box.Wait(ctx)
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return exit
}

func kill(t *testing.T, box sandbox.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := box.Kill(ctx); err != nil {
		t.Fatalf("Kill: %v", err)
	}
}

// expand is Expand for tokens that must be known.
func expand(t *testing.T, box sandbox.Sandbox, s string) string {
	t.Helper()
	v, err := box.Expand(s)
	if err != nil {
		t.Fatalf("Expand(%s): %v", s, err)
	}
	return v
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("the worker wrote %q: %v", data, err)
	}
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// property is what a runtime says of one promise.
func property(t *testing.T, f sandbox.Facts, name string) sandbox.Property {
	t.Helper()
	for _, p := range f.Properties {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("the runtime says nothing of %s", name)
	return sandbox.Property{}
}

// ready is a stdout that says when a worker has written a line.
type ready struct {
	line chan struct{}
	done atomic.Bool
}

func newReady() *ready { return &ready{line: make(chan struct{})} }

func (r *ready) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("ready")) && r.done.CompareAndSwap(false, true) {
		close(r.line)
	}
	return len(b), nil
}

func (r *ready) await(t *testing.T) {
	t.Helper()
	select {
	case <-r.line:
	case <-time.After(patience):
		t.Fatal("the worker did not get ready")
	}
}

// still checks that a file does not change any more.
func still(t *testing.T, path string) {
	t.Helper()
	before, err := os.ReadFile(path)
	must(t, err)
	if len(before) == 0 {
		t.Fatal("nothing had been written")
	}
	time.Sleep(100 * time.Millisecond) // 50 writes of the worker
	after, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Errorf("%d bytes were written after Kill", len(after)-len(before))
	}
}

func names(props []sandbox.Property) string {
	var list []string
	for _, p := range props {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}
