package harnesstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/harness"
	"foundry/harness/contract"
)

// Behaviour is what the agent is made to do in one case: by a script, or by
// the answers of a provider.
type Behaviour string

// Behaviours that a launcher must be able to bring about.
const (
	Settles  Behaviour = "settles"   // two turns, usage of UsageTokens output tokens in total, a tool call; then it settles
	Fails    Behaviour = "fails"     // it ends as errored, and exits 0 where the agent can
	Recovers Behaviour = "recovers"  // something goes wrong on the way and it settles all the same
	Cut      Behaviour = "cut"       // its output ends in the middle of a line, exit 0
	Silent   Behaviour = "silent"    // its output ends between two events, exit 0, nothing finished
	LongLine Behaviour = "long-line" // one line of 2 MiB and one of 20 MiB stand between usage events
	Long     Behaviour = "long"      // more than CutBytes of output before it settles
	Busy     Behaviour = "busy"      // BusyTurns turns with a call of a tool each, and then it settles
	Hangs    Behaviour = "hangs"     // it begins a call of a tool that takes a minute
	Submits  Behaviour = "submits"   // it submits, whatever it is told, and would do so four times
	Writes   Behaviour = "writes"    // it writes WrittenFile, and changes it afterwards
	Shows    Behaviour = "shows"     // it writes its environment, as a tool of its sees it, to ShownFile
	Shell    Behaviour = "shell"     // it writes ShellFile with its shell, which is told to be read-only where it can be
)

// What the behaviours are made of.
const (
	// UsageTokens is the number of output tokens in Settles and LongLine. One
	// message of it is reported more than once where the agent does that.
	UsageTokens = 300
	BusyTurns   = 6
	// CutBytes is where a pipe full of an agent's output was seen to be cut, with
	// exit code 0.
	CutBytes = 65536
	// Attempts is how often a worker may submit in Submits.
	Attempts = 3
	// Canary is the value of a secret beside the agent: the credential of its
	// provider where it has one, else a variable of its environment. It must not
	// come out of the agent, and no tool may see it.
	Canary      = "canary-7f3a9c51e2"
	WrittenFile = "written.txt"
	WrittenText = "one\nthree\n"
	ShownFile   = "shown.txt"
	ShellFile   = "shell.txt"
)

// problem is a pointer and a rule, as a worker is told them.
const problem = "/class: const: must be Workflow"

// Subject is an adapter under test.
type Subject struct {
	Adapter harness.Adapter
	Config  harness.SessionConfig
	// Configure completes Config for a started agent, such as by the place of its
	// skill; nil where there is nothing to complete.
	Configure func(cfg *harness.SessionConfig, a Agent)
	// Launch starts the agent with Canary in reach, and ends it with the test.
	Launch func(t *testing.T, b Behaviour) Agent
	// Direct starts a worker that reads contract.Input itself; nil where the
	// agent speaks another protocol.
	Direct func(t *testing.T) Agent
	// SelfTest is the output of `foundry worker --self-test`.
	SelfTest func(t *testing.T) []byte
	// Skip gives the reason why an agent cannot show a behaviour, "" if it can.
	Skip func(b Behaviour) string
	// Parallel runs the cases side by side.
	Parallel bool
}

// suiteCase is one case of the suite.
type suiteCase struct {
	name      string
	behaviour Behaviour
	status    string
	opts      Options
	submits   int64 // SubmitAttempts
	cut       int64 // bytes after which the stream ends; 0: never
	check     func(t *testing.T, s Subject, a Agent, res Result)
}

func cases() []suiteCase {
	two := func(t *testing.T, name string, got int64, res Result) {
		if got != 3 || !res.Stopped {
			t.Errorf("%d %s with a limit of 2, stopped: %v", got, name, res.Stopped)
		}
	}
	return []suiteCase{
		{behaviour: Settles, status: contract.Settled, check: output},
		{behaviour: Fails, status: contract.Errored},
		{behaviour: Recovers, status: contract.Settled},
		{behaviour: Cut, status: contract.NoStatus},
		{behaviour: Silent, status: contract.NoStatus},
		{behaviour: LongLine, status: contract.Settled, check: output},
		{name: "cut at 65536", behaviour: Long, status: contract.NoStatus, cut: CutBytes},
		{name: "not cut", behaviour: Long, status: contract.Settled, check: func(t *testing.T, _ Subject, _ Agent, res Result) {
			if len(res.Raw) <= CutBytes {
				t.Errorf("it writes %d bytes: the cut cuts nothing", len(res.Raw))
			}
		}},
		{name: "busy", behaviour: Busy, status: contract.Settled, check: func(t *testing.T, _ Subject, _ Agent, res Result) {
			if res.Turns < BusyTurns || res.ToolCalls != BusyTurns {
				t.Errorf("%d turns, %d calls of a tool", res.Turns, res.ToolCalls)
			}
		}},
		{name: "turn limit", behaviour: Busy, status: contract.NoStatus, opts: Options{Turns: 2}, check: func(t *testing.T, _ Subject, _ Agent, res Result) {
			two(t, "turns", res.Turns, res)
		}},
		{name: "tool limit", behaviour: Busy, status: contract.NoStatus, opts: Options{ToolCalls: 2}, check: func(t *testing.T, _ Subject, _ Agent, res Result) {
			two(t, "calls of a tool", res.ToolCalls, res)
		}},
		{name: "abort", behaviour: Hangs, opts: Options{AbortAt: contract.Tool}},
		{name: "accepted at once", behaviour: Submits, status: contract.Settled, submits: Attempts, check: submitted(1, 0)},
		{name: "mended", behaviour: Submits, status: contract.Settled, submits: Attempts, opts: Options{Problems: func(n int64) []string {
			if n == 1 {
				return []string{problem}
			}
			return nil
		}}, check: submitted(2, 1)},
		{name: "never accepted", behaviour: Submits, status: contract.Settled, submits: Attempts, opts: Options{Problems: func(int64) []string {
			return []string{problem}
		}}, check: submitted(Attempts, Attempts-1)},
		{name: "writes and edits", behaviour: Writes, status: contract.Settled, check: func(t *testing.T, _ Subject, a Agent, _ Result) {
			if got := readOutput(t, a, WrittenFile); got != WrittenText {
				t.Errorf("it left %q", got)
			}
		}},
		{name: "no secret in a tool's environment", behaviour: Shows, status: contract.Settled, check: func(t *testing.T, _ Subject, a Agent, _ Result) {
			shown := readOutput(t, a, ShownFile)
			if !strings.Contains(shown, "TMPDIR") {
				t.Errorf("this is no environment: %q", shown)
			}
			for _, secret := range append([]string{Canary}, a.Secrets...) {
				if strings.Contains(shown, secret) {
					t.Errorf("a tool sees a secret of %d bytes", len(secret))
				}
			}
		}},
		{name: "read-only shell", behaviour: Shell, status: contract.Settled, check: func(t *testing.T, s Subject, a Agent, _ Result) {
			caps, err := s.Adapter.Capabilities(s.Config.Harness.Version)
			if err != nil {
				t.Fatal(err)
			}
			_, err = os.Stat(filepath.Join(a.Out, ShellFile))
			if wrote := err == nil; wrote == caps.ReadOnlyShell {
				t.Errorf("the adapter says that its shell honours a read-only policy: %v; it wrote: %v", caps.ReadOnlyShell, wrote)
			}
		}},
	}
}

// output requires the output tokens of Settles.
func output(t *testing.T, _ Subject, _ Agent, res Result) {
	if res.Usage.Output != UsageTokens {
		t.Errorf("output tokens are %d, want %d: usage was lost or counted twice", res.Usage.Output, UsageTokens)
	}
}

// submitted requires so many submissions, and that the worker was told so often
// what is wrong, in words that its model hears where it has one.
func submitted(times, told int64) func(t *testing.T, s Subject, a Agent, res Result) {
	return func(t *testing.T, _ Subject, a Agent, res Result) {
		if res.Submits != times {
			t.Errorf("%d submissions, want %d", res.Submits, times)
		}
		if got := int64(bytes.Count(res.Written, []byte(problem))); got != told {
			t.Errorf("it was told %d times what is wrong, want %d", got, told)
		}
		if a.Heard == nil {
			return
		}
		heard := a.Heard()
		if len(heard) == 0 || strings.Contains(heard[len(heard)-1], problem) != (told > 0) {
			t.Errorf("of %d requests the last one tells the model what is wrong: want %v", len(heard), told > 0)
		}
	}
}

func readOutput(t *testing.T, a Agent, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(a.Out, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Run runs the whole suite.
func Run(t *testing.T, s Subject) {
	for _, c := range cases() {
		if c.name == "" {
			c.name = string(c.behaviour)
		}
		t.Run(c.name, func(t *testing.T) {
			if s.Skip != nil && s.Skip(c.behaviour) != "" {
				t.Skip(s.Skip(c.behaviour))
			}
			if s.Parallel {
				t.Parallel()
			}
			run(t, s, c)
		})
	}
	t.Run("self-test", func(t *testing.T) { checkSelfTest(t, s) })
	t.Run("unknown version", func(t *testing.T) {
		_, err := s.Adapter.Capabilities("0.0.0-none")
		if err == nil || !strings.Contains(err.Error(), s.Config.Harness.Version) {
			t.Errorf("an unknown version: %v; it must name those there are", err)
		}
	})
	if s.Direct != nil {
		t.Run("refusals", func(t *testing.T) { checkRefusals(t, s) })
	}
}

func run(t *testing.T, s Subject, c suiteCase) {
	cfg := s.Config
	cfg.SubmitAttempts = max(1, c.submits)
	agent := s.Launch(t, c.behaviour)
	if s.Configure != nil {
		s.Configure(&cfg, agent)
	}
	if c.cut > 0 {
		agent.Stdout = io.LimitReader(agent.Stdout, c.cut)
		wait := agent.Wait
		agent.Wait = func() int { // nobody reads what comes after
			agent.Stop()
			return wait()
		}
	}
	session := s.Adapter.Session(cfg)
	res, err := Drive(session, agent, c.opts)
	if err != nil {
		t.Fatalf("reading the agent's output: %v", err)
	}
	status := c.status
	if c.opts.AbortAt != "" {
		status = contract.Aborted
		if res.Stopped { // it cannot be asked
			status = contract.NoStatus
		}
	}
	for _, p := range problems(s, res, status) {
		t.Error(p)
	}
	if c.check != nil {
		c.check(t, s, agent, res)
	}
	if t.Failed() && agent.Stderr != nil {
		t.Logf("standard error: %s", agent.Stderr)
	}
}

// problems lists what is wrong with a driven attempt, whatever its behaviour.
func problems(s Subject, res Result, status string) []string {
	var found []string
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if res.Mismatch != "" {
		wrong("the agent is not what was asked for: %s", res.Mismatch)
	}
	if res.Violation != "" {
		wrong("the stream breaks the contract: %s", res.Violation)
	}
	if res.Status != status {
		wrong("status is %q, want %q; exit %d", res.Status, status, res.Exit)
	}
	if bytes.Contains(res.Raw, []byte(Canary)) {
		wrong("a secret of the environment came out on standard output")
	}
	if len(res.Events) == 0 || res.Events[0].Type != contract.Started {
		wrong("the first event is not started: %v", res.Events)
	}
	finished := 0
	h := s.Config.Harness
	want := contract.Identity{Name: h.Name, Version: h.Version, Model: h.Model}
	for _, ev := range res.Events {
		if ev.Type == contract.Finished {
			finished++
		}
		// A version that the agent does not tell stays empty.
		if id := ev.Harness; id != nil && (id.Name != want.Name || id.Model != want.Model || id.Version != "" && id.Version != want.Version) {
			wrong("%s names %v, want %v", ev.Type, *ev.Harness, want)
		}
		if _, err := contract.DecodeEvent(contract.Encode(ev)); err != nil {
			wrong("an event is not valid: %v", err)
		}
	}
	if ends := status != contract.NoStatus; ends && finished != 1 || !ends && finished != 0 {
		wrong("%d finished events with status %q", finished, status)
	}
	return found
}

func checkSelfTest(t *testing.T, s Subject) {
	var report struct {
		ProtocolVersion int                      `json:"protocol_version"`
		Adapters        []contract.AdapterReport `json:"adapters"`
	}
	if err := json.Unmarshal(s.SelfTest(t), &report); err != nil {
		t.Fatal(err)
	}
	if report.ProtocolVersion != contract.ProtocolVersion {
		t.Errorf("protocol_version is %d", report.ProtocolVersion)
	}
	for _, a := range report.Adapters {
		if a.Name == s.Adapter.Name() {
			if a.Error != "" || len(a.Versions) == 0 {
				t.Errorf("self-test of %s: versions %q, error %q", a.Name, a.Versions, a.Error)
			}
			return
		}
	}
	t.Errorf("the self-test does not report %s", s.Adapter.Name())
}

// checkRefusals sends inputs that a worker must not work on: it says nothing
// on standard output and exits 2.
func checkRefusals(t *testing.T, s Subject) {
	good := string(s.Adapter.Session(s.Config).Begin())
	for name, input := range map[string]string{
		"another version": strings.Replace(good, `"protocol_version":2`, `"protocol_version":3`, 1),
		"version as text": strings.Replace(good, `"protocol_version":2`, `"protocol_version":"2"`, 1),
		"no version":      strings.Replace(good, `"protocol_version":2,`, ``, 1),
		"unknown agent":   strings.Replace(good, `"agent":"`+s.Adapter.Name()+`"`, `"agent":"nobody"`, 1),
		"unknown key":     strings.Replace(good, `{`, `{"extra":1,`, 1),
		"wrong case":      strings.Replace(good, `"agent"`, `"Agent"`, 1),
		"duplicate key":   strings.Replace(good, `{`, `{"agent":"nobody",`, 1),
		"no test stub":    strings.Replace(good, `,"test_stub":true`, ``, 1),
		"empty":           "",
		"not JSON":        "hello\n",
	} {
		t.Run(name, func(t *testing.T) {
			if input == good {
				t.Fatal("the input was not changed")
			}
			out, exit := talk(t, s.Direct(t), input)
			if len(out) > 0 || exit != 2 {
				t.Errorf("exit %d, standard output %q; want 2 and nothing", exit, out)
			}
		})
	}
	t.Run("accepted", func(t *testing.T) {
		// Without its line end: the last unterminated line counts.
		out, exit := talk(t, s.Direct(t), strings.TrimSuffix(good, "\n"))
		if exit != 0 || !bytes.Contains(out, []byte(`"type":"finished"`)) {
			t.Errorf("exit %d, standard output %q", exit, out)
		}
	})
}

func talk(t *testing.T, a Agent, input string) ([]byte, int) {
	t.Helper()
	_, _ = io.WriteString(a.Stdin, input) // a worker that refuses may not read it
	a.Stdin.Close()
	out, err := io.ReadAll(a.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	return out, a.Wait()
}
