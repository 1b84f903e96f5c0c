//go:build unix

package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"
)

// agentScript tells its version, what it was started with and what it sees.
const agentScript = "if [ \"$1\" = --version ]; then echo \" 1.2.3 \"; echo more; exit 0; fi\necho \"$@ HOME=$HOME SECRET=$SECRET\"\n"

// install writes executable files and returns their folder.
func install(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindProgram(t *testing.T) {
	dir := install(t, map[string]string{
		"plain":   "#!/bin/sh\n" + agentScript,
		"node":    "#!/bin/sh\nshift\nset -- \"$1\"\n" + agentScript, // what it is given first is the script
		"through": "#!/usr/bin/env node\nnot for a shell\n",
		"lost":    "#!/usr/bin/env no-such-interpreter\n",
		"flags":   "#!/usr/bin/env -S sh\n" + agentScript,
		"fails":   "#!/bin/sh\necho broken >&2\nexit 3\n",
		"silent":  "#!/bin/sh\n",
		"tells":   "#!/bin/sh\necho \"$SECRET$HOME\"\n",
	})
	if err := os.Symlink("plain", filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("SECRET", "hunter2")
	ask := []string{"--version"}
	for name, c := range map[string]struct {
		path, file, interpreter, version, err string
		args                                  []string
	}{
		"plain":         {file: "plain", version: "1.2.3", args: ask},
		"not asked":     {path: filepath.Join(dir, "plain"), file: "plain"},
		"linked":        {file: "plain", version: "1.2.3", args: ask},
		"through":       {file: "through", interpreter: "node", version: "1.2.3", args: ask},
		"lost":          {err: "no-such-interpreter", args: ask},
		"flags":         {file: "flags", version: "1.2.3", args: ask},
		"fails":         {err: "broken", args: ask},
		"silent":        {err: "says nothing", args: ask},
		"no-such-agent": {err: "no-such-agent", args: ask},
	} {
		p, err := FindProgram(context.Background(), name, c.path, c.args)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			if (name == "no-such-agent" || name == "lost") && !errors.Is(err, exec.ErrNotFound) {
				t.Errorf("%s: %v is not known as missing", name, err)
			}
			continue
		}
		if name == "not asked" {
			p.Name = "plain"
		}
		data, _ := os.ReadFile(filepath.Join(dir, c.file))
		want := sandbox.ProgramFile{Name: p.Name, Path: filepath.Join(dir, c.file), Digest: plan.Digest(data), Version: c.version}
		if c.interpreter != "" {
			data, _ := os.ReadFile(filepath.Join(dir, c.interpreter))
			want.Interpreter, want.InterpreterDigest = filepath.Join(dir, c.interpreter), plan.Digest(data)
		}
		if err != nil || p != want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, p, err, want)
		}
	}
	p, err := FindProgram(context.Background(), "tells", "", ask)
	if err != nil || strings.Contains(p.Version, "hunter2") || strings.Contains(p.Version, os.Getenv("HOME")+"\n") {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := os.Stat(p.Version); !os.IsNotExist(err) {
		t.Errorf("the folder %s is left: %v", p.Version, err)
	}
}

// A local agent is the program that was found, whatever the plan's PATH; one of
// another version, or one that changed, is not started.
func TestAgentsProgram(t *testing.T) {
	dir := install(t, map[string]string{"node": "#!/bin/sh\nshift\n" + agentScript, "agent": "#!/usr/bin/env node\n"})
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	found, err := FindProgram(context.Background(), "agent", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	found.Version = "1.2.3"
	r := New(found)
	task := func(version string) sandbox.Task {
		task := sandbox.Task{Run: "r", Attempt: "a", Dir: filepath.Join(t.TempDir(), "work"), Wall: time.Minute,
			Process: plan.Process{Argv: []string{"agent", "--mode", "rpc"}, Env: []string{"PATH=/usr/bin:/bin", "HOME={scratch}"}, Cwd: "{scratch}"},
			Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Mounts: []plan.Mount{{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite}}}}
		if version != "" {
			task.ImageLabels = map[string]string{sandbox.LabelHarness + "agent": version}
		}
		if err := os.Mkdir(task.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return task
	}
	ctx := context.Background()
	sb, err := r.Prepare(ctx, task("1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close(ctx)
	var out bytes.Buffer
	if err := sb.Start(ctx, sandbox.Stdio{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if exit, err := sb.Wait(ctx); err != nil || exit.Code != 0 || !strings.HasPrefix(out.String(), "--mode rpc HOME=") {
		t.Errorf("%+v, %v, it says %q", exit, err, &out)
	}
	f := sb.Facts()
	if f.Agent == nil || *f.Agent != found || !strings.Contains(string(f.Spec), `"`+found.Interpreter+`"`) {
		t.Errorf("facts %+v, spec %s", f.Agent, f.Spec)
	}

	var mismatch *sandbox.HarnessMismatch
	if _, err := r.Prepare(ctx, task("1.2.4")); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "--program agent=PATH") {
		t.Errorf("another version: %v", err)
	}
	if _, err := r.Prepare(ctx, task("")); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("what is no agent: %v", err)
	}
	if err := os.WriteFile(found.Interpreter, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Prepare(ctx, task("1.2.3")); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a changed interpreter: %v", err)
	}
}
