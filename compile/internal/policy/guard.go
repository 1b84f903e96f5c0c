package policy

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"foundry/compile/internal/diag"
)

// PlanName is what the compiled plan is called in a guard.
const PlanName = "plan"

// Verdict is what a guard says of a plan.
type Verdict struct {
	Holds bool
	// Offenders are the ids of the elements that break a rule for all of them, in
	// the plan's order; none where the rule has another form.
	Offenders []string
}

// maxOffenders bounds Verdict.Offenders.
const maxOffenders = 20

// Judge evaluates a guard over a plan as a value; sample has one element in
// every list, nothing null, and the same keys. A guard that fails to be true or
// false, that asks for something that no plan has, or that looks at no element
// of anything is an error: it would hold whatever the plan says.
func (g *Guard) Judge(p, sample cty.Value) (Verdict, diag.List) {
	s := g.Assert.Scope
	saved := s.account
	defer func() { s.account = saved }()
	x := g.Assert.Syntax
	if d := s.unknownNames(x, sample); d.HasErrors() {
		return Verdict{}, d
	}
	s.account = account{}
	var d diag.List
	e := &eval{Scope: s, d: &d, env: &binding{name: PlanName, value: p}}
	v, ok := e.value(x)
	kept := s.kept
	switch {
	case d.HasErrors():
	case !ok:
		e.errorf(x, "Guard not understood", "The rule could not be evaluated, and nothing said why. Please report this.")
	case kind(v) != "bool":
		e.errorf(x, "Not a bool", "A guard is true or false; this is %s.", aKind(v))
	case !mentions(x, PlanName):
		e.errorf(x, "Guard without the plan", "The rule says nothing of `plan`, so it would be the same whatever the plan says.")
	case loops(x) && kept == 0:
		e.errorf(x, "Guard looks at nothing", "No element of the plan comes through the rule's for expressions: it would hold whatever the others say. A name in it may be misspelled, or the plan has none of what it is about: then take the guard out.")
	}
	if d.HasErrors() {
		return Verdict{}, d
	}
	out := Verdict{Holds: v.True()}
	if !out.Holds {
		out.Offenders = e.offenders(x)
	}
	return out, nil
}

// unknownNames finds keys that no plan has, also where && or a condition would
// keep them from being asked for today.
func (s *Scope) unknownNames(x hclsyntax.Expression, sample cty.Value) diag.List {
	var d, found diag.List
	s.account = account{thorough: true}
	(&eval{Scope: s, d: &d, env: &binding{name: PlanName, value: sample}}).value(x)
	for _, one := range d {
		if one.Summary == unknownKey || alwaysWrong[one.Summary] || s.spent {
			found = append(found, one)
		}
	}
	return found
}

// offenders are the elements for which alltrue([for …]) is false.
func (e *eval) offenders(x hclsyntax.Expression) []string {
	switch x := x.(type) {
	case *hclsyntax.ParenthesesExpr:
		return e.offenders(x.Expression)
	case *hclsyntax.BinaryOpExpr:
		if x.Op == hclsyntax.OpLogicalAnd {
			return append(e.offenders(x.LHS), e.offenders(x.RHS)...)
		}
	case *hclsyntax.FunctionCallExpr:
		if x.Name == "alltrue" && len(x.Args) == 1 {
			if each, ok := x.Args[0].(*hclsyntax.ForExpr); ok && each.KeyExpr == nil {
				return e.failing(each)
			}
		}
	}
	return nil
}

func (e *eval) failing(x *hclsyntax.ForExpr) []string {
	var dropped diag.List
	quiet := &eval{Scope: e.Scope, d: &dropped, env: e.env}
	coll, ok := quiet.value(x.CollExpr)
	if !ok {
		return nil
	}
	var out []string
	for it := coll.ElementIterator(); it.Next() && len(out) <= maxOffenders; {
		key, el := it.Element()
		inner := &eval{Scope: e.Scope, d: &dropped, env: &binding{name: x.ValVar, value: el, parent: e.env}}
		if x.KeyVar != "" {
			inner.env = &binding{name: x.KeyVar, value: key, parent: inner.env}
		}
		if keep, _, v, ok := inner.forOne(x); ok && keep && kind(v) == "bool" && v.False() {
			out = append(out, called(el))
		}
	}
	if len(out) > maxOffenders {
		out = append(out[:maxOffenders], "…")
	}
	return out
}

// called is what an element of a plan is called.
func called(el cty.Value) string {
	if kind(el) == "string" {
		return el.AsString()
	}
	for _, key := range []string{"id", "name", "tool", "skill"} {
		if kind(el) == "object" && el.Type().HasAttribute(key) && kind(el.GetAttr(key)) == "string" {
			return el.GetAttr(key).AsString()
		}
	}
	return "one without a name"
}

// mentions reports whether an expression says a name at its root.
func mentions(x hclsyntax.Expression, name string) bool {
	for _, t := range x.Variables() {
		if t.RootName() == name {
			return true
		}
	}
	return false
}

// loops reports whether an expression goes through elements.
func loops(x hclsyntax.Expression) bool {
	found := false
	hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n.(type) {
		case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
			found = true
		}
		return nil
	})
	return found
}

// Text is the whole of the guard: its name, its rule without comments and
// layout, the values of what the rule takes from elsewhere, its message and its
// severity. A digest of it is the guard's identity.
func (g *Guard) Text(files map[string][]byte) string {
	x := g.Assert.Syntax
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", g.Name, g.SeverityWord(), g.Message.Value)
	at := x.Range()
	tokens, _ := hclsyntax.LexExpression(at.SliceBytes(files[at.Filename]), at.Filename, at.Start) // it was parsed before
	for _, t := range tokens {
		if t.Type != hclsyntax.TokenComment && t.Type != hclsyntax.TokenNewline && t.Type != hclsyntax.TokenEOF {
			b.Write(t.Bytes)
			b.WriteByte(' ')
		}
	}
	var dropped diag.List
	e := &eval{Scope: g.Assert.Scope, d: &dropped}
	for _, t := range x.Variables() {
		if root := t.RootName(); root != "var" && root != "local" {
			continue
		}
		v, ok := e.reference(&hclsyntax.ScopeTraversalExpr{Traversal: t, SrcRange: at}, false)
		if !ok {
			continue
		}
		v, _ = v.UnmarkDeep()
		if data, err := (ctyjson.SimpleJSONValue{Value: v}).MarshalJSON(); err == nil {
			fmt.Fprintf(&b, "\n%s", data)
		}
	}
	return b.String()
}

// SeverityWord is the severity, SeverityError where none is written.
func (g *Guard) SeverityWord() string {
	if g.Severity.Value == "" {
		return SeverityError
	}
	return g.Severity.Value
}
