package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/plan"
	"foundry/sandbox"
)

// Half a line at the end of the journal is cut off.
func TestResumeTornLine(t *testing.T) {
	dir, marks := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "marks")
	if code, said := control(t, dir, marks, 6); code != -1 {
		t.Fatalf("exit %d: %s", code, said)
	}
	journal := filepath.Join(dir, record.EventsFile)
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, data[:len(data)-7], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := control(t, dir, marks, 0); code != ExitOK {
		t.Fatalf("exit %d: %s", code, said)
	}
	if _, err := record.ReadEvents(journal); err != nil {
		t.Error(err)
	}
}

// stopped is a run of three steps that failed in the second.
func stopped(t *testing.T, second string) (Options, *record.Run) {
	b := scriptedSteps()
	lowered(t, b, `{"version":1,"nodes":{"a":[{"copy":{"from":"{in:seed}","to":"a.json"}}],"b":[`+second+
		`],"c":[{"copy":{"from":"{in:out-b}","to":"c.json"}}]}}`)
	opts := realOptions(t, b)
	run, err := Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusFailed {
		t.Fatalf("%+v, %v", run, err)
	}
	return opts, run
}

// B4, B5: a failed phase runs again, what it left is not taken, and what
// finished is not touched.
func TestResumeRunsAFailedPhaseAgain(t *testing.T) {
	for name, second := range map[string]string{
		"exit 1": `{"write":{"path":"b.json","content":"{\"n\": 1"}},{"exit":{"code":1}}`,
		"half":   `{"write":{"path":"b.json","content":"{\"n\": 1"}}`,
		"wall":   `{"write":{"path":"b.json","content":"{\"n\": 1"}},{"emit":{"type":"turn","turn":11}},{"sleep_ms":600000}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, run := stopped(t, second)
			a := tree(t, filepath.Join(opts.RunDir, run.Nodes[0].Attempts[0].Folder))
			opts.Resume = true
			for round := int64(2); round < 4; round++ {
				run, err := Run(context.Background(), opts)
				if err != nil || run.Status != record.StatusFailed || run.Resumed != round-1 {
					t.Fatalf("%+v, %v", run, err)
				}
				if n := run.Nodes[1].Attempts; int64(len(n)) != round || n[round-1].Attempt != round || len(run.Nodes[0].Attempts) != 1 {
					t.Errorf("attempts %+v", run.Nodes)
				}
				if len(run.Nodes[1].Outputs) > 0 || run.Nodes[2].Status != record.StatusNotReached {
					t.Errorf("half an artifact went on: %+v", run.Nodes)
				}
				if !same(a, tree(t, filepath.Join(opts.RunDir, run.Nodes[0].Attempts[0].Folder))) {
					t.Error("the folder of a changed")
				}
			}
		})
	}
}

// What is refused changes nothing in the folder: reuse is of this very plan and
// program (B15).
func TestResumeRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, o *Options)
		want   string
	}{
		"another plan": {func(t *testing.T, o *Options) {
			p := *o.Plan
			p.Budget.Tokens++
			o.Plan = &p
			data, err := plan.Encode(&p)
			if err != nil {
				t.Fatal(err)
			}
			o.PlanBytes = data
		}, "is of the plan sha256:"},
		"another end": {func(_ *testing.T, o *Options) { o.Through = "a" }, `goes through "", not through "a"`},
		"another build": {func(t *testing.T, o *Options) {
			o.Executable = filepath.Join(t.TempDir(), "foundry")
			if err := os.WriteFile(o.Executable, []byte("another"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "was begun by the program sha256:"},
		"no run": {func(t *testing.T, o *Options) { o.RunDir = t.TempDir() }, "is no run folder"},
		"changed bytes": {func(t *testing.T, o *Options) {
			run, err := record.ReadRun(o.RunDir)
			if err != nil {
				t.Fatal(err)
			}
			blob := filepath.Join(o.RunDir, record.StoreDir, "blobs", "sha256", strings.TrimPrefix(run.Nodes[0].Outputs[0].Digest, "sha256:"))
			if err := errors.Join(os.Chmod(blob, 0o600), os.WriteFile(blob, []byte(`{"n": 2}`), 0o600)); err != nil {
				t.Fatal(err)
			}
		}, "node a finished, but its artifact out-a is not what it was"},
		"a journal of another plan": {func(t *testing.T, o *Options) {
			path := filepath.Join(o.RunDir, record.EventsFile)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Replace(data, []byte(`"node":"b"`), []byte(`"node":"c"`), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "cannot be replayed"},
	} {
		t.Run(name, func(t *testing.T) {
			opts, _ := stopped(t, `{"exit":{"code":1}}`)
			opts.Resume = true
			tt.change(t, &opts)
			before := tree(t, opts.RunDir)
			run, err := Run(context.Background(), opts)
			if ExitCode(run, err) != ExitRefused || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			after := tree(t, opts.RunDir)
			delete(before, record.LockFile)
			delete(after, record.LockFile)
			if !same(before, after) {
				t.Error("the folder changed")
			}
		})
	}
}

// reclaiming notes which runs it was asked to end the rest of.
type reclaiming struct {
	sandbox.Runtime
	asked []string
}

func (r *reclaiming) Reclaim(_ context.Context, run string) error {
	r.asked = append(r.asked, run)
	return nil
}

// What the killed controller left alive is ended before anything starts.
func TestResumeReclaims(t *testing.T) {
	opts, run := stopped(t, `{"exit":{"code":1}}`)
	r := &reclaiming{Runtime: opts.Runtimes[plan.SandboxLocal]}
	opts.Resume, opts.Runtimes = true, map[string]sandbox.Runtime{plan.SandboxLocal: r}
	if _, err := Run(context.Background(), opts); err != nil || !slices.Equal(r.asked, []string{run.ID}) {
		t.Errorf("asked for %q of run %s, %v", r.asked, run.ID, err)
	}
}

// A second controller is refused by name while the first one lives.
func TestOneOwner(t *testing.T) {
	opts, _ := stopped(t, `{"exit":{"code":1}}`)
	folder, _, err := record.Open(opts.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	opts.Resume = true
	run, err := Run(context.Background(), opts)
	if ExitCode(run, err) != ExitRefused || !errors.Is(err, record.ErrBusy) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("%v", err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), opts); err != nil {
		t.Errorf("the folder was given up: %v", err)
	}
}

// A run that is over stays as it is.
func TestResumeOfAFinishedRun(t *testing.T) {
	b := scriptedSteps()
	lowered(t, b, passOn)
	opts := realOptions(t, b)
	if run, err := Run(context.Background(), opts); err != nil || run.Status != record.StatusSucceeded {
		t.Fatalf("%+v, %v", run, err)
	}
	before := tree(t, opts.RunDir)
	opts.Resume = true
	run, err := Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusSucceeded || run.Resumed != 0 {
		t.Errorf("%+v, %v", run, err)
	}
	after := tree(t, opts.RunDir)
	delete(before, record.LockFile)
	delete(after, record.LockFile)
	if !same(before, after) {
		for k := range after {
			if before[k] != after[k] {
				t.Errorf("%s changed:\n%s\n%s", k, before[k], after[k])
			}
		}
	}
}

// What a killed controller had reserved counts as spent.
func TestReservationCounts(t *testing.T) {
	p := graph(nil, []string{"n0"})
	p.Nodes[0].Budget.Tokens, p.Nodes[1].Budget.Tokens = 600, 600
	w, err := NewWalk(p, "")
	if err != nil {
		t.Fatal(err)
	}
	s := w.Initial()
	var last []Command
	for i, e := range []record.Event{runStarted, started("n0"), {Type: record.EventRunResumed}, started("n0"), {Type: record.EventRunResumed}} {
		if s, last, err = w.Step(s, e); err != nil {
			t.Fatal(err)
		}
		want := []int64{600, 0, 400, 0, 0}[i]
		if starts := slices.DeleteFunc(last, func(c Command) bool { return c.Kind != StartNode }); want > 0 && (len(starts) != 1 || starts[0].Reserved.Tokens != want) {
			t.Errorf("event %d: %+v, want %d tokens", i, starts, want)
		}
	}
	if s.failure == nil || s.failure.Reason != "budget_exceeded:tokens" || s.failure.Class != record.ClassWorkflow {
		t.Errorf("failure %+v", s.failure)
	}
}

// A controller that died before its first event left a folder without a run:
// resuming it is a start.
func TestResumeBeforeTheFirstEvent(t *testing.T) {
	b := scriptedSteps()
	lowered(t, b, passOn)
	opts := realOptions(t, b)
	folder, err := record.Create(opts.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{record.WorkDir, filepath.Join(record.WorkDir, "trees"), record.StoreDir} {
		if err := os.Mkdir(folder.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{record.RunFile + ".new", filepath.Join(record.WorkDir, "blob"), record.PlanFile} {
		if err := os.WriteFile(folder.Path(file), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	opts.Resume = true
	run, err := Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusSucceeded || run.Resumed != 0 {
		t.Fatalf("%+v, %v", run, err)
	}
	if left, _ := filepath.Glob(filepath.Join(opts.RunDir, "*.new")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A decision is not reversed: an exhausted loop stays exhausted, and nothing
// runs for it.
func TestResumeKeepsDecisions(t *testing.T) {
	b := looped(exectest.Eq(exectest.OutputFact("state", "json", "/n"), exectest.Number("99")), 2)
	lowered(t, b, loopScript)
	opts := realOptions(t, b)
	first, err := Run(context.Background(), opts)
	if err != nil || failureOf(first).Reason != record.ReasonLoopExhausted {
		t.Fatalf("%+v, %v", first, err)
	}
	opts.Resume = true
	again, err := Run(context.Background(), opts)
	if err != nil || failureOf(again) != failureOf(first) || len(nodeOf(again, "step").Attempts) != 2 || again.Resumed != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// An interrupted run goes on, with any number of workers.
func TestResumeAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &crew{}
	opts := options(t, diamond(), &exectest.Runtime{Work: func(w *exectest.Worker) sandbox.Exit {
		if strings.HasSuffix(w.Task.Skill, ":c") && ctx.Err() == nil {
			cancel()
			<-w.Killed
			return sandbox.Exit{Code: 137, Signal: "SIGKILL"}
		}
		return c.work(w)
	}})
	run, err := Run(ctx, opts)
	if err != nil || run.Status != record.StatusCancelled {
		t.Fatalf("%+v, %v", run, err)
	}
	opts.Resume, opts.Parallelism = true, 2
	run, err = Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusSucceeded || len(c.order) != 5 || len(nodeOf(run, "c").Attempts) != 2 || len(nodeOf(run, "a").Attempts) != 1 {
		t.Errorf("%+v, %v, order %v", run.Failure, err, c.order)
	}
}

// The parts of a plan that nothing could put in order are refused, and a
// consumer that stands before the check of what it reads.
func TestWalkRefuses(t *testing.T) {
	late := graph(nil, []string{"n0"}, []string{"n0"})
	late.Nodes[2].Kind, late.Nodes[2].Check = plan.NodeCheck, &plan.Check{Name: "x", Of: "n0", Blocking: true}
	if _, err := NewWalk(late, ""); err == nil || !strings.Contains(err.Error(), "n1 needs the check n2, which is no earlier step") {
		t.Errorf("%v", err)
	}
	late.Nodes[2].Check.Blocking = false
	if _, err := NewWalk(late, ""); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := NewWalk(graph([]string{"n1"}, nil), ""); err == nil {
		t.Error("a node before its need is accepted")
	}
}

// Through takes what a step needs, and what proves it.
func TestThrough(t *testing.T) {
	b, err := whole("")
	if err != nil {
		t.Fatal(err)
	}
	for through, want := range map[string]string{
		"step": "step step.look", "again": "step step.look", "step.look": "step step.look",
		"pick": "step step.look pick/one pick/two", "pick/one": "step step.look pick/one pick/two",
		"after": "step step.look pick/one pick/two after", "": "step step.look pick/one pick/two after",
	} {
		w, err := NewWalk(b.Plan, through)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range b.Plan.Nodes {
			if w.Selected(i) {
				got = append(got, b.Plan.Nodes[i].ID)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("through %q: %v, want %s", through, got, want)
		}
	}
}

// A carried version is that of the iteration before, also of a step that has
// run in this one already.
func TestHistory(t *testing.T) {
	var h history
	if h.at(0) != nil || h.at(1) != nil {
		t.Error("nothing is taken for a version")
	}
	h.before, h.last = version{iteration: 1}, version{iteration: 2}
	if h.at(1) != &h.before || h.at(2) != &h.last || h.at(3) != nil {
		t.Error("another version")
	}
}
