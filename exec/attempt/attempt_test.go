package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

const schemaText = `{"type":"object","required":["class","inputs"],"properties":{"class":{"const":"X"},"n":{"type":"integer"}}}`

// lab runs one attempt of a node with one JSON output "doc" and one optional
// text output "notes".
type lab struct {
	t       *testing.T
	builder *exectest.Builder
	runtime *exectest.Runtime
	runner  *Runner
	job     *Job
}

func newLab(t *testing.T, work func(*exectest.Worker) sandbox.Exit) *lab {
	t.Helper()
	b := exectest.New("fake", "1")
	b.Bundle("schema:doc", map[string]string{"doc.schema.json": schemaText})
	b.Input("seed", plan.KindJSON, "seed.json", `{}`)
	n := b.Node("a", func(n *plan.Node) {
		n.Outputs = []plan.NodeOutput{
			{Artifact: "doc", Filename: "doc.json", Kind: plan.KindJSON, Schema: "schema:doc", Required: plan.RequiredAlways},
			{Artifact: "notes", Filename: "notes.md", Kind: plan.KindMarkdown, Required: plan.Optional},
			{Artifact: "tree", Filename: "sub/tree", Kind: plan.KindDirectory, Required: plan.Optional},
		}
	})
	dir := filepath.Join(t.TempDir(), "run")
	folder, err := record.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	store, err := sandbox.OpenStore(folder.Path(record.StoreDir))
	if err != nil {
		t.Fatal(err)
	}
	bundles := map[string]*plan.Bundle{}
	for i := range b.Plan.Bundles {
		bundles[b.Plan.Bundles[i].ID] = &b.Plan.Bundles[i]
	}
	for _, data := range b.Blobs {
		if _, err := store.Put(data); err != nil {
			t.Fatal(err)
		}
	}
	l := &lab{t: t, builder: b, runtime: &exectest.Runtime{Work: work}}
	l.runner = &Runner{Run: "r", Folder: folder, Store: store, Trees: NewTrees(folder.Path("work", "trees"), store),
		Schemas: NewSchemas(b.Plan, store), Bundles: bundles, Executable: "/x", Now: time.Now, Grace: 50 * time.Millisecond}
	l.job = &Job{ID: "n0-1-1", Node: n, Iteration: 1, Attempt: 1, Harness: &b.Plan.Harnesses[0], Adapter: exectest.Adapter{},
		Runtime: l.runtime, Wall: time.Minute}
	return l
}

func (l *lab) run(ctx context.Context) *record.Attempt {
	l.t.Helper()
	out, err := l.runner.Do(ctx, l.job)
	if err != nil {
		l.t.Fatal(err)
	}
	rec := out.Record
	if (rec.Failure == nil) != (rec.Status == record.StatusSucceeded) || rec.Failure != nil && len(out.Artifacts) > 0 {
		l.t.Errorf("status %s, failure %+v, %d artifacts", rec.Status, rec.Failure, len(out.Artifacts))
	}
	if l.runtime.Open != 0 {
		l.t.Errorf("%d sandboxes are open", l.runtime.Open)
	}
	if _, err := os.Lstat(l.runner.Folder.Path("work", l.job.ID)); !os.IsNotExist(err) {
		l.t.Errorf("the work folder is there: %v", err)
	}
	for _, o := range rec.Outputs {
		if rec.Failure != nil && o.Digest != "" && l.runner.Store.Has(o.Digest) {
			l.t.Errorf("output %s of a failed attempt is in the store", o.Artifact)
		}
	}
	return rec
}

const goodDoc = `{"class": "X", "inputs": []}`

// settle is a worker that does what it should, with more before its end.
func settle(more func(*exectest.Worker)) func(*exectest.Worker) sandbox.Exit {
	return func(w *exectest.Worker) sandbox.Exit {
		w.Events(exectest.Started())
		w.File("doc.json", goodDoc)
		if more != nil {
			more(w)
		}
		w.Events(exectest.Finished(contract.Settled))
		return sandbox.Exit{}
	}
}

func exits(code int, events ...contract.Event) func(*exectest.Worker) sandbox.Exit {
	return func(w *exectest.Worker) sandbox.Exit {
		w.File("doc.json", goodDoc)
		w.Events(events...)
		return sandbox.Exit{Code: code}
	}
}

func usage(id string, tokens int64, cost int64) contract.Event {
	return contract.Event{Type: contract.UsageType, Usage: &contract.Usage{Message: id, Output: tokens, CostMicroUSD: &cost}}
}

func turn(n int64) contract.Event { return contract.Event{Type: contract.Turn, Turn: n} }

func tool(id string) contract.Event {
	return contract.Event{Type: contract.Tool, ToolName: "sh", ToolCall: id}
}

// until writes events and waits to be killed.
func until(events ...contract.Event) func(*exectest.Worker) sandbox.Exit {
	return func(w *exectest.Worker) sandbox.Exit {
		w.Events(exectest.Started())
		w.Events(events...)
		<-w.Killed
		return sandbox.Exit{Code: 137, Signal: "SIGKILL"}
	}
}

func turns(n int64) (events []contract.Event) {
	for i := range n {
		events = append(events, turn(i+1))
	}
	return events
}

func tools(n int) (events []contract.Event) {
	for i := range n {
		events = append(events, tool(fmt.Sprint(i)), tool(fmt.Sprint(i)))
	}
	return events
}

// One line for each way an attempt can end. The node's budget: 10 turns, 10
// tool calls, 1,000 tokens, 1,000 micro-USD, 1 MiB and 16 files.
func TestReasons(t *testing.T) {
	other := exectest.Started()
	other.Harness = &contract.Identity{Name: "stub", Version: "2"}
	for name, tt := range map[string]struct {
		work   func(*exectest.Worker) sandbox.Exit
		change func(*lab)
		reason string // "" succeeds
		detail string
		limit  record.Count
		saw    record.Count
		over   record.Count
	}{
		"valid":                    {work: settle(nil)},
		"stopped at length, valid": {work: exits(0, exectest.Started(), exectest.Finished(contract.StoppedLength))},
		// D5: the terminal event decides, then the exit code.
		"D5 error, completed, 0": {work: settle(func(w *exectest.Worker) { fmt.Fprintln(w.Stdout, `{"error":"overloaded"}`) })},
		"D5 failed, 0":           {work: exits(0, exectest.Started(), exectest.Finished(contract.Errored)), reason: record.ReasonWorkerError, detail: "says errored"},
		"D5 completed, 1":        {work: exits(1, exectest.Started(), exectest.Finished(contract.Settled)), reason: record.ReasonWorkerError, detail: "exit code 1"},
		"D5 error, end": {work: func(w *exectest.Worker) sandbox.Exit {
			w.Events(exectest.Started())
			fmt.Fprintln(w.Stdout, `{"error":"overloaded"}`)
			w.File("doc.json", goodDoc)
			return sandbox.Exit{}
		}, reason: record.ReasonNoFinalEvent},
		"aborted": {work: exits(0, exectest.Started(), exectest.Finished(contract.Aborted)), reason: record.ReasonWorkerError, detail: "says aborted"},
		// D1: cut at byte 65,536, and between events.
		"D1 cut in a line": {work: func(w *exectest.Worker) sandbox.Exit {
			w.Events(exectest.Started())
			w.File("doc.json", goodDoc)
			line := string(contract.Encode(contract.Event{ProtocolVersion: 2, Type: contract.Finished, Message: strings.Repeat("x", 70000)}))
			w.Stdout.Write([]byte(line[:65536]))
			return sandbox.Exit{}
		}, reason: record.ReasonNoFinalEvent},
		"D1 cut between events": {work: exits(0, exectest.Started(), turn(1)), reason: record.ReasonNoFinalEvent},
		"crash":                 {work: exits(3), reason: record.ReasonNoFinalEvent, detail: "exit code 3"},
		"two final events": {work: exits(0, exectest.Started(), exectest.Finished(contract.Settled), exectest.Finished(contract.Settled)),
			reason: record.ReasonWorkerError, detail: "second finished"},
		// D4: a worker's success is only a note.
		"D4 no artifact": {work: func(w *exectest.Worker) sandbox.Exit {
			w.Events(exectest.Started(), exectest.Finished(contract.Settled))
			return sandbox.Exit{}
		}, reason: record.ReasonMissingArtifact, detail: "doc.json"},
		"D4 0 bytes": {work: settle(func(w *exectest.Worker) { w.File("doc.json", "") }), reason: record.ReasonInvalidArtifact, detail: "0 bytes"},
		"D4 error text": {work: settle(func(w *exectest.Worker) { w.File("doc.json", "API error 529") }),
			reason: record.ReasonInvalidArtifact, detail: "no strict JSON"},
		"D26 fenced": {work: settle(func(w *exectest.Worker) { w.File("doc.json", "```json\n"+goodDoc+"\n```\n") }),
			reason: record.ReasonInvalidArtifact, detail: "fence"},
		"D26 trailing comment": {work: settle(func(w *exectest.Worker) { w.File("doc.json", goodDoc+"\n// done") }),
			reason: record.ReasonInvalidArtifact, detail: "JSON has no comments"},
		"D26 byte order mark": {work: settle(func(w *exectest.Worker) { w.File("doc.json", "\ufeff"+goodDoc) }),
			reason: record.ReasonInvalidArtifact, detail: "byte order mark: write it as UTF-8 without one"},
		"duplicate key": {work: settle(func(w *exectest.Worker) { w.File("doc.json", `{"class":"Y","class":"X","inputs":1}`) }),
			reason: record.ReasonInvalidArtifact},
		"every pointer": {work: settle(func(w *exectest.Worker) { w.File("doc.json", `{"n":"x","class":"Y"}`) }),
			reason: record.ReasonInvalidArtifact, detail: "/class (const: value must be 'X')\n/inputs (required: it is required and missing)\n/n (type: "},
		"optional and invalid": {work: settle(func(w *exectest.Worker) { w.File("notes.md", "\xff\xfe") }),
			reason: record.ReasonInvalidArtifact, detail: "not valid UTF-8"},
		"link": {work: settle(func(w *exectest.Worker) {
			os.Remove(filepath.Join(w.Out, "doc.json"))
			os.Symlink("/etc/passwd", filepath.Join(w.Out, "doc.json"))
		}), reason: record.ReasonInvalidArtifact, detail: "link"},
		"many refused": {work: settle(func(w *exectest.Worker) {
			for i := range 8 {
				w.File("sub/tree/x", "x")
				os.Symlink("x", filepath.Join(w.Out, fmt.Sprintf("sub/tree/l%d", i)))
			}
		}), reason: record.ReasonInvalidArtifact, detail: "also refused: sub/tree/l1 (link), sub/tree/l2 (link), sub/tree/l3 (link), sub/tree/l4 (link), sub/tree/l5 (link), and 2 more"},
		"folder for a file": {work: settle(func(w *exectest.Worker) {
			os.Remove(filepath.Join(w.Out, "doc.json"))
			os.Mkdir(filepath.Join(w.Out, "doc.json"), 0o755)
		}), reason: record.ReasonInvalidArtifact, detail: "wrong_kind"},
		"too many bytes": {work: settle(func(w *exectest.Worker) { w.File("notes.md", strings.Repeat("x", 1<<20)) }),
			reason: "budget_exceeded:output_bytes", limit: "1048576"},
		"too many files": {work: settle(func(w *exectest.Worker) {
			for i := range 30 {
				w.File(fmt.Sprintf("sub/tree/%d", i), "x")
			}
		}), reason: "budget_exceeded:output_files", limit: "16"},
		"turns by one":       {work: until(turns(11)...), reason: "budget_exceeded:turns", limit: "10", saw: "11", over: "1"},
		"turns in one event": {work: until(turn(100)), reason: "budget_exceeded:turns", limit: "10", saw: "100", over: "90"},
		"turns at the limit": {work: settle(func(w *exectest.Worker) { w.Events(turns(10)...) })},
		"tool calls":         {work: until(tools(11)...), reason: "budget_exceeded:tool_calls", limit: "10", saw: "11", over: "1"},
		"one call, twice":    {work: settle(func(w *exectest.Worker) { w.Events(tools(10)...) })},
		"tokens":             {work: until(usage("1", 400, 1), usage("2", 601, 1)), reason: "budget_exceeded:tokens", limit: "1000", saw: "1001", over: "1"},
		"tokens, last event": {work: settle(func(w *exectest.Worker) { w.Events(usage("1", 10_000, 1)) }),
			reason: "budget_exceeded:tokens", limit: "1000", saw: "10000", over: "9000"},
		"one message, twice": {work: settle(func(w *exectest.Worker) { w.Events(usage("1", 900, 1), usage("1", 1000, 1)) })},
		"cost":               {work: until(usage("1", 1, 2000)), reason: "budget_exceeded:cost", limit: "1000", saw: "2000", over: "1000"},
		"wall":               {work: until(), change: func(l *lab) { l.job.Wall = time.Second }, reason: "budget_exceeded:wall", limit: "1"},
		"lingers": {work: func(w *exectest.Worker) sandbox.Exit {
			settle(nil)(w)
			<-w.Killed
			return sandbox.Exit{Code: 137, Signal: "SIGKILL"}
		}},
		"memory": {work: func(w *exectest.Worker) sandbox.Exit {
			w.Events(exectest.Started())
			return sandbox.Exit{Code: 137, Signal: "SIGKILL", OOM: true}
		}, reason: "resource_exceeded:memory", limit: "1073741824", saw: "unknown", over: "unknown"},
		"memory of a child": {work: func(w *exectest.Worker) sandbox.Exit {
			settle(nil)(w)
			return sandbox.Exit{OOM: true}
		}, reason: "resource_exceeded:memory", limit: "1073741824", saw: "unknown", over: "unknown"},
		"another version": {work: func(w *exectest.Worker) sandbox.Exit {
			w.Events(other)
			<-w.Killed
			return sandbox.Exit{}
		}, reason: record.ReasonHarnessMismatch, detail: `version "1", "2" started`},
		"activation": {work: settle(nil), change: func(l *lab) { l.job.Node.RequireActivation = true }, reason: record.ReasonActivationUnproven},
		"prepare":    {work: settle(nil), change: func(l *lab) { l.runtime.Prepared = errors.New("no") }, reason: record.ReasonRuntimeError},
		"start":      {work: settle(nil), change: func(l *lab) { l.runtime.Started = errors.New("no") }, reason: record.ReasonRuntimeError},
		"lost":       {work: settle(nil), change: func(l *lab) { l.runtime.Waited = errors.New("gone") }, reason: record.ReasonSandboxDied},
		"not dead":   {work: settle(nil), change: func(l *lab) { l.runtime.Dead = errors.New("pid 7") }, reason: record.ReasonRuntimeError, detail: "pid 7"},
		"disk full":  {work: settle(nil), change: func(l *lab) { l.runtime.Prepared = fmt.Errorf("x: %w", syscall.ENOSPC) }, reason: record.ReasonDiskFull},
		"input missing": {work: settle(nil), change: func(l *lab) {
			l.job.Inputs = []Input{{Spec: plan.NodeInput{Artifact: "seed", Required: true}, From: "none"}}
		}, reason: record.ReasonMissingArtifact, detail: "input seed"},
		"input invalid": {work: settle(nil), change: func(l *lab) {
			f := l.runner.Bundles["input:seed"].Files
			l.job.Inputs = []Input{{From: "input:seed", Spec: plan.NodeInput{Artifact: "seed", Required: true, Kind: plan.KindJSON, Path: "seed.json", Schema: "schema:doc"},
				Artifact: &Artifact{Tree: f, Artifact: record.Artifact{Kind: plan.KindJSON, Digest: f[0].Digest}}}}
		}, reason: record.ReasonInvalidArtifact, detail: "input seed does not satisfy schema"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tt.work)
			if tt.change != nil {
				tt.change(l)
			}
			rec := l.run(context.Background())
			f := rec.Failure
			if f == nil {
				f = &record.Failure{}
			}
			if f.Reason != tt.reason || !strings.Contains(f.Detail, tt.detail) || tt.limit != "" && f.Limit != tt.limit ||
				tt.saw != "" && f.Observed != tt.saw || tt.over != "" && f.Overshoot != tt.over {
				t.Errorf("failure %+v, want %+v", f, tt)
			}
			if tt.reason != "" && f.Class != record.ClassOf(tt.reason) {
				t.Errorf("class %s", f.Class)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := newLab(t, func(w *exectest.Worker) sandbox.Exit {
		cancel()
		<-w.Killed
		return sandbox.Exit{Code: 137}
	})
	rec := l.run(ctx)
	if rec.Failure == nil || rec.Failure.Class != record.ClassCancelled || !rec.Dead {
		t.Errorf("%+v", rec.Failure)
	}
}

// A worker may write without end, to either stream: the record stays bounded
// and the attempt ends.
func TestFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 256 MiB through a pipe, twice")
	}
	for name, tt := range map[string]struct {
		to     func(*exectest.Worker) io.Writer
		kept   func(*record.Attempt) record.Stream
		file   string
		detail string
	}{
		"stdout": {func(w *exectest.Worker) io.Writer { return w.Stdout }, func(a *record.Attempt) record.Stream { return a.Stdout }, record.StdoutFile, "to standard output"},
		"stderr": {func(w *exectest.Worker) io.Writer { return w.Stderr }, func(a *record.Attempt) record.Stream { return a.Stderr }, record.StderrFile, "to standard error"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, func(w *exectest.Worker) sandbox.Exit {
				w.Events(exectest.Started())
				chunk := []byte(strings.Repeat(strings.Repeat("noise ", 20_000)+"\n", 8))
				for to := tt.to(w); ; {
					select {
					case <-w.Killed:
						return sandbox.Exit{Code: 137, Signal: "SIGKILL"}
					default:
						to.Write(chunk)
					}
				}
			})
			rec := l.run(context.Background())
			f, s := rec.Failure, tt.kept(rec)
			if f == nil || f.Reason != "resource_exceeded:stdout" || f.Limit != record.Known(MaxStdout) || !strings.Contains(f.Detail, tt.detail) {
				t.Fatalf("failure %+v", f)
			}
			if s.Bytes <= MaxStdout || s.Dropped == 0 {
				t.Errorf("%+v", s)
			}
			info, err := os.Stat(filepath.Join(l.runner.Folder.Dir, record.AttemptFolder("a", 1, 1), tt.file))
			if err != nil || info.Size() < record.StreamHead+record.StreamTail || info.Size() > record.StreamHead+record.StreamTail+100 {
				t.Errorf("the file has %d bytes: %v", info.Size(), err)
			}
		})
	}
}

// Of a success everything declared crosses, nothing else, and the session got
// the prompt with its tokens expanded.
func TestPromotion(t *testing.T) {
	prompt := make(chan string, 1)
	l := newLab(t, settle(func(w *exectest.Worker) {
		buf := make([]byte, 100)
		n, _ := w.Stdin.Read(buf)
		prompt <- string(buf[:n])
		w.File("notes.md", "# Notes\n")
		w.File("sub/tree/x/y", "deep")
		w.File("sub/tree/z", "flat")
		w.File("undeclared", "no")
		w.Events(turn(1), usage("1", 5, 7), tool("t"))
	}))
	out, err := l.runner.Do(context.Background(), l.job)
	if err != nil || out.Record.Failure != nil {
		t.Fatal(err, out.Record.Failure)
	}
	if got := <-prompt; got != "do it, write to /out\n" {
		t.Errorf("prompt %q", got)
	}
	if len(out.Artifacts) != 3 || out.Artifacts[2].Files != 2 || len(out.Artifacts[2].Tree) != 2 {
		t.Fatalf("artifacts %+v", out.Artifacts)
	}
	for _, a := range out.Artifacts {
		if !l.runner.Store.Has(a.Digest) {
			t.Errorf("the store lacks %s", a.Artifact.Artifact)
		}
		dir, err := l.runner.Trees.Folder(context.Background(), a.At("here"))
		if err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "here")); err != nil {
			t.Error(err)
		}
	}
	if err := l.runner.Trees.Remove(); err != nil {
		t.Error(err)
	}
	rec := out.Record
	if rec.Undeclared.Count == 0 || rec.Worker.Status != contract.Settled || rec.Activation.State != record.ActivationUnprovenStub {
		t.Errorf("record %+v", rec)
	}
	if u := rec.Usage; u.Turns != "1" || u.ToolCalls != "1" || u.Tokens != "5" || u.CostMicroUSD != "7" {
		t.Errorf("usage %+v", u)
	}
	dir := filepath.Join(l.runner.Folder.Dir, record.AttemptFolder("a", 1, 1))
	for _, gone := range []string{record.PartialDir, record.RejectedDir} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", gone, err)
		}
	}
	trace, err := os.ReadFile(filepath.Join(dir, record.TraceFile))
	if err != nil || strings.Count(string(trace), "\n") != 5 {
		t.Errorf("trace %q, %v", trace, err)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	l := newLab(t, nil)
	schema, err := l.runner.Schemas.Get("schema:doc")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := l.runner.Schemas.Get("schema:doc"); again != schema {
		t.Error("the schema was compiled twice")
	}
	if found, _ := Check(plan.KindYAML, []byte("class: X\ninputs: {}\n"), schema); len(found) > 0 {
		t.Errorf("valid YAML: %v", found)
	}
	if found, _ := Check(plan.KindYAML, []byte("class: X\nclass: X\n"), schema); len(found) != 1 || found[0].Rule != ruleFormat {
		t.Errorf("duplicate key: %v", found)
	}
	wide := &exectest.Builder{Plan: &plan.Plan{}, Blobs: l.builder.Blobs}
	wide.Bundle("schema:wide", map[string]string{"s.json": `{"additionalProperties": false}`})
	for _, data := range wide.Blobs {
		l.runner.Store.Put(data)
	}
	narrow, err := NewSchemas(wide.Plan, l.runner.Store).Get("schema:wide")
	if err != nil {
		t.Fatal(err)
	}
	var doc strings.Builder
	for i := range maxProblems + 5 {
		fmt.Fprintf(&doc, `,"k/%d~":1`, i)
	}
	found, dropped := Check(plan.KindJSON, []byte("{"+doc.String()[1:]+"}"), narrow)
	if len(found) != maxProblems || dropped != 5 || found[0].Pointer != "/k~10~0" {
		t.Errorf("%d found, %d dropped, first %+v", len(found), dropped, found[0])
	}
}
