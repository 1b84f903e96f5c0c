package predicates

import (
	"errors"
	"strings"
	"testing"

	"foundry/plan"
)

func TestCheckRefuses(t *testing.T) {
	deep := truth(true)
	for range MaxDepth {
		deep = op(plan.OpNot, deep)
	}
	deepest := deep.Args[0]
	stdout := fact(plan.FactCheck, "c", "stdout", "")
	if err := Check(deepest); err != nil {
		t.Errorf("a predicate of %d levels: %v", MaxDepth, err)
	}
	for _, c := range []struct {
		e     plan.Expr
		words string
	}{
		{plan.Expr{}, "operator \"\" is unknown"},
		{op("xor", truth(true)), "operator \"xor\" is unknown"},
		{op(plan.OpAll), "all has no argument"},
		{op(plan.OpAny), "any has no argument"},
		{op(plan.OpNot, truth(true), truth(true)), "not has 2 arguments, want 1"},
		{op(plan.OpEq, num("1")), "eq has 1 arguments, want 2"},
		{plan.Expr{Op: plan.OpFact}, "a fact belongs"},
		{plan.Expr{Op: plan.OpNot, Args: []plan.Expr{truth(true)}, Fact: &plan.Fact{}}, "a fact belongs"},
		{plan.Expr{Op: plan.OpLiteral}, "a literal belongs"},
		{plan.Expr{Op: plan.OpNot, Args: []plan.Expr{truth(true)}, Pointer: "/a"}, "a pointer on a node"},
		{item(""), "item stands outside"},
		{op(plan.OpEvery, item(""), truth(true)), "item stands outside"},
		{op(plan.OpAll, op(plan.OpEvery, js(""), item("")), item("/x")), "item stands outside"},
		{op(plan.OpEvery, js(""), item("x")), "JSON pointer"},

		{num("1"), "the predicate is a number"},
		{op(plan.OpLength, js("")), "the predicate is a number"},
		{op(plan.OpNot, num("1")), "1 is a number where not takes a bool"},
		{op(plan.OpAll, truth(true), iteration()), "iteration is a number where all takes a bool"},
		{op(plan.OpEq, iteration(), str("3")), "a number is compared with a string"},
		{op(plan.OpNe, stdout, truth(true)), "a string is compared with a bool"},
		{op(plan.OpEq, iteration(), null()), "can only have one answer"},
		{op(plan.OpEq, null(), null()), "can only have one answer"},
		{op(plan.OpLt, stdout, num("1")), "is a string where lt takes a number"},
		{op(plan.OpGe, js(""), null()), "null is a null where ge takes a number"},
		{op(plan.OpGt, op(plan.OpLength, js("")), str("0")), "is a string where gt takes a number"},
		{op(plan.OpLength, iteration()), "length of a number"},
		{op(plan.OpContains, iteration(), num("1")), "contains in a number"},
		{op(plan.OpContains, stdout, num("1")), "looks for a number in a string"},
		{op(plan.OpContains, js(""), null()), "does not look for null"},
		{op(plan.OpExists, num("1")), "exists takes a fact"},
		{op(plan.OpExists, out("exists", "")), "always there"},
		{op(plan.OpEvery, stdout, truth(true)), "every over a string"},
		{op(plan.OpSome, js(""), num("1")), "some takes a bool"},

		{fact("env", "HOME", "", ""), "source of facts \"env\" is unknown"},
		{fact(plan.FactOutput, "o", "size", ""), "field \"size\" of output is unknown"},
		{fact(plan.FactOutput, "", "exists", ""), "names no output"},
		{fact(plan.FactOutput, "../x", "exists", ""), "names no output"},
		{fact(plan.FactIteration, "x", "", ""), "iteration has no names"},
		{fact(plan.FactIteration, "", "n", ""), "field \"n\" of iteration"},
		{fact(plan.FactOutput, "o", "exists", "/a"), "a pointer into \"exists\""},
		{js("a"), "JSON pointer"},
		{js("/~"), "must be written"},

		{op(plan.OpEq, js(""), num("1.0")), "canonical form, which is \"1\""},
		{op(plan.OpEq, js(""), num("1e3")), "canonical form, which is \"1000\""},
		{op(plan.OpEq, js(""), num("-0")), "canonical form"},
		{op(plan.OpEq, js(""), num("NaN")), "no decimal number"},
		{op(plan.OpEq, js(""), num("1e100000000")), "exponent"},
		{lit(plan.TypeBool, "yes"), "neither true nor false"},
		{op(plan.OpEq, js(""), lit(plan.TypeNull, "x")), "null has the value"},
		{op(plan.OpEq, js(""), str("\xff")), "UTF-8"},
		{lit("date", "2020"), "type of literal \"date\""},

		{op(plan.OpMatches, stdout, js("")), "no literal string"},
		{op(plan.OpMatches, stdout, num("1")), "no literal string"},
		{op(plan.OpMatches, iteration(), str("1")), "where matches takes a string"},
		{op(plan.OpMatches, stdout, str("(")), "does not compile"},
		{op(plan.OpMatches, stdout, str("(?=a)")), "does not compile"},
		{op(plan.OpMatches, stdout, str(`(a)\1`)), "does not compile"},
		{op(plan.OpMatches, stdout, str(strings.Repeat("a", 1001))), "1001 bytes"},
		{op(plan.OpMatches, stdout, str("((a{30}){30}b){40}")), "repeat count"},
		{op(plan.OpMatches, stdout, str("((a{30}){30}b)+[^x](c{1,400}d?){2}(e{60}){15}"+strings.Repeat("(f{900})", 9))), "too large"},
		{op(plan.OpMatches, stdout, str(strings.Repeat("(a{900})", 20))), "too large"},

		{deep, "nested deeper than 100"},
		{op(plan.OpAll, make([]plan.Expr, MaxNodes+1)...), "unknown"},
		{op(plan.OpAll, many(MaxNodes)...), "more than 10000 nodes"},
	} {
		err := Check(c.e)
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(e.Msg+e.Hint, c.words) {
			t.Errorf("%.100s: got %v, want %q", Format(c.e), err, c.words)
		}
		if ok, trace, err := Eval(c.e, Facts{}); ok || err == nil || trace.Error == "" {
			t.Errorf("%.100s: Eval gives %v, %v, %v", Format(c.e), ok, trace, err)
		}
	}
	if err := Check(op(plan.OpAll, many(MaxNodes-1)...)); err != nil {
		t.Errorf("a predicate of %d nodes: %v", MaxNodes, err)
	}
}

func many(n int) []plan.Expr {
	list := make([]plan.Expr, n)
	for i := range list {
		list[i] = truth(true)
	}
	return list
}

func TestFormat(t *testing.T) {
	a, b, c := js("/a"), js("/b"), js("/c")
	refs := fact(plan.FactOutput, "test-data-refs", "json", "/refs")
	for _, x := range []struct {
		e    plan.Expr
		want string
	}{
		{op(plan.OpGt, op(plan.OpLength, refs), num("0")), "length(output.test-data-refs.json.refs) > 0"},
		{op(plan.OpEq, fact(plan.FactCheck, "next-step", "json", "/draft"), truth(false)), "check.next-step.json.draft == false"},
		{op(plan.OpAny, op(plan.OpNot, a), op(plan.OpGe, iteration(), num("30"))), "!output.o.json.a || iteration >= 30"},
		{op(plan.OpAll, op(plan.OpAny, a, b), c), "(output.o.json.a || output.o.json.b) && output.o.json.c"},
		{op(plan.OpAny, op(plan.OpAll, a, b), c), "output.o.json.a && output.o.json.b || output.o.json.c"},
		{op(plan.OpNot, op(plan.OpEq, a, null())), "!(output.o.json.a == null)"},
		{op(plan.OpEq, op(plan.OpEq, a, b), truth(true)), "(output.o.json.a == output.o.json.b) == true"},
		{op(plan.OpNot, op(plan.OpNot, a)), "!!output.o.json.a"},
		{op(plan.OpEvery, js("/x/0/a b/c~1d"), op(plan.OpMatches, item("/id"), str("^\"\n"))), `every(output.o.json.x[0]["a b"]["c/d"], matches(item.id, "^\"\n"))`},
		{op(plan.OpExists, js("/01/")), `exists(output.o.json["01"][""])`},
		{op(plan.OpAll, a), "all(output.o.json.a)"},
		{op(plan.OpEq, fact(plan.FactWorker, "", "status", ""), str("\u202e\x1b[2J")), `worker.status == "\u202e\x1b[2J"`},
		// What Check refuses is readable too, and cannot pass for something else.
		{plan.Expr{Op: "x\n"}, `"x\n"()`},
		{plan.Expr{Op: plan.OpFact}, "fact(?)"},
		{plan.Expr{Op: plan.OpLiteral}, "literal(?)"},
		{op(plan.OpNot), "not()"},
		{lit(plan.TypeNumber, "1 || true"), `"1 || true"`},
	} {
		if got := Format(x.e); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
	}
	deep := truth(true)
	for range 100_000 {
		deep = op(plan.OpNot, deep)
	}
	if got := Format(deep); len(got) > 1000 || !strings.HasSuffix(got, "…") {
		t.Errorf("a deep tree takes %d bytes", len(got))
	}
}
