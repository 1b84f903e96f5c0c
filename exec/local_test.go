package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/harness/contract"
	"foundry/harness/scripted"
	"foundry/harness/worker"
	"foundry/harness/worker/probe"
	"foundry/plan"
	"foundry/sandbox/local"
)

// The test binary is its own worker, the tool of its checks, and a controller
// that kills itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker":
			os.Exit(markedWorker())
		case "tool":
			os.Exit(tool(os.Args[2:]))
		case "controller":
			os.Exit(controller(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// tool is the program of checks: it writes a file or a text, and exits.
func tool(args []string) int {
	switch args[0] {
	case "cat":
		data, err := os.ReadFile(args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		os.Stdout.Write(data)
	case "say":
		fmt.Print(args[1])
	case "flood":
		for range 3 << 10 {
			fmt.Println(strings.Repeat("x", 1023))
		}
	case "exit":
		code, _ := strconv.Atoi(args[1])
		return code
	case "sleep":
		time.Sleep(time.Hour)
	case "die":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	}
	return 0
}

// markVar names the file in which a worker says that it has begun: which node,
// iteration and attempt.
const markVar = "MARKS"

func markedWorker() int {
	in := io.Reader(os.Stdin)
	if path := os.Getenv(markVar); path != "" {
		line, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 2
		}
		var said contract.Input
		if err := json.Unmarshal(line, &said); err != nil {
			return 2
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 2
		}
		fmt.Fprintf(f, "%s %d %d\n", said.Node, said.Iteration, said.Attempt)
		f.Close()
		in = bytes.NewReader(line)
	}
	return worker.Main(os.Args[2:], in, os.Stdout, os.Stderr, worker.Late{Probe: probe.Document})
}

// lowered makes the processes of b's nodes from a script.
func lowered(t testing.TB, b *exectest.Builder, script string) {
	t.Helper()
	if err := lower(b, script, ""); err != nil {
		t.Fatal(err)
	}
}

func lower(b *exectest.Builder, script, marks string) error {
	for i := range b.Plan.Nodes {
		n := &b.Plan.Nodes[i]
		if n.Kind != plan.NodeAgent {
			continue
		}
		low, err := scripted.Adapter{}.Lower(harness.Request{Node: n.ID, Harness: b.Plan.Harnesses[0], Skill: n.ID,
			Inputs: n.Inputs, Outputs: n.Outputs, Script: []byte(script)})
		if err != nil {
			return err
		}
		n.Process, n.Files, n.Prompt = low.Process, low.Files, low.Prompt
		if marks != "" {
			n.Process.Env = append(n.Process.Env, markVar+"="+marks)
			slices.Sort(n.Process.Env)
		}
	}
	if bad := plan.Validate(b.Plan); len(bad) > 0 {
		return fmt.Errorf("the test's plan is not valid: %v", bad)
	}
	return nil
}

func scriptedSteps() *exectest.Builder {
	b := threeSteps()
	b.Plan.Harnesses[0].Adapter, b.Plan.Harnesses[0].Version = scripted.Name, scripted.Version
	return b
}

func realOptions(t testing.TB, b *exectest.Builder) Options {
	opts := options(t, b, local.New())
	opts.Adapters = map[string]harness.Adapter{scripted.Name: scripted.Adapter{}}
	return opts
}

const passOn = `{"version":1,"nodes":{
 "a":[{"copy":{"from":"{in:seed}","to":"a.json"}},{"emit":{"type":"turn","turn":1}}],
 "b":[{"copy":{"from":"{in:out-a}","to":"b.json"}},{"write":{"path":"junk","content":"x"}}],
 "c":[{"write":{"path":"c.json","content":"{\"n\": 3}\n"}},{"stderr":{"text":"to people"}}]}}`

// The real worker in the real local sandbox.
func TestLocalRun(t *testing.T) {
	var first *record.Run
	for range 2 {
		b := scriptedSteps()
		lowered(t, b, passOn)
		opts := realOptions(t, b)
		run, err := Run(context.Background(), opts)
		if err != nil || run.Status != record.StatusSucceeded {
			t.Fatalf("failure %+v, error %v", run.Failure, err)
		}
		if len(run.Leftovers) > 0 {
			t.Errorf("leftovers %v", run.Leftovers)
		}
		for i, want := range []string{`{"n": 1}`, `{"n": 1}`, "{\"n\": 3}\n"} {
			n := run.Nodes[i]
			got, err := os.ReadFile(filepath.Join(opts.RunDir, record.ArtifactsDir, n.ID, n.ID+".json"))
			if err != nil || string(got) != want || n.Outputs[0].Digest != plan.Digest(got) {
				t.Errorf("node %s: %q, %v", n.ID, got, err)
			}
			if first != nil && n.Outputs[0] != first.Nodes[i].Outputs[0] {
				t.Errorf("node %s: %v and %v", n.ID, n.Outputs, first.Nodes[i].Outputs)
			}
		}
		said, err := os.ReadFile(filepath.Join(opts.RunDir, run.Nodes[2].Attempts[0].Folder, record.StderrFile))
		if err != nil || string(said) != "to people" {
			t.Errorf("stderr %q, %v", said, err)
		}
		first = run
	}
}

// One script for each way a real worker can fail.
func TestLocalFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		steps  string
		reason string
		change func(*plan.Node)
	}{
		"nothing":       {`{"emit":{"type":"turn","turn":1}}`, record.ReasonMissingArtifact, nil},
		"invalid":       {`{"write":{"path":"a.json","content":"{}"}}`, record.ReasonInvalidArtifact, nil},
		"link":          {`{"symlink":{"target":"/etc/hostname","path":"a.json"}}`, record.ReasonInvalidArtifact, nil},
		"errored":       {`{"write":{"path":"a.json","content":"{\"n\":1}"}},{"finish":{"status":"errored","message":"no"}}`, record.ReasonWorkerError, nil},
		"exit 1":        {`{"write":{"path":"a.json","content":"{\"n\":1}"}},{"finish":{"status":"settled"}},{"exit":{"code":1}}`, record.ReasonWorkerError, nil},
		"no end":        {`{"write":{"path":"a.json","content":"{\"n\":1}"}},{"exit":{"code":0}}`, record.ReasonNoFinalEvent, nil},
		"ends twice":    {`{"write":{"path":"a.json","content":"{\"n\":1}"}},{"finish":{"status":"settled"}},{"finish":{"status":"settled"}}`, record.ReasonWorkerError, nil},
		"sleeps":        {`{"sleep_ms":600000}`, "budget_exceeded:wall", func(n *plan.Node) { n.Budget.WallSeconds = 1 }},
		"turns":         {`{"emit":{"type":"turn","turn":11}},{"sleep_ms":600000}`, "budget_exceeded:turns", nil},
		"no executable": {`{"emit":{"type":"turn","turn":1}}`, record.ReasonToolMissing, func(n *plan.Node) { n.Process.Argv[0] = "no-such-program" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := scriptedSteps()
			lowered(t, b, `{"version":1,"default":{"steps":[`+tt.steps+`]}}`)
			if tt.change != nil {
				tt.change(&b.Plan.Nodes[0])
			}
			opts := realOptions(t, b)
			run, err := Run(context.Background(), opts)
			if err != nil || run.Failure == nil || run.Failure.Reason != tt.reason {
				t.Fatalf("failure %+v, error %v; want %s", run.Failure, err, tt.reason)
			}
			if run.Nodes[1].Status != record.StatusNotReached || len(run.Nodes[0].Outputs) > 0 || len(run.Leftovers) > 0 {
				t.Errorf("nodes %+v, leftovers %v", run.Nodes, run.Leftovers)
			}
			if left := ours(t, run.ID); left != "" {
				t.Errorf("processes are left: %s", left)
			}
		})
	}
}

// An interruption stops the worker at once and leaves a valid record.
func TestLocalCancelled(t *testing.T) {
	b := scriptedSteps()
	lowered(t, b, `{"version":1,"default":{"steps":[{"emit":{"type":"turn","turn":1}},{"sleep_ms":600000}]}}`)
	opts := realOptions(t, b)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	opts.ObserveWorker = func(_ string, ev contract.Event) {
		if ev.Type == contract.Turn {
			cancel()
		}
	}
	run, err := Run(ctx, opts)
	if err != nil || run.Status != record.StatusCancelled {
		t.Fatalf("run %+v, error %v", run, err)
	}
	if left := ours(t, run.ID); left != "" {
		t.Errorf("processes are left: %s", left)
	}
	if _, err := record.ReadRun(opts.RunDir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(opts.RunDir, record.WorkDir)); !os.IsNotExist(err) {
		t.Errorf("the work folder: %v", err)
	}
}

// ours lists the processes that carry the run's mark.
func ours(t *testing.T, run string) string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(entries) == 0 {
		t.Skip("no /proc here: what is left cannot be seen")
	}
	found := ""
	for _, e := range entries {
		data, _ := os.ReadFile(e)
		if strings.Contains(string(data), local.MarkerVar+"="+run+".") {
			found += fmt.Sprintln(e)
		}
	}
	return found
}
