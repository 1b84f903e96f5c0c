package diff

import (
	"strings"

	"foundry/plan"
)

// Bounds of proofs, in conditions looked at: of one, and of a whole report.
// Without an answer a predicate counts as changed.
const (
	maxProof  = 100_000
	maxProofs = 20_000_000
)

// implies reports whether it can be shown by form alone that b is true without
// an error whenever a is: then a asks for no less than b. An evaluation that
// ends in an error counts as false, and arguments are evaluated from the left.
func (d *differ) implies(a, b *plan.Expr) bool {
	p := proof{left: min(maxProof, maxProofs-d.proven)}
	ok := p.implies(a, b)
	d.proven += min(maxProof, maxProofs-d.proven) - max(p.left, 0)
	return ok && p.left >= 0
}

type proof struct{ left int }

func (p *proof) implies(a, b *plan.Expr) bool {
	if p.left--; p.left < 0 {
		return false
	}
	switch {
	case p.equal(a, b):
		return true
	case b.Op == plan.OpAll && len(b.Args) > 0:
		return every(b.Args, func(x *plan.Expr) bool { return p.implies(a, x) })
	case a.Op == plan.OpAny && b.Op == plan.OpAny && p.prefix(a.Args, b.Args):
		return true
	case a.Op == plan.OpAny && len(a.Args) > 0:
		return every(a.Args, func(x *plan.Expr) bool { return p.implies(x, b) })
	case a.Op == plan.OpAll && some(a.Args, func(x *plan.Expr) bool { return p.implies(x, b) }):
		return true
	case b.Op == plan.OpAny:
		return p.impliesAny(a, b)
	case a.Op == plan.OpEvery && b.Op == plan.OpEvery && len(a.Args) == 2 && len(b.Args) == 2:
		return p.equal(&a.Args[0], &b.Args[0]) && p.implies(&a.Args[1], &b.Args[1])
	}
	return p.impliesNumber(a, b)
}

// impliesAny: what stands before the argument that a implies must not end in
// an error, and so hide it.
func (p *proof) impliesAny(a, b *plan.Expr) bool {
	for i := range b.Args {
		if p.implies(a, &b.Args[i]) {
			return true
		}
		if !safe(&b.Args[i]) && !p.evaluated(a, &b.Args[i]) {
			return false
		}
	}
	return false
}

// safe reports whether a condition never ends in an error.
func safe(e *plan.Expr) bool {
	switch e.Op {
	case plan.OpExists: // what is looked for inside a document may be no document
		return len(e.Args) == 1 && e.Args[0].Op == plan.OpFact && e.Args[0].Fact != nil && e.Args[0].Fact.Field == "exists"
	case plan.OpNot:
		return len(e.Args) == 1 && safe(&e.Args[0])
	case plan.OpAll, plan.OpAny:
		return every(e.Args, safe)
	}
	return false
}

// evaluated reports whether x was evaluated, without an error, when a is true:
// it is the first thing that a looks at.
func (p *proof) evaluated(a, x *plan.Expr) bool {
	if p.left--; p.left < 0 {
		return false
	}
	if p.equal(a, x) {
		return true
	}
	return (a.Op == plan.OpAny || a.Op == plan.OpAll) && len(a.Args) > 0 && p.evaluated(&a.Args[0], x)
}

// impliesNumber compares bounds of one value: x > 5 asks for more than x >= 3.
func (p *proof) impliesNumber(a, b *plan.Expr) bool {
	av, ao, an := bound(a)
	bv, bo, bn := bound(b)
	if av == nil || bv == nil || !p.equal(av, bv) {
		return false
	}
	c := compareSigned(an, bn)
	switch bo {
	case plan.OpGe:
		return (ao == plan.OpGe || ao == plan.OpGt || ao == plan.OpEq) && c >= 0
	case plan.OpGt:
		return ao == plan.OpGt && c >= 0 || (ao == plan.OpGe || ao == plan.OpEq) && c > 0
	case plan.OpLe:
		return (ao == plan.OpLe || ao == plan.OpLt || ao == plan.OpEq) && c <= 0
	case plan.OpLt:
		return ao == plan.OpLt && c <= 0 || (ao == plan.OpLe || ao == plan.OpEq) && c < 0
	case plan.OpNe:
		switch ao {
		case plan.OpEq:
			return c != 0
		case plan.OpGt:
			return c >= 0
		case plan.OpGe:
			return c > 0
		case plan.OpLt:
			return c <= 0
		case plan.OpLe:
			return c < 0
		}
	}
	return false
}

var mirrored = map[string]string{
	plan.OpEq: plan.OpEq, plan.OpNe: plan.OpNe,
	plan.OpLt: plan.OpGt, plan.OpLe: plan.OpGe, plan.OpGt: plan.OpLt, plan.OpGe: plan.OpLe,
}

// bound reads a comparison of a value with a number: the value on the left.
func bound(e *plan.Expr) (value *plan.Expr, op, number string) {
	if mirrored[e.Op] == "" || len(e.Args) != 2 {
		return nil, "", ""
	}
	if n, ok := numberOf(&e.Args[1]); ok {
		return &e.Args[0], e.Op, n
	}
	if n, ok := numberOf(&e.Args[0]); ok {
		return &e.Args[1], mirrored[e.Op], n
	}
	return nil, "", ""
}

func numberOf(e *plan.Expr) (string, bool) {
	if e.Op != plan.OpLiteral || e.Literal == nil || e.Literal.Type != plan.TypeNumber || !plan.ValidDecimal(e.Literal.Value) {
		return "", false
	}
	return e.Literal.Value, true
}

// compareSigned compares two canonical decimal numbers.
func compareSigned(a, b string) int {
	x, minusA := strings.CutPrefix(a, "-")
	y, minusB := strings.CutPrefix(b, "-")
	switch {
	case minusA && minusB:
		return compareDecimals(y, x)
	case minusA:
		return -1
	case minusB:
		return 1
	}
	return compareDecimals(x, y)
}

func (p *proof) equal(a, b *plan.Expr) bool {
	if p.left--; p.left < 0 || a.Op != b.Op || a.Pointer != b.Pointer || len(a.Args) != len(b.Args) ||
		(a.Fact == nil) != (b.Fact == nil) || (a.Literal == nil) != (b.Literal == nil) ||
		a.Fact != nil && *a.Fact != *b.Fact || a.Literal != nil && *a.Literal != *b.Literal {
		return false
	}
	for i := range a.Args {
		if !p.equal(&a.Args[i], &b.Args[i]) {
			return false
		}
	}
	return true
}

// prefix reports whether b begins with all of a.
func (p *proof) prefix(a, b []plan.Expr) bool {
	if len(a) > len(b) {
		return false
	}
	for i := range a {
		if p.left--; p.left < 0 || !p.equal(&a[i], &b[i]) {
			return false
		}
	}
	return len(a) > 0
}

func every(list []plan.Expr, is func(*plan.Expr) bool) bool {
	for i := range list {
		if !is(&list[i]) {
			return false
		}
	}
	return true
}

func some(list []plan.Expr, is func(*plan.Expr) bool) bool {
	for i := range list {
		if is(&list[i]) {
			return true
		}
	}
	return false
}
