package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"foundry/exec/broker"
	"foundry/exec/record"
)

// overspends holds an attempt that ran out of tokens against what the broker
// promises: at most one bounded answer beyond its budget.
func overspends(t *testing.T, a *record.Attempt, limit, clamp int64) {
	t.Helper()
	f := a.Failure
	if f == nil || f.Class != record.ClassSkill || f.Reason != "budget_exceeded:tokens" || f.Source != record.SourceBroker || f.Limit != record.Known(limit) {
		t.Fatalf("failure %+v", f)
	}
	spent, known := a.Usage.Tokens.Value()
	if !known || f.Observed != a.Usage.Tokens || a.Usage.Source != record.SourceBroker {
		t.Errorf("observed %s, usage %+v", f.Observed, a.Usage)
	}
	over, known := f.Overshoot.Value()
	if !known || over != max(0, spent-limit) || over > clamp {
		t.Errorf("overshoot %s, %d of %d spent, the answer was bounded to %d", f.Overshoot, spent, limit, clamp)
	}
}

// TestPiBudget lets the real agent ask for more than its budget has left. What
// its provider gets is bounded to that; a provider that does not hold to it is
// cut; and the agent's smaller claim changes nothing.
func TestPiBudget(t *testing.T) {
	const limit = 12000
	for _, version := range pilotVersions {
		// A provider that holds to the bound.
		t.Run(version+"/clamped", func(t *testing.T) {
			p := newPilot(t, version, false)
			t.Parallel()
			var asked atomic.Int64
			url := messages(t, func(w http.ResponseWriter, _ *http.Request, bound int64, _ []byte) {
				asked.Store(bound)
				begin(w, 2000)
				delta(w, strings.Repeat("word ", int(bound)))
				end(w, "max_tokens", bound)
			})
			dir, code := p.budgeted(url, limit)
			a := readAttempt(t, dir, "list-decisions", 1, 1)
			bound := asked.Load()
			if code != exitNo || a.Broker.Clamped != 1 || a.Broker.Cut != 0 || a.Broker.Forwarded != 1 {
				t.Errorf("exit %d, %+v", code, a.Broker)
			}
			// No token has less than a byte: the input is bounded by its bytes.
			if first := journal(t, dir)[0]; bound <= 0 || bound >= limit || first.Tokens != limit || bound >= first.Tokens {
				t.Errorf("the provider was asked for %d tokens; reserved were %+v", bound, first)
			}
			overspends(t, a, limit, bound)
		})
		// One that streams on and on, and never tells what that was.
		t.Run(version+"/cut", func(t *testing.T) {
			p := newPilot(t, version, false)
			t.Parallel()
			var asked, sent atomic.Int64
			url := messages(t, func(w http.ResponseWriter, r *http.Request, bound int64, _ []byte) {
				asked.Store(bound)
				begin(w, 2000)
				text := strings.Repeat("word ", 200)
				for r.Context().Err() == nil && delta(w, text) == nil {
					sent.Add(int64(len(text)))
				}
			})
			dir, code := p.budgeted(url, limit)
			a := readAttempt(t, dir, "list-decisions", 1, 1)
			bound := asked.Load()
			if code != exitNo || a.Broker.Clamped != 1 || a.Broker.Cut != 1 || a.Broker.Forwarded != 1 || !strings.Contains(a.Failure.Detail, "was cut") {
				t.Errorf("exit %d, %+v, %+v", code, a.Broker, a.Failure)
			}
			if bound <= 0 || sent.Load() > 64<<20 {
				t.Errorf("bounded to %d tokens, and %d bytes were sent", bound, sent.Load())
			}
			overspends(t, a, limit, bound)
			// The agent knows of the answer's beginning alone.
			claimed, _ := a.Broker.Worker.Tokens.Value()
			if spent, _ := a.Usage.Tokens.Value(); !a.Broker.Differs || claimed >= spent {
				t.Errorf("the agent claims %d of %d tokens, differs: %v", claimed, spent, a.Broker.Differs)
			}
		})
	}
}

// budgeted runs the first phase of the example with so many tokens.
func (p *pilot) budgeted(url string, tokens int) (dir string, code int) {
	p.t.Helper()
	number, _ := json.Marshal(tokens)
	policy := piExample(p.t, append(lives(url), "tokens     = 100000", "tokens     = "+string(number))...)
	dir = filepath.Join(p.t.TempDir(), "run")
	out, code := p.run(p.args("--run-dir", dir, "--through", "list-decisions", policy)...)
	p.t.Logf("%s", out)
	unmarked(p.t, dir)
	return dir, code
}

// spendLine is a line of spend.jsonl.
type spendLine struct {
	Attempt string `json:"attempt"`
	Request int64  `json:"request"`
	Settled bool   `json:"settled"`
	Tokens  int64  `json:"tokens"`
	Cost    int64  `json:"cost_micro_usd"`
}

func journal(t *testing.T, dir string) []spendLine {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, record.SpendFile))
	if err != nil {
		t.Fatal(err)
	}
	var out []spendLine
	for line := range bytes.Lines(data) {
		var l spendLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		t.Fatal("nothing was reserved")
	}
	return out
}

// TestPiKilledInRequest kills the controller while its provider thinks. What was
// reserved counts as spent, for a broker that is opened on the same journal and
// for the run that goes on: both attempts together may not spend more than the
// run may.
func TestPiKilledInRequest(t *testing.T) {
	const node, run = 12000, 22000
	for _, version := range pilotVersions {
		t.Run(version, func(t *testing.T) {
			p := newPilot(t, version, false)
			t.Parallel()
			var mu sync.Mutex
			var bounds []int64
			first := make(chan struct{})
			url := messages(t, func(w http.ResponseWriter, r *http.Request, bound int64, _ []byte) {
				mu.Lock()
				bounds = append(bounds, bound)
				number := len(bounds)
				mu.Unlock()
				begin(w, 2000)
				if number == 1 {
					close(first)
					<-r.Context().Done()
					return
				}
				delta(w, "word")
				end(w, "max_tokens", bound)
			})
			policy := piExample(t, append(lives(url), "tokens     = 100000", "tokens     = 12000", "tokens   = 400000", "tokens   = 22000")...)
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.Command(p.exe, p.args("--run-dir", dir, "--through", "list-decisions", policy)...)
			cmd.Env = p.env
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-first
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed

			sockets, err := os.Readlink(filepath.Join(dir, record.WorkDir, "sockets"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(sockets); err != nil {
				t.Errorf("the kill came too late to show anything: %v", err)
			}
			lines := journal(t, dir)
			if len(lines) != 1 || lines[0].Settled || lines[0].Tokens != node {
				t.Fatalf("the journal is %+v", lines)
			}
			copied := filepath.Join(t.TempDir(), "journal")
			data, err := os.ReadFile(filepath.Join(dir, record.SpendFile))
			if err != nil {
				t.Fatal(err)
			}
			write(t, copied, data)
			b, err := broker.Open(broker.Config{Journal: copied})
			if err != nil {
				t.Fatal(err)
			}
			if s := b.Spent(lines[0].Attempt); s.Tokens() != node || s.Cost() != lines[0].Cost || s.UnsettledTokens != node {
				t.Errorf("a broker that is opened again counts %+v", s)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}

			out, code := p.run("apply", "--yes", "--resume", dir, "--program", "pi="+filepath.Join(repository(t), ".cache", "pi", version, "bin", "pi"))
			if code != exitNo {
				t.Fatalf("exit %d\n%s", code, out)
			}
			if _, err := os.Lstat(sockets); !os.IsNotExist(err) {
				t.Errorf("the sockets of the killed controller are left: %v", err)
			}
			r, err := record.ReadRun(dir)
			if err != nil {
				t.Fatal(err)
			}
			if r.Failure == nil || r.Failure.Reason != "budget_exceeded:tokens" || r.Failure.Class != record.ClassWorkflow {
				t.Errorf("the run failed by %+v", r.Failure)
			}
			// What the killed request came to nobody knows.
			if r.Usage.Tokens != record.Unknown {
				t.Errorf("the run counts %s tokens", r.Usage.Tokens)
			}
			lines = journal(t, dir)
			reserved := int64(0)
			for _, l := range lines {
				if !l.Settled {
					reserved += l.Tokens
				}
			}
			if len(bounds) != 2 || len(lines) != 3 || reserved != run || bounds[1] > run-node {
				t.Errorf("the provider was asked for %v tokens, %d were reserved in %+v; the run may spend %d", bounds, reserved, lines, run)
			}
			if processesWith(t, dir) > 0 {
				t.Error("something of the run is alive")
			}
		})
	}
}
