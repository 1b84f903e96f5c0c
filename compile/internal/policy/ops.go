package policy

import (
	"math/big"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
)

// precision of arithmetic, the one of hcl's number literals.
const precision = 512

var (
	largest  = bigFloat("1e30")
	smallest = bigFloat("1e-30")
)

func bigFloat(s string) *big.Float {
	f, _, err := big.ParseFloat(s, 10, precision, big.ToNearestEven)
	if err != nil {
		panic(err) // a constant of this file
	}
	return f
}

// number makes a value, or an error when it is out of range.
func (e *eval) number(f *big.Float, x hclsyntax.Expression) (cty.Value, bool) {
	if !inRange(f) {
		e.errorf(x, "Number out of range", "A number is 0 or from 1e-30 to 1e30, with either sign. A limit that is never reached is no limit: write the number that is meant.")
		return cty.NilVal, false
	}
	return cty.NumberVal(f), true
}

func inRange(f *big.Float) bool {
	abs := new(big.Float).Abs(f)
	return abs.Sign() == 0 || abs.Cmp(largest) <= 0 && abs.Cmp(smallest) >= 0
}

// unknownKey is the summary of an object's key that is not there.
const unknownKey = "Unknown key"

// alwaysWrong are the errors that no condition can guard against.
var alwaysWrong = map[string]bool{
	"Unknown name": true, "Unknown variable": true, "Unknown local": true, "Unknown function": true, "Unknown expression": true,
	"Wrong number of arguments": true, "Computed key": true, "Locals in a cycle": true, "Two types": true,
}

// conditional is c ? a : b. Both arms are evaluated, so that a wrong type in
// the other arm is found before the day it is taken.
func (e *eval) conditional(x *hclsyntax.ConditionalExpr) (cty.Value, bool) {
	c, ok := e.value(x.Condition)
	if !ok {
		return cty.NilVal, false
	}
	if kind(c) != "bool" {
		e.errorf(x.Condition, "Not a bool", "A condition is true or false; this is %s.", aKind(c))
		return cty.NilVal, false
	}
	taken, other := x.TrueResult, x.FalseResult
	if c.False() {
		taken, other = other, taken
	}
	v, ok := e.value(taken)
	// The condition may guard against just what fails in the other arm.
	var dropped diag.List
	o, okOther := (&eval{Scope: e.Scope, env: e.env, d: &dropped}).value(other)
	for _, x := range dropped {
		if e.spent || alwaysWrong[x.Summary] || e.thorough && x.Summary == unknownKey {
			*e.d = append(*e.d, x)
			ok = false
		}
	}
	if !ok || e.spent {
		return cty.NilVal, false
	}
	if okOther && kind(v) != kind(o) {
		e.errorf(x, "Two types", "The arms of a conditional have one type; here one is %s and one is %s.", aKind(v), aKind(o))
		return cty.NilVal, false
	}
	return v, true
}

func (e *eval) unary(x *hclsyntax.UnaryOpExpr) (cty.Value, bool) {
	v, ok := e.value(x.Val)
	if !ok {
		return cty.NilVal, false
	}
	if x.Op == hclsyntax.OpLogicalNot {
		if kind(v) != "bool" {
			e.errorf(x, "Not a bool", "! takes a bool; this is %s.", aKind(v))
			return cty.NilVal, false
		}
		return v.Not(), true
	}
	if kind(v) != "number" {
		e.errorf(x, "Not a number", "- takes a number; this is %s.", aKind(v))
		return cty.NilVal, false
	}
	return cty.NumberVal(new(big.Float).Neg(v.AsBigFloat())), true
}

func (e *eval) binary(x *hclsyntax.BinaryOpExpr) (cty.Value, bool) {
	l, ok := e.value(x.LHS)
	if x.Op == hclsyntax.OpLogicalAnd || x.Op == hclsyntax.OpLogicalOr {
		return e.logical(x, l, ok)
	}
	r, okR := e.value(x.RHS)
	if !ok || !okR {
		return cty.NilVal, false
	}
	if x.Op == hclsyntax.OpEqual || x.Op == hclsyntax.OpNotEqual {
		same, ok := e.equal(x, l, r)
		if !ok {
			return cty.NilVal, false
		}
		return cty.BoolVal(same == (x.Op == hclsyntax.OpEqual)), true
	}
	if kind(l) != "number" || kind(r) != "number" {
		e.errorf(x, "Not a number", "This operator takes two numbers; here are %s and %s. Text is never read as a number: tonumber(…) does it where it is meant.", aKind(l), aKind(r))
		return cty.NilVal, false
	}
	return e.arithmetic(x, l.AsBigFloat(), r.AsBigFloat())
}

// logical evaluates the right side only when the left does not decide.
func (e *eval) logical(x *hclsyntax.BinaryOpExpr, l cty.Value, ok bool) (cty.Value, bool) {
	if e.thorough {
		_, okR := e.value(x.RHS)
		return cty.True, ok && okR
	}
	if !ok {
		return cty.NilVal, false
	}
	if kind(l) != "bool" {
		e.errorf(x.LHS, "Not a bool", "&& and || take two bools; this is %s.", aKind(l))
		return cty.NilVal, false
	}
	if l.True() == (x.Op == hclsyntax.OpLogicalOr) {
		return l, true
	}
	r, ok := e.value(x.RHS)
	if !ok {
		return cty.NilVal, false
	}
	if kind(r) != "bool" {
		e.errorf(x.RHS, "Not a bool", "&& and || take two bools; this is %s.", aKind(r))
		return cty.NilVal, false
	}
	return r, true
}

func (e *eval) arithmetic(x *hclsyntax.BinaryOpExpr, l, r *big.Float) (cty.Value, bool) {
	out := new(big.Float).SetPrec(precision)
	switch x.Op {
	case hclsyntax.OpLessThan:
		return cty.BoolVal(l.Cmp(r) < 0), true
	case hclsyntax.OpLessThanOrEqual:
		return cty.BoolVal(l.Cmp(r) <= 0), true
	case hclsyntax.OpGreaterThan:
		return cty.BoolVal(l.Cmp(r) > 0), true
	case hclsyntax.OpGreaterThanOrEqual:
		return cty.BoolVal(l.Cmp(r) >= 0), true
	case hclsyntax.OpAdd:
		out.Add(l, r)
	case hclsyntax.OpSubtract:
		out.Sub(l, r)
	case hclsyntax.OpMultiply:
		out.Mul(l, r)
	case hclsyntax.OpDivide, hclsyntax.OpModulo:
		if r.Sign() == 0 {
			e.errorf(x, "Division by zero", "This divides by zero, which has no value.")
			return cty.NilVal, false
		}
		out.Quo(l, r)
		if x.Op == hclsyntax.OpModulo {
			whole, _ := out.Int(nil)
			out.Sub(l, new(big.Float).SetPrec(precision).Mul(r, new(big.Float).SetInt(whole)))
		}
	default:
		e.errorf(x, "Unknown expression", "This operator is not part of the policy language.")
		return cty.NilVal, false
	}
	return e.number(out, x)
}

// equal compares two values of one type; everything may be compared with null.
func (e *eval) equal(x hclsyntax.Expression, l, r cty.Value) (same, ok bool) {
	l, _ = l.Unmark()
	r, _ = r.Unmark()
	kl, kr := kind(l), kind(r)
	switch {
	case kl == "null" || kr == "null":
		return kl == kr, true
	case kl != kr:
		e.errorf(x, "Two types", "Values of two types are never equal, so comparing them says nothing; here are %s and %s.", aKind(l), aKind(r))
		return false, false
	}
	switch kl {
	case "string":
		return l.AsString() == r.AsString(), true
	case "number":
		return l.AsBigFloat().Cmp(r.AsBigFloat()) == 0, true
	case "bool":
		return l.True() == r.True(), true
	}
	if !e.charge(x, l.LengthInt()+r.LengthInt(), 0) || !e.step(x) {
		return false, false
	}
	e.recursed++
	defer func() { e.recursed-- }()
	if l.LengthInt() != r.LengthInt() {
		return false, true
	}
	for it := l.ElementIterator(); it.Next(); {
		key, lv := it.Element()
		if kl == "object" && !r.Type().HasAttribute(key.AsString()) {
			return false, true
		}
		var rv cty.Value
		if kl == "object" {
			rv = r.GetAttr(key.AsString())
		} else {
			rv = r.Index(key)
		}
		if same, ok := e.equal(x, lv, rv); !ok || !same {
			return false, ok
		}
	}
	return true, true
}
