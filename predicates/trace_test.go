package predicates

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"foundry/plan"
)

var update = flag.Bool("update", false, "write the golden files")

func TestTraceLine(t *testing.T) {
	f := sampleFacts(t)
	f.Checks["long"] = CheckResult{Stdout: strings.Repeat("ü", 200)}
	refs := fact(plan.FactOutput, "test-data-refs", "json", "/refs")
	for _, c := range []struct {
		e    plan.Expr
		want string
	}{
		{op(plan.OpGt, op(plan.OpLength, refs), num("0")), "length(output.test-data-refs.json.refs) (0) > 0 is false"},
		{op(plan.OpEq, fact(plan.FactCheck, "next-step", "json", "/draft"), truth(false)), "check.next-step.json.draft (false) == false is true"},
		{op(plan.OpEq, js("/s"), str("rot")), `output.o.json.s ("grün") == "rot" is false`},
		{js("/t"), "output.o.json.t is true"},
		{truth(true), "true is true"},
		{op(plan.OpNot, js("/t")), "!(output.o.json.t is true) is false"},
		{op(plan.OpExists, js("/absent")), "exists(output.o.json.absent) is false"},
		{op(plan.OpExists, js("/n")), "exists(output.o.json.n (5)) is true"},
		{op(plan.OpContains, js("/tags"), str("c")), `contains(output.o.json.tags (array of 2), "c") is false`},
		{op(plan.OpAll, op(plan.OpGt, iteration(), num("5")), js("/absent")), "(iteration (3) > 5 is false) && (output.o.json.absent was not evaluated) is false"},
		{op(plan.OpAny, op(plan.OpGt, iteration(), num("5")), js("/t")), "(iteration (3) > 5 is false) || (output.o.json.t is true) is true"},
		{op(plan.OpEvery, js("/steps"), op(plan.OpEq, item("/done"), truth(true))), "every(output.o.json.steps (array of 2), item 2: item.done (false) == true is false) is false"},
		{op(plan.OpSome, refs, op(plan.OpEq, item("/done"), truth(true))), "some(output.test-data-refs.json.refs (array of 0), item.done == true was not evaluated) is false"},
		{op(plan.OpSome, js("/nested"), op(plan.OpEvery, item(""), op(plan.OpGt, item(""), num("2")))),
			"some(output.o.json.nested (array of 2), item 2: every(item (array of 1), item 1: item (3) > 2 is true) is true) is true"},
		{op(plan.OpEvery, js("/nested"), op(plan.OpEvery, item(""), op(plan.OpGt, item(""), num("0")))),
			"every(output.o.json.nested (array of 2), item 2: every(item (array of 1), item 1: item (3) > 0 is true) is true) is true"},
		{op(plan.OpEq, js("/n"), str("5")), `output.o.json.n (5) == "5" is an error: a number is compared with a string`},
		{op(plan.OpNot, op(plan.OpGt, js("/absent"), num("1"))), `!(output.o.json.absent > 1) is an error: there is no such value: "absent": the object (line 1) has no such member`},
		{op(plan.OpAny, js("/n"), truth(true)), "(output.o.json.n) || (true was not evaluated) is an error: it is a number where true or false must be"},
		{op(plan.OpContains, fact(plan.FactCheck, "long", "stdout", ""), str("x")),
			`contains(check.long.stdout ("` + strings.Repeat("ü", 60) + `"… (400 bytes)), "x") is false`},
	} {
		_, trace, _ := Eval(c.e, f)
		if got := trace.Line(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// The record of a decision is canonical data and can be read back.
func TestTraceGolden(t *testing.T) {
	e := op(plan.OpAny,
		op(plan.OpAll, op(plan.OpGt, iteration(), num("5")), js("/absent")),
		op(plan.OpSome, js("/steps"), op(plan.OpNot, item("/done"))),
		op(plan.OpExists, js("/never")))
	_, trace, err := Eval(e, sampleFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := plan.EncodeCanonical(trace)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "trace.json")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Error(d)
	}
	var again Trace
	if err := plan.DecodeCanonical(got, &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(trace, again); d != "" {
		t.Error(d)
	}
}
