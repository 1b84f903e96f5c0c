package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
)

// Bounds on evaluation, for one policy. The policies of 10,000 phases that the benchmarks
// compile stay below a tenth of each.
const (
	maxSteps     = 3_000_000 // evaluated nodes of syntax trees
	maxElements  = 1_000_000 // elements of lists and objects made or walked
	maxBytes     = 64 << 20  // bytes of strings made
	maxRecursion = 10_000    // trees within trees, through locals
)

// Scope is what var.x and local.x mean in a policy. It is not safe for use by
// two goroutines: locals are evaluated when they are first asked for, and all
// evaluation is charged to one account.
type Scope struct {
	ctx    context.Context // of Load: a compile's deadline holds for the lowering too
	vars   map[string]variable
	locals map[string]*local
	// partial: some file could not be read, so a name may be declared there
	// and not knowing it says nothing.
	partial bool

	reports *diag.List // where a local's errors go: Load's list
	busy    []string   // locals under evaluation
	account
}

// account is what evaluation has cost.
type account struct {
	steps, elements, bytes, recursed int
	kept                             int  // elements that for expressions and splats gave
	thorough                         bool // both sides of && and ||, and both arms, are looked at for names
	spent                            bool
}

// variable is a declared variable; ok is false when it has no valid value,
// which was reported where it was found.
type variable struct {
	value cty.Value
	ok    bool
}

type local struct {
	expr  hclsyntax.Expression
	state localState
	value cty.Value
}

type localState int

const (
	localNew localState = iota
	localBusy
	localDone
	localFailed
)

// Eval evaluates an expression that mentions nothing but var.x and local.x.
// The value is known, not null and unmarked; lists are tuples and maps are objects,
// numbers are finite and within ±1e30. With an error the value is cty.NilVal.
func (s *Scope) Eval(x hclsyntax.Expression) (cty.Value, diag.List) {
	return s.eval(x, nil)
}

// EvalWith is Eval with further names at the root, such as plan for a guard.
// Their values hold no marks, lists as tuples and maps as objects. It has an
// account of its own, so that one guard cannot spend what another needs.
func (s *Scope) EvalWith(x hclsyntax.Expression, names map[string]cty.Value) (cty.Value, diag.List) {
	saved := s.account
	s.account = account{}
	defer func() { s.account = saved }()
	var env *binding
	for name, v := range names {
		env = &binding{name: name, value: v, parent: env}
	}
	return s.eval(x, env)
}

func (s *Scope) eval(x hclsyntax.Expression, env *binding) (cty.Value, diag.List) {
	var d diag.List
	e := &eval{Scope: s, d: &d, env: env}
	v, ok := e.value(x)
	if !ok {
		return cty.NilVal, d
	}
	switch found := e.inspect(v, x, 0); {
	case s.spent:
	case found.null:
		d.Errorat(At(x.Range()), "Null value", "This value is null or holds a null. Null never means \"no limit\" or \"default\": write the value, or leave the attribute out.")
	case found.path:
		d.Errorat(At(x.Range()), "Path outside a path", pathElsewhere)
	}
	if d.HasErrors() {
		return cty.NilVal, d
	}
	return v, d
}

const pathMiddle = "A path variable is a whole path on this machine: it must be the start of the text that it makes, and that text must be a path."

const pathElsewhere = "This value comes from a variable of the type path, so it is a place on this machine, and the plan would depend on where it was compiled. Path variables may be used where a path is asked for; elsewhere take a variable of the type string."

type finding struct{ null, path bool }

// inspect walks a value and is charged for it, since shared parts make a
// small value a large tree.
func (e *eval) inspect(v cty.Value, x hclsyntax.Expression, depth int) finding {
	f := finding{path: v.HasMark(pathMark)}
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() {
		f.null = true
		return f
	}
	if t := v.Type(); !t.IsTupleType() && !t.IsObjectType() {
		return f
	}
	if depth > maxNesting {
		e.exceed(x, "The value nests more than 100 deep.")
		return f
	}
	if !e.charge(x, v.LengthInt(), 0) {
		return f
	}
	for it := v.ElementIterator(); it.Next() && !e.spent; {
		_, el := it.Element()
		sub := e.inspect(el, x, depth+1)
		f.null, f.path = f.null || sub.null, f.path || sub.path
	}
	return f
}

// charge takes elements and bytes from the account; false when it is empty.
func (e *eval) charge(x hclsyntax.Expression, elements, bytes int) bool {
	if e.spent {
		return false
	}
	// Each is bounded before it is added, so that no sum overflows.
	e.elements += min(elements, maxElements+1)
	e.bytes += min(bytes, maxBytes+1)
	switch {
	case e.elements > maxElements:
		return e.exceed(x, fmt.Sprintf("All expressions of a policy together may make and read %d elements of lists and objects.", maxElements))
	case e.bytes > maxBytes:
		return e.exceed(x, fmt.Sprintf("All expressions of a policy together may make %d MiB of text.", maxBytes>>20))
	}
	return true
}

// step counts one node; false when evaluation has to end.
func (e *eval) step(x hclsyntax.Expression) bool {
	if e.spent {
		return false
	}
	e.steps++
	if e.steps > maxSteps {
		return e.exceed(x, fmt.Sprintf("All expressions of a policy together may take %d steps.", maxSteps))
	}
	if e.recursed > maxRecursion {
		return e.exceed(x, fmt.Sprintf("Expressions and the locals that they use may nest %d deep.", maxRecursion))
	}
	if e.steps%1024 == 0 && e.ctx.Err() != nil {
		return e.exceed(x, "The time for compiling is over, or it was cancelled.")
	}
	return true
}

// exceed ends all evaluation; it returns false.
func (e *eval) exceed(x hclsyntax.Expression, detail string) bool {
	e.spent = true
	e.d.Errorat(At(x.Range()), "Evaluation too large", detail+" Evaluation stopped here; make the expression smaller, or write the values out.")
	return false
}

// localValue evaluates a local once.
func (e *eval) localValue(name string, x hclsyntax.Expression) (cty.Value, bool) {
	l := e.locals[name]
	if l == nil && e.partial {
		return cty.NilVal, false
	}
	if l == nil {
		e.errorf(x, "Unknown local", "There is no local %q.%s Locals are declared in a locals block.", name, didYouMean(name, e.locals))
		return cty.NilVal, false
	}
	switch l.state {
	case localDone:
		return l.value, true
	case localFailed:
		return cty.NilVal, false
	case localBusy:
		from := 0
		for i, n := range e.busy {
			if n == name {
				from = i
			}
		}
		cycle := append(append([]string{}, e.busy[from:]...), name)
		for i := range cycle {
			cycle[i] = "local." + cycle[i]
		}
		e.errorf(x, "Locals in a cycle", "These locals need each other: %s. One of them must be written without the others.", shorten(cycle))
		return cty.NilVal, false
	}
	l.state = localBusy
	e.busy = append(e.busy, name)
	inner := &eval{Scope: e.Scope, d: e.reports} // not e.d, which a conditional may drop
	v, ok := inner.value(l.expr)
	e.busy = e.busy[:len(e.busy)-1]
	if !ok {
		l.state = localFailed
		return cty.NilVal, false
	}
	l.state, l.value = localDone, v
	return v, true
}

// shorten joins a cycle with arrows, leaving out the middle of a long one.
func shorten(cycle []string) string {
	if n := len(cycle); n > 12 {
		cycle = append(append(append([]string{}, cycle[:6]...), fmt.Sprintf("(%d more)", n-11)), cycle[n-5:]...)
	}
	return strings.Join(cycle, " → ")
}

// didYouMean names the nearest key of a map that a person could have written.
func didYouMean[T any](word string, m map[string]T) string {
	if len(m) > 2000 {
		return ""
	}
	return diag.DidYouMean(word, keys(m))
}

// keys of a map, in no order: for Nearest, which has its own.
func keys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
