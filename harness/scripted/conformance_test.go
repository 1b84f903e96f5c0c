package scripted_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/harness/harnesstest"
	"foundry/harness/scripted"
	"foundry/harness/worker"
	"foundry/harness/worker/probe"
	"foundry/plan"
)

// The test binary is the worker when its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(worker.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr, worker.Late{Probe: probe.Document, SelfTest: func() []contract.AdapterReport {
			return harness.SelfTest([]harness.Adapter{scripted.Adapter{}})
		}}))
	}
	os.Exit(m.Run())
}

var stub = plan.Harness{Name: "replay", Adapter: "scripted", Version: "1", Tools: []string{}, TestStub: true}

// place stands for the folders that a runtime makes.
type place struct{ scratch, out, recorded, input string }

func newPlace(t *testing.T) place {
	t.Helper()
	root := t.TempDir()
	p := place{filepath.Join(root, "scratch"), filepath.Join(root, "out"), filepath.Join(root, "recorded"), filepath.Join(root, "in")}
	for _, dir := range []string{p.scratch, p.out, p.recorded, p.input} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p place) expand(t *testing.T, s string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err = plan.Expand(s, func(token string) (string, bool) {
		v, ok := map[string]string{
			"scratch": p.scratch, "out": p.out, "recorded": p.recorded, "foundry": self, "in:source": p.input,
		}[token]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lower lowers the node "step" of a script and fails the test on an error.
func lower(t *testing.T, script string) harness.Lowered {
	t.Helper()
	low, err := scripted.Adapter{}.Lower(harness.Request{
		Node: "step", Harness: stub, Skill: "step", Script: []byte(script),
		Inputs: []plan.NodeInput{{Artifact: "source", From: "input:source", Kind: plan.KindText, Path: "source.txt"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return low
}

// start plays the runtime: it writes the files, expands the tokens and starts
// the process with its own environment alone.
func start(t *testing.T, p place, low harness.Lowered, extraEnv ...string) harnesstest.Agent {
	t.Helper()
	for _, f := range low.Files {
		if err := os.WriteFile(p.expand(t, f.Path), []byte(p.expand(t, f.Content)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	argv := make([]string, len(low.Process.Argv))
	for i, a := range low.Process.Argv {
		argv[i] = p.expand(t, a)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = extraEnv
	for _, e := range low.Process.Env {
		cmd.Env = append(cmd.Env, p.expand(t, e))
	}
	cmd.Dir = p.expand(t, low.Process.Cwd)
	agent := harnesstest.Start(t, cmd)
	agent.Out = p.out
	return agent
}

// behaviours are the scripts of the conformance suite.
var behaviours = map[harnesstest.Behaviour]string{
	harnesstest.Settles: `{"emit":{"type":"turn","turn":1}},` + usage("m1", 40) + `,` + usage("m1", 90) + `,` + usage("m1", 100) + `,
		{"emit":{"type":"tool","tool_name":"write","tool_call":"c1"}},
		{"emit":{"type":"turn","turn":2}},` + usage("m2", 200) + `,
		{"emit":{"type":"submitted","artifacts":["summary"]}}`,
	harnesstest.Fails:    `{"finish":{"status":"errored","message":"the model refused"}},{"exit":{"code":0}}`,
	harnesstest.Recovers: `{"stdout":{"text":"{\"type\":\"api_retry\",\"error\":\"overloaded\"}\n"}},{"stderr":{"text":"error\n"}},{"finish":{"status":"settled"}},{"exit":{"code":1}}`,
	harnesstest.Cut:      `{"emit":{"type":"turn","turn":1}},{"stdout":{"text":"{\"protocol_version\":2,\"type\":\"fini"}},{"exit":{"code":0}}`,
	harnesstest.Silent:   `{"emit":{"type":"turn","turn":1}},{"exit":{"code":0}}`,
	harnesstest.LongLine: usage("m1", 100) + `,{"stdout":{"text":"x","times":2097152}},{"stdout":{"text":"\n"}},
		{"stdout":{"text":"y","times":20971520}},{"stdout":{"text":"\n"}},` + usage("m2", 200),
	harnesstest.Long:    `{"stdout":{"text":"z","times":65536}},{"stdout":{"text":"\n"}}`,
	harnesstest.Busy:    busy(),
	harnesstest.Hangs:   `{"emit":{"type":"tool","tool_name":"sleep","tool_call":"c1"}},{"sleep_ms":60000}`,
	harnesstest.Submits: strings.Repeat(`{"submit":{"artifacts":["summary"]}},`, 3) + `{"submit":{}}`,
	harnesstest.Writes:  `{"write":{"path":"written.txt","content":"one\ntwo\n"}},{"write":{"path":"written.txt","content":"one\nthree\n"}}`,
}

func busy() string {
	var steps []string
	for i := range harnesstest.BusyTurns {
		steps = append(steps, fmt.Sprintf(`{"emit":{"type":"turn","turn":%d}},{"emit":{"type":"tool","tool_name":"write","tool_call":"c%d"}}`, i+1, i+1))
	}
	return strings.Join(steps, ",")
}

func usage(id string, output int) string {
	return fmt.Sprintf(`{"emit":{"type":"usage","usage":{"message":"%s","input":10,"output":%d,"cache_read":0,"cache_write":0}}}`, id, output)
}

func nodes(steps string) string { return `{"version":1,"nodes":{"step":[` + steps + `]}}` }

func TestConformance(t *testing.T) {
	harnesstest.Run(t, harnesstest.Subject{
		Adapter: scripted.Adapter{},
		Config:  config(),
		Launch: func(t *testing.T, b harnesstest.Behaviour) harnesstest.Agent {
			agent := start(t, newPlace(t), lower(t, nodes(behaviours[b])), "PROVIDER_KEY="+harnesstest.Canary)
			return agent
		},
		Direct: func(t *testing.T) harnesstest.Agent {
			agent := start(t, newPlace(t), lower(t, nodes("")))
			return agent
		},
		Skip: func(b harnesstest.Behaviour) string {
			if b == harnesstest.Shows || b == harnesstest.Shell {
				return "the stub has no tools; its probe lists the names of its variables alone (TestProbe)"
			}
			return ""
		},
		SelfTest: func(t *testing.T) []byte {
			out, err := exec.Command(os.Args[0], "worker", "--self-test").Output()
			if err != nil {
				t.Fatal(err)
			}
			return out
		},
	})
}

func config() harness.SessionConfig {
	return harness.SessionConfig{Harness: stub, Node: "step", Iteration: 1, Attempt: 1, Prompt: "/skill:step go"}
}

func TestStepsWriteWhatTheScriptSays(t *testing.T) {
	p := newPlace(t)
	write(t, filepath.Join(p.recorded, "a", "one.json"), `{"a":1}`)
	write(t, filepath.Join(p.input, "source.txt"), "from the input")
	low := lower(t, nodes(`
		{"write":{"path":"deep/x.txt","content":"{out} and {in:nobody} stay\n","times":2}},
		{"copy":{"from":"{recorded}/a","to":"folder"}},
		{"copy":{"from":"{in:source}/source.txt","to":"copy.txt"}},
		{"mkdir":{"path":"empty"}},
		{"symlink":{"target":"copy.txt","path":"link"}},
		{"write":{"path":"{scratch}/note","content":"n"}},
		{"stderr":{"text":"to stderr"}}`))
	if fmt.Sprint(low.Recorded) != "[a]" {
		t.Errorf("Recorded = %v", low.Recorded)
	}
	agent := start(t, p, low)
	res, err := harnesstest.Drive(scripted.Adapter{}.Session(config()), agent, harnesstest.Options{})
	if err != nil || res.Status != contract.Settled || res.Exit != 0 {
		t.Fatalf("%v, %+v, %s", err, res, agent.Stderr)
	}
	for path, want := range map[string]string{
		"out/deep/x.txt":      "{out} and {in:nobody} stay\n{out} and {in:nobody} stay\n",
		"out/folder/one.json": `{"a":1}`,
		"out/copy.txt":        "from the input",
		"out/link":            "from the input",
		"scratch/note":        "n",
	} {
		got, err := os.ReadFile(filepath.Join(filepath.Dir(p.out), path))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(p.out, "empty")); err != nil || !info.IsDir() {
		t.Errorf("empty folder: %v", err)
	}
	if !strings.HasPrefix(agent.Stderr.String(), "to stderr") { // a coverage build adds a line of its own
		t.Errorf("stderr %q", agent.Stderr)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFailedStepIsErrored(t *testing.T) {
	agent := start(t, newPlace(t), lower(t, nodes(`{"copy":{"from":"{recorded}/nothing","to":"x"}},{"mkdir":{"path":"later"}}`)))
	res, err := harnesstest.Drive(scripted.Adapter{}.Session(config()), agent, harnesstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := res.Events[len(res.Events)-1]
	if res.Status != contract.Errored || res.Exit != worker.ExitFailed || !strings.Contains(last.Message, "step 0 failed") {
		t.Errorf("%+v", res)
	}
}

func TestIterationsLastListHolds(t *testing.T) {
	script := `{"version":1,"iterations":{"step":[[{"write":{"path":"n","content":"1"}}],[{"write":{"path":"n","content":"2"}}]]}}`
	for iteration, want := range []string{1: "1", 2: "2", 3: "2"} {
		if want == "" {
			continue
		}
		p := newPlace(t)
		cfg := config()
		cfg.Iteration = int64(iteration)
		agent := start(t, p, lower(t, script))
		if _, err := harnesstest.Drive(scripted.Adapter{}.Session(cfg), agent, harnesstest.Options{}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(p.out, "n")); err != nil || string(got) != want {
			t.Errorf("iteration %d wrote %q, %v; want %q", iteration, got, err, want)
		}
	}
}

func TestViolations(t *testing.T) {
	for name, c := range map[string]struct{ steps, want, status string }{
		"finished twice":  {`{"finish":{"status":"settled"}},{"finish":{"status":"errored"}}`, "second finished", contract.Settled},
		"after finished":  {`{"finish":{"status":"settled"}},{"emit":{"type":"turn","turn":1}}`, "after finished", contract.Settled},
		"another version": {`{"stdout":{"text":"{\"protocol_version\":1,\"type\":\"turn\",\"turn\":1}\n"}}`, "another protocol version", contract.Settled},
		"unknown type":    {`{"stdout":{"text":"{\"protocol_version\":2,\"type\":\"boast\"}\n"}}`, "unknown type", contract.Settled},
		"started twice":   {`{"stdout":{"text":"{\"protocol_version\":2,\"type\":\"started\",\"harness\":{\"name\":\"replay\",\"version\":\"1\",\"model\":\"\"}}\n"}}`, "second started", contract.Settled},
		"another model":   {`{"stdout":{"text":"{\"protocol_version\":2,\"type\":\"finished\",\"status\":\"settled\",\"harness\":{\"name\":\"replay\",\"version\":\"1\",\"model\":\"better\"}}\n"}},{"exit":{"code":0}}`, "another harness", contract.Settled},
	} {
		t.Run(name, func(t *testing.T) {
			agent := start(t, newPlace(t), lower(t, nodes(c.steps)))
			res, err := harnesstest.Drive(scripted.Adapter{}.Session(config()), agent, harnesstest.Options{})
			if err != nil || !strings.Contains(res.Violation, c.want) || res.Status != c.status {
				t.Errorf("violation %q, status %s, %v", res.Violation, res.Status, err)
			}
		})
	}
}

func TestUsageAfterFinishedStillCounts(t *testing.T) {
	agent := start(t, newPlace(t), lower(t, nodes(`{"finish":{"status":"settled"}},`+usage("m", 7))))
	res, err := harnesstest.Drive(scripted.Adapter{}.Session(config()), agent, harnesstest.Options{})
	if err != nil || res.Usage.Output != 7 || res.Violation == "" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestProbe(t *testing.T) {
	p := newPlace(t)
	agent := start(t, p, lower(t, nodes(`{"probe":{"to":"probe.json","exists":["{out}","{out}/nothing"],
		"writable":["{out}","{out}/nothing","{scratch}/script.json"],"programs":["no-such-program"],
		"connect":["127.0.0.1:1"],"lookup":"localhost"}}`)), "SECRET="+harnesstest.Canary)
	res, err := harnesstest.Drive(scripted.Adapter{}.Session(config()), agent, harnesstest.Options{})
	if err != nil || res.Status != contract.Settled {
		t.Fatalf("%v %+v %s", err, res, agent.Stderr)
	}
	data, err := os.ReadFile(filepath.Join(p.out, "probe.json"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(harnesstest.Canary)) {
		t.Error("the probe wrote the value of a variable")
	}
	var r probe.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if r.UID != os.Getuid() || !r.Exists[p.out] || r.Exists[p.out+"/nothing"] || !r.Writable[p.out] || r.Writable[p.out+"/nothing"] {
		t.Errorf("%+v", r)
	}
	if fmt.Sprint(r.Environ) != "[HOME LANG PATH SECRET TMPDIR TZ]" || r.Programs["no-such-program"] != "" || r.Cwd != p.scratch {
		t.Errorf("environ %v, programs %v, cwd %s", r.Environ, r.Programs, r.Cwd)
	}
	if last := r.Connects[len(r.Connects)-1]; last.Target != "127.0.0.1:1" || last.Error == "" || len(r.Connects) != 4 {
		t.Errorf("connects %v", r.Connects)
	}
	left, err := os.ReadDir(p.out)
	if err != nil || len(left) != 1 {
		t.Errorf("the probe left %v, %v", left, err)
	}
	if r.OS == "linux" && (r.Status["CapEff"] == "" || len(r.Mounts) == 0 || len(r.Processes) == 0 || len(r.UIDMap) == 0) {
		t.Errorf("nothing from /proc: %+v", r)
	}
}

func TestWorkerFlagsRefused(t *testing.T) {
	p := newPlace(t)
	script := filepath.Join(p.scratch, "script.json")
	write(t, script, `{"version":1}`)
	write(t, filepath.Join(p.scratch, "bad.json"), `{"version":1,"steps":[{"run":"sh"}]}`)
	input := string(scripted.Adapter{}.Session(config()).Begin())
	for name, args := range map[string][]string{
		"no test stub":  {"--script", script, "--out", p.out},
		"no script":     {"--test-stub", "--out", p.out},
		"no out":        {"--test-stub", "--script", script},
		"argument":      {"--test-stub", "--script", script, "--out", p.out, "more"},
		"unknown flag":  {"--shell"},
		"missing file":  {"--test-stub", "--script", script + ".no", "--out", p.out},
		"broken script": {"--test-stub", "--script", filepath.Join(p.scratch, "bad.json"), "--out", p.out},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := worker.Main(args, strings.NewReader(input), &out, &errs, worker.Late{})
			if code != worker.ExitRefused || out.Len() > 0 || errs.Len() == 0 {
				t.Errorf("exit %d, stdout %q, stderr %q", code, &out, &errs)
			}
		})
	}
	var out bytes.Buffer
	if code := worker.Main([]string{"--test-stub", "--script", script, "--out", p.out}, strings.NewReader(input), &out, io.Discard, worker.Late{}); code != 0 {
		t.Errorf("the same flags in full: exit %d", code)
	}
}

func TestSelfTestReportsAFailure(t *testing.T) {
	var out bytes.Buffer
	code := worker.Main([]string{"--self-test"}, strings.NewReader(""), &out, io.Discard, worker.Late{SelfTest: func() []contract.AdapterReport {
		return []contract.AdapterReport{{Name: "x", Versions: []string{"1"}, Error: "broken"}}
	}})
	if code != worker.ExitFailed || !strings.Contains(out.String(), "broken") {
		t.Errorf("exit %d, %s", code, &out)
	}
}
