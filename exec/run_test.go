package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// threeSteps is input → a → b → c, each a JSON file with a schema.
func threeSteps() *exectest.Builder {
	b := exectest.New("fake", "1")
	b.Bundle("schema:num", map[string]string{"num.schema.json": `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`})
	b.Input("seed", plan.KindJSON, "seed.json", `{"n": 1}`)
	from := "input:seed"
	artifact, file := "seed", "seed.json"
	for _, id := range []string{"a", "b", "c"} {
		in := plan.NodeInput{Artifact: artifact, From: from, Required: true, Kind: plan.KindJSON, Path: file, Schema: "schema:num"}
		b.Node(id, func(n *plan.Node) {
			n.Inputs = []plan.NodeInput{in}
			n.Outputs = []plan.NodeOutput{{Artifact: "out-" + id, Filename: id + ".json", Kind: plan.KindJSON, Schema: "schema:num", Required: plan.RequiredAlways}}
		})
		from, artifact, file = "node:"+id, "out-"+id, id+".json"
	}
	return b
}

// copyWorker writes its one output from its one input.
func copyWorker(w *exectest.Worker) sandbox.Exit {
	w.Events(exectest.Started())
	id := strings.TrimPrefix(w.Task.Skill, "skill:")
	for artifact, path := range w.Task.InputPaths {
		data, err := os.ReadFile(filepath.Join(w.Task.Trees["in:"+artifact], path))
		if err != nil {
			fmt.Fprintln(w.Stderr, err)
			return sandbox.Exit{Code: 2}
		}
		w.File(id+".json", string(data)+" ")
	}
	w.Events(exectest.Finished(contract.Settled))
	return sandbox.Exit{}
}

var nonce atomic.Int64

func options(t testing.TB, b *exectest.Builder, rt sandbox.Runtime) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	var seconds atomic.Int64
	return Options{
		Plan: b.Plan, PlanBytes: b.Bytes(), Blobs: b.Blobs, RunDir: filepath.Join(t.TempDir(), "run"),
		Runtimes: map[string]sandbox.Runtime{rt.Mode(): rt}, Adapters: map[string]harness.Adapter{"fake": exectest.Adapter{}},
		Executable: self, Version: "test",
		Now:   func() time.Time { return start.Add(time.Duration(seconds.Add(1)) * time.Second) },
		Nonce: func() string { return fmt.Sprintf("n%d", nonce.Add(1)) },
	}
}

func TestRunSucceeds(t *testing.T) {
	b := threeSteps()
	if bad := plan.Validate(b.Plan); len(bad) > 0 {
		t.Fatalf("the test's plan is not valid: %v", bad)
	}
	rt := &exectest.Runtime{Work: copyWorker}
	opts := options(t, b, rt)
	var seen []record.Event
	opts.Observe = func(e record.Event) { seen = append(seen, e) }
	run, err := Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusSucceeded || ExitCode(run, err) != ExitOK {
		t.Fatalf("run %+v, error %v", run, err)
	}
	if !run.TestStub || run.Isolated {
		t.Errorf("test_stub %v, isolated %v: a stub without a boundary must say so", run.TestStub, run.Isolated)
	}
	read, err := record.ReadRun(opts.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range read.Nodes {
		if n.Status != record.StatusSucceeded || len(n.Outputs) != 1 || len(n.Attempts) != 1 {
			t.Errorf("node %d: %+v", i, n)
		}
		if n.Invocation == nil || n.Invocation.SkillSHA256 == "" || n.Invocation.Provenance.Revision != 3 {
			t.Errorf("node %s has no identity: %+v", n.ID, n.Invocation)
		}
		if n.Usage.Tokens != record.Unknown {
			t.Errorf("node %s reports no tokens, the record says %q", n.ID, n.Usage.Tokens)
		}
		for _, name := range []string{record.AttemptFile, record.SpecFile, record.StdoutFile, record.TraceFile} {
			if _, err := os.Stat(filepath.Join(opts.RunDir, n.Attempts[0].Folder, name)); err != nil {
				t.Error(err)
			}
		}
		// A stream without a byte needs no file.
		if _, err := os.Stat(filepath.Join(opts.RunDir, n.Attempts[0].Folder, record.StderrFile)); !os.IsNotExist(err) {
			t.Errorf("an empty stderr has a file: %v", err)
		}
	}
	got, err := os.ReadFile(filepath.Join(opts.RunDir, record.ArtifactsDir, "c", "c.json"))
	if err != nil || string(got) != `{"n": 1}   ` {
		t.Errorf("artifact of c: %q, %v", got, err)
	}
	events, err := record.ReadEvents(filepath.Join(opts.RunDir, record.EventsFile))
	if err != nil || len(events) != len(seen) || len(events) != 8 {
		t.Errorf("%d events read, %d seen, %v", len(events), len(seen), err)
	}
	noResidue(t, opts.RunDir, rt)
}

// noResidue fails if a run left something that only a living one needs.
func noResidue(t *testing.T, dir string, rt *exectest.Runtime) {
	t.Helper()
	if rt.Open != 0 {
		t.Errorf("%d sandboxes are open", rt.Open)
	}
	if _, err := os.Lstat(filepath.Join(dir, record.WorkDir)); !os.IsNotExist(err) {
		t.Errorf("the work folder is still there: %v", err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("run folder: %v, %v", info.Mode(), err)
	}
}

func TestRunsPromoteTheSameBytes(t *testing.T) {
	var digests []string
	for range 2 {
		run, err := Run(context.Background(), options(t, threeSteps(), &exectest.Runtime{Work: copyWorker}))
		if err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, n := range run.Nodes {
			for _, a := range n.Outputs {
				all += fmt.Sprintln(n.ID, a)
			}
		}
		digests = append(digests, all)
	}
	if digests[0] != digests[1] || digests[0] == "" {
		t.Errorf("two runs differ:\n%s\n%s", digests[0], digests[1])
	}
}

func TestRunStopsAtTheFirstFailure(t *testing.T) {
	rt := &exectest.Runtime{}
	rt.Work = func(w *exectest.Worker) sandbox.Exit {
		if w.Task.Skill == "skill:b" {
			w.Events(exectest.Started())
			w.File("b.json", `{"n": "text", "class": 1}`)
			w.Events(exectest.Finished(contract.Settled))
			return sandbox.Exit{}
		}
		return copyWorker(w)
	}
	b := threeSteps()
	opts := options(t, b, rt)
	run, err := Run(context.Background(), opts)
	if err != nil || ExitCode(run, err) != ExitFailed {
		t.Fatalf("run %+v, error %v", run, err)
	}
	if run.Failure.Reason != record.ReasonInvalidArtifact || !strings.Contains(run.Failure.Detail, "/n (type") ||
		!strings.Contains(run.Failure.Detail, b.Plan.Bundles[1].Files[0].Digest) {
		t.Errorf("failure %+v", run.Failure)
	}
	want := []string{record.StatusSucceeded, record.StatusFailed, record.StatusNotReached}
	for i, n := range run.Nodes {
		if n.Status != want[i] {
			t.Errorf("node %s is %s, want %s", n.ID, n.Status, want[i])
		}
	}
	if len(run.Nodes[1].Outputs) != 0 || len(rt.Tasks) != 2 {
		t.Errorf("outputs of b: %v; %d attempts", run.Nodes[1].Outputs, len(rt.Tasks))
	}
	kept, err := os.ReadFile(filepath.Join(opts.RunDir, run.Nodes[1].Attempts[0].Folder, record.RejectedDir, "out-b", "b.json"))
	if err != nil || !strings.Contains(string(kept), "class") {
		t.Errorf("the refused output is not kept: %q, %v", kept, err)
	}
	store, err := sandbox.OpenStoreReadOnly(filepath.Join(opts.RunDir, record.StoreDir))
	if err != nil {
		t.Fatal(err)
	}
	if store.Has(plan.Digest(kept)) {
		t.Error("the refused output is in the store")
	}
	noResidue(t, opts.RunDir, rt)
}

func TestRunThrough(t *testing.T) {
	rt := &exectest.Runtime{Work: copyWorker}
	b := threeSteps()
	opts := options(t, b, rt)
	opts.Through = "b"
	delete(b.Blobs, b.Plan.Bundles[3].Files[0].Digest) // skill:b … needed
	if b.Plan.Bundles[3].ID != "skill:b" {
		t.Fatal("the bundle's place changed")
	}
	if run, err := Run(context.Background(), opts); ExitCode(run, err) != ExitRefused || !strings.Contains(fmt.Sprint(err), "skill:b: SKILL.md") {
		t.Errorf("a blob is missing: %v", err)
	}
	if _, err := os.Lstat(opts.RunDir); !os.IsNotExist(err) {
		t.Errorf("a refused run left %v", err)
	}
	b = threeSteps()
	delete(b.Blobs, b.Plan.Bundles[4].Files[0].Digest) // skill:c is not needed
	opts = options(t, b, rt)
	opts.Through = "b"
	run, err := Run(context.Background(), opts)
	if err != nil || run.Status != record.StatusSucceeded || run.Nodes[2].Status != record.StatusNotReached {
		t.Errorf("run %+v, error %v", run, err)
	}
}

// A swap after the start changes nothing (A13).
func TestSwapAfterStart(t *testing.T) {
	b := threeSteps()
	rt := &exectest.Runtime{}
	rt.Work = func(w *exectest.Worker) sandbox.Exit {
		for d := range b.Blobs {
			b.Blobs[d] = []byte("swapped")
		}
		return copyWorker(w)
	}
	run, err := Run(context.Background(), options(t, b, rt))
	if err != nil || run.Status != record.StatusSucceeded {
		t.Errorf("run %+v, error %v", run, err)
	}
}

// A changed byte is refused before anything starts (A1).
func TestChangedBlobIsRefused(t *testing.T) {
	b := threeSteps()
	for _, f := range b.Plan.Bundles[2].Files {
		b.Blobs[f.Digest] = append([]byte(nil), b.Blobs[f.Digest]...)
		b.Blobs[f.Digest][0] ^= 1
	}
	rt := &exectest.Runtime{Work: copyWorker}
	opts := options(t, b, rt)
	run, err := Run(context.Background(), opts)
	f := b.Plan.Bundles[2].Files[0]
	if ExitCode(run, err) != ExitRefused || len(rt.Tasks) != 0 {
		t.Fatalf("run %v, error %v", run, err)
	}
	for _, part := range []string{"skill:a", f.Path, f.Digest, plan.Digest(b.Blobs[f.Digest])} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message lacks %s: %v", part, err)
		}
	}
	if _, err := os.Lstat(opts.RunDir); !os.IsNotExist(err) {
		t.Errorf("a refused run left %v", err)
	}
}

// A run never blends into another one (A1).
func TestRunFolderMustBeEmpty(t *testing.T) {
	opts := options(t, threeSteps(), &exectest.Runtime{Work: copyWorker})
	if run, err := Run(context.Background(), opts); err != nil {
		t.Fatal(run, err)
	}
	before, _ := os.ReadFile(filepath.Join(opts.RunDir, record.RunFile))
	run, err := Run(context.Background(), opts)
	if !errors.Is(err, record.ErrNotEmpty) || ExitCode(run, err) != ExitRefused {
		t.Errorf("second run into one folder: %v", err)
	}
	after, _ := os.ReadFile(filepath.Join(opts.RunDir, record.RunFile))
	if string(before) != string(after) {
		t.Error("run.json changed")
	}
}

func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	rt := &exectest.Runtime{Work: func(w *exectest.Worker) sandbox.Exit {
		w.Events(exectest.Started())
		cancel()
		<-w.Killed
		return sandbox.Exit{Code: 137, Signal: "SIGKILL"}
	}}
	opts := options(t, threeSteps(), rt)
	run, err := Run(ctx, opts)
	if err != nil || run.Status != record.StatusCancelled || ExitCode(run, err) != ExitInterrupted {
		t.Fatalf("run %+v, error %v", run, err)
	}
	read, err := record.ReadRun(opts.RunDir)
	if err != nil || read.Nodes[0].Status != record.StatusFailed || read.Nodes[0].Failure.Class != record.ClassCancelled {
		t.Errorf("record %+v, %v", read, err)
	}
	noResidue(t, opts.RunDir, rt)
}

func TestRunCancelledBetweenNodes(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	rt := &exectest.Runtime{Work: copyWorker}
	opts := options(t, threeSteps(), rt)
	opts.Observe = func(e record.Event) {
		if e.Type == record.EventNodeFinished {
			cancel()
		}
	}
	run, err := Run(ctx, opts)
	if err != nil || run.Status != record.StatusCancelled || run.Nodes[0].Status != record.StatusSucceeded || len(rt.Tasks) != 1 {
		t.Fatalf("run %+v, error %v", run, err)
	}
}

func TestRunRefusesBeforeItStarts(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*exectest.Builder, *Options)
		want   string
	}{
		"unknown through": {func(_ *exectest.Builder, o *Options) { o.Through = "x" }, `no node "x": it has a, b, c`},
		"no runtime":      {func(_ *exectest.Builder, o *Options) { o.Runtimes = nil }, `node a: the sandbox "local" is not to be had`},
		"no adapter":      {func(_ *exectest.Builder, o *Options) { o.Adapters = nil }, `the adapter "fake" of harness stub is not known`},
		"other bytes":     {func(_ *exectest.Builder, o *Options) { o.PlanBytes = append(o.PlanBytes, ' ') }, "not those of the plan"},
		"relative folder": {func(_ *exectest.Builder, o *Options) { o.RunDir = "run" }, "not absolute"},
		"the network": {func(b *exectest.Builder, _ *Options) {
			b.Plan.Nodes[1].Sandbox.Network = plan.NetworkBridge
		}, `node b: the network "bridge" is not built yet`},
		"a bad schema": {func(b *exectest.Builder, _ *Options) {
			text := `{"$ref": "https://schemas.invalid/x.json"}`
			f := &b.Plan.Bundles[1].Files[0]
			f.Digest, f.Bytes = b.Blobs.Put(text), int64(len(text))
			b.Plan.Bundles[1].Digest, _ = plan.TreeDigest(b.Plan.Bundles[1].Files)
		}, "schema:num does not compile"},
	} {
		t.Run(name, func(t *testing.T) {
			b := threeSteps()
			rt := &exectest.Runtime{Work: copyWorker}
			opts := options(t, b, rt)
			tt.change(b, &opts)
			if name != "other bytes" {
				opts.PlanBytes = b.Bytes()
			}
			run, err := Run(context.Background(), opts)
			if ExitCode(run, err) != ExitRefused || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, err := os.Lstat(opts.RunDir); !os.IsNotExist(err) || len(rt.Tasks) > 0 {
				t.Errorf("something started: %v", err)
			}
		})
	}
}

func TestRunBudgetStopsTheNextNode(t *testing.T) {
	b := threeSteps()
	b.Plan.Budget.Tokens = 150
	for i := range b.Plan.Nodes {
		b.Plan.Nodes[i].Budget.Tokens = 100
	}
	rt := &exectest.Runtime{Work: func(w *exectest.Worker) sandbox.Exit {
		w.Events(exectest.Started(), contract.Event{Type: contract.UsageType, Usage: &contract.Usage{Message: "m", Input: 90}})
		w.File(strings.TrimPrefix(w.Task.Skill, "skill:")+".json", `{"n": 2}`)
		w.Events(exectest.Finished(contract.Settled))
		return sandbox.Exit{}
	}}
	run, err := Run(context.Background(), options(t, b, rt))
	if err != nil || run.Status != record.StatusFailed || len(rt.Tasks) != 2 {
		t.Fatalf("run %+v, error %v, %d attempts", run, err, len(rt.Tasks))
	}
	f := run.Failure
	if f.Class != record.ClassWorkflow || f.Reason != "budget_exceeded:tokens" || f.Limit != "150" || f.Observed != "180" || f.Overshoot != "30" {
		t.Errorf("failure %+v", f)
	}
}

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		run  *record.Run
		err  error
		want int
	}{
		{nil, io.ErrUnexpectedEOF, ExitInfrastructure},
		{nil, nil, ExitInfrastructure},
		{nil, context.Canceled, ExitInterrupted},
		{&record.Run{Status: record.StatusFailed, Failure: record.Fail(record.ReasonCheckError, "")}, nil, ExitGrader},
		{&record.Run{Status: record.StatusFailed, Failure: record.Fail(record.ReasonSandboxDied, "")}, nil, ExitInfrastructure},
		{&record.Run{Status: record.StatusFailed, Failure: record.Fail(record.ReasonLoopExhausted, "")}, nil, ExitFailed},
		{&record.Run{Status: record.StatusFailed, Failure: record.Fail(record.ReasonWorkerError, "")}, nil, ExitFailed},
	} {
		if got := ExitCode(tt.run, tt.err); got != tt.want {
			t.Errorf("ExitCode(%+v, %v) = %d, want %d", tt.run, tt.err, got, tt.want)
		}
	}
}
