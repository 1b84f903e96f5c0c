package exec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"foundry/exec/record"
	"foundry/plan"
)

// graph is a plan of agents with the given needs.
func graph(needs ...[]string) *plan.Plan {
	p := &plan.Plan{Budget: plan.RunBudget{WallSeconds: 100, Tokens: 1000, CostMicroUSD: 1000}}
	for i, n := range needs {
		p.Nodes = append(p.Nodes, plan.Node{ID: fmt.Sprintf("n%d", i), Kind: plan.NodeAgent, Needs: n, Budget: plan.NodeBudget{WallSeconds: 60}})
	}
	return p
}

func started(node string) record.Event {
	return record.Event{Type: record.EventNodeStarted, Node: node}
}

func finished(node string, f *record.Failure) record.Event {
	e := record.Event{Type: record.EventNodeFinished, Node: node, Status: record.StatusSucceeded, Failure: f}
	if f != nil {
		e.Status = record.StatusFailed
	}
	return e
}

var runStarted = record.Event{Type: record.EventRunStarted}

// One line for each decision: the events, and the last command.
func TestDecisions(t *testing.T) {
	chain := [][]string{nil, {"n0"}, {"n1"}}
	bad := record.Fail(record.ReasonWorkerError, "x")
	late := func(e record.Event, ms int64) record.Event { e.ElapsedMS = ms; return e }
	spent := func(e record.Event, tokens, cost record.Count) record.Event {
		e.Usage = &record.Usage{Tokens: tokens, CostMicroUSD: cost}
		return e
	}
	for name, tt := range map[string]struct {
		needs   [][]string
		through string
		events  []record.Event
		want    string // node, status or reason
		wall    int64
	}{
		"first":           {chain, "", []record.Event{runStarted}, "n0", 60},
		"second":          {chain, "", []record.Event{runStarted, started("n0"), finished("n0", nil)}, "n1", 60},
		"failure":         {chain, "", []record.Event{runStarted, started("n0"), finished("n0", bad)}, record.ReasonWorkerError, 0},
		"through":         {chain, "n0", []record.Event{runStarted, started("n0"), finished("n0", nil)}, record.StatusSucceeded, 0},
		"empty":           {nil, "", []record.Event{runStarted}, record.StatusSucceeded, 0},
		"cancel, waiting": {chain, "", []record.Event{runStarted, {Type: record.EventCancel}}, record.ReasonCancelled, 0},
		"cancel, then end": {chain, "", []record.Event{runStarted, started("n0"), {Type: record.EventCancel}, finished("n0", bad)},
			record.ReasonCancelled, 0},
		"wall left": {chain, "", []record.Event{runStarted, started("n0"), late(finished("n0", nil), 70_000)}, "n1", 30},
		"wall over": {chain, "", []record.Event{runStarted, started("n0"), late(finished("n0", nil), 100_000)}, "budget_exceeded:wall", 0},
		"tokens":    {chain, "", []record.Event{runStarted, started("n0"), spent(finished("n0", nil), "1000", "1")}, "budget_exceeded:tokens", 0},
		"cost":      {chain, "", []record.Event{runStarted, started("n0"), spent(finished("n0", nil), "unknown", "5000")}, "budget_exceeded:cost", 0},
		"unknown":   {chain, "", []record.Event{runStarted, started("n0"), spent(finished("n0", nil), "unknown", "unknown")}, "n1", 60},
		"spent by the last": {chain, "n0", []record.Event{runStarted, started("n0"), spent(finished("n0", nil), "9999", "1")},
			record.StatusSucceeded, 0},
		"ties in the plan's order": {[][]string{nil, nil, {"n0"}}, "", []record.Event{runStarted, started("n0"), finished("n0", nil)}, "n1", 60},
		"only what is needed":      {[][]string{nil, nil, {"n1"}}, "n2", []record.Event{runStarted}, "n1", 60},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := NewWalk(graph(tt.needs...), tt.through)
			if err != nil {
				t.Fatal(err)
			}
			s := w.Initial()
			var last Command
			for _, e := range tt.events {
				var cs []Command
				if s, cs, err = w.Step(s, e); err != nil {
					t.Fatal(err)
				}
				for _, c := range cs {
					last = c
				}
			}
			got := last.Node
			if last.Kind == EndRun {
				if got = last.Status; last.Failure != nil {
					got = last.Failure.Reason
				}
			}
			if got != tt.want || last.Reserved.WallSeconds != tt.wall {
				t.Errorf("%+v, want %s within %d s", last, tt.want, tt.wall)
			}
		})
	}
}

func TestImpossibleEvents(t *testing.T) {
	for name, events := range map[string][]record.Event{
		"not begun":      {started("n0")},
		"begun twice":    {runStarted, runStarted},
		"too early":      {runStarted, started("n1")},
		"not started":    {runStarted, finished("n0", nil)},
		"started twice":  {runStarted, started("n0"), started("n0")},
		"finished twice": {runStarted, started("n0"), finished("n0", nil), finished("n0", nil)},
		"unknown node":   {runStarted, started("x")},
		"unknown event":  {runStarted, {Type: "x"}},
		"after the end":  {runStarted, {Type: record.EventRunFinished}, started("n0")},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := NewWalk(graph(nil, []string{"n0"}), "")
			if err != nil {
				t.Fatal(err)
			}
			s := w.Initial()
			for i, e := range events {
				s, _, err = w.Step(s, e)
				if last := i == len(events)-1; (err != nil) != last {
					t.Fatalf("event %d: %v", i, err)
				}
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	p := graph(nil, []string{"n0"})
	p.Nodes[1].Kind = plan.NodeJudge
	_, err := NewWalk(p, "")
	if got, ok := errors.AsType[*Unsupported](err); !ok || *got != (Unsupported{"n1", "judge node"}) {
		t.Errorf("%v", err)
	}
	if _, err := NewWalk(p, "n0"); err != nil {
		t.Errorf("what stands before may run: %v", err)
	}
}

// In any DAG, with failures and an interruption at any point: no node starts
// twice or before its needs, one runs at a time, the run ends, and the same
// journal gives the same commands.
func TestWalkProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var needs [][]string
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			var of []string
			for j := range i {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					of = append(of, fmt.Sprintf("n%d", j))
				}
			}
			needs = append(needs, of)
		}
		through := ""
		if rapid.Bool().Draw(t, "through") {
			through = fmt.Sprintf("n%d", rapid.IntRange(0, len(needs)-1).Draw(t, "last"))
		}
		p := graph(needs...)
		w, err := NewWalk(p, through)
		if err != nil {
			t.Fatal(err)
		}
		var journal []record.Event
		var given []Command
		var queue []Command
		s := w.Initial()
		send := func(e record.Event) {
			journal = append(journal, e)
			var cs []Command
			if s, cs, err = w.Step(s, e); err != nil {
				t.Fatal(err)
			}
			given = append(given, cs...)
			queue = append(queue, cs...)
		}
		status := map[string]string{}
		ended := false
		send(runStarted)
		for len(queue) > 0 {
			c := queue[0]
			queue = queue[1:]
			if c.Kind == EndRun {
				ended = true
				if len(queue) > 0 {
					t.Fatal("a command beside the end")
				}
				break
			}
			if rapid.IntRange(0, 19).Draw(t, "cancel") == 0 {
				send(record.Event{Type: record.EventCancel})
				continue
			}
			if status[c.Node] != "" || len(queue) > 0 {
				t.Fatalf("%s was started twice, or beside another", c.Node)
			}
			for _, need := range p.Nodes[c.Index].Needs {
				if status[need] != record.StatusSucceeded {
					t.Fatalf("%s was started before %s succeeded", c.Node, need)
				}
			}
			send(started(c.Node))
			if rapid.IntRange(0, 19).Draw(t, "cancel under way") == 0 {
				if send(record.Event{Type: record.EventCancel}); len(queue) > 0 {
					t.Fatalf("%v while %s runs", queue, c.Node)
				}
			}
			var f *record.Failure
			status[c.Node] = record.StatusSucceeded
			if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
				f = record.Fail(record.ReasonWorkerError, "x")
				status[c.Node] = record.StatusFailed
			}
			send(finished(c.Node, f))
		}
		if !ended {
			t.Fatal("the run did not end")
		}
		if last := given[len(given)-1]; last.Status == record.StatusSucceeded {
			for i := range p.Nodes {
				if w.Selected(i) != (status[p.Nodes[i].ID] == record.StatusSucceeded) {
					t.Fatalf("node %s: %q", p.Nodes[i].ID, status[p.Nodes[i].ID])
				}
			}
		}
		var again []Command
		s = w.Initial()
		for _, e := range journal {
			var cs []Command
			s, cs, _ = w.Step(s, e)
			again = append(again, cs...)
		}
		if !slices.EqualFunc(given, again, func(a, b Command) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("the replay differs: %v and %v", given, again)
		}
	})
}
