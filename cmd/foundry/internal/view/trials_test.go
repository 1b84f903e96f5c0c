package view

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"foundry/exec/record"
	"foundry/plan"
)

// The bounds p of the interval solve (p−k/n)² = z²·p(1−p)/n.
func TestWilson(t *testing.T) {
	for _, c := range []struct{ k, n, lower, upper int64 }{
		{0, 0, 0, 1_000_000},
		{0, 10, 0, 277_540},
		{1, 1, 206_543, 1_000_000},
		{8, 10, 490_157, 943_319},
		{10, 10, 722_460, 1_000_000},
		{50, 100, 403_830, 596_170},
	} {
		if lower, upper := wilson(c.k, c.n); lower != c.lower || upper != c.upper {
			t.Errorf("%d of %d: %d to %d, want %d to %d", c.k, c.n, lower, upper, c.lower, c.upper)
		}
	}
	for n := int64(1); n < 60; n++ {
		for k := int64(0); k <= n; k++ {
			lower, upper := wilson(k, n)
			if at := k * 1_000_000 / n; lower > at || upper < at || lower < 0 || upper > 1_000_000 {
				t.Errorf("%d of %d: %d to %d", k, n, lower, upper)
			}
			if otherLower, otherUpper := wilson(n-k, n); lower != 1_000_000-otherUpper || upper != 1_000_000-otherLower {
				t.Errorf("%d of %d is not the mirror of %d", k, n, n-k)
			}
		}
	}
}

// What says nothing of a step is in no denominator, and is named.
func TestTally(t *testing.T) {
	p := &plan.Plan{Pipeline: plan.Pipeline{Name: "p"}, Nodes: []plan.Node{{ID: "a"}, {ID: "a.c"}, {ID: "b"}}}
	run := func(id, status, reason string, nodes ...record.Node) *record.Run {
		r := &record.Run{ID: id, Status: status, Nodes: nodes}
		if reason != "" {
			r.Failure = record.Fail(reason, "x")
		}
		return r
	}
	node := func(id, status, reason string) record.Node {
		n := record.Node{ID: id, Status: status}
		if reason != "" {
			n.Failure = record.Fail(reason, "x")
		}
		return n
	}
	const ok, failed = record.StatusSucceeded, record.StatusFailed
	tally := NewTally(p)
	for _, r := range []*record.Run{
		run("1", ok, "", node("a", ok, ""), node("a.c", record.StatusUnsupported, ""), node("b", ok, "")),
		run("2", failed, record.ReasonMissingArtifact, node("a", failed, record.ReasonMissingArtifact), node("a.c", record.StatusSkipped, ""), node("b", record.StatusNotReached, "")),
		run("3", failed, record.ReasonRuntimeError, node("a", failed, record.ReasonRuntimeError), node("a.c", record.StatusNotReached, ""), node("b", record.StatusNotReached, "")),
		run("4", failed, record.ReasonCheckError, node("a", ok, ""), node("a.c", failed, record.ReasonCheckError), node("b", record.StatusNotReached, "")),
		run("5", record.StatusCancelled, record.ReasonCancelled, node("a", failed, record.ReasonCancelled), node("a.c", record.StatusNotReached, ""), node("b", record.StatusNotReached, "")),
	} {
		tally.Add(r)
	}
	got := tally.Result()
	want := map[string]Rate{
		"":    {Succeeded: 1, Of: 2, Infrastructure: 2, Grader: 1},
		"a":   {ID: "a", Succeeded: 2, Of: 3, Infrastructure: 2},
		"a.c": {ID: "a.c", NotReached: 3, Grader: 1, Unsupported: 1},
		"b":   {ID: "b", Succeeded: 1, Of: 1, NotReached: 4},
	}
	for _, r := range append(got.Nodes, got.Rate) {
		w := want[r.ID]
		w.LowerPPM, w.UpperPPM = wilson(w.Succeeded, w.Of)
		if r != w {
			t.Errorf("%q: %+v, want %+v", r.ID, r, w)
		}
	}
	if len(got.Runs) != 5 || got.Runs[1].Reason != record.ReasonMissingArtifact || got.Runs[2].Class != record.ClassInfrastructure {
		t.Errorf("%+v", got.Runs)
	}
	var text bytes.Buffer
	if err := tally.Write(&text, "/runs"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"   2 of 3     20.8 % to  93.9 %  (2 more ended by infrastructure)  a\n",
		"   0 of 0      0.0 % to 100.0 %  (1 more could not be checked, 1 more unsupported)  a.c\n",
		"   1 of 2      9.5 % to  90.5 %  (2 more ended by infrastructure, 1 more could not be checked)  of 5 runs succeeded\n",
		"Records: /runs\n",
	} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%q is not in\n%s", line, text.String())
		}
	}
}

func TestTrialsCost(t *testing.T) {
	p := &plan.Plan{WorstCase: plan.WorstCase{CostMicroUSD: 2_500_000, Tokens: 40_000}}
	if got := TrialsCost(p, 20); got != "20 trials: at most $50.00 and 800 000 tokens in all" {
		t.Error(got)
	}
	if n := times(10_000, math.MaxInt64/2); n != math.MaxInt64 {
		t.Error(n)
	}
}
