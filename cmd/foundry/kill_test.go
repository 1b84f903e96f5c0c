package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"foundry/exec/record"
)

// controlled writes a pipeline with a plain phase, a loop, a branch and checks,
// and returns its policy.
func controlled(t testing.TB, dir, tools string) string {
	t.Helper()
	skill := func(name string, produces, consumes []string) {
		type output struct {
			ID       string `json:"id"`
			Kind     string `json:"kind"`
			Filename string `json:"default_filename"`
		}
		type source struct {
			ID        string   `json:"id"`
			Producers []string `json:"producers"`
		}
		outs, ins := []output{}, []source{}
		for _, p := range produces {
			outs = append(outs, output{p, "json", p + ".json"})
		}
		for _, c := range consumes {
			ins = append(ins, source{c, []string{}})
		}
		prov, err := json.Marshal(map[string]any{
			"provenance_schema_version": 4, "cast_target": "test", "cast_at": "2026-01-01T00:00:00.000Z", "refs": []any{},
			"mold":      map[string]any{"name": name, "path": name, "revision": 1, "content_hash": strings.Repeat("0", 64), "commit": strings.Repeat("0", 40)},
			"artifacts": map[string]any{"produces": outs, "consumes": ins},
		})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "skills", name, "_provenance.json"), prov)
		write(t, filepath.Join(dir, "skills", name, "SKILL.md"), []byte("---\nname: "+name+"\ndescription: A test skill.\n---\n"))
	}
	skill("start", []string{"seed"}, nil)
	skill("work", []string{"draft", "final"}, []string{"seed", "draft"})
	skill("one", []string{"refs"}, []string{"final"})
	skill("two", []string{"refs"}, []string{"final"})
	skill("end", []string{"result"}, []string{"refs", "final"})
	write(t, filepath.Join(dir, "skills", "pipeline", "SKILL.md"), []byte("---\nname: pipeline\ndescription: A test pipeline.\n---\n"))
	write(t, filepath.Join(dir, "skills", "pipeline", "_assembly.json"), []byte(`{"source_pipeline": "controlled", "source_revision": 1, "harness_name": "pipeline", "options": [], "required_tools": [], "phases": [
  {"phase": 1, "kind": "mold", "skill": "start", "cast_present": true, "loop": false},
  {"phase": 2, "kind": "mold", "skill": "work", "cast_present": true, "loop": true},
  {"phase": 3, "kind": "branch", "pattern": "pick", "chain": ["one", "two"], "cast_present": [true, true]},
  {"phase": 4, "kind": "mold", "skill": "end", "cast_present": true, "loop": false}]}`))
	write(t, filepath.Join(dir, "script.json"), []byte(`{"version": 1,
"nodes": {
  "start": [{"write": {"path": "seed.json", "content": "{\"n\": 1}"}}],
  "pick/one": [{"write": {"path": "refs.json", "content": "{\"refs\": []}"}}],
  "pick/two": [{"write": {"path": "refs.json", "content": "{\"refs\": [1]}"}}],
  "end": [{"copy": {"from": "{in:final}", "to": "result.json"}}]},
"iterations": {"work": [
  [{"write": {"path": "draft.json", "content": "{\"left\": 1}"}}],
  [{"write": {"path": "draft.json", "content": "{\"left\": 0}"}}, {"write": {"path": "final.json", "content": "{\"done\": true}"}}]]}}`))
	write(t, filepath.Join(dir, "policy.hcl"), []byte(`assembly = "skills/pipeline/_assembly.json"
skills   = "skills"
harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
}
sandbox { mode = "container" }
budget {
  wall     = "1h"
  cost_usd = "1.00"
  tokens   = 1000
}
defaults {
  harness = "stub"
  budget {
    wall       = "1m"
    turns      = 1
    tool_calls = 1
    tokens     = 1
    cost_usd   = "0.01"
    output     = "1MiB"
    files      = 8
  }
}
phase "start" { inputs = [] }
loop "work" {
  max_iterations = 4
  until          = output.draft.json.left == 0
  check "whole" {
    image = "`+tools+`"
    argv  = ["/bin/busybox", "grep", "-q", "left", "{in:draft}"]
  }
}
branch "pick" { accept = length(output.refs.json.refs) > 0 }
`))
	return filepath.Join(dir, "policy.hcl")
}

// TestKilledInContainers kills the controller with SIGKILL at one journal write
// of each kind and at 20 random instants, in every second case the container
// daemon too, and goes on with --resume: the artifacts are those of an undisturbed
// run, nothing that was finished is repeated, nothing is left. FOUNDRY_LONG=1
// kills at every write (make test-kill).
func TestKilledInContainers(t *testing.T) {
	needContainers(t)
	busybox := needBusybox(t)
	exe := foundry(t)
	state := filepath.Join(t.TempDir(), "state")
	env := append(os.Environ(), "FOUNDRY_STATE_DIR="+state)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(exe, args...)
		cmd.Env = env
		return cmd
	}
	dir := t.TempDir()
	data, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	rootfs := filepath.Join(dir, "rootfs")
	write(t, filepath.Join(rootfs, "bin", "busybox"), data)
	if err := os.Chmod(filepath.Join(rootfs, "bin", "busybox"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := command("image", "import", rootfs, "--name", "test/kill:1").Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out))
	policy := controlled(t, dir, fields[len(fields)-1])
	calm := filepath.Join(dir, "calm")
	start := time.Now()
	if out, err := command("apply", "--yes", "--run-dir", calm, policy).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole := time.Since(start)
	want := treeDigest(t, filepath.Join(calm, "artifacts"))
	events, err := record.ReadEvents(filepath.Join(calm, record.EventsFile))
	if err != nil {
		t.Fatal(err)
	}

	type kill struct {
		name  string
		write int           // after so many lines of the journal; 0: by time
		after time.Duration // since the start
	}
	long := os.Getenv("FOUNDRY_LONG") == "1"
	var kills []kill
	kinds := map[string]bool{}
	for i, e := range events {
		if long || !kinds[e.Type] {
			kills = append(kills, kill{name: fmt.Sprintf("write %d, %s", i+1, e.Type), write: i + 1})
		}
		kinds[e.Type] = true
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FOUNDRY_TEST_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("FOUNDRY_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		after := time.Duration(random.Int64N(int64(whole)))
		kills = append(kills, kill{name: "instant " + after.String(), after: after})
	}
	for i, k := range kills {
		t.Run(k.name, func(t *testing.T) {
			run := filepath.Join(t.TempDir(), "run")
			cmd := command("apply", "--yes", "--run-dir", run, policy)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for {
				data, _ := os.ReadFile(filepath.Join(run, record.EventsFile))
				if k.write > 0 && bytes.Count(data, []byte("\n")) >= k.write || k.write == 0 && time.Since(began) >= k.after || time.Since(began) > time.Minute {
					break
				}
				time.Sleep(time.Millisecond)
			}
			cmd.Process.Kill()
			if i%2 == 1 {
				killDaemon(t, state)
			}
			cmd.Wait()
			killed, err := record.ReadEvents(filepath.Join(run, record.EventsFile))
			if err != nil && k.write > 0 {
				t.Fatal(err)
			}
			finished := map[string]bool{}
			for _, e := range killed {
				if e.Type == record.EventNodeFinished && e.Status == record.StatusSucceeded {
					finished[fmt.Sprintf("%s %d %d", e.Node, e.Iteration, e.Attempt)] = true
				}
			}
			again := command("apply", "--yes", "--resume", run)
			if len(killed) == 0 { // it was killed before there was a run
				os.RemoveAll(run)
				again = command("apply", "--yes", "--run-dir", run, policy)
			}
			if out, err := again.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := treeDigest(t, filepath.Join(run, "artifacts")); got != want {
				t.Error("other artifacts than those of an undisturbed run")
			}
			all, err := record.ReadEvents(filepath.Join(run, record.EventsFile))
			if err != nil {
				t.Fatal(err)
			}
			done := map[string]int{}
			for _, e := range all {
				if e.Type == record.EventNodeFinished && e.Status == record.StatusSucceeded {
					done[fmt.Sprintf("%s %d", e.Node, e.Iteration)]++
				}
			}
			for what, n := range done {
				if n > 1 {
					t.Errorf("%s succeeded %d times", what, n)
				}
			}
			if r, err := record.ReadRun(run); err != nil || r.Status != record.StatusSucceeded {
				t.Errorf("run.json: %+v, %v", r, err)
			}
			if n := processesWith(t, run); n > 0 {
				t.Errorf("%d processes of the run are alive", n)
			}
			if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(run)) {
				t.Errorf("a mount below the run folder is left (%v)", err)
			}
			// What other tests of this machine leave for a moment is not asked for.
			if out, err := command("clean", "--dry-run").CombinedOutput(); err != nil || strings.Contains(string(out), run) || strings.Contains(string(out), "remove the container") {
				t.Errorf("something is left: %v\n%s", err, out)
			}
		})
	}
}

// killDaemon kills the embedded container daemon of a state folder.
func killDaemon(t testing.TB, state string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		environ, _ := os.ReadFile(name)
		if (bytes.Contains(line, []byte("daemon")) || bytes.Contains(environ, []byte("DAEMON"))) && (bytes.Contains(line, []byte(state)) || bytes.Contains(environ, []byte(state))) {
			if p, err := os.FindProcess(pid); err == nil {
				p.Kill()
			}
		}
	}
}
