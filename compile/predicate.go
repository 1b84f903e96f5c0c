package compile

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
	"foundry/predicates"
)

// predicateScope is what a predicate may speak of.
type predicateScope struct {
	outputs   map[string]string // artifact id → kind
	checks    map[string]int    // how many checks have the name
	iteration bool
	worker    bool
}

// valueType is what is known of an operand at compile time.
type valueType int

const (
	typeUnknown valueType = iota // a place in a document
	typeString
	typeNumber
	typeBool
	typeNull
)

func (t valueType) String() string {
	return [...]string{"a value of a document", "a string", "a number", "a boolean", "null"}[t]
}

// lowering is the state of lowering one predicate.
type lowering struct {
	c     *compiler
	scope *predicateScope
	pol   *policy.Scope
	word  string
	item  string // name of the variable of the enclosing for, "" outside one
	ok    bool
}

// lowerPredicate turns an HCL expression into the closed set, nil after an
// error.
func (c *compiler) lowerPredicate(e policy.Expr, scope *predicateScope, word string) *plan.Expr {
	l := &lowering{c: c, scope: scope, pol: e.Scope, word: word, ok: true}
	out, typ := l.expr(e.Syntax)
	if l.ok && typ != typeBool && typ != typeUnknown {
		l.fail(e.Syntax, "Predicate is no question", "`"+word+"` must be true or false, and this is "+typ.String()+".")
	}
	if !l.ok {
		return nil
	}
	if err := predicates.Check(out); err != nil {
		l.fail(e.Syntax, "Predicate cannot be decided", sentence(err.Error()))
		return nil
	}
	return &out
}

func (l *lowering) fail(e hcl.Expression, summary, detail string) (plan.Expr, valueType) {
	return l.failAt(policy.At(e.Range()), summary, detail)
}

func (l *lowering) failAt(at diag.Range, summary, detail string) (plan.Expr, valueType) {
	l.c.diags.Errorat(at, summary, detail)
	l.ok = false
	return plan.Expr{}, typeUnknown
}

func (l *lowering) expr(e hclsyntax.Expression) (plan.Expr, valueType) {
	if v, ok := l.constant(e); ok {
		return l.literal(e, v)
	}
	switch e := e.(type) {
	case *hclsyntax.ParenthesesExpr:
		return l.expr(e.Expression)
	case *hclsyntax.BinaryOpExpr:
		return l.binary(e)
	case *hclsyntax.UnaryOpExpr:
		if e.Op == hclsyntax.OpLogicalNot {
			return l.logical(plan.OpNot, e.Val)
		}
	case *hclsyntax.ScopeTraversalExpr:
		return l.fact(e.Traversal, e)
	case *hclsyntax.FunctionCallExpr:
		return l.call(e)
	case *hclsyntax.ConditionalExpr:
		return l.fail(e, "Not in a predicate", "`? :` is not in the closed set of predicates; write it with `&&` and `||`.")
	case *hclsyntax.IndexExpr:
		return l.fail(e, "Not in a predicate", "An index in a predicate is a literal number or string, so that the plan can hold it as a JSON pointer.")
	}
	return l.fail(e, "Not in a predicate", "A predicate compares recorded facts with literals: `&&`, `||`, `!`, `==`, `!=`, `<`, `<=`, `>`, `>=`, length, contains, matches, exists, alltrue and anytrue over a `for`. Anything else belongs into a `check`.")
}

// constant evaluates an expression that mentions only var and local, or
// nothing at all.
func (l *lowering) constant(e hclsyntax.Expression) (cty.Value, bool) {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val, true
	case *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.ScopeTraversalExpr, *hclsyntax.UnaryOpExpr, *hclsyntax.ParenthesesExpr:
	default:
		return cty.NilVal, false
	}
	for _, t := range e.Variables() {
		if root := t.RootName(); root != "var" && root != "local" {
			return cty.NilVal, false
		}
	}
	if u, ok := e.(*hclsyntax.UnaryOpExpr); ok && u.Op == hclsyntax.OpLogicalNot {
		return cty.NilVal, false
	}
	v, ds := l.pol.Eval(e)
	if ds.HasErrors() {
		l.c.diags = append(l.c.diags, ds...)
		l.ok = false
		return cty.NullVal(cty.Bool), true
	}
	return v, true
}

func (l *lowering) literal(e hclsyntax.Expression, v cty.Value) (plan.Expr, valueType) {
	lit := func(typ, value string, t valueType) (plan.Expr, valueType) {
		return plan.Expr{Op: plan.OpLiteral, Literal: &plan.Literal{Type: typ, Value: value}}, t
	}
	switch {
	case v.IsNull():
		return lit(plan.TypeNull, "", typeNull)
	case v.Type() == cty.String:
		return lit(plan.TypeString, v.AsString(), typeString)
	case v.Type() == cty.Bool:
		return lit(plan.TypeBool, fmt.Sprint(v.True()), typeBool)
	case v.Type() == cty.Number:
		text, err := decimal(v)
		if err != nil {
			return l.fail(e, "Number is out of range", sentence(err.Error()))
		}
		return lit(plan.TypeNumber, text, typeNumber)
	}
	return l.fail(e, "Not in a predicate", "A literal of a predicate is a string, a number, a boolean or null; this is "+v.Type().FriendlyName()+".")
}

// logical lowers an operator over predicates.
func (l *lowering) logical(op string, args ...hclsyntax.Expression) (plan.Expr, valueType) {
	out := plan.Expr{Op: op}
	for _, a := range args {
		x, t := l.expr(a)
		if l.ok && t != typeBool && t != typeUnknown {
			return l.fail(a, "Types differ", "This operand must be true or false, and it is "+t.String()+".")
		}
		// One level for a && b && c.
		if x.Op == op && op != plan.OpNot {
			out.Args = append(out.Args, x.Args...)
			continue
		}
		out.Args = append(out.Args, x)
	}
	return out, typeBool
}

var comparisons = map[*hclsyntax.Operation]string{
	hclsyntax.OpEqual: plan.OpEq, hclsyntax.OpNotEqual: plan.OpNe, hclsyntax.OpLessThan: plan.OpLt,
	hclsyntax.OpLessThanOrEqual: plan.OpLe, hclsyntax.OpGreaterThan: plan.OpGt, hclsyntax.OpGreaterThanOrEqual: plan.OpGe,
}

func (l *lowering) binary(e *hclsyntax.BinaryOpExpr) (plan.Expr, valueType) {
	switch e.Op {
	case hclsyntax.OpLogicalAnd:
		return l.logical(plan.OpAll, e.LHS, e.RHS)
	case hclsyntax.OpLogicalOr:
		return l.logical(plan.OpAny, e.LHS, e.RHS)
	}
	op := comparisons[e.Op]
	if op == "" {
		return l.fail(e, "Not in a predicate", "A predicate does no arithmetic: it compares recorded facts. Compute the number in a `check`, or in `locals` if it is constant.")
	}
	a, ta := l.expr(e.LHS)
	b, tb := l.expr(e.RHS)
	if !l.ok {
		return plan.Expr{}, typeUnknown
	}
	switch {
	case op != plan.OpEq && op != plan.OpNe:
		for _, side := range []struct {
			e hclsyntax.Expression
			t valueType
		}{{e.LHS, ta}, {e.RHS, tb}} {
			if side.t != typeNumber && side.t != typeUnknown {
				return l.fail(side.e, "Types differ", "`<`, `<=`, `>` and `>=` compare numbers, and this is "+side.t.String()+".")
			}
		}
	case ta == typeNull || tb == typeNull:
	case ta != tb && ta != typeUnknown && tb != typeUnknown:
		return l.fail(e, "Types differ", "This compares "+ta.String()+" with "+tb.String()+", which can never be equal. Write both as one type: 5, not \"5\".")
	}
	return plan.Expr{Op: op, Args: []plan.Expr{a, b}}, typeBool
}

// fact lowers output.X.json.a.b, check.X.exit_code, iteration, worker.status,
// and the variable of an enclosing for.
func (l *lowering) fact(t hcl.Traversal, e hclsyntax.Expression) (plan.Expr, valueType) {
	steps, bad := traversalSteps(t)
	if bad != nil {
		return l.failAt(policy.At(*bad), "Not in a predicate", "A path into a document is made of names and literal indexes.")
	}
	root := steps[0]
	at := policy.At(t.SourceRange())
	switch {
	case l.item != "" && root == l.item:
		return plan.Expr{Op: plan.OpItem, Pointer: pointer(steps[1:])}, typeUnknown
	case root == "output":
		return l.outputFact(steps, at)
	case root == "check":
		return l.checkFact(steps, at)
	case root == "iteration" && len(steps) == 1:
		if !l.scope.iteration {
			return l.failAt(at, "Not in a loop", "`iteration` exists in a loop only.")
		}
		return factExpr(plan.Fact{Source: plan.FactIteration}), typeNumber
	case root == "worker" && len(steps) == 2 && steps[1] == "status":
		if !l.scope.worker {
			return l.failAt(at, "Unknown fact", "`worker.status` is the status of one worker, and here there are several.")
		}
		return factExpr(plan.Fact{Source: plan.FactWorker, Field: "status"}), typeString
	}
	if word, rest, dashed := strings.Cut(root, "-"); dashed {
		one := quote(root) + " is one name: names may hold dashes in HCL. "
		switch word {
		case "iteration", "var", "local":
			return l.failAt(at, "Unknown fact", fmt.Sprintf("%sTo subtract, write %s - %s with spaces; but a predicate does no arithmetic, so move the number to the other side.", one, word, rest))
		case "output", "check", "worker":
			return l.failAt(at, "Unknown fact", fmt.Sprintf("%sWrite %s.%s.", one, word, rest))
		}
	}
	if root == "worker" {
		return l.failAt(at, "Unknown fact", "Of a worker a predicate knows worker.status alone.")
	}
	words := []string{"output", "check", "iteration", "worker", "var", "local"}
	return l.failAt(at, "Unknown fact", "A predicate knows output.ARTIFACT, check.NAME, iteration and worker.status; "+quote(strings.Join(steps, "."))+" is none of them. "+hint(root, words))
}

func factExpr(f plan.Fact) plan.Expr { return plan.Expr{Op: plan.OpFact, Fact: &f} }

var outputFields = map[string]valueType{
	"exists": typeBool, "bytes": typeNumber, "lines": typeNumber, "json": typeUnknown, "yaml": typeUnknown,
}

func (l *lowering) outputFact(steps []string, at diag.Range) (plan.Expr, valueType) {
	if len(steps) < 3 {
		return l.failAt(at, "Unknown fact", "Write output.ARTIFACT and one of "+list(sortedKeys(outputFields))+".")
	}
	id, field, rest := steps[1], steps[2], steps[3:]
	kind, ok := l.scope.outputs[id]
	if !ok {
		return l.failAt(at, "Unknown artifact", "Nothing here writes `"+id+"`. "+hint(id, sortedKeys(l.scope.outputs)))
	}
	typ, ok := outputFields[field]
	switch {
	case !ok:
		return l.failAt(at, "Unknown fact", "An output has no "+quote(field)+". "+hint(field, sortedKeys(outputFields)))
	case len(rest) > 0 && typ != typeUnknown:
		return l.failAt(at, "Unknown fact", "`"+field+"` of an output is "+typ.String()+"; nothing is inside it.")
	case (field == plan.KindJSON || field == plan.KindYAML) && kind != field:
		return l.failAt(at, "Artifact has another form", "`"+id+"` is "+kind+", so it has no `"+field+"`.")
	}
	return factExpr(plan.Fact{Source: plan.FactOutput, Name: id, Field: field, Pointer: pointer(rest)}), typ
}

var checkFields = map[string]valueType{"exit_code": typeNumber, "stdout": typeString, "json": typeUnknown}

func (l *lowering) checkFact(steps []string, at diag.Range) (plan.Expr, valueType) {
	if len(steps) < 3 {
		return l.failAt(at, "Unknown fact", "Write check.NAME and one of "+list(sortedKeys(checkFields))+".")
	}
	name, field, rest := steps[1], steps[2], steps[3:]
	switch l.scope.checks[name] {
	case 0:
		return l.failAt(at, "Unknown check", "There is no check `"+name+"` here. "+hint(name, sortedKeys(l.scope.checks)))
	case 1:
	default:
		return l.failAt(at, "Ambiguous check", "Several phases of the loop have a check `"+name+"`; give them names that differ.")
	}
	typ, ok := checkFields[field]
	switch {
	case !ok:
		return l.failAt(at, "Unknown fact", "A check has no "+quote(field)+". "+hint(field, sortedKeys(checkFields)))
	case len(rest) > 0 && typ != typeUnknown:
		return l.failAt(at, "Unknown fact", "`"+field+"` of a check is "+typ.String()+"; nothing is inside it.")
	}
	return factExpr(plan.Fact{Source: plan.FactCheck, Name: name, Field: field, Pointer: pointer(rest)}), typ
}

// traversalSteps are the names and literal indexes of a path.
func traversalSteps(t hcl.Traversal) ([]string, *hcl.Range) {
	var steps []string
	for _, part := range t {
		switch part := part.(type) {
		case hcl.TraverseRoot:
			steps = append(steps, part.Name)
		case hcl.TraverseAttr:
			steps = append(steps, part.Name)
		case hcl.TraverseIndex:
			switch {
			case part.Key.Type() == cty.String:
				steps = append(steps, part.Key.AsString())
			case part.Key.Type() == cty.Number:
				text, err := decimal(part.Key)
				if err != nil || strings.ContainsAny(text, ".-") {
					return nil, &part.SrcRange
				}
				steps = append(steps, text)
			default:
				return nil, &part.SrcRange
			}
		default:
			r := part.SourceRange()
			return nil, &r
		}
	}
	return steps, nil
}

// pointer is the JSON pointer (RFC 6901) of a path.
func pointer(steps []string) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(s))
	}
	return b.String()
}

// call lowers the functions of the closed set.
func (l *lowering) call(e *hclsyntax.FunctionCallExpr) (plan.Expr, valueType) {
	arity := map[string]int{"length": 1, "exists": 1, "contains": 2, "matches": 2, "alltrue": 1, "anytrue": 1}
	want, ok := arity[e.Name]
	if !ok {
		return l.fail(e, "Unknown function", "A predicate has no function "+quote(e.Name)+". "+hint(e.Name, sortedKeys(arity)))
	}
	if len(e.Args) != want || e.ExpandFinal {
		return l.fail(e, "Wrong number of arguments", fmt.Sprintf("%s takes %d, and here are %d.", e.Name, want, len(e.Args)))
	}
	switch e.Name {
	case "length":
		return l.unary(e, plan.OpLength, typeNumber, typeString)
	case "exists":
		x, _ := l.expr(e.Args[0])
		if l.ok && x.Op != plan.OpFact && x.Op != plan.OpItem {
			return l.fail(e.Args[0], "Not a fact", "exists asks whether a place in a document is there; name one.")
		}
		return plan.Expr{Op: plan.OpExists, Args: []plan.Expr{x}}, typeBool
	case "contains":
		return l.contains(e)
	case "matches":
		return l.matches(e)
	}
	op := plan.OpEvery
	if e.Name == "anytrue" {
		op = plan.OpSome
	}
	return l.quantifier(e, op)
}

func (l *lowering) unary(e *hclsyntax.FunctionCallExpr, op string, result valueType, allowed valueType) (plan.Expr, valueType) {
	x, t := l.expr(e.Args[0])
	if l.ok && t != allowed && t != typeUnknown {
		return l.fail(e.Args[0], "Types differ", e.Name+" takes a string, an array or an object, and this is "+t.String()+".")
	}
	return plan.Expr{Op: op, Args: []plan.Expr{x}}, result
}

// contains lowers contains(["a", "b"], x) to comparisons, and everything else
// to the operator of that name.
func (l *lowering) contains(e *hclsyntax.FunctionCallExpr) (plan.Expr, valueType) {
	if tuple, ok := e.Args[0].(*hclsyntax.TupleConsExpr); ok {
		out := plan.Expr{Op: plan.OpAny}
		needle, tn := l.expr(e.Args[1])
		for _, x := range tuple.Exprs {
			v, tv := l.expr(x)
			if l.ok && tv != tn && tv != typeUnknown && tn != typeUnknown {
				return l.fail(x, "Types differ", "This list is searched for "+tn.String()+", and this element is "+tv.String()+".")
			}
			out.Args = append(out.Args, plan.Expr{Op: plan.OpEq, Args: []plan.Expr{needle, v}})
		}
		if len(out.Args) == 0 {
			return l.fail(tuple, "Empty list", "Nothing is in an empty list; the predicate would always be false.")
		}
		return out, typeBool
	}
	hay, th := l.expr(e.Args[0])
	needle, tn := l.expr(e.Args[1])
	if l.ok && (th != typeString && th != typeUnknown || th == typeString && tn != typeString && tn != typeUnknown) {
		return l.fail(e, "Types differ", "contains looks for a string in a string, or for a value in an array.")
	}
	return plan.Expr{Op: plan.OpContains, Args: []plan.Expr{hay, needle}}, typeBool
}

func (l *lowering) matches(e *hclsyntax.FunctionCallExpr) (plan.Expr, valueType) {
	x, t := l.expr(e.Args[0])
	p, tp := l.expr(e.Args[1])
	if !l.ok {
		return plan.Expr{}, typeUnknown
	}
	if t != typeString && t != typeUnknown || tp != typeString || p.Literal == nil {
		return l.fail(e, "Types differ", "matches takes a string and a literal pattern (RE2).")
	}
	if _, err := regexp.Compile(p.Literal.Value); err != nil {
		return l.fail(e.Args[1], "Pattern does not compile", sentence(err.Error()))
	}
	return plan.Expr{Op: plan.OpMatches, Args: []plan.Expr{x, p}}, typeBool
}

// quantifier lowers alltrue([for x in LIST : PREDICATE]).
func (l *lowering) quantifier(e *hclsyntax.FunctionCallExpr, op string) (plan.Expr, valueType) {
	f, ok := e.Args[0].(*hclsyntax.ForExpr)
	if !ok || f.KeyVar != "" || f.KeyExpr != nil || f.CondExpr != nil || f.Group {
		return l.fail(e, "Not in a predicate", e.Name+" takes one form: "+e.Name+"([for x in output.ARTIFACT.json.LIST : PREDICATE over x]).")
	}
	if l.item != "" {
		return l.fail(e, "Not in a predicate", "A `for` inside a `for` is not in the closed set of predicates; compute it in a `check`.")
	}
	list, t := l.expr(f.CollExpr)
	if l.ok && t != typeUnknown {
		return l.fail(f.CollExpr, "Types differ", e.Name+" walks an array of a document, and this is "+t.String()+".")
	}
	l.item = f.ValVar
	body, tb := l.expr(f.ValExpr)
	l.item = ""
	if l.ok && tb != typeBool && tb != typeUnknown {
		return l.fail(f.ValExpr, "Types differ", "The predicate over each element must be true or false, and it is "+tb.String()+".")
	}
	return plan.Expr{Op: op, Args: []plan.Expr{list, body}}, typeBool
}

// inputName reads `input.NAME` or "fail".
func (c *compiler) inputName(e policy.Expr) (name string, fail, ok bool) {
	if t, isT := e.Syntax.(*hclsyntax.ScopeTraversalExpr); isT {
		if steps, bad := traversalSteps(t.Traversal); bad == nil && len(steps) == 2 && steps[0] == "input" {
			return steps[1], false, true
		}
	}
	if v, ds := e.Scope.Eval(e.Syntax); !ds.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String && v.AsString() == plan.OtherwiseFail {
		return "", true, true
	}
	c.diags.Errorat(e.At, "Fallback is not understood", "`otherwise` is `input.NAME`, or \"fail\".")
	return "", false, false
}
