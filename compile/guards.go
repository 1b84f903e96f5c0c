package compile

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
	"foundry/policies"
	"foundry/predicates"
)

// guardSet is a set of guards with what identifies it.
type guardSet struct {
	name   string // "" for the policy's own
	digest string // of the set's file; "" for the policy's own, which have one each
	guards []*policy.Guard
	files  map[string][]byte
}

// GuardSets are the names of the built-in sets, sorted.
func GuardSets() []string {
	names, err := fs.Glob(policies.Files, "*.hcl")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(n, ".hcl")
	}
	return names
}

// builtinSet reads a built-in set.
func builtinSet(ctx context.Context, name string) (*guardSet, diag.List) {
	file := path.Join("policies", name+".hcl")
	pol, d := policy.Load(ctx, file, policy.Options{Open: func(string) (fs.FS, error) { return policies.Files, nil }})
	if d.HasErrors() {
		return nil, d
	}
	return &guardSet{name: name, digest: plan.Digest(pol.Files[file]), guards: pol.OwnGuards, files: pol.Files}, nil
}

// judgeGuards evaluates the policy's own guards and the sets that it names, and
// writes the verdicts into the plan.
func (c *compiler) judgeGuards() {
	if !c.pol.Guards.Set() && len(c.pol.OwnGuards) == 0 {
		return
	}
	if c.pol.Guards.Set() && len(c.pol.Guards.Items) == 0 {
		c.diags.Errorat(c.pol.Guards.At, "No set of guards", "`guards` is empty, so nothing would be checked. Name a set, or take it out. "+hint("", GuardSets()))
		return
	}
	value, sample := planValue(c.plan), sampleValue()
	seen := map[string]bool{}
	for _, item := range c.pol.Guards.Items {
		switch {
		case seen[item.Value]:
			continue
		case !slices.Contains(GuardSets(), item.Value):
			c.diags.Errorat(item.At, "Unknown set of guards", "There is no set `"+item.Value+"`. "+hint(item.Value, GuardSets()))
			continue
		}
		seen[item.Value] = true
		set, d := builtinSet(c.ctx, item.Value)
		if set == nil {
			c.diags = append(c.diags, d...)
			continue
		}
		c.judge(set, item.At, value, sample)
	}
	c.judge(&guardSet{guards: c.pol.OwnGuards, files: c.sources}, diag.Range{}, value, sample)
	if len(c.plan.Guards) == 0 && !c.diags.HasErrors() {
		c.diags.Errorat(c.policy, "No guard was evaluated", "The policy names guards, and none of them was evaluated. Please report this.")
	}
	slices.SortFunc(c.plan.Guards, func(a, b plan.Guard) int {
		return slices.Compare([]string{a.Set, a.Name}, []string{b.Set, b.Name})
	})
}

// judge evaluates one set; at is where the policy names it.
func (c *compiler) judge(set *guardSet, at diag.Range, value, sample cty.Value) {
	if set.name != "" && len(set.guards) == 0 {
		c.diags.Errorat(at, "Empty set of guards", "The set `"+set.name+"` holds no guard, so it would check nothing.")
	}
	for _, g := range set.guards {
		who, where := "`"+g.Name+"`", g.Assert.At
		if set.name != "" {
			who, where = "`"+g.Name+"` of the set `"+set.name+"`", at
		}
		v, d := g.Judge(value, sample)
		if d.HasErrors() {
			for _, one := range d {
				if set.name != "" {
					one.Detail, one.Subject = who+": "+one.Detail, at
				}
				c.diags = append(c.diags, one)
			}
			continue
		}
		out := plan.Guard{Set: set.name, Digest: set.digest, Name: g.Name, Result: plan.GuardPass}
		if set.name == "" {
			out.Digest = plan.Digest([]byte(g.Text(set.files)))
		}
		if !v.Holds {
			out.Result = c.broken(g, v, who, where)
		}
		c.plan.Guards = append(c.plan.Guards, out)
	}
}

// broken reports a guard that does not hold.
func (c *compiler) broken(g *policy.Guard, v policy.Verdict, who string, at diag.Range) string {
	detail := "The plan breaks the guard " + who
	if len(v.Offenders) > 0 {
		detail += ": " + strings.Join(v.Offenders, ", ")
	}
	detail = sentence(detail) + " " + sentence(g.Message.Value)
	if g.SeverityWord() == policy.SeverityWarning {
		c.diags.Warnat(at, "Guard broken", detail)
		return plan.GuardWarn
	}
	c.diags.Errorat(at, "Guard broken", detail)
	return plan.GuardFail
}

// onlyBroken reports whether every error is that of a guard that does not hold.
func (c *compiler) onlyBroken() bool {
	failed := 0
	for _, g := range c.plan.Guards {
		if g.Result == plan.GuardFail {
			failed++
		}
	}
	for _, d := range c.diags {
		if d.Severity == diag.Error {
			failed--
		}
	}
	return failed == 0
}

// RecheckGuards evaluates the built-in sets that a plan names again, and says
// what its verdicts have wrong: a plan file may have been edited. Sets of other
// bytes than this program's are not judged.
func RecheckGuards(ctx context.Context, p *plan.Plan) error {
	bySet := map[string][]plan.Guard{}
	for _, g := range p.Guards {
		if g.Result == plan.GuardFail {
			return fmt.Errorf("the plan breaks its guard %s", g.Name)
		}
		bySet[g.Set] = append(bySet[g.Set], g)
	}
	var value, sample cty.Value
	for _, name := range GuardSets() {
		said := bySet[name]
		if len(said) == 0 {
			continue
		}
		set, d := builtinSet(ctx, name)
		if set == nil {
			return fmt.Errorf("the set of guards %s: %s", name, d[0].Detail)
		}
		if set.digest != said[0].Digest {
			continue
		}
		if value == cty.NilVal {
			value, sample = planValue(p), sampleValue()
		}
		for _, g := range set.guards {
			i := slices.IndexFunc(said, func(s plan.Guard) bool { return s.Name == g.Name })
			if i < 0 {
				return fmt.Errorf("the plan names the set of guards %s and does not list its guard %s", name, g.Name)
			}
			v, d := g.Judge(value, sample)
			if d.HasErrors() {
				return fmt.Errorf("the guard %s of the set %s: %s", g.Name, name, d[0].Detail)
			}
			if !v.Holds && g.SeverityWord() == policy.SeverityError {
				return fmt.Errorf("the plan says %s of the guard %s of the set %s, and breaks it: %s", said[i].Result, g.Name, name, strings.Join(v.Offenders, ", "))
			}
		}
	}
	return nil
}

// planValue is a plan as guards see it: each key of the format is there, also
// where the file leaves it out; predicates are text; the verdicts are left out.
func planValue(p *plan.Plan) cty.Value { return withoutGuards(valueOf(reflect.ValueOf(*p), false)) }

// sampleValue has one element in every list, and nothing that is null.
func sampleValue() cty.Value { return withoutGuards(valueOf(reflect.ValueOf(plan.Plan{}), true)) }

func withoutGuards(v cty.Value) cty.Value {
	keys := v.AsValueMap()
	delete(keys, "guards")
	return cty.ObjectVal(keys)
}

var exprType = reflect.TypeFor[plan.Expr]()

func valueOf(v reflect.Value, sample bool) cty.Value {
	if v.Type() == exprType {
		if sample {
			return cty.StringVal("")
		}
		return cty.StringVal(predicates.Format(v.Interface().(plan.Expr)))
	}
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case sample:
			return valueOf(reflect.Zero(v.Type().Elem()), true)
		case v.IsNil():
			return cty.NullVal(cty.DynamicPseudoType)
		}
		return valueOf(v.Elem(), false)
	case reflect.Slice:
		if sample {
			return cty.TupleVal([]cty.Value{valueOf(reflect.Zero(v.Type().Elem()), true)})
		}
		out := make([]cty.Value, v.Len())
		for i := range out {
			out[i] = valueOf(v.Index(i), false)
		}
		return cty.TupleVal(out)
	case reflect.Struct:
		out := map[string]cty.Value{}
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out[key] = valueOf(v.Field(i), sample)
		}
		return cty.ObjectVal(out)
	case reflect.Bool:
		return cty.BoolVal(v.Bool())
	case reflect.Int, reflect.Int64:
		return cty.NumberIntVal(v.Int())
	default:
		return cty.StringVal(v.String())
	}
}
