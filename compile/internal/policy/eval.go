package policy

import (
	"fmt"
	"math/big"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
)

// marker is the type of cty marks on values.
type marker string

// pathMark is on strings that came from a path variable.
const pathMark = marker("path")

// eval evaluates hcl's syntax trees. It is strict where hcl is lenient: types
// are never converted but in templates, keys are never given twice, numbers
// are finite. Every failure is reported in d, and reported once.
type eval struct {
	*Scope
	env *binding
	d   *diag.List
}

// binding is a name that a for expression or a splat gives a value.
type binding struct {
	name   string
	anon   *hclsyntax.AnonSymbolExpr
	value  cty.Value
	parent *binding
}

func (e *eval) errorf(x hclsyntax.Expression, summary, format string, args ...any) {
	if len(*e.d) >= maxDiags {
		return // the decoder says so
	}
	e.d.Errorat(At(x.Range()), summary, fmt.Sprintf(format, args...))
}

// value evaluates x; ok is false when that failed, which is then reported.
func (e *eval) value(x hclsyntax.Expression) (v cty.Value, ok bool) {
	if !e.step(x) {
		return cty.NilVal, false
	}
	e.recursed++
	defer func() { e.recursed-- }()
	switch x := x.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.literal(x)
	case *hclsyntax.TemplateExpr:
		return e.template(x)
	case *hclsyntax.TemplateWrapExpr:
		if ref, ok := x.Wrapped.(*hclsyntax.ScopeTraversalExpr); ok {
			return e.reference(ref, true)
		}
		return e.value(x.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return e.value(x.Expression)
	case *hclsyntax.ScopeTraversalExpr:
		return e.reference(x, false)
	case *hclsyntax.RelativeTraversalExpr:
		if v, ok = e.value(x.Source); ok {
			v, ok = e.traverse(v, x.Traversal, x)
		}
		return v, ok
	case *hclsyntax.IndexExpr:
		coll, ok1 := e.value(x.Collection)
		key, ok2 := e.value(x.Key)
		if !ok1 || !ok2 {
			return cty.NilVal, false
		}
		return e.index(coll, key, x)
	case *hclsyntax.TupleConsExpr:
		return e.tuple(x)
	case *hclsyntax.ObjectConsExpr:
		return e.object(x)
	case *hclsyntax.ForExpr:
		return e.forEach(x)
	case *hclsyntax.SplatExpr:
		return e.splat(x)
	case *hclsyntax.AnonSymbolExpr:
		for b := e.env; b != nil; b = b.parent {
			if b.anon == x {
				return b.value, true
			}
		}
	case *hclsyntax.ConditionalExpr:
		return e.conditional(x)
	case *hclsyntax.BinaryOpExpr:
		return e.binary(x)
	case *hclsyntax.UnaryOpExpr:
		return e.unary(x)
	case *hclsyntax.FunctionCallExpr:
		return e.call(x)
	case *hclsyntax.TemplateJoinExpr, *hclsyntax.ExprSyntaxError:
		return cty.NilVal, false // reported by the scan and by the parser
	}
	e.errorf(x, "Unknown expression", "This form of expression is not part of the policy language.")
	return cty.NilVal, false
}

func (e *eval) literal(x *hclsyntax.LiteralValueExpr) (cty.Value, bool) {
	if x.Val.Type() == cty.Number && x.Val.IsKnown() && !x.Val.IsNull() {
		return e.number(x.Val.AsBigFloat(), x)
	}
	if !x.Val.IsKnown() {
		return cty.NilVal, false // hcl's placeholder for what it could not parse
	}
	return x.Val, true
}

// template joins the parts to one string.
func (e *eval) template(x *hclsyntax.TemplateExpr) (cty.Value, bool) {
	var b strings.Builder
	good, marked := true, false
	for _, part := range x.Parts {
		if l, ok := part.(*hclsyntax.LiteralValueExpr); ok && l.Val.Type() == cty.String && l.Val.IsKnown() {
			b.WriteString(l.Val.AsString())
			continue
		}
		var v cty.Value
		var ok bool
		if ref, isRef := part.(*hclsyntax.ScopeTraversalExpr); isRef {
			v, ok = e.reference(ref, true)
		} else {
			v, ok = e.value(part)
		}
		if !ok {
			good = false
			continue
		}
		s, ok := text(v)
		if !ok {
			e.errorf(part, "Not a text", "Only a string, a number or a bool can stand in a template; this is %s.", aKind(v))
			good = false
			continue
		}
		if v.HasMark(pathMark) {
			if b.Len() > 0 {
				e.errorf(part, "Path in the middle of a text", pathMiddle)
				good = false
			}
			marked = true
		}
		if !e.charge(part, 0, len(s)+b.Len()) {
			return cty.NilVal, false
		}
		b.WriteString(s)
	}
	if !good {
		return cty.NilVal, false
	}
	v := cty.StringVal(b.String())
	if marked {
		v = v.Mark(pathMark)
	}
	return v, true
}

// text is a string, number or bool as text.
func text(v cty.Value) (string, bool) {
	v, _ = v.Unmark()
	switch kind(v) {
	case "string":
		return v.AsString(), true
	case "number":
		return v.AsBigFloat().Text('f', -1), true
	case "bool":
		if v.True() {
			return "true", true
		}
		return "false", true
	}
	return "", false
}

// kind names the type of a value.
func kind(v cty.Value) string {
	switch t := v.Type(); {
	case v.IsNull():
		return "null"
	case t == cty.String:
		return "string"
	case t == cty.Number:
		return "number"
	case t == cty.Bool:
		return "bool"
	case t.IsTupleType():
		return "list"
	case t.IsObjectType():
		return "object"
	}
	return "unknown"
}

func aKind(v cty.Value) string {
	switch k := kind(v); k {
	case "null", "unknown":
		return k
	case "object":
		return "an " + k
	default:
		return "a " + k
	}
}

// reference looks a name up and follows its steps.
func (e *eval) reference(x *hclsyntax.ScopeTraversalExpr, inTemplate bool) (cty.Value, bool) {
	if !e.step(x) {
		return cty.NilVal, false
	}
	root := x.Traversal.RootName()
	for b := e.env; b != nil; b = b.parent {
		if b.anon == nil && b.name == root {
			return e.traverse(b.value, x.Traversal[1:], x)
		}
	}
	if root != "var" && root != "local" {
		hint := ""
		if inTemplate {
			hint = fmt.Sprintf(" If the text ${%s} is meant for a shell or for the worker, write $${%s}.", source1(x.Traversal), source1(x.Traversal))
		}
		e.errorf(x, "Unknown name", "There is no %q here: this expression is evaluated at compile time and knows var.NAME and local.NAME alone.%s", root, hint)
		return cty.NilVal, false
	}
	var name string
	if len(x.Traversal) > 1 {
		if a, ok := x.Traversal[1].(hcl.TraverseAttr); ok {
			name = a.Name
		}
	}
	if name == "" {
		e.errorf(x, "Unknown name", "%s has no value of its own: write %s.NAME.", root, root)
		return cty.NilVal, false
	}
	var v cty.Value
	var ok bool
	if root == "local" {
		v, ok = e.localValue(name, x)
	} else {
		decl, declared := e.vars[name]
		if !declared && !e.partial {
			e.errorf(x, "Unknown variable", "There is no variable %q.%s A variable is declared by: variable %q { type = string }.", name, didYouMean(name, e.vars), name)
		}
		v, ok = decl.value, decl.ok
	}
	if !ok {
		return cty.NilVal, false
	}
	return e.traverse(v, x.Traversal[2:], x)
}

// source1 is a traversal of plain names as it is written.
func source1(t hcl.Traversal) string {
	out := t.RootName()
	for _, s := range t[1:] {
		a, ok := s.(hcl.TraverseAttr)
		if !ok {
			return out + "…"
		}
		out += "." + a.Name
	}
	return out
}

func (e *eval) traverse(v cty.Value, steps hcl.Traversal, x hclsyntax.Expression) (cty.Value, bool) {
	ok := true
	for _, s := range steps {
		switch s := s.(type) {
		case hcl.TraverseAttr:
			v, ok = e.index(v, cty.StringVal(s.Name), x)
		case hcl.TraverseIndex:
			if !s.Key.IsKnown() {
				return cty.NilVal, false
			}
			v, ok = e.index(v, s.Key, x)
		default:
			e.errorf(x, "Unknown expression", "This form of reference is not part of the policy language.")
			ok = false
		}
		if !ok {
			return cty.NilVal, false
		}
	}
	return v, true
}

// index is coll[key].
func (e *eval) index(coll, key cty.Value, x hclsyntax.Expression) (cty.Value, bool) {
	key, _ = key.Unmark()
	switch c, k := kind(coll), kind(key); {
	case c == "object" && k == "string":
		name := key.AsString()
		if !coll.Type().HasAttribute(name) {
			e.errorf(x, unknownKey, "The object has no key %q.%s", name, didYouMean(name, coll.Type().AttributeTypes()))
			return cty.NilVal, false
		}
		return coll.GetAttr(name), true
	case c == "list" && k == "number":
		i, acc := key.AsBigFloat().Int64()
		if acc != big.Exact || i < 0 || i >= int64(coll.LengthInt()) {
			e.errorf(x, "Index out of range", "The list has %d elements, counted from 0; there is no element %s.", coll.LengthInt(), key.AsBigFloat().Text('f', -1))
			return cty.NilVal, false
		}
		return coll.Index(cty.NumberIntVal(i)), true
	default:
		e.errorf(x, "Not an element", "A list has elements by number and an object by name; this asks %s for an element by %s.", aKind(coll), aKind(key))
		return cty.NilVal, false
	}
}

func (e *eval) tuple(x *hclsyntax.TupleConsExpr) (cty.Value, bool) {
	if !e.charge(x, len(x.Exprs), 0) {
		return cty.NilVal, false
	}
	vals := make([]cty.Value, len(x.Exprs))
	good := true
	for i, el := range x.Exprs {
		v, ok := e.value(el)
		vals[i] = v
		good = good && ok
	}
	if !good {
		return cty.NilVal, false
	}
	return cty.TupleVal(vals), true
}

func (e *eval) object(x *hclsyntax.ObjectConsExpr) (cty.Value, bool) {
	if !e.charge(x, len(x.Items), 0) {
		return cty.NilVal, false
	}
	vals := make(map[string]cty.Value, len(x.Items))
	seen := make(map[string]hclsyntax.Expression, len(x.Items))
	good := true
	for _, item := range x.Items {
		name, ok := KeyName(item.KeyExpr)
		if !ok {
			e.errorf(item.KeyExpr, "Computed key", "The keys of an object are written out, so that a reader sees them: a name, or a plain string.")
			good = false
			continue
		}
		if first := seen[name]; first != nil {
			e.errorf(item.KeyExpr, "Key given twice", "The object has the key %q already, in line %d. Take one of the two out.", name, first.Range().Start.Line)
			good = false
			continue
		}
		seen[name] = item.KeyExpr
		v, ok := e.value(item.ValueExpr)
		good = good && ok
		vals[name] = v
	}
	if !good {
		return cty.NilVal, false
	}
	return cty.ObjectVal(vals), true
}

// KeyName returns the name of an object's key in its normal Unicode form
// (NFC); false for a computed one.
func KeyName(x hclsyntax.Expression) (string, bool) {
	k, ok := x.(*hclsyntax.ObjectConsKeyExpr)
	if !ok || k.ForceNonLiteral {
		return "", false
	}
	if name := hcl.ExprAsKeyword(k.Wrapped); name != "" {
		return cty.NormalizeString(name), true
	}
	name, ok := literal(k.Wrapped)
	return cty.NormalizeString(name), ok
}

// forEach is [for v in c : x if y] and {for k, v in c : k => v}.
func (e *eval) forEach(x *hclsyntax.ForExpr) (cty.Value, bool) {
	coll, ok := e.value(x.CollExpr)
	if !ok {
		return cty.NilVal, false
	}
	if k := kind(coll); k != "list" && k != "object" {
		e.errorf(x.CollExpr, "Nothing to go through", "A for expression goes through a list or an object; this is %s.", aKind(coll))
		return cty.NilVal, false
	}
	if x.Group {
		e.errorf(x, "Unknown expression", "Grouping with ... is not part of the policy language.")
		return cty.NilVal, false
	}
	var list []cty.Value
	object := map[string]cty.Value{}
	for it := coll.ElementIterator(); it.Next(); {
		key, el := it.Element()
		if !e.charge(x, 1, 0) {
			return cty.NilVal, false
		}
		inner := &eval{Scope: e.Scope, d: e.d, env: &binding{name: x.ValVar, value: el, parent: e.env}}
		if x.KeyVar != "" {
			inner.env = &binding{name: x.KeyVar, value: key, parent: inner.env}
		}
		keep, k, v, ok := inner.forOne(x)
		switch {
		case !ok:
			return cty.NilVal, false // one message says it for all elements
		case !keep:
			continue
		}
		e.kept++
		switch {
		case x.KeyExpr == nil:
			list = append(list, v)
		default:
			if _, twice := object[k]; twice {
				e.errorf(x.KeyExpr, "Key given twice", "Two elements give the key %q.", k)
				return cty.NilVal, false
			}
			object[k] = v
		}
	}
	if x.KeyExpr == nil {
		return cty.TupleVal(list), true
	}
	return cty.ObjectVal(object), true
}

// forOne evaluates the parts of a for expression for one element.
func (e *eval) forOne(x *hclsyntax.ForExpr) (keep bool, key string, v cty.Value, ok bool) {
	if x.CondExpr != nil {
		c, ok := e.value(x.CondExpr)
		if !ok {
			return false, "", cty.NilVal, false
		}
		if kind(c) != "bool" {
			e.errorf(x.CondExpr, "Not a bool", "The condition of a for expression is true or false; this is %s.", aKind(c))
			return false, "", cty.NilVal, false
		}
		if c.False() {
			return false, "", cty.NilVal, true
		}
	}
	if x.KeyExpr != nil {
		k, ok := e.value(x.KeyExpr)
		if !ok {
			return false, "", cty.NilVal, false
		}
		k, marks := k.Unmark()
		if kind(k) != "string" || len(marks) > 0 {
			e.errorf(x.KeyExpr, "Not a string", "The key of an object is a string that is no path; this is %s.", aKind(k))
			return false, "", cty.NilVal, false
		}
		key = cty.NormalizeString(k.AsString())
	}
	v, ok = e.value(x.ValExpr)
	return true, key, v, ok
}

// splat is c[*].x.
func (e *eval) splat(x *hclsyntax.SplatExpr) (cty.Value, bool) {
	coll, ok := e.value(x.Source)
	if !ok {
		return cty.NilVal, false
	}
	if kind(coll) != "list" {
		e.errorf(x.Source, "Nothing to go through", "[*] goes through a list; this is %s.", aKind(coll))
		return cty.NilVal, false
	}
	var list []cty.Value
	for it := coll.ElementIterator(); it.Next(); {
		_, el := it.Element()
		if !e.charge(x, 1, 0) {
			return cty.NilVal, false
		}
		inner := &eval{Scope: e.Scope, d: e.d, env: &binding{anon: x.Item, value: el, parent: e.env}}
		v, ok := inner.value(x.Each)
		if !ok {
			return cty.NilVal, false
		}
		list = append(list, v)
		e.kept++
	}
	return cty.TupleVal(list), true
}

// sortedKeys of a map.
func sortedKeys[T any](m map[string]T) []string {
	out := keys(m)
	sort.Strings(out)
	return out
}
