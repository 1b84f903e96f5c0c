package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
)

// Types of variables.
const (
	typeString = "string"
	typeNumber = "number"
	typeBool   = "bool"
	typePath   = "path"
	typeList   = "list(string)"
)

var variableTypes = []string{typeString, typeNumber, typeBool, typePath, typeList}

// variables reads the declarations of variables and locals and gives them
// their values.
type variables struct {
	*eval
	policy *Policy
	opts   Options
	words  *int
	decls  []*declaration // in the order of the files
	byName map[string]*declaration
}

type declaration struct {
	Variable
	dir     string // of the file that declares it
	deflt   hclsyntax.Expression
	given   bool // a value was given, perhaps a bad one
	invalid bool // the declaration is wrong; nothing more is said of it
	broken  bool // its file has syntax errors
}

func (v *variables) errorAt(at diag.Range, summary, format string, args ...any) {
	v.d.Errorat(at, summary, fmt.Sprintf(format, args...))
}

// declare collects the variable and locals blocks of all files.
func (v *variables) declare(sources []*source) {
	places := map[string]diag.Range{}
	for _, s := range sources {
		for _, b := range s.body.Blocks {
			switch b.Type {
			case localsSpec.name:
				v.declareLocals(b, places)
			case variableSpec.name:
				if len(b.Labels) == 1 && validVariable(b.Labels[0]) && v.byName[b.Labels[0]] == nil {
					v.declareVariable(s, b)
				}
			}
		}
	}
}

func (v *variables) declareLocals(b *hclsyntax.Block, places map[string]diag.Range) {
	for _, name := range sortedKeys(b.Body.Attributes) {
		a := b.Body.Attributes[name]
		at := At(a.NameRange)
		if first, twice := places[name]; twice {
			v.errorAt(at, "Written twice", "The local %q stands in %s, line %d, already. Take one of the two out.", name, first.File, first.Start.Line)
			continue
		}
		places[name] = at
		v.locals[name] = &local{expr: a.Expr}
	}
	for _, inner := range b.Body.Blocks {
		v.errorAt(At(inner.TypeRange), "Unknown word", "A locals block has no blocks, only NAME = expression.")
	}
}

func (v *variables) declareVariable(s *source, b *hclsyntax.Block) {
	d := &declaration{dir: s.dir, broken: len(s.broken) > 0}
	d.Name, d.At = b.Labels[0], At(b.DefRange())
	v.decls = append(v.decls, d)
	v.byName[d.Name] = d
	if a := b.Body.Attributes["type"]; a != nil {
		if d.Type = typeName(a.Expr); d.Type == "" {
			d.invalid = true
			v.errorAt(At(a.Expr.Range()), "Unknown type", "The type of a variable is %s, without quotes.%s", diag.OneOf(variableTypes), diag.DidYouMean(looksLike(a.Expr), variableTypes))
		}
	} else {
		d.invalid = true
		v.errorAt(d.At, "Missing attribute", "A variable block needs \"type\": %s.", diag.OneOf(variableTypes))
	}
	if a := b.Body.Attributes["default"]; a != nil {
		d.deflt = a.Expr
	}
	if a := b.Body.Attributes["description"]; a != nil {
		if _, ok := literal(a.Expr); !ok {
			v.errorAt(At(a.Expr.Range()), "Wrong type", "The description of a variable is a plain string.")
		}
	}
	dec := &decoder{ev: v.eval, diags: v.d}
	if len(b.Body.Attributes) > 0 {
		dec.unknownAttrs(variableSpec, b.Body)
	}
	for _, inner := range b.Body.Blocks {
		dec.unknownBlock(variableSpec, inner)
	}
}

// typeName reads a type; "" is none.
func typeName(x hclsyntax.Expression) string {
	switch kw := hcl.ExprAsKeyword(x); kw {
	case typeString, typeNumber, typeBool, typePath:
		return kw
	}
	if c, ok := x.(*hclsyntax.FunctionCallExpr); ok && c.Name == "list" && len(c.Args) == 1 && hcl.ExprAsKeyword(c.Args[0]) == typeString {
		return typeList
	}
	return ""
}

func looksLike(x hclsyntax.Expression) string {
	if s, ok := literal(x); ok {
		return s
	}
	return hcl.ExprAsKeyword(x)
}

// assign gives the values of --var and of variable files. What is given first
// counts, so it goes from the strongest to the weakest.
func (v *variables) assign() {
	names := keys(v.byName)
	last := map[string]int{}
	for i, a := range v.opts.Vars {
		last[a.Name] = i
	}
	for i, a := range v.opts.Vars {
		d := v.byName[a.Name]
		switch {
		case d == nil && v.partial: // perhaps declared in what could not be read
		case d == nil:
			v.errorAt(diag.Range{}, "Undeclared variable", "--var %s: the policy declares no such variable.%s", quoteIfOdd(a.Name), diag.DidYouMean(a.Name, names))
		case last[a.Name] == i:
			v.fromText(d, a.Value)
		}
	}
	for i := len(v.opts.VarFiles) - 1; i >= 0; i-- {
		v.file(v.opts.VarFiles[i], names)
	}
}

func quoteIfOdd(s string) string {
	if validVariable(s) {
		return s
	}
	return fmt.Sprintf("%q", s)
}

// fromText converts the value of a --var.
func (v *variables) fromText(d *declaration, s string) {
	d.given = true
	if d.invalid {
		return
	}
	bad := func(problem string) {
		v.errorAt(d.At, "Invalid variable value", "--var %s: the variable is a %s, and %q is none: %s.", d.Name, d.Type, s, problem)
	}
	var val cty.Value
	switch d.Type {
	case typeString:
		if b := badText(s, true); b != "" {
			bad("it holds " + b)
			return
		}
		val = cty.StringVal(s)
	case typePath:
		if b := badText(s, false); b != "" || s == "" {
			bad("it is empty or holds a control character")
			return
		}
		val = cty.StringVal(path.Clean(s)).Mark(pathMark)
	case typeBool:
		if s != "true" && s != "false" {
			bad("it is neither true nor false")
			return
		}
		val = cty.BoolVal(s == "true")
	case typeNumber:
		n, problem := parseNumber(s)
		if problem != "" {
			bad(problem)
			return
		}
		val = n
	case typeList:
		list, problem := v.listText(s)
		if problem != "" {
			bad(problem)
			return
		}
		val = list
	}
	v.vars[d.Name] = variable{val, true}
}

// listText reads ["a", "b"].
func (v *variables) listText(s string) (cty.Value, string) {
	const form = `a list is written as ["a", "b"]`
	var d diag.List
	if !prescan("--var", []byte(s), v.words, &d) || len(d) > 0 {
		return cty.NilVal, form
	}
	x, hd := hclsyntax.ParseExpression([]byte(s), "--var", hcl.InitialPos)
	t, ok := x.(*hclsyntax.TupleConsExpr)
	if hd.HasErrors() || !ok {
		return cty.NilVal, form
	}
	out := make([]cty.Value, len(t.Exprs))
	for i, el := range t.Exprs {
		lit, ok := literal(el)
		if !ok {
			return cty.NilVal, form + ", of plain strings"
		}
		out[i] = cty.StringVal(lit)
	}
	return cty.TupleVal(out), ""
}

// file reads one variable file.
func (v *variables) file(name string, names []string) {
	full := path.Clean(name)
	at := diag.Range{File: full}
	fsys, err := v.opts.Open(path.Dir(full))
	var src []byte
	if err == nil {
		src, err = readBounded(fsys, path.Base(full))
	}
	if err != nil {
		v.errorAt(at, "Variable file cannot be read", "--var-file %s: %s.", full, reason(err))
		return
	}
	src = normalise(src)
	if isJSON(full) {
		v.errorAt(at, "JSON is no variable file", "A variable file has lines NAME = literal in HCL's native syntax.")
		return
	}
	v.policy.Files[full] = src
	body, ok := parse(full, src, v.words, v.d)
	if !ok {
		return
	}
	for _, b := range body.Blocks {
		v.errorAt(At(b.TypeRange), "Block in a variable file", "A variable file has lines NAME = literal, and no blocks.")
	}
	for _, n := range sortedKeys(body.Attributes) {
		a := body.Attributes[n]
		d := v.byName[n]
		if d == nil && v.partial {
			continue
		}
		if d == nil {
			v.errorAt(At(a.NameRange), "Undeclared variable", "The policy declares no variable %q.%s", n, diag.DidYouMean(n, names))
			continue
		}
		if !d.given {
			d.given = true
			v.fromExpr(d, a.Expr, path.Dir(full))
		}
	}
}

// fromExpr takes the value of a default or of a variable file, which may use
// neither variables nor locals.
func (v *variables) fromExpr(d *declaration, x hclsyntax.Expression, dir string) {
	if d.invalid {
		return
	}
	at := At(x.Range())
	if vars := hclsyntax.Variables(x); len(vars) > 0 {
		v.errorAt(At(vars[0].SourceRange()), "Variable in a variable's value", "The value of a variable is written out: it is known before variables and locals are. To keep ${ as it is, write $${.")
		return
	}
	val, ok := v.value(x)
	if !ok {
		return
	}
	want := map[string]string{typeList: "list", typePath: "string"}[d.Type]
	if want == "" {
		want = d.Type
	}
	if k := kind(val); k != want {
		v.errorAt(at, "Wrong type", "The variable %q is a %s; this is %s.%s", d.Name, d.Type, aKind(val), nullHint(val))
		return
	}
	switch d.Type {
	case typeString, typePath:
		if b := badText(val.AsString(), d.Type == typeString); b != "" {
			v.errorAt(at, "Invalid text", "The value of %q holds %s.", d.Name, b)
			return
		}
	case typeList:
		for it := val.ElementIterator(); it.Next(); {
			if _, el := it.Element(); kind(el) != "string" {
				v.errorAt(at, "Wrong type", "The variable %q is a %s; one of its elements is %s.", d.Name, d.Type, aKind(el))
				return
			}
		}
	}
	if d.Type == typePath {
		s := val.AsString()
		if strings.TrimSpace(s) == "" {
			v.errorAt(at, "Invalid value", "The path %q is empty.", d.Name)
			return
		}
		if path.IsAbs(s) {
			s = path.Clean(s)
		} else {
			s = path.Join(dir, s)
		}
		val = cty.StringVal(s).Mark(pathMark)
	}
	v.vars[d.Name] = variable{val, true}
}

// settle takes defaults and names what is unset.
func (v *variables) settle() {
	for _, d := range v.decls {
		v.policy.Variables = append(v.policy.Variables, d.Variable)
		switch {
		case d.given || d.invalid:
		case d.deflt != nil:
			v.fromExpr(d, d.deflt, d.dir)
		case !d.broken:
			v.errorAt(d.At, "Variable without a value", "The variable %q has no value. Give it with --var %s=VALUE, with a line %s = … in a file for --var-file, or with a default here.", d.Name, d.Name, d.Name)
		}
		if _, ok := v.vars[d.Name]; !ok {
			v.vars[d.Name] = variable{} // declared: uses of it say nothing more
		}
	}
}

// evaluateLocals finds what is wrong with locals that nothing uses.
func (v *variables) evaluateLocals() {
	for _, name := range sortedKeys(v.locals) {
		l := v.locals[name]
		if len(*v.d) >= maxDiags {
			return
		}
		if l.state == localNew && !v.spent {
			v.localValue(name, l.expr)
		}
	}
}
