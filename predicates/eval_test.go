package predicates

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"foundry/plan"
	"foundry/plan/document"
)

func TestEval(t *testing.T) {
	f := sampleFacts(t)
	status := fact(plan.FactWorker, "", "status", "")
	stdout := fact(plan.FactCheck, "next-step", "stdout", "")
	code := fact(plan.FactCheck, "next-step", "exit_code", "")
	done := op(plan.OpEq, item("/done"), truth(true))
	for _, c := range []struct {
		e    plan.Expr
		want string // true, false, or words of the error
	}{
		{truth(true), "true"},
		{truth(false), "false"},
		{op(plan.OpEq, iteration(), num("3")), "true"},
		{op(plan.OpNe, iteration(), num("3")), "false"},
		{op(plan.OpEq, js("/n"), num("5")), "true"},
		{op(plan.OpEq, js("/f"), num("0.3")), "true"},
		{op(plan.OpEq, js("/exp"), num("1000")), "true"},
		{op(plan.OpEq, js("/big"), num("9007199254740993")), "true"},
		{op(plan.OpEq, js("/big"), num("9007199254740992")), "false"},
		{op(plan.OpGt, js("/big"), num("9007199254740992")), "true"},
		{op(plan.OpLt, js("/n"), js("/ten")), "true"},
		{op(plan.OpLe, js("/ten"), num("9.9")), "false"},
		{op(plan.OpGe, js("/ten"), num("10")), "true"},
		{op(plan.OpEq, js("/s"), str("grün")), "true"},
		{op(plan.OpEq, js("/t"), truth(true)), "true"},
		{js("/t"), "true"},
		{op(plan.OpNot, js("/t")), "false"},
		{js("/n"), "the predicate is a number"},
		{op(plan.OpNot, js("/n")), "a number where true or false must be"},
		{op(plan.OpAll, truth(true), js("/s")), "a string where true or false must be"},

		// Two types are never equal and never unequal.
		{op(plan.OpEq, js("/n"), str("5")), "a number is compared with a string"},
		{op(plan.OpNe, js("/five"), num("5")), "a string is compared with a number"},
		{op(plan.OpEq, js("/ttext"), truth(true)), "a string is compared with a bool"},
		{op(plan.OpGt, js("/five"), num("10")), "a string where a number must be"},
		{op(plan.OpGt, js("/t"), num("0")), "a bool where a number must be"},
		{op(plan.OpEq, js("/o"), js("/o")), "an object is compared as a whole"},
		{op(plan.OpEq, js("/refs"), js("/nums")), "an array is compared as a whole"},
		{op(plan.OpEq, js("/absent"), str("x")), "no such member"},
		{op(plan.OpNe, js("/absent"), str("x")), "no such member"},
		{op(plan.OpNot, op(plan.OpEq, js("/absent"), str("x"))), "no such member"},
		{op(plan.OpEq, js("/N"), num("5")), `spelled "n"`},

		// null
		{op(plan.OpEq, js("/null"), null()), "true"},
		{op(plan.OpNe, null(), js("/null")), "false"},
		{op(plan.OpEq, js("/n"), null()), "false"},
		{op(plan.OpNe, js("/o"), null()), "true"},
		{op(plan.OpEq, js("/absent"), null()), "no such member"},
		{op(plan.OpEq, js("/null"), num("0")), "a null is compared with a value"},
		{op(plan.OpEq, js("/null"), js("/null")), "a null is compared with a value"},
		{op(plan.OpLt, js("/null"), num("1")), "a null where a number must be"},

		{op(plan.OpExists, js("/n")), "true"},
		{op(plan.OpExists, js("/null")), "false"},
		{op(plan.OpExists, js("/absent")), "false"},
		{op(plan.OpExists, js("/n/x/y")), "false"},
		{op(plan.OpExists, js("/nums/2")), "true"},
		{op(plan.OpExists, js("/nums/3")), "false"},
		{op(plan.OpExists, out("yaml", "")), "false"},
		{op(plan.OpExists, fact(plan.FactOutput, "gone", "bytes", "")), "false"},
		{op(plan.OpExists, fact(plan.FactOutput, "never", "json", "/a")), "false"},
		{op(plan.OpExists, fact(plan.FactCheck, "never", "exit_code", "")), "false"},
		{op(plan.OpExists, code), "true"},

		{op(plan.OpLength, js("/refs")), "the predicate is a number"},
		{op(plan.OpEq, op(plan.OpLength, js("/refs")), num("0")), "true"},
		{op(plan.OpEq, op(plan.OpLength, js("/s")), num("4")), "true"},
		{op(plan.OpEq, op(plan.OpLength, js("/o")), num("1")), "true"},
		{op(plan.OpEq, op(plan.OpLength, js("/n")), num("1")), "length of a number"},
		{op(plan.OpEq, op(plan.OpLength, js("/null")), num("0")), "length of a null"},

		{op(plan.OpContains, js("/s"), str("ü")), "true"},
		{op(plan.OpContains, js("/s"), str("")), "true"},
		{op(plan.OpContains, js("/s"), num("1")), "looks for a number in a string"},
		{op(plan.OpContains, js("/tags"), str("b")), "true"},
		{op(plan.OpContains, js("/tags"), str("c")), "false"},
		{op(plan.OpContains, js("/nums"), num("2")), "true"},
		{op(plan.OpContains, js("/nums"), num("3")), "true"},
		{op(plan.OpContains, js("/nums"), str("1")), "a string is compared with element 1, a number"},
		{op(plan.OpContains, js("/mixed"), num("1")), "a number is compared with element 2, a string"},
		{op(plan.OpContains, js("/refs"), num("1")), "false"},
		{op(plan.OpContains, js("/refs"), js("/o")), "does not look for an object"},
		{op(plan.OpContains, js("/o"), str("x")), "contains in an object"},
		{op(plan.OpContains, stdout, str("DONE")), "true"},

		{op(plan.OpMatches, stdout, str(`(?m)^DONE$`)), "true"},
		{op(plan.OpMatches, stdout, str(`^DONE$`)), "false"},
		{op(plan.OpMatches, js("/n"), str("5")), "matches on a number"},

		{op(plan.OpEvery, js("/steps"), done), "false"},
		{op(plan.OpSome, js("/steps"), done), "true"},
		{op(plan.OpEvery, js("/refs"), truth(false)), "true"},
		{op(plan.OpSome, js("/refs"), truth(true)), "false"},
		{op(plan.OpEvery, js("/nums"), op(plan.OpGt, item(""), num("0"))), "true"},
		{op(plan.OpEvery, js("/nested"), op(plan.OpSome, item(""), op(plan.OpGe, item(""), num("2")))), "true"},
		{op(plan.OpSome, js("/steps"), op(plan.OpSome, item("/deps"), op(plan.OpEq, item(""), str("one")))), "true"},
		{op(plan.OpSome, js("/steps"), op(plan.OpExists, item("/id"))), "true"},
		{op(plan.OpEvery, js("/o"), truth(true)), "an object where an array must be"},
		{op(plan.OpEvery, js("/mixed"), op(plan.OpGt, item(""), num("0"))), "a string where a number must be"},
		{op(plan.OpSome, js("/mixed"), op(plan.OpGt, item(""), num("0"))), "true"}, // ends before the string
		{op(plan.OpEvery, js("/steps"), item("/id")), "a string where true or false must be"},

		// From the left, and no further than needed.
		{op(plan.OpAll, truth(false), js("/absent")), "false"},
		{op(plan.OpAny, truth(true), js("/absent")), "true"},
		{op(plan.OpAll, js("/absent"), truth(false)), "no such member"},
		{op(plan.OpAny, truth(false), js("/absent")), "no such member"},
		{op(plan.OpAll, op(plan.OpExists, js("/absent")), op(plan.OpGt, js("/absent"), num("1"))), "false"},

		{op(plan.OpEq, status, str("settled")), "true"},
		{op(plan.OpEq, code, num("1")), "true"},
		{op(plan.OpEq, fact(plan.FactCheck, "next-step", "json", "/draft"), truth(false)), "true"},
		{fact(plan.FactCheck, "plain", "json", "/draft"), "not one JSON document"},
		{op(plan.OpEq, fact(plan.FactCheck, "skipped", "exit_code", ""), num("0")), "did not run to its end"},
		{out("exists", ""), "true"},
		{fact(plan.FactOutput, "gone", "exists", ""), "false"},
		{op(plan.OpGe, fact(plan.FactOutput, "gone", "bytes", ""), num("0")), "does not exist"},
		{op(plan.OpGe, fact(plan.FactOutput, "y", "lines", ""), num("0")), "not recorded"},
		{op(plan.OpEq, out("bytes", ""), num("120")), "true"},
		{op(plan.OpEq, out("lines", ""), num("3")), "true"},
		{fact(plan.FactOutput, "never", "exists", ""), "was skipped"},
		{op(plan.OpAny, op(plan.OpNot, fact(plan.FactOutput, "y", "yaml", "/has_todo")), op(plan.OpGe, iteration(), num("30"))), "true"},
	} {
		got, trace, err := Eval(c.e, f)
		text := Format(c.e)
		if c.want == "true" || c.want == "false" {
			if err != nil || got != (c.want == "true") {
				t.Errorf("%s: got %v, %v, want %s", text, got, err, c.want)
			}
			if line := trace.Line(); !strings.HasSuffix(line, " is "+c.want) {
				t.Errorf("%s: the trace says %q", text, line)
			}
			continue
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || got || !strings.Contains(e.Msg, c.want) || !strings.HasPrefix(err.Error(), "predicate_error: ") {
			t.Errorf("%s: got %v, %v, want the error %q", text, got, err, c.want)
		} else if line := trace.Line(); !strings.Contains(line, " is an error: "+e.Msg) && text != "" && trace.failed() == nil {
			t.Errorf("%s: the trace does not say the error: %q", text, line)
		}
	}
}

func TestNothingRecorded(t *testing.T) {
	for _, e := range []plan.Expr{
		op(plan.OpGe, iteration(), num("0")),
		op(plan.OpNe, fact(plan.FactWorker, "", "status", ""), str("errored")),
		op(plan.OpNot, out("exists", "")),
		op(plan.OpNe, js("/a"), num("1")),
	} {
		if ok, _, err := Eval(e, Facts{}); ok || err == nil {
			t.Errorf("%s over no facts: got %v, %v", Format(e), ok, err)
		}
		if e.Op != plan.OpNot {
			if ok, _, err := Eval(op(plan.OpExists, e.Args[0]), Facts{}); ok || err != nil {
				t.Errorf("exists(%s) over no facts: got %v, %v", Format(e.Args[0]), ok, err)
			}
		}
	}
}

// Work is bounded by what it costs, and the same facts give the same answer.
func TestWorkIsBounded(t *testing.T) {
	array := parse(t, "["+strings.Repeat("1,", 20_000)+"1]")
	f := Facts{Outputs: map[string]Output{"o": {Exists: true, JSON: array}},
		Checks: map[string]CheckResult{"c": {Stdout: strings.Repeat("a", 8<<20)}}}
	var members strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&members, `"k%d":1,`, i)
	}
	f.Outputs["wide"] = Output{Exists: true, JSON: parse(t, "{"+members.String()+`"last":1}`)}
	stdout := fact(plan.FactCheck, "c", "stdout", "")
	for name, e := range map[string]plan.Expr{
		"product": op(plan.OpEvery, js(""), op(plan.OpEvery, js(""), op(plan.OpGt, item(""), num("0")))),
		"search":  op(plan.OpEvery, js(""), op(plan.OpNot, op(plan.OpContains, stdout, str("b")))),
		"pattern": op(plan.OpMatches, stdout, str("(a?){90}b")),
		"members": op(plan.OpEvery, js(""), op(plan.OpExists, fact(plan.FactOutput, "wide", "json", "/last"))),
		"arrays":  op(plan.OpEvery, js(""), op(plan.OpContains, js(""), num("1"))),
	} {
		start := time.Now()
		ok, _, err := Eval(e, f)
		if err == nil || ok || !strings.Contains(err.Error(), "steps") {
			t.Errorf("%s: got %v, %v", name, ok, err)
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s: took %v", name, d)
		}
	}
	if ok, _, err := Eval(op(plan.OpEvery, js(""), op(plan.OpEq, item(""), num("1"))), f); err != nil || !ok {
		t.Errorf("an ordinary predicate over 20,001 elements: %v, %v", ok, err)
	}
}

func TestHugeNumbersInFacts(t *testing.T) {
	// A tree that no parser of ours would give: Eval must not rely on it.
	f := Facts{Outputs: map[string]Output{"o": {Exists: true, JSON: &document.Value{Kind: document.Number, Number: "1e100000000"}}}}
	if ok, _, err := Eval(op(plan.OpGt, js(""), num("1")), f); ok || err == nil || !strings.Contains(err.Error(), "exponent") {
		t.Errorf("got %v, %v", ok, err)
	}
}
