package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
)

// events of a run of two steps: the second one is in its third iteration.
func told() (*plan.Plan, []record.Event) {
	p := &plan.Plan{Pipeline: plan.Pipeline{Name: "demo"}, Nodes: []plan.Node{{ID: "a"}, {ID: "b"}}, Budget: plan.RunBudget{Tokens: 4_000_000, CostMicroUSD: 25_000_000}}
	spent := record.NoUsage()
	spent.Tokens, spent.CostMicroUSD = "1200", "30000"
	return p, []record.Event{
		{Type: record.EventRunStarted, Run: "r1"},
		{Type: record.EventNodeStarted, Node: "a", Iteration: 1, ElapsedMS: 100},
		{Type: record.EventNodeFinished, Node: "a", Iteration: 1, Status: record.StatusSucceeded, Usage: &spent, ElapsedMS: 1500},
		{Type: record.EventNodeStarted, Node: "b", Iteration: 3, ElapsedMS: 1600},
	}
}

// The plain form is one line for each event and nothing else; the live one has
// a status line too, which says what runs, in which iteration and turn, and what
// was spent of what may be, and which is wiped before anything else is written.
func TestProgress(t *testing.T) {
	p, events := told()
	const lines = "[   0.0s] run r1 of demo, 2 steps\n[   0.1s] a started\n[   1.5s] a succeeded\n[   1.6s] b started, iteration 3\n"
	tell := func(form ProgressForm) string {
		var out bytes.Buffer
		g := NewProgress(&out, p, form)
		for _, e := range events {
			g.Event(e)
		}
		g.Worker("b", contract.Event{Type: contract.Turn, Turn: 7})
		g.mu.Lock()
		g.draw()
		g.mu.Unlock()
		g.Close()
		return out.String()
	}
	if got := tell(ProgressPlain); got != lines {
		t.Errorf("plain:\n%q", got)
	}
	if got := tell(ProgressNone); got != "" {
		t.Errorf("none: %q", got)
	}
	live := tell(ProgressLive)
	for _, status := range []string{"0 steps done  a", "1 step done  b (iteration 3)  1 200 of 4 000 000 tokens  $0.03 of $25.00", "1 step done  b (iteration 3) turn 7  1 200 of 4 000 000 tokens"} {
		if !strings.Contains(live, status) {
			t.Errorf("live: %q is not in %q", status, live)
		}
	}
	// What stays on the screen: a line that was wiped leaves nothing.
	var screen strings.Builder
	for line := range strings.SplitAfterSeq(live, "\n") {
		parts := strings.Split(line, "\r\x1b[K")
		screen.WriteString(parts[len(parts)-1])
	}
	if screen.String() != lines {
		t.Errorf("on the screen stays %q", screen.String())
	}
	for n, line := range strings.Split(strings.TrimSuffix(tell(ProgressJSON), "\n"), "\n") {
		var e record.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type != events[n].Type || e.Node != events[n].Node {
			t.Errorf("line %d: %q, %v", n, line, err)
		}
	}
}

// What a plan and a worker name cannot write to the terminal, and a status line
// stays one line.
func TestProgressIsSafe(t *testing.T) {
	p, events := told()
	p.Pipeline.Name = "demo\x1b[2J"
	events = append(events, record.Event{Type: record.EventNodeStarted, Node: strings.Repeat("long-", 40) + "\x1b]0;x\a"})
	var out bytes.Buffer
	g := NewProgress(&out, p, ProgressLive)
	for _, e := range events {
		g.Event(e)
	}
	g.Close()
	if got := strings.ReplaceAll(out.String(), "\r\x1b[K", "\n"); strings.ContainsAny(got, "\x1b\a") {
		t.Errorf("%q", got)
	} else {
		for line := range strings.SplitSeq(got, "\n") {
			if strings.Contains(line, " done  ") && len([]rune(line)) > 110 {
				t.Errorf("a status line of %d characters", len([]rune(line)))
			}
		}
	}
}
