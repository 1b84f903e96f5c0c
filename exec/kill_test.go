package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/harness/scripted"
	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/local"
)

// whole has all there is to go on with: a step, a loop with a check that
// carries, a branch whose first alternative is not accepted, and a consumer.
func whole(marks string) (*exectest.Builder, error) {
	b := looped(exectest.Eq(exectest.OutputFact("state", "json", "/done"), exectest.Bool("true")), 4)
	b.Plan.Nodes[2].ID, b.Plan.Nodes[2].Skill = "after", "skill:after"
	after := b.Plan.Nodes[2]
	b.Plan.Nodes = b.Plan.Nodes[:2]
	for _, id := range []string{"one", "two"} {
		b.Node(id, func(n *plan.Node) {
			n.ID, n.Needs, n.Phase = "pick/"+id, []string{"again"}, 2
			n.Outputs = []plan.NodeOutput{exectest.JSONOut("refs", plan.RequiredAlways)}
		})
	}
	b.Plan.Branches = []plan.Branch{{ID: "pick", Pattern: "test", Alternatives: []string{"pick/one", "pick/two"}, Otherwise: plan.OtherwiseFail, Artifacts: []string{"refs"},
		Accept: exectest.Op(plan.OpGt, exectest.Op(plan.OpLength, exectest.OutputFact("refs", "json", "/refs")), exectest.Number("0"))}}
	after.Needs = []string{"again", "pick"}
	b.Plan.Nodes = append(b.Plan.Nodes, after)
	script := `{"version":1,"iterations":{"step":[
		[{"write":{"path":"state.json","content":"{\"done\": false}"}}],
		[{"copy":{"from":"{in:state}","to":"before.json"}},{"write":{"path":"state.json","content":"{\"done\": true}"}},{"write":{"path":"final.json","content":"{}"}}]]},
		"nodes":{"pick/one":[` + emptied + `],"pick/two":[` + good + `],"after":[{"copy":{"from":"{in:state}","to":"got.json"}}]}}`
	return b, lower(b, script, marks)
}

// controller is a process that runs or resumes the plan of whole, and kills
// itself at a write of the journal: DIR MARKS WRITE, where write 0 is never.
func controller(args []string) int {
	dir, marks := args[0], args[1]
	at, _ := strconv.ParseInt(args[2], 10, 64)
	b, err := whole(marks)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	self, err := os.Executable()
	if err != nil {
		return 99
	}
	_, err = os.Stat(filepath.Join(dir, record.EventsFile))
	run, err := Run(context.Background(), Options{
		Plan: b.Plan, PlanBytes: b.Bytes(), Blobs: b.Blobs, RunDir: dir, Resume: err == nil,
		Runtimes: map[string]sandbox.Runtime{plan.SandboxLocal: local.New()}, Adapters: map[string]harness.Adapter{scripted.Name: scripted.Adapter{}},
		Executable: self, Version: "test", Now: time.Now, Nonce: func() string { return "k" + strconv.Itoa(os.Getpid()) },
		Observe: func(e record.Event) {
			if e.Seq == at {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				time.Sleep(time.Hour)
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return ExitCode(run, err)
}

// control starts a controller and returns its exit code, -1 of a killed one.
func control(t *testing.T, dir, marks string, at int) (int, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(self, "controller", dir, marks, strconv.Itoa(at))
	var said bytes.Buffer
	cmd.Stderr = &said
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), said.String()
}

// tree is every file below a folder with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[rel] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return out
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// finishedBefore lists the executions that the journal says are done, with the
// content of their folders.
func finishedBefore(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	events, err := record.ReadEvents(filepath.Join(dir, record.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]map[string]string{}
	for _, e := range events {
		if e.Type == record.EventNodeFinished && e.Status == record.StatusSucceeded {
			key := fmt.Sprintf("%s %d %d", e.Node, e.Iteration, e.Attempt)
			done[key] = tree(t, filepath.Join(dir, record.AttemptFolder(e.Node, e.Iteration, e.Attempt)))
		}
	}
	return done
}

// Kill -9 at every write of the journal, and once more while it is resumed:
// the artifacts of an undisturbed run, nothing that finished runs again or is
// written to, run.json parses, and nothing is left.
func TestKillAtEveryWrite(t *testing.T) {
	undisturbed := filepath.Join(t.TempDir(), "run")
	marks := filepath.Join(t.TempDir(), "marks")
	if code, said := control(t, undisturbed, marks, 0); code != ExitOK {
		t.Fatalf("exit %d: %s", code, said)
	}
	events, err := record.ReadEvents(filepath.Join(undisturbed, record.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, filepath.Join(undisturbed, record.ArtifactsDir))
	if len(want) < 5 || len(events) < 15 {
		t.Fatalf("%d artifacts, %d events", len(want), len(events))
	}
	for at := range events {
		at++
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			marks := filepath.Join(t.TempDir(), "marks")
			if code, said := control(t, dir, marks, at); code != -1 {
				t.Fatalf("it was not killed: exit %d: %s", code, said)
			}
			run, err := record.ReadRun(dir)
			if err != nil || run.Status != record.StatusRunning {
				t.Fatalf("run.json: %+v, %v", run, err)
			}
			killedAgain := at + 2 // the write after run_resumed
			for round := 0; ; round++ {
				done := finishedBefore(t, dir)
				before, _ := os.ReadFile(marks) // absent before the first worker
				code, said := control(t, dir, marks, killedAgain)
				now := finishedBefore(t, dir)
				for key, files := range done {
					if !same(files, now[key]) {
						t.Errorf("the folder of %s changed", key)
					}
					node, iteration, _ := cut3(key)
					if count(string(before), node, iteration) != count(content(t, marks), node, iteration) {
						t.Errorf("%s ran again", key)
					}
				}
				run, err := record.ReadRun(dir)
				if err != nil {
					t.Fatal(err)
				}
				if code == -1 && round < 3 {
					killedAgain = 0
					continue
				}
				if code != ExitOK || run.Status != record.StatusSucceeded {
					t.Fatalf("exit %d: %s; %+v", code, said, run.Failure)
				}
				if left := ours(t, run.ID); left != "" {
					t.Errorf("processes are left: %s", left)
				}
				break
			}
			if got := tree(t, filepath.Join(dir, record.ArtifactsDir)); !same(got, want) {
				t.Errorf("artifacts differ:\n%v\n%v", got, want)
			}
			for _, pattern := range []string{record.WorkDir, "*.new", "store/.put-*"} {
				if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
		})
	}
}

func cut3(key string) (a, b, c string) {
	f := strings.Fields(key)
	return f[0], f[1], f[2]
}

func count(marks, node, iteration string) int {
	n := 0
	for _, line := range strings.Split(marks, "\n") {
		if strings.HasPrefix(line, node+" "+iteration+" ") {
			n++
		}
	}
	return n
}
