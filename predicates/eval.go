package predicates

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"foundry/plan"
	"foundry/plan/document"
)

// MaxWork bounds one evaluation, in steps: a node is one step, and reading
// text or items costs more by their size. It stands for a few seconds. The same
// facts always take the same steps.
const MaxWork = 10_000_000

// What costs one step beside a node.
const (
	compareBytes  = 64 // bytes of text to compare, count or search
	matchBytes    = 8  // bytes of text to match, for each instruction of the pattern
	searchMembers = 16 // members of an object to look for one in
)

// Eval evaluates e over f. It checks e first, so that any Expr is safe.
//
// Arguments are evaluated from the left. all ends at the first false, any at
// the first true, every and some at the first element that decides; the rest
// is marked as skipped in the trace, and an error in it goes unseen. An error
// in what is evaluated ends the evaluation: the result is false, the error an
// *Error, and the trace shows how far it came.
//
// The two sides of a comparison must have one type. null equals null where one
// side is written null; a null from facts compares with nothing else. Arrays
// and objects are not compared. contains in an array needs every element to
// have the type of what it looks for. matches searches anywhere in the text,
// unless the pattern has ^ and $. every over an empty array is true.
func Eval(e plan.Expr, f Facts) (bool, Trace, error) {
	patterns, err := compile(e)
	if err != nil {
		return false, Trace{Op: plainOp(e.Op), Error: err.Error()}, err
	}
	run := evaluator{facts: &f, patterns: patterns}
	v, trace, err := run.eval(&e, nil)
	if err == nil && v.Kind != document.Bool {
		err = run.fail(&e, &trace, "compare it with something", "the predicate is %s, not true or false", one(v))
	}
	if err != nil {
		return false, trace, err
	}
	return v.Bool, trace, nil
}

// plainOp keeps an unknown operator from carrying anything into a record.
func plainOp(op string) string {
	if _, known := arity[op]; known {
		return op
	}
	return ""
}

type evaluator struct {
	facts    *Facts
	patterns map[string]pattern
	work     int64
	quiet    bool // no texts and values in traces: most elements leave none
}

var yes, no = &document.Value{Kind: document.Bool, Bool: true}, &document.Value{Kind: document.Bool}

func boolean(b bool) *document.Value {
	if b {
		return yes
	}
	return no
}

// fail puts the error into the trace, once, and returns it.
func (r *evaluator) fail(e *plan.Expr, t *Trace, hint, format string, args ...any) *Error {
	err := fault(e, hint, format, args...)
	t.Error = err.Msg
	t.Type, t.Value = "", ""
	return err
}

func (r *evaluator) spend(e *plan.Expr, t *Trace, steps int64) *Error {
	if r.work += steps; r.work > MaxWork {
		return r.fail(e, t, "look into less of the facts", "the evaluation takes more than %d steps", MaxWork)
	}
	return nil
}

// eval returns the value of e, never nil without an error. item is the element
// of the innermost every or some, nil outside.
func (r *evaluator) eval(e *plan.Expr, item *document.Value) (*document.Value, Trace, *Error) {
	t := Trace{Op: e.Op}
	if err := r.spend(e, &t, 1); err != nil {
		return nil, t, err
	}
	var v *document.Value
	var err *Error
	switch e.Op {
	case plan.OpFact, plan.OpItem, plan.OpLiteral:
		v, err = r.leaf(e, item, &t)
	case plan.OpExists:
		v, err = r.exists(e, item, &t)
	case plan.OpAll, plan.OpAny:
		v, err = r.junction(e, item, &t)
	case plan.OpEvery, plan.OpSome:
		v, err = r.quantifier(e, item, &t)
	default:
		v, err = r.function(e, item, &t)
	}
	if err != nil {
		return nil, t, err
	}
	if !r.quiet {
		t.Type, t.Value = v.Kind.String(), valueText(v)
	}
	return v, t, nil
}

// lookup gets the value of a fact or an item. The error is a *missing or the
// *Error of spend.
func (r *evaluator) lookup(e *plan.Expr, item *document.Value, t *Trace) (*document.Value, error) {
	v, pointer := item, e.Pointer
	if e.Op == plan.OpFact {
		var err error
		if v, err = r.facts.fact(e.Fact); err != nil {
			return nil, err
		}
		pointer = e.Fact.Pointer
	}
	steps, err := document.SplitPointer(pointer)
	if err != nil {
		return nil, err // not reached: compile checked the pointer
	}
	for _, step := range steps {
		if err := r.spend(e, t, 1+int64(len(v.Members))/searchMembers); err != nil {
			return nil, err
		}
		if v, err = v.Step(step); err != nil {
			return nil, &missing{err.Error()}
		}
	}
	return v, nil
}

func (r *evaluator) leaf(e *plan.Expr, item *document.Value, t *Trace) (*document.Value, *Error) {
	if !r.quiet {
		t.Text = Format(*e)
	}
	if e.Op == plan.OpLiteral {
		return literal(e.Literal), nil
	}
	v, err := r.lookup(e, item, t)
	if failed, ok := errors.AsType[*Error](err); ok {
		return nil, failed
	}
	if err != nil {
		return nil, r.fail(e, t, "ask exists(…) first if it may be missing", "%v", err)
	}
	if v.Kind != document.Number {
		return v, nil
	}
	canonical, err := document.CanonicalNumber(v.Number)
	if err != nil {
		return nil, r.fail(e, t, "", "%v", err)
	}
	return &document.Value{Kind: document.Number, Number: canonical}, nil
}

func literal(l *plan.Literal) *document.Value {
	switch l.Type {
	case plan.TypeString:
		return text(l.Value)
	case plan.TypeNumber:
		return &document.Value{Kind: document.Number, Number: l.Value}
	case plan.TypeBool:
		return boolean(l.Value == "true")
	default:
		return &document.Value{}
	}
}

func (r *evaluator) exists(e *plan.Expr, item *document.Value, t *Trace) (*document.Value, *Error) {
	arg := &e.Args[0]
	v, err := r.lookup(arg, item, t)
	if failed, ok := errors.AsType[*Error](err); ok {
		return nil, failed
	}
	if _, absent := errors.AsType[*missing](err); err != nil && !absent {
		return nil, r.fail(e, t, "", "%v", err)
	}
	if !r.quiet {
		at := Trace{Op: arg.Op, Text: Format(*arg)}
		if err == nil {
			at.Type, at.Value = v.Kind.String(), valueText(v)
		}
		t.Args = []Trace{at}
	}
	return boolean(err == nil && v.Kind != document.Null), nil
}

// junction evaluates all and any from the left, as far as it must.
func (r *evaluator) junction(e *plan.Expr, item *document.Value, t *Trace) (*document.Value, *Error) {
	decides := e.Op == plan.OpAny
	decided := false
	for i := range e.Args {
		v, err := r.condition(&e.Args[i], item, t)
		if err != nil || v.Bool == decides {
			r.skip(t, e.Args[i+1:])
		}
		if err != nil {
			return nil, err
		}
		if decided = v.Bool == decides; decided {
			break
		}
	}
	return boolean(decided == decides), nil
}

// skip records what is not evaluated.
func (r *evaluator) skip(t *Trace, rest []plan.Expr) {
	if r.quiet {
		return
	}
	for i := range rest {
		t.Args = append(t.Args, Trace{Op: rest[i].Op, Text: brief(rest[i]), Skipped: true})
	}
}

// condition evaluates an argument that must be true or false, and appends it
// to the trace.
func (r *evaluator) condition(e *plan.Expr, item *document.Value, t *Trace) (*document.Value, *Error) {
	v, at, err := r.eval(e, item)
	if err == nil && v.Kind != document.Bool {
		err = r.fail(e, &at, "compare it with something", "it is %s where true or false must be", one(v))
	}
	if !r.quiet {
		t.Args = append(t.Args, at)
	}
	return v, err
}

func (r *evaluator) quantifier(e *plan.Expr, item *document.Value, t *Trace) (*document.Value, *Error) {
	array, at, err := r.eval(&e.Args[0], item)
	if err == nil && array.Kind != document.Array {
		err = r.fail(&e.Args[0], &at, e.Op+" takes an array", "it is %s where an array must be", one(array))
	}
	if !r.quiet {
		t.Args = []Trace{at}
	}
	if err != nil {
		r.skip(t, e.Args[1:])
		return nil, err
	}
	decides, outer := e.Op == plan.OpSome, r.quiet
	for i, element := range array.Items {
		r.quiet = true
		v, err := r.condition(&e.Args[1], element, t)
		r.quiet = outer
		last := err != nil || v.Bool == decides || i == len(array.Items)-1
		if last && !outer { // once more, for the trace of the one that decided
			t.Element = int64(i) + 1
			v, err = r.condition(&e.Args[1], element, t)
		}
		if err != nil {
			return nil, err
		}
		if v.Bool == decides {
			return v, nil
		}
	}
	if len(array.Items) == 0 {
		r.skip(t, e.Args[1:])
	}
	return boolean(!decides), nil
}

// function evaluates the operators that need all their arguments.
func (r *evaluator) function(e *plan.Expr, item *document.Value, t *Trace) (*document.Value, *Error) {
	if e.Op == plan.OpNot {
		v, err := r.condition(&e.Args[0], item, t)
		if err != nil {
			return nil, err
		}
		return boolean(!v.Bool), nil
	}
	var args [2]*document.Value // no operator of these takes more
	for i := range e.Args {
		v, at, err := r.eval(&e.Args[i], item)
		if !r.quiet {
			t.Args = append(t.Args, at)
		}
		if err != nil {
			r.skip(t, e.Args[i+1:])
			return nil, err
		}
		args[i] = v
	}
	switch e.Op {
	case plan.OpEq, plan.OpNe:
		equal, err := r.equal(e, args[0], args[1], t)
		return boolean(equal == (e.Op == plan.OpEq)), err
	case plan.OpContains:
		return r.contains(e, args[0], args[1], t)
	case plan.OpMatches:
		return r.matches(e, args[0], t)
	case plan.OpLength:
		return r.length(e, args[0], t)
	default:
		return r.order(e, args[0], args[1], t)
	}
}

func (r *evaluator) equal(e *plan.Expr, a, b *document.Value, t *Trace) (bool, *Error) {
	if isNull(&e.Args[0]) || isNull(&e.Args[1]) {
		return a.Kind == document.Null && b.Kind == document.Null, nil
	}
	const oneType = "compare values of one type; text in quotes is a string"
	switch {
	case a.Kind == document.Null || b.Kind == document.Null:
		return false, r.fail(e, t, "ask exists(…) first, or compare with null", "a null is compared with a value")
	case a.Kind != b.Kind:
		return false, r.fail(e, t, oneType, "%s is compared with %s", one(a), one(b))
	case !scalar(a):
		return false, r.fail(e, t, "compare length(…), or an element", "%s is compared as a whole", one(a))
	}
	return same(a, b), r.spend(e, t, int64(min(len(a.Str), len(b.Str)))/compareBytes)
}

func isNull(e *plan.Expr) bool {
	return e.Op == plan.OpLiteral && e.Literal.Type == plan.TypeNull
}

// one names the kind of a value with its article.
func one(v *document.Value) string {
	if v.Kind == document.Array || v.Kind == document.Object {
		return "an " + v.Kind.String()
	}
	return "a " + v.Kind.String()
}

func scalar(v *document.Value) bool {
	return v.Kind == document.Bool || v.Kind == document.Number || v.Kind == document.String
}

// same compares two scalars of one kind; numbers are canonical.
func same(a, b *document.Value) bool {
	return a.Bool == b.Bool && a.Number == b.Number && a.Str == b.Str
}

func (r *evaluator) order(e *plan.Expr, a, b *document.Value, t *Trace) (*document.Value, *Error) {
	for _, v := range []*document.Value{a, b} {
		if v.Kind != document.Number {
			return nil, r.fail(e, t, "only numbers have an order; text in quotes is a string", "%s where a number must be", one(v))
		}
	}
	c := document.CompareNumbers(a.Number, b.Number)
	switch e.Op {
	case plan.OpLt:
		return boolean(c < 0), nil
	case plan.OpLe:
		return boolean(c <= 0), nil
	case plan.OpGt:
		return boolean(c > 0), nil
	default:
		return boolean(c >= 0), nil
	}
}

func (r *evaluator) contains(e *plan.Expr, hay, needle *document.Value, t *Trace) (*document.Value, *Error) {
	if hay.Kind == document.String {
		if needle.Kind != document.String {
			return nil, r.fail(e, t, "a string contains strings; text in quotes is a string", "contains looks for %s in a string", one(needle))
		}
		return boolean(strings.Contains(hay.Str, needle.Str)), r.spend(e, t, int64(len(hay.Str))/compareBytes)
	}
	switch {
	case hay.Kind != document.Array:
		return nil, r.fail(e, t, "contains takes a string and a string, or an array and a value", "contains in %s", one(hay))
	case !scalar(needle):
		return nil, r.fail(e, t, "use some(…)", "contains does not look for %s", one(needle))
	}
	if err := r.spend(e, t, int64(len(hay.Items))*(1+int64(len(needle.Str))/compareBytes)); err != nil {
		return nil, err
	}
	found := false
	for i, v := range hay.Items {
		if v.Kind != needle.Kind {
			return nil, r.fail(e, t, "all elements must have the type of the value; use some(…) to look into mixed ones",
				"%s is compared with element %d, %s", one(needle), i+1, one(v))
		}
		if v.Kind == document.Number {
			canonical, err := document.CanonicalNumber(v.Number)
			if err != nil {
				return nil, r.fail(e, t, "", "element %d: %v", i+1, err)
			}
			found = found || canonical == needle.Number
			continue
		}
		found = found || same(v, needle)
	}
	return boolean(found), nil
}

func (r *evaluator) matches(e *plan.Expr, v *document.Value, t *Trace) (*document.Value, *Error) {
	if v.Kind != document.String {
		return nil, r.fail(e, t, "only text matches a pattern", "matches on %s", one(v))
	}
	p := r.patterns[e.Args[1].Literal.Value]
	if err := r.spend(e, t, int64(len(v.Str))/matchBytes*p.size); err != nil {
		return nil, err
	}
	return boolean(p.re.MatchString(v.Str)), nil
}

func (r *evaluator) length(e *plan.Expr, v *document.Value, t *Trace) (*document.Value, *Error) {
	n := 0
	switch v.Kind {
	case document.String:
		n = utf8.RuneCountInString(v.Str)
		if err := r.spend(e, t, int64(len(v.Str))/compareBytes); err != nil {
			return nil, err
		}
	case document.Array:
		n = len(v.Items)
	case document.Object:
		n = len(v.Members)
	default:
		return nil, r.fail(e, t, "length takes a string, an array or an object", "length of %s", one(v))
	}
	return &document.Value{Kind: document.Number, Number: strconv.Itoa(n)}, nil
}
