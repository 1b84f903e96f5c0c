package diff

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"foundry/plan"
	"foundry/plan/document"
	"foundry/predicates"
)

func num(value string) plan.Expr {
	return plan.Expr{Op: plan.OpLiteral, Literal: &plan.Literal{Type: plan.TypeNumber, Value: value}}
}

func bytesOf(artifact string) plan.Expr {
	return plan.Expr{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactOutput, Name: artifact, Field: "bytes"}}
}

func items(artifact string) plan.Expr {
	return plan.Expr{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactOutput, Name: artifact, Field: "json"}}
}

func TestPredicates(t *testing.T) {
	x, y, z := op(plan.OpGt, bytesOf("x"), num("3")), op(plan.OpLe, bytesOf("y"), num("5")), exists("z")
	item := plan.Expr{Op: plan.OpItem}
	each := func(of string, least string) plan.Expr {
		return op(of, items("x"), op(plan.OpGe, item, num(least)))
	}
	for _, c := range []struct {
		name          string
		before, after plan.Expr
		class         Class
	}{
		{"a condition more", x, op(plan.OpAll, x, y), Narrows},
		{"a condition more in front", x, op(plan.OpAll, y, x), Narrows},
		{"a condition less", op(plan.OpAll, x, y), x, Widens},
		{"in another order", op(plan.OpAll, x, y), op(plan.OpAll, y, x), Neutral},
		{"one of two", x, op(plan.OpAny, x, y), Widens},
		{"the first of two", op(plan.OpAny, x, y), x, Narrows},
		// While x could not be told, the second did not count; now it does.
		{"the second of two", op(plan.OpAny, x, y), y, Widens},
		{"the second of two, the first always told", op(plan.OpAny, z, y), y, Narrows},
		{"two of three", op(plan.OpAny, x, y, z), op(plan.OpAny, x, y), Narrows},
		{"the other two of three", op(plan.OpAny, x, y, z), op(plan.OpAny, y, z), Widens},
		{"the opposite", x, op(plan.OpNot, x), Widens},
		{"the opposite of less", op(plan.OpNot, op(plan.OpAll, x, y)), op(plan.OpNot, x), Widens},
		{"a higher bound", op(plan.OpGe, bytesOf("x"), num("3")), op(plan.OpGe, bytesOf("x"), num("10")), Narrows},
		{"a lower bound", op(plan.OpGe, bytesOf("x"), num("10")), op(plan.OpGe, bytesOf("x"), num("3")), Widens},
		{"above, not at", op(plan.OpGe, bytesOf("x"), num("3")), op(plan.OpGt, bytesOf("x"), num("3")), Narrows},
		{"at, too", op(plan.OpGt, bytesOf("x"), num("3")), op(plan.OpGe, bytesOf("x"), num("3")), Widens},
		{"below zero", op(plan.OpLt, bytesOf("x"), num("-1.5")), op(plan.OpLt, bytesOf("x"), num("-1.75")), Narrows},
		{"one number of many", op(plan.OpLe, bytesOf("x"), num("0")), op(plan.OpEq, num("0"), bytesOf("x")), Narrows},
		{"another number", op(plan.OpEq, bytesOf("x"), num("0")), op(plan.OpEq, bytesOf("x"), num("1")), Widens},
		{"not another number", op(plan.OpNe, bytesOf("x"), num("0")), op(plan.OpGt, bytesOf("x"), num("0")), Narrows},
		{"of another artifact", op(plan.OpGt, bytesOf("x"), num("3")), op(plan.OpGt, bytesOf("y"), num("3")), Widens},
		{"written the other way", op(plan.OpLt, num("3"), bytesOf("x")), x, Neutral},
		{"more of each", each(plan.OpEvery, "3"), each(plan.OpEvery, "4"), Narrows},
		{"less of each", each(plan.OpEvery, "4"), each(plan.OpEvery, "3"), Widens},
		{"some for each", each(plan.OpEvery, "3"), each(plan.OpSome, "3"), Widens},
		{"within a nest", op(plan.OpAll, z, op(plan.OpAny, x, y)), op(plan.OpAll, z, x), Narrows},
	} {
		a, b := everything(t), everything(t)
		a.Branches[0].Accept, b.Branches[0].Accept = c.before, c.after
		a.Loops[0].Until, b.Loops[0].Until = c.before, c.after
		r := compare(t, a, b)
		if len(r.Changes) != 2 {
			t.Errorf("%s: %+v", c.name, r.Changes)
			continue
		}
		for _, got := range r.Changes {
			if got.Class != c.class || got.Before != predicates.Format(c.before) || got.After != predicates.Format(c.after) {
				t.Errorf("%s: want %s: %+v", c.name, c.class, got)
			}
		}
	}
}

// TestProofsHold: what is called narrower is never true where the other is not,
// whatever was recorded, and whatever could not be told.
func TestProofsHold(t *testing.T) {
	proven := 0
	rapid.Check(t, func(t *rapid.T) {
		a := drawExpr(t, 3)
		b := drawExpr(t, 2)
		if rapid.Bool().Draw(t, "related") { // so that there is something to prove
			b = drawRelated(t, a)
		}
		if rapid.Bool().Draw(t, "turned") {
			a, b = b, a
		}
		if predicates.Check(a) != nil || predicates.Check(b) != nil || !new(differ).implies(&a, &b) {
			return
		}
		proven++
		for range 20 {
			f := drawFacts(t)
			ofA, _, errA := predicates.Eval(a, f)
			ofB, _, errB := predicates.Eval(b, f)
			if errA == nil && ofA && (errB != nil || !ofB) {
				t.Fatalf("%s\nis called no less than\n%s\nand holds where that does not (%v): %+v", predicates.Format(a), predicates.Format(b), errB, f)
			}
		}
	})
	if proven == 0 {
		t.Error("nothing was proven")
	}
}

func drawExpr(t *rapid.T, depth int) plan.Expr {
	kinds := 2
	if depth > 0 {
		kinds = 6
	}
	name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "artifact")
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return exists(name)
	case 1, 2:
		sign := rapid.SampledFrom([]string{plan.OpLt, plan.OpLe, plan.OpGt, plan.OpGe, plan.OpEq, plan.OpNe}).Draw(t, "sign")
		value, n := bytesOf(name), num(rapid.SampledFrom([]string{"0", "1", "2", "10", "-1", "0.5"}).Draw(t, "number"))
		if rapid.Bool().Draw(t, "mirrored") {
			return op(sign, n, value)
		}
		return op(sign, value, n)
	case 3:
		return op(plan.OpNot, drawExpr(t, depth-1))
	case 4:
		return op(rapid.SampledFrom([]string{plan.OpEvery, plan.OpSome}).Draw(t, "quantifier"), items(name),
			op(plan.OpGe, plan.Expr{Op: plan.OpItem}, num(rapid.SampledFrom([]string{"0", "1"}).Draw(t, "number"))))
	}
	args := make([]plan.Expr, rapid.IntRange(1, 3).Draw(t, "arguments"))
	for i := range args {
		args[i] = drawExpr(t, depth-1)
	}
	return op(rapid.SampledFrom([]string{plan.OpAll, plan.OpAny}).Draw(t, "junction"), args...)
}

// drawRelated makes another predicate of the parts of one.
func drawRelated(t *rapid.T, e plan.Expr) plan.Expr {
	if (e.Op == plan.OpAll || e.Op == plan.OpAny) && rapid.Bool().Draw(t, "inside") {
		args := append([]plan.Expr{}, e.Args...)
		i := rapid.IntRange(0, len(args)-1).Draw(t, "argument")
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			args[i] = drawRelated(t, args[i])
		case 1:
			return args[i]
		case 2:
			args = append(args, drawExpr(t, 1))
		case 3:
			if len(args) > 1 {
				args = append(args[:i:i], args[i+1:]...)
			}
		}
		return op(e.Op, args...)
	}
	args := []plan.Expr{e, drawExpr(t, 1)}
	if rapid.Bool().Draw(t, "behind") {
		args[0], args[1] = args[1], args[0]
	}
	return op(rapid.SampledFrom([]string{plan.OpAll, plan.OpAny}).Draw(t, "junction"), args...)
}

func drawFacts(t *rapid.T) predicates.Facts {
	f := predicates.Facts{Outputs: map[string]predicates.Output{}}
	for _, name := range []string{"x", "y"} {
		if rapid.IntRange(0, 4).Draw(t, "recorded "+name) == 0 {
			continue
		}
		o := predicates.Output{Exists: rapid.IntRange(0, 4).Draw(t, "exists") > 0, Bytes: rapid.Int64Range(-1, 3).Draw(t, "bytes")}
		if rapid.Bool().Draw(t, "json") {
			o.JSON = &document.Value{Kind: document.Array}
			for range rapid.IntRange(0, 2).Draw(t, "items") {
				o.JSON.Items = append(o.JSON.Items, &document.Value{Kind: document.Number, Number: rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "item")})
			}
		}
		f.Outputs[name] = o
	}
	return f
}

// TestProofsAreBounded: what takes too long to prove counts as changed.
func TestProofsAreBounded(t *testing.T) {
	wide := func(sign, of string) *plan.Expr {
		e := op(sign)
		for i := range 3_000 {
			e.Args = append(e.Args, op(plan.OpGt, bytesOf(of), num(strconv.Itoa(i))))
		}
		return &e
	}
	d := new(differ)
	few, many := wide(plan.OpAll, "x"), wide(plan.OpAll, "x")
	slices.Reverse(many.Args)
	if d.implies(many, wide(plan.OpAny, "y")) || d.proven < 3_000 || d.proven > maxProof {
		t.Errorf("%d", d.proven)
	}
	for range 10_000 {
		d.implies(few, many)
	}
	if d.proven > maxProofs || d.implies(few, few) {
		t.Errorf("%d", d.proven)
	}
}
