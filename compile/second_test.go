package compile_test

import (
	"strings"
	"testing"

	"foundry/plan"
)

// The second loop of one skill needs a name, as a plan's loops are no nodes.
func TestSecondLoopOfASkill(t *testing.T) {
	p := one().loop("l", []string{"d"}, []string{"x"}).loop("l", nil, nil)
	loop := func(name, lines string) string {
		return "loop \"" + name + "\" {\n" + lines + "  max_iterations = 2\n  until          = iteration > 1\n}\n"
	}
	got := valid(t, p.compile(t, first+loop("l", "")+loop("again", "  phases = [\"l#2\"]\n")))
	if len(got.Loops) != 2 || got.Loops[1].ID != "again" || strings.Join(got.Loops[1].Body, " ") != "l#2" {
		t.Errorf("loops: %+v", got.Loops)
	}
	p.refused(t, first+loop("l", "")+loop("l#2", ""), "Loop without a name", `phases = ["l#2"]`)
	p.refused(t, first+loop("l", ""), "Loop without an end", `phases = ["l#2"]`)

	q := fork().branch("pick", "b1", "b2")
	branch := func(name string) string {
		return "branch \"" + name + "\" {\n  accept = output.both.exists\n}\n"
	}
	q.refused(t, first+branch("pick")+branch("pick#2"), "Name is taken", "Give the pattern another name")
}

func TestUnknownSpend(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil)
	if got := p.mustCompile(t, first).Budget.Unknown; got != plan.UnknownFail {
		t.Errorf("nothing is written: %q", got)
	}
	p.common = strings.Replace(common, "  tokens   = 1000000\n", "  tokens   = 1000000\n  unknown  = \"warn\"\n", 1)
	if got := p.mustCompile(t, first).Budget.Unknown; got != plan.UnknownWarn {
		t.Errorf("unknown = \"warn\": %q", got)
	}
}

// A bound on iterations is a whole number from 1 to 10,000, at compile time.
func TestBoundOfALoop(t *testing.T) {
	for bound, want := range map[string]int64{
		"1": 1, "3": 3, "3.0": 3, "1e1": 10, "10000": 10_000,
		"0": 0, "-1": 0, "1.5": 0, "10001": 0, "1e9": 0, "1e100000000": 0, "9223372036854775808": 0, "\"3\"": 0, "null": 0, "true": 0, "1/0": 0,
	} {
		p := newPipe().loop("l", []string{"x"}, nil)
		res := p.compile(t, "loop \"l\" {\n  inputs         = []\n  max_iterations = "+bound+"\n  until          = iteration >= 1\n}\n")
		switch {
		case want > 0 && valid(t, res).Loops[0].MaxIterations != want:
			t.Errorf("%s: %d iterations", bound, res.Plan.Loops[0].MaxIterations)
		case want == 0 && (res.Plan != nil || !strings.Contains(show(res.Diagnostics), " at policy/main.hcl:29:20\n")): // where it stands
			t.Errorf("%s is taken, or not shown:\n%s", bound, show(res.Diagnostics))
		}
	}
}
