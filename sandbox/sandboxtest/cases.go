//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"foundry/plan"
	"foundry/sandbox"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// staging: the worker finds skill, nested skill, input, recorded files and the
// plan's small files where the tokens say, and nothing for an absent input.
func (s *suite) staging(t *testing.T) {
	tokens := []string{"{skill}/SKILL.md", "{skill:demo}/sub/tool", "{skill:other}/SKILL.md", "{in:data}", "{recorded}/r.txt", "{scratch}/conf/app.json", "{in:absent}"}
	r := s.ok(t, s.task(t, append([]string{"cat"}, tokens...)...), nil)
	path := func(token string) string { return expand(t, r.box, token) }
	config, err := json.Marshal(map[string]string{"out": path("{out}"), "in": path("{in:data}"), "literal": "{nothing}"})
	must(t, err)
	got := decode[map[string]string](t, r.stdout.Bytes())
	// The file's text is the plan's, so it is compared as a value.
	written := decode[map[string]string](t, []byte(got[path("{scratch}/conf/app.json")]))
	if diff := cmp.Diff(decode[map[string]string](t, config), written); diff != "" {
		t.Errorf("the configuration file: %s", diff)
	}
	delete(got, path("{scratch}/conf/app.json"))
	want := map[string]string{
		path("{skill}/SKILL.md"):       "---\nname: demo\n---\n",
		path("{skill:demo}/sub/tool"):  "tool",
		path("{skill:other}/SKILL.md"): "other skill",
		path("{in:data}"):              "input bytes",
		path("{recorded}/r.txt"):       "recorded bytes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// output: what is written to {out} is found in Output after Kill.
func (s *suite) output(t *testing.T) {
	r := s.ok(t, s.task(t, "write", "{out}/result.txt", "result {out}"), nil)
	data, err := os.ReadFile(filepath.Join(r.box.Output(), "result.txt"))
	if err != nil || string(data) != "result "+expand(t, r.box, "{out}") {
		t.Errorf("%q, %v", data, err)
	}
	left, err := os.ReadDir(r.box.Output())
	if err != nil || len(left) != 1 {
		t.Errorf("the output folder holds %v, %v", left, err)
	}
}

// environment: the plan's, the one documented marker, and nothing inherited.
func (s *suite) environment(t *testing.T) {
	t.Setenv("SANDBOXTEST_INHERITED", "1")
	task := s.task(t, "self", "{out}", "a b", "", "$HOME", "*", "{x}")
	r := s.ok(t, task, nil)
	got := decode[self](t, r.stdout.Bytes())
	want := make([]string, 0, len(task.Process.Env))
	for _, e := range task.Process.Env {
		want = append(want, expand(t, r.box, e))
	}
	env := slices.DeleteFunc(slices.Clone(got.Env), func(e string) bool { return strings.HasPrefix(e, "FOUNDRY_ATTEMPT=") })
	slices.Sort(env)
	slices.Sort(want)
	if diff := cmp.Diff(want, env); diff != "" || len(got.Env) > len(env)+1 {
		t.Errorf("environment: %s", diff)
	}
	if !slices.Contains(env, "TOKEN="+secret) {
		t.Error("the process does not have its token")
	}
	if diff := cmp.Diff([]string{expand(t, r.box, "{out}"), "a b", "", "$HOME", "*", "{x}"}, got.Args); diff != "" {
		t.Errorf("arguments: %s", diff)
	}
	if want := expand(t, r.box, "{scratch}"); got.Cwd != want {
		t.Errorf("working folder %s, want %s", got.Cwd, want)
	}
	if !got.SID {
		t.Error("the process does not lead a group of its own")
	}
}

// readOnly: a worker cannot write to skill and inputs, or the runtime says so;
// the folders they were staged from never change.
func (s *suite) readOnly(t *testing.T) {
	task := s.task(t, "trywrite", "{skill}/SKILL.md", "{skill}/new", "{in:data}", "{recorded}/r.txt")
	r := s.ok(t, task, nil)
	p := property(t, r.box.Facts(), sandbox.PropReadOnly)
	for path, written := range decode[map[string]bool](t, r.stdout.Bytes()) {
		if written && p.State == sandbox.Enforced {
			t.Errorf("%s was written to, and the runtime says that read_only is enforced", path)
		}
	}
	data, err := os.ReadFile(filepath.Join(task.Trees["skill:demo"], "SKILL.md"))
	if err != nil || string(data) != "---\nname: demo\n---\n" {
		t.Errorf("the staged-from skill is now %q, %v", data, err)
	}
	if _, err := os.Lstat(filepath.Join(task.Trees["skill:demo"], "new")); err == nil {
		t.Error("a file was added to the staged-from skill")
	}
}

// stdin: what is written arrives, and its end arrives.
func (s *suite) stdin(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	r := s.ok(t, s.task(t, "echo"), bytes.NewReader(text))
	if !bytes.Equal(r.stdout.Bytes(), text) || r.stderr.String() != strconv.Itoa(len(text))+"\n" {
		t.Errorf("%d bytes came back, stderr %q", r.stdout.Len(), r.stderr.String())
	}
}

// noStdin: a nil Stdin is empty; one that never ends does not keep an attempt
// alive.
func (s *suite) noStdin(t *testing.T) {
	if r := s.ok(t, s.task(t, "echo"), nil); r.stdout.Len() > 0 || r.stderr.String() != "0\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout.String(), r.stderr.String())
	}
	open, end := io.Pipe()
	defer end.Close()
	if r := s.run(t, s.task(t, "exit", "7"), open); r.exit.Code != 7 {
		t.Errorf("exit %+v", r.exit)
	}
}

func (s *suite) twoStreams(t *testing.T) {
	r := s.ok(t, s.task(t, "both", "5000"), nil)
	if r.stdout.String() != strings.Repeat("out\n", 5000) || r.stderr.String() != strings.Repeat("err\n", 5000) {
		t.Errorf("%d bytes of stdout and %d of stderr, or other ones", r.stdout.Len(), r.stderr.Len())
	}
}

func (s *suite) exitCodes(t *testing.T) {
	for _, code := range []int{0, 1, 42} {
		r := s.run(t, s.task(t, "exit", strconv.Itoa(code)), nil)
		if r.exit.Code != code || r.exit.Signal != "" || r.exit.OOM {
			t.Errorf("exit %+v, want code %d", r.exit, code)
		}
		if r.exit.Started.IsZero() || r.exit.Ended.Before(r.exit.Started) {
			t.Errorf("started %v, ended %v", r.exit.Started, r.exit.Ended)
		}
	}
}

// wall: Wait ends with its context and the process goes on until Kill.
func (s *suite) wall(t *testing.T) {
	box := s.prepare(t, s.task(t, "sleep"))
	out := newReady()
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: out}))
	out.await(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := box.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait: %v", err)
	}
	kill(t, box)
	if exit := wait(t, box); exit.Code != 137 || exit.Signal != "SIGKILL" {
		t.Errorf("exit %+v", exit)
	}
	if p := property(t, box.Facts(), sandbox.PropWall); p.State != sandbox.Enforced {
		t.Errorf("the runtime says %+v", p)
	}
}

// escapedChild: a grandchild in a session of its own dies with Kill.
func (s *suite) escapedChild(t *testing.T) {
	s.escape(t, "linger", "{out}/log")
}

// childLeftBehind: the same when its parents have ended and it holds stdout.
func (s *suite) childLeftBehind(t *testing.T) {
	s.escape(t, "leave", "{out}/log")
}

func (s *suite) escape(t *testing.T, op ...string) {
	box := s.prepare(t, s.task(t, op...))
	if property(t, box.Facts(), sandbox.PropProcessGroup).State != sandbox.Enforced {
		t.Skip("the runtime says that it cannot end such a child")
	}
	s.escapeWith(t, box, op[0] == "leave")
	if box.Facts().SecurityBoundary {
		t.Run("without environment", func(t *testing.T) {
			s.escapeWith(t, s.prepare(t, s.task(t, append(op, "bare")...)), op[0] == "leave")
		})
	}
}

func (s *suite) escapeWith(t *testing.T, box sandbox.Sandbox, leaves bool) {
	t.Helper()
	out := newReady()
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: out, Stderr: io.Discard}))
	out.await(t)
	if leaves {
		if exit := wait(t, box); exit.Code != 0 {
			t.Errorf("exit %+v", exit)
		}
	}
	kill(t, box)
	still(t, filepath.Join(box.Output(), "log"))
	wait(t, box)
}

// sideBySide: killing one attempt leaves the other alone.
func (s *suite) sideBySide(t *testing.T) {
	start := func() (sandbox.Sandbox, *ready) {
		box, out := s.prepare(t, s.task(t, "sleep")), newReady()
		must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: out}))
		return box, out
	}
	a, aOut := start()
	b, bOut := start()
	aOut.await(t)
	bOut.await(t)
	if a.Output() == b.Output() {
		t.Error("two attempts share an output folder")
	}
	kill(t, a)
	wait(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if exit, err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the other attempt ended: %+v, %v", exit, err)
	}
	kill(t, b)
}

// orderOfCalls: Kill and Close at any point and more than once; a killed
// attempt does not start.
func (s *suite) orderOfCalls(t *testing.T) {
	box := s.prepare(t, s.task(t, "sleep"))
	kill(t, box)
	kill(t, box)
	if err := box.Start(t.Context(), sandbox.Stdio{}); err == nil {
		t.Error("a killed attempt was started")
	}
	must(t, box.Close(t.Context()))
	must(t, box.Close(t.Context()))

	box = s.prepare(t, s.task(t, "sleep"))
	out := newReady()
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: out}))
	out.await(t)
	if err := box.Start(t.Context(), sandbox.Stdio{}); err == nil {
		t.Error("an attempt was started twice")
	}
	must(t, box.Close(t.Context())) // without Kill
	kill(t, box)
}

// cannotPrepare: what cannot run is an error before anything is left behind.
func (s *suite) cannotPrepare(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Task){
		"unknown token":   func(k *sandbox.Task) { k.Process.Argv = append(k.Process.Argv, "{in:nobody}") },
		"no token value":  func(k *sandbox.Task) { k.Process.Env = []string{"S={subagent.socket}"} },
		"missing tree":    func(k *sandbox.Task) { delete(k.Trees, "skill:demo") },
		"no program":      func(k *sandbox.Task) { k.Process.Argv = nil },
		"file elsewhere":  func(k *sandbox.Task) { k.Files = []plan.File{{Path: "{out}/x"}} },
		"file climbs out": func(k *sandbox.Task) { k.Files = []plan.File{{Path: "{scratch}/../x"}} },
	} {
		t.Run(name, func(t *testing.T) {
			task := s.task(t, "exit", "0")
			change(&task)
			box, err := s.runtime.Prepare(t.Context(), task)
			if err == nil {
				must(t, box.Close(t.Context()))
				t.Fatal("it was prepared")
			}
			empty(t, task.Dir)
		})
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the attempt's folder: %v, %v", left, err)
	}
}

// facts: a runtime speaks of every property, and of what it ran.
func (s *suite) facts(t *testing.T) {
	r := s.ok(t, s.task(t, "exit", "0"), nil)
	f := r.box.Facts()
	if f.Mode != s.runtime.Mode() || f.User == "" || f.Network == "" {
		t.Errorf("mode %q, user %q, network %q", f.Mode, f.User, f.Network)
	}
	want := []string{
		sandbox.PropFilesystem, sandbox.PropReadOnly, sandbox.PropNetwork, sandbox.PropUser, sandbox.PropSyscalls, sandbox.PropMemory,
		sandbox.PropPIDs, sandbox.PropCPU, sandbox.PropOutputBytes, sandbox.PropOutputFiles, sandbox.PropWall, sandbox.PropProcessGroup,
	}
	slices.Sort(want)
	if got := names(f.Properties); got != strings.Join(want, " ") {
		t.Errorf("properties %s, want %s", got, strings.Join(want, " "))
	}
	for _, p := range f.Properties {
		if p.State != sandbox.Enforced && (p.State != sandbox.NotEnforced || p.Detail == "") {
			t.Errorf("%+v: the state is unknown, or why it is not enforced is not said", p)
		}
	}
	if boundary := property(t, f, sandbox.PropFilesystem).State == sandbox.Enforced; boundary != f.SecurityBoundary {
		t.Errorf("security_boundary is %v", f.SecurityBoundary)
	}
	program, err := os.ReadFile(s.exe)
	must(t, err)
	sum := sha256.Sum256(program)
	if want := "sha256:" + hex.EncodeToString(sum[:]); f.Program.Digest != want {
		t.Errorf("program %s, want %s", f.Program.Digest, want)
	}
	if !json.Valid(f.Spec) {
		t.Error("the spec is no JSON")
	}
	if bytes.Contains(f.Spec, []byte(secret)) {
		t.Error("the spec, which is kept in the record, holds the value of {broker.token}")
	}
	for _, source := range []string{"skill:demo", "in:data", plan.MountOutput} {
		if !slices.ContainsFunc(f.Mounts, func(m sandbox.AppliedMount) bool { return m.Source == source && m.Destination != "" && m.Mode != "" }) {
			t.Errorf("the mount %s is not in %+v", source, f.Mounts)
		}
	}
	if slices.ContainsFunc(f.Mounts, func(m sandbox.AppliedMount) bool { return m.Source == "in:absent" }) {
		t.Error("an absent input is said to be mounted")
	}
}

// nothingLeft: Close removes whatever a worker left, and its own things.
func (s *suite) nothingLeft(t *testing.T) {
	task := s.task(t, "mess", "{out}", "{scratch}")
	r := s.ok(t, task, nil)
	must(t, r.box.Close(t.Context()))
	empty(t, task.Dir)
}
