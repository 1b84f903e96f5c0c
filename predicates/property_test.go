package predicates

import (
	"errors"
	"math/big"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"foundry/plan"
	"foundry/plan/document"
)

var (
	drawText    = rapid.SampledFrom([]string{"", "a", "b", "ab", "5", "true", "ü", "\xff", "\x1b[0m\u202e"})
	drawNumber  = rapid.SampledFrom([]string{"0", "1", "-1", "0.1", "2", "9007199254740993", "9007199254740992"})
	drawPointer = rapid.SampledFrom([]string{"", "", "/a", "/b", "/0", "/a/0", "/1/b", "/-", "~", "/~2"})
	drawPattern = rapid.SampledFrom([]string{"", "a", "^a$", "(a|b)*", "(", "a{1000}", `\x{10FFFF}`})
)

// drawValue makes a document of few keys and values, so that pointers hit.
func drawValue(t *rapid.T, depth int) *document.Value {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	v := &document.Value{Kind: document.Kind(rapid.IntRange(0, kinds-1).Draw(t, "kind"))}
	switch v.Kind {
	case document.Bool:
		v.Bool = rapid.Bool().Draw(t, "bool")
	case document.Number:
		v.Number = drawNumber.Draw(t, "number")
	case document.String:
		v.Str = drawText.Draw(t, "string")
	case document.Array:
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			v.Items = append(v.Items, drawValue(t, depth-1))
		}
	case document.Object:
		for _, key := range []string{"a", "b", "0"} {
			if rapid.Bool().Draw(t, "has "+key) {
				v.Members = append(v.Members, document.Member{Key: key, Value: drawValue(t, depth-1)})
			}
		}
	}
	return v
}

func drawFacts(t *rapid.T) Facts {
	f := Facts{Outputs: map[string]Output{}, Checks: map[string]CheckResult{}}
	if rapid.Bool().Draw(t, "output") {
		o := Output{Exists: rapid.Bool().Draw(t, "exists"), Bytes: rapid.Int64Range(-1, 3).Draw(t, "bytes")}
		if rapid.Bool().Draw(t, "json") {
			o.JSON = drawValue(t, 3)
		}
		f.Outputs["o"] = o
	}
	if rapid.Bool().Draw(t, "check") {
		f.Checks["c"] = CheckResult{ExitCode: rapid.Int64Range(-1, 1).Draw(t, "code"), Stdout: drawText.Draw(t, "stdout")}
	}
	f.Iteration = rapid.Int64Range(0, 3).Draw(t, "iteration")
	f.WorkerStatus = rapid.SampledFrom([]string{"", "settled"}).Draw(t, "status")
	return f
}

// drawLeaf makes a leaf of the closed forms, now and then a broken one.
func drawLeaf(t *rapid.T) plan.Expr {
	switch rapid.IntRange(0, 9).Draw(t, "leaf") {
	case 0:
		return num(drawNumber.Draw(t, "literal"))
	case 1:
		return str(drawText.Draw(t, "literal"))
	case 2:
		return truth(rapid.Bool().Draw(t, "literal"))
	case 3:
		return null()
	case 4:
		return item(drawPointer.Draw(t, "pointer"))
	case 5:
		return iteration()
	case 6:
		return fact(plan.FactCheck, "c", rapid.SampledFrom([]string{"exit_code", "stdout", "json", "nope"}).Draw(t, "field"), "")
	case 7:
		return out(rapid.SampledFrom([]string{"exists", "bytes", "lines", "yaml"}).Draw(t, "field"), "")
	default:
		return js(drawPointer.Draw(t, "pointer"))
	}
}

var allOps = []string{
	plan.OpAll, plan.OpAny, plan.OpNot, plan.OpEq, plan.OpNe, plan.OpLt, plan.OpLe, plan.OpGt, plan.OpGe,
	plan.OpContains, plan.OpMatches, plan.OpExists, plan.OpLength, plan.OpEvery, plan.OpSome, plan.OpFact, plan.OpLiteral, plan.OpItem, "nope\xff",
}

// drawAny makes any tree at all, mostly of the right arity.
func drawAny(t *rapid.T, depth int) plan.Expr {
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "stop") == 0 {
		return drawLeaf(t)
	}
	name := rapid.SampledFrom(allOps).Draw(t, "op")
	args := arity[name]
	if args < 0 || rapid.IntRange(0, 20).Draw(t, "odd") == 0 {
		args = rapid.IntRange(0, 3).Draw(t, "args")
	}
	e := plan.Expr{Op: name}
	for range args {
		e.Args = append(e.Args, drawAny(t, depth-1))
	}
	if name == plan.OpMatches && args == 2 {
		e.Args[1] = str(drawPattern.Draw(t, "pattern"))
	}
	return e
}

// drawCondition makes a tree that mostly has a result. within says whether item
// may stand in it.
func drawCondition(t *rapid.T, depth int, within bool) plan.Expr {
	if depth > 0 {
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return op(plan.OpNot, drawCondition(t, depth-1, within))
		case 1, 2:
			args := make([]plan.Expr, rapid.IntRange(1, 3).Draw(t, "args"))
			for i := range args {
				args[i] = drawCondition(t, depth-1, within)
			}
			return op(rapid.SampledFrom([]string{plan.OpAll, plan.OpAny}).Draw(t, "op"), args...)
		case 3:
			return op(rapid.SampledFrom([]string{plan.OpEvery, plan.OpSome}).Draw(t, "op"), js(drawPath(t)), drawCondition(t, depth-1, true))
		}
	}
	leaf := js(drawPath(t))
	if within && rapid.Bool().Draw(t, "item") {
		leaf = item(drawPath(t))
	}
	switch rapid.IntRange(0, 4).Draw(t, "condition") {
	case 0:
		return op(plan.OpExists, leaf)
	case 1:
		return op(plan.OpGt, iteration(), num(drawNumber.Draw(t, "n")))
	case 2:
		return truth(rapid.Bool().Draw(t, "b"))
	case 3:
		return op(plan.OpEq, leaf, null())
	default:
		return op(plan.OpEq, leaf, num(drawNumber.Draw(t, "n")))
	}
}

func drawPath(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "/a", "/b", "/0"}).Draw(t, "path")
}

func TestEvalNeverPanicsAndIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, f := drawAny(t, 4), drawFacts(t)
		if rapid.Bool().Draw(t, "condition") {
			e = drawCondition(t, 4, false)
		}
		ok, trace, err := Eval(e, f)
		again, trace2, err2 := Eval(e, f)
		if ok != again || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() || !cmp.Equal(trace, trace2) {
			t.Fatalf("%s: two evaluations differ: %v %v, %v %v", Format(e), ok, again, err, err2)
		}
		if err != nil {
			if _, typed := errors.AsType[*Error](err); !typed || ok {
				t.Fatalf("%s: an error of type %T, result %v", Format(e), err, ok)
			}
			if failed := trace.failed(); failed == nil {
				t.Fatalf("%s: %v is not in the trace", Format(e), err)
			}
		}
		if checked := Check(e); checked != nil && (err == nil || err.Error() != checked.Error()) {
			t.Fatalf("%s: Check says %v, Eval %v", Format(e), checked, err)
		}
		for _, s := range []string{Format(e), trace.Line()} {
			if !utf8.ValidString(s) {
				t.Fatalf("%q is not valid UTF-8", s)
			}
			for _, r := range s {
				if r < ' ' || r == '\u202e' {
					t.Fatalf("%q holds %U", s, r)
				}
			}
		}
		data, encErr := plan.EncodeCanonical(trace)
		if encErr != nil {
			t.Fatalf("%s: the trace cannot be recorded: %v", Format(e), encErr)
		}
		var back Trace
		if err := plan.DecodeCanonical(data, &back); err != nil || !cmp.Equal(trace, back) {
			t.Fatalf("%s: the trace changes when it is read back: %v\n%s", Format(e), err, cmp.Diff(trace, back))
		}
	})
}

// negate pushes a not into the tree by De Morgan's laws and their counterparts
// for every and some. Errors must come out the same, too.
func negate(e plan.Expr) plan.Expr {
	swap := map[string]string{plan.OpAll: plan.OpAny, plan.OpAny: plan.OpAll, plan.OpEvery: plan.OpSome, plan.OpSome: plan.OpEvery}
	switch e.Op {
	case plan.OpNot:
		return e.Args[0]
	case plan.OpAll, plan.OpAny:
		args := make([]plan.Expr, len(e.Args))
		for i := range args {
			args[i] = negate(e.Args[i])
		}
		return op(swap[e.Op], args...)
	case plan.OpEvery, plan.OpSome:
		return op(swap[e.Op], e.Args[0], negate(e.Args[1]))
	default:
		return op(plan.OpNot, e)
	}
}

func TestDeMorgan(t *testing.T) {
	results := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		e, f := drawCondition(t, 4, false), drawFacts(t)
		a, _, err := Eval(op(plan.OpNot, e), f)
		b, _, err2 := Eval(negate(e), f)
		if a != b || (err == nil) != (err2 == nil) {
			t.Fatalf("!(%s) is %v, %v; %s is %v, %v", Format(e), a, err, Format(negate(e)), b, err2)
		}
		switch {
		case err != nil:
			results["error"]++
		case a:
			results["true"]++
		default:
			results["false"]++
		}
	})
	if results["true"] == 0 || results["false"] == 0 || results["error"] == 0 {
		t.Errorf("the cases are one-sided: %v", results)
	}
}

func TestNumbersCompareExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,8})?([eE][-+]?[0-9]{1,2})?`)
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		if rapid.Bool().Draw(t, "same") {
			b = a
		}
		doc, err := document.ParseJSON([]byte("["+a+","+b+"]"), document.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		f := Facts{Outputs: map[string]Output{"o": {Exists: true, JSON: doc}}}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		c := x.Cmp(y)
		for name, want := range map[string]bool{
			plan.OpEq: c == 0, plan.OpNe: c != 0, plan.OpLt: c < 0, plan.OpLe: c <= 0, plan.OpGt: c > 0, plan.OpGe: c >= 0,
		} {
			got, _, err := Eval(op(name, js("/0"), js("/1")), f)
			if err != nil || got != want {
				t.Fatalf("%s %s %s: got %v, %v", a, name, b, got, err)
			}
		}
	})
}
