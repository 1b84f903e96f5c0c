package harnesstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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
)

// UsageTokens is the number of output tokens in Settles and LongLine. One
// message of it is reported more than once where the agent does that.
const UsageTokens = 300

// Canary is the value of a secret in the agent's environment. It must not come
// out of the agent.
const Canary = "canary-7f3a9c51e2"

// Subject is an adapter under test.
type Subject struct {
	Adapter harness.Adapter
	Config  harness.SessionConfig
	// Launch starts the agent with Canary as the value of some variable of its
	// environment, and ends it with the test.
	Launch func(t *testing.T, b Behaviour) Agent
	// Direct starts a worker that reads contract.Input itself; nil where the
	// agent speaks another protocol.
	Direct func(t *testing.T) Agent
	// SelfTest is the output of `foundry worker --self-test`.
	SelfTest func(t *testing.T) []byte
	// Skip gives the reason why an agent cannot show a behaviour, "" if it can.
	Skip func(b Behaviour) string
}

// Run runs the whole suite.
func Run(t *testing.T, s Subject) {
	for _, c := range []struct {
		behaviour Behaviour
		status    string
		usage     int64 // output tokens; -1: any
	}{
		{Settles, contract.Settled, UsageTokens},
		{Fails, contract.Errored, -1},
		{Recovers, contract.Settled, -1},
		{Cut, contract.NoStatus, -1},
		{Silent, contract.NoStatus, -1},
		{LongLine, contract.Settled, UsageTokens},
	} {
		t.Run(string(c.behaviour), func(t *testing.T) {
			if s.Skip != nil && s.Skip(c.behaviour) != "" {
				t.Skip(s.Skip(c.behaviour))
			}
			res, err := Drive(s.Adapter.Session(s.Config), s.Launch(t, c.behaviour))
			if err != nil {
				t.Fatalf("reading the agent's output: %v", err)
			}
			for _, p := range problems(s, res, c.status) {
				t.Error(p)
			}
			if c.usage >= 0 && res.Usage.Output != c.usage {
				t.Errorf("output tokens are %d, want %d: usage was lost or counted twice", res.Usage.Output, c.usage)
			}
		})
	}
	t.Run("self-test", func(t *testing.T) { checkSelfTest(t, s) })
	if s.Direct != nil {
		t.Run("refusals", func(t *testing.T) { checkRefusals(t, s) })
	}
}

// problems lists what is wrong with a driven attempt, whatever its behaviour.
func problems(s Subject, res Result, status string) []string {
	var found []string
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
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
