package plan

import (
	"regexp"
	"strconv"
)

// maxExprDepth and maxExprSize bound one predicate.
const (
	maxExprDepth = 64
	maxExprSize  = 10_000
)

// scope is what a predicate may name: artifacts and checks.
type scope struct {
	what    string
	outputs map[string]bool
	checks  map[string]bool
}

// expr checks the form of a predicate: operators, number of arguments, leaves.
// Types are the business of package predicates.
func (v *validator) expr(at string, e *Expr, s scope) {
	size := 0
	v.exprNode(at, e, s, 0, false, &size)
}

func (v *validator) exprNode(at string, e *Expr, s scope, depth int, item bool, size *int) {
	if *size++; depth > maxExprDepth || *size > maxExprSize {
		if depth == maxExprDepth+1 || *size == maxExprSize+1 {
			v.add("predicate too large", "it has more than 64 levels or 10,000 operations: split it", at)
		}
		return
	}
	want, known := arity[e.Op]
	if !known {
		v.add("unknown operator", quote(e.Op)+" is no operator of the closed set", at, ".op")
		return
	}
	switch n := len(e.Args); {
	case want < 0 && n == 0:
		v.add("wrong number of arguments", e.Op+" takes at least one argument", at, ".args")
	case want >= 0 && n != want:
		v.add("wrong number of arguments", e.Op+" takes "+strconv.Itoa(want)+", not "+strconv.Itoa(n), at, ".args")
	}
	v.exprLeaf(at, e, s, item)
	for i := range e.Args {
		inner := item || i == 1 && (e.Op == OpEvery || e.Op == OpSome)
		v.exprNode(at+".args["+strconv.Itoa(i)+"]", &e.Args[i], s, depth+1, inner, size)
	}
}

// arity is the number of arguments of each operator, -1 for one or more.
var arity = map[string]int{
	OpAll: -1, OpAny: -1, OpNot: 1, OpEq: 2, OpNe: 2, OpLt: 2, OpLe: 2, OpGt: 2, OpGe: 2, OpContains: 2,
	OpMatches: 2, OpExists: 1, OpLength: 1, OpEvery: 2, OpSome: 2, OpFact: 0, OpLiteral: 0, OpItem: 0,
}

func (v *validator) exprLeaf(at string, e *Expr, s scope, item bool) {
	if (e.Fact != nil) != (e.Op == OpFact) {
		v.add("misplaced fact", "an operation of op fact has a fact, and no other has", at, ".fact")
	} else if e.Fact != nil {
		v.fact(at+".fact", e.Fact, s)
	}
	if (e.Literal != nil) != (e.Op == OpLiteral) {
		v.add("misplaced literal", "an operation of op literal has a literal, and no other has", at, ".literal")
	} else if e.Literal != nil {
		v.literal(at+".literal", e.Literal)
	}
	switch {
	case e.Op == OpItem && !item:
		v.add("misplaced item", "item stands only in the second argument of every or some", at, ".op")
	case e.Op != OpItem && e.Pointer != "":
		v.add("misplaced pointer", "only an item has a pointer here; a fact has its own", at, ".pointer")
	case !validPointer(e.Pointer):
		v.add("invalid JSON pointer", quote(e.Pointer)+" is no JSON pointer: it starts with / and writes ~ as ~0", at, ".pointer")
	}
	if e.Op == OpExists && len(e.Args) == 1 && e.Args[0].Op != OpFact && e.Args[0].Op != OpItem {
		v.add("wrong argument", "exists takes a fact or an item", at, ".args[0]")
	}
	if e.Op == OpMatches && len(e.Args) == 2 {
		switch lit := e.Args[1].Literal; {
		case lit == nil || lit.Type != TypeString:
			v.add("wrong argument", "the pattern of matches is a literal string", at, ".args[1]")
		case len(lit.Value) > 1000:
			v.add("invalid pattern", "it has more than 1000 bytes", at, ".args[1]")
		default:
			if _, err := regexp.Compile(lit.Value); err != nil {
				v.add("invalid pattern", err.Error(), at, ".args[1]")
			}
		}
	}
}

func (v *validator) fact(at string, f *Fact, s scope) {
	named, pointer := false, false
	switch f.Source {
	case FactOutput:
		named = true
		switch f.Field {
		case "json", "yaml":
			pointer = true
		case "exists", "bytes", "lines":
		default:
			v.add("unknown field", quote(f.Field)+" is no field of an output: exists, bytes, lines, json or yaml", at, ".field")
		}
		if !s.outputs[f.Name] {
			v.add("dangling reference", "the artifact "+quote(f.Name)+" is not produced by "+s.what, at, ".name")
		}
	case FactCheck:
		named = true
		switch f.Field {
		case "json":
			pointer = true
		case "exit_code", "stdout":
		default:
			v.add("unknown field", quote(f.Field)+" is no field of a check: exit_code, json or stdout", at, ".field")
		}
		if !s.checks[f.Name] {
			v.add("dangling reference", "the check "+quote(f.Name)+" does not belong to "+s.what, at, ".name")
		}
	case FactIteration:
		if f.Field != "" {
			v.add("unknown field", "the iteration is a number and has no fields", at, ".field")
		}
	case FactWorker:
		if f.Field != "status" {
			v.add("unknown field", quote(f.Field)+" is no field of the worker: status", at, ".field")
		}
	default:
		v.add("unknown source of facts", quote(f.Source)+": output, check, iteration or worker", at, ".source")
		return
	}
	if !named && f.Name != "" {
		v.add("misplaced name", "only facts of an output or a check have a name", at, ".name")
	}
	if !pointer && f.Pointer != "" || !validPointer(f.Pointer) {
		v.add("invalid JSON pointer", quote(f.Pointer)+": only json and yaml take one; it starts with / and writes ~ as ~0", at, ".pointer")
	}
}

func (v *validator) literal(at string, l *Literal) {
	ok := false
	switch l.Type {
	case TypeString:
		ok = true
	case TypeNumber:
		ok = ValidDecimal(l.Value)
	case TypeBool:
		ok = l.Value == "true" || l.Value == "false"
	case TypeNull:
		ok = l.Value == ""
	default:
		v.add("unknown type", quote(l.Type)+": string, number, bool or null", at, ".type")
		return
	}
	if !ok {
		v.add("invalid literal", quote(l.Value)+" is no "+l.Type+" in canonical form", at, ".value")
	}
}
