package contract

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestChecker(t *testing.T) {
	started := Event{Type: Started, Harness: who}
	turn := Event{Type: Turn, Turn: 1}
	done := Event{Type: Finished, Harness: who, Status: Settled}
	failed := Event{Type: Finished, Harness: who, Status: Errored}
	for _, c := range []struct {
		name   string
		events []Event
		breach string // of the last event
		status string
	}{
		{"whole", []Event{started, turn, done}, "", Settled},
		{"failed", []Event{started, failed}, "", Errored},
		{"cut", []Event{started, turn}, "", NoStatus},
		{"nothing", nil, "", NoStatus},
		{"not started", []Event{turn}, "before started", NoStatus},
		{"finished first", []Event{done}, "before started", NoStatus},
		{"started twice", []Event{started, started}, "second started", NoStatus},
		{"finished twice", []Event{started, done, failed}, "second finished", Settled},
		{"after finished", []Event{started, done, turn}, "after finished", Settled},
		{"started after finished", []Event{started, done, started}, "after finished", Settled},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k Checker
			for i, ev := range c.events {
				err := k.Add(ev)
				switch last := i == len(c.events)-1; {
				case last && c.breach != "":
					if err == nil || !strings.Contains(err.Error(), c.breach) {
						t.Errorf("event %d: %v, want %q", i, err, c.breach)
					}
				case err != nil:
					t.Errorf("event %d: %v", i, err)
				}
			}
			if k.Status() != c.status {
				t.Errorf("status %q, want %q", k.Status(), c.status)
			}
		})
	}
}

// FIELD-CASES D6: one message id three times with rising output.
func TestUsageLastValueWins(t *testing.T) {
	var c Checker
	add := func(id string, out int64, cost *int64) {
		_ = c.Add(Event{Type: UsageType, Usage: &Usage{Message: id, Input: 5, Output: out, CostMicroUSD: cost}})
	}
	if c.Usage().CostMicroUSD != nil {
		t.Error("a cost without a message")
	}
	add("a", 10, nil)
	add("b", 7, cost(70))
	if c.Usage().CostMicroUSD != nil {
		t.Error("a cost although one message's is unknown")
	}
	add("a", 20, cost(100))
	add("a", 30, cost(300))
	u := c.Usage()
	if u.Messages != 2 || u.Input != 10 || u.Output != 37 || u.CostMicroUSD == nil || *u.CostMicroUSD != 370 {
		t.Errorf("%+v", u)
	}
	add("b", 7, nil)
	if c.Usage().CostMicroUSD != nil {
		t.Error("a cost although the last value of one message is unknown")
	}
}

func TestTotalsNeverWrapRound(t *testing.T) {
	if n := addUp(math.MaxInt64-1, 5); n != math.MaxInt64 {
		t.Error(n)
	}
	if n := addUp(math.MaxInt64, -5); n != math.MaxInt64 {
		t.Error(n)
	}
}

// However events about messages are mixed, the totals are the sum of the last
// ones.
func TestUsageTotalsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Checker
		last := map[string]Usage{}
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			u := Usage{
				Message: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"),
				Input:   rapid.Int64Range(0, MaxCount).Draw(t, "in"),
				Output:  rapid.Int64Range(0, MaxCount).Draw(t, "out"),
			}
			if rapid.Bool().Draw(t, "priced") {
				u.CostMicroUSD = cost(rapid.Int64Range(0, MaxCount).Draw(t, "cost"))
			}
			last[u.Message] = u
			_ = c.Add(Event{Type: UsageType, Usage: &u})
		}
		var in, out, spent int64
		known := len(last) > 0
		for _, u := range last {
			in, out = in+u.Input, out+u.Output
			if u.CostMicroUSD == nil {
				known = false
			} else {
				spent += *u.CostMicroUSD
			}
		}
		got := c.Usage()
		if got.Messages != int64(len(last)) || got.Input != in || got.Output != out || (got.CostMicroUSD != nil) != known {
			t.Fatalf("%+v, want %d %d %d %v", got, len(last), in, out, known)
		}
		if known && *got.CostMicroUSD != spent {
			t.Fatalf("cost %d, want %d", *got.CostMicroUSD, spent)
		}
	})
}
