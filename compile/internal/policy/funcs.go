package policy

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// function is one of the closed set. Its arguments are evaluated and not
// marked; it returns a message when they do not fit.
type function struct {
	params string // kinds, one letter each, see paramKinds; the last repeats with "+" behind it
	call   func(c *call) (cty.Value, string)
}

// paramKinds are the letters of function.params; "v" is any value.
var paramKinds = map[byte]string{'s': "string", 'n': "number", 'l': "list", 'o': "object"}

// call is one call under evaluation.
type call struct {
	*eval
	x    hclsyntax.Expression
	args []cty.Value
}

func (c *call) str(i int) string { return c.args[i].AsString() }

// Functions are the names of the functions that expressions may call.
func Functions() []string { return sortedKeys(functions) }

var functions = map[string]function{
	"length":     {"v", length},
	"concat":     {"l+", concat},
	"merge":      {"o+", merge},
	"keys":       {"o", objectKeys},
	"values":     {"o", objectValues},
	"contains":   {"vv", contains},
	"lower":      {"s", func(c *call) (cty.Value, string) { return c.made(strings.ToLower(c.str(0))) }},
	"upper":      {"s", func(c *call) (cty.Value, string) { return c.made(strings.ToUpper(c.str(0))) }},
	"join":       {"sl", join},
	"split":      {"ss", split},
	"format":     {"sv+", format},
	"replace":    {"sss", replace},
	"trimprefix": {"ss", func(c *call) (cty.Value, string) { return c.made(strings.TrimPrefix(c.str(0), c.str(1))) }},
	"trimsuffix": {"ss", func(c *call) (cty.Value, string) { return c.made(strings.TrimSuffix(c.str(0), c.str(1))) }},
	"alltrue":    {"l", func(c *call) (cty.Value, string) { return truth(c, true) }},
	"anytrue":    {"l", func(c *call) (cty.Value, string) { return truth(c, false) }},
	"tostring":   {"v", tostring},
	"tonumber":   {"v", tonumber},
}

// made returns a new string, charged.
func (c *call) made(s string) (cty.Value, string) {
	if !c.charge(c.x, 0, len(s)) {
		return cty.NilVal, ""
	}
	return cty.StringVal(s), ""
}

// call evaluates a function call.
func (e *eval) call(x *hclsyntax.FunctionCallExpr) (cty.Value, bool) {
	f, known := functions[x.Name]
	if x.Name == todoWord {
		e.openExpression(x)
		return cty.NilVal, false
	}
	if !known {
		e.errorf(x, "Unknown function", "There is no function %q.%s There are: %s.", x.Name, didYouMean(x.Name, functions), strings.Join(Functions(), ", "))
		return cty.NilVal, false
	}
	if x.ExpandFinal {
		e.errorf(x, "Unknown expression", "A list cannot be spread over arguments with ... in the policy language.")
		return cty.NilVal, false
	}
	c := &call{eval: e, x: x, args: make([]cty.Value, len(x.Args))}
	good, path := true, ""
	for i, a := range x.Args {
		v, ok := e.value(a)
		if !ok {
			good = false
			continue
		}
		if v.HasMark(pathMark) {
			v, _ = v.Unmark()
			if path == "" {
				path = v.AsString()
			}
		}
		c.args[i] = v
	}
	if !good || !e.fits(x, f.params, c.args) {
		return cty.NilVal, false
	}
	v, problem := f.call(c)
	switch {
	case e.spent || v == cty.NilVal && problem == "":
		return cty.NilVal, false
	case problem != "":
		e.errorf(x, "Function cannot do this", "%s: %s", x.Name, problem)
		return cty.NilVal, false
	}
	if k := kind(v); path != "" && k != "bool" && k != "number" {
		if k != "string" || !strings.HasPrefix(v.AsString(), path) {
			e.errorf(x, "Path in the middle of a text", pathMiddle+" %s changes that.", x.Name)
			return cty.NilVal, false
		}
		v = v.Mark(pathMark)
	}
	return v, true
}

// fits checks number and kinds of the arguments.
func (e *eval) fits(x *hclsyntax.FunctionCallExpr, params string, args []cty.Value) bool {
	fixed, more := strings.CutSuffix(params, "+")
	atLeast := len(fixed)
	if more {
		atLeast--
	}
	if len(args) < atLeast || !more && len(args) > len(fixed) {
		want := fmt.Sprint(len(fixed))
		if more {
			want = fmt.Sprintf("at least %d", atLeast)
		}
		e.errorf(x, "Wrong number of arguments", "%s takes %s; here are %d.", x.Name, want, len(args))
		return false
	}
	for i, a := range args {
		want := paramKinds[fixed[min(i, len(fixed)-1)]]
		if want != "" && kind(a) != want {
			e.errorf(x.Args[i], "Wrong type", "Argument %d of %s is a %s; here is %s.", i+1, x.Name, want, aKind(a))
			return false
		}
	}
	return true
}

func length(c *call) (cty.Value, string) {
	switch v := c.args[0]; kind(v) {
	case "list", "object":
		return cty.NumberIntVal(int64(v.LengthInt())), ""
	case "string":
		c.charge(c.x, 0, len(v.AsString())) // counted through
		return cty.NumberIntVal(int64(len([]rune(v.AsString())))), ""
	default:
		return cty.NilVal, "a list, an object or a string has a length; this is " + aKind(v) + "."
	}
}

func concat(c *call) (cty.Value, string) {
	n := 0
	for _, a := range c.args {
		n += a.LengthInt()
	}
	if !c.charge(c.x, n, 0) {
		return cty.NilVal, ""
	}
	out := make([]cty.Value, 0, n)
	for _, a := range c.args {
		for it := a.ElementIterator(); it.Next(); {
			_, v := it.Element()
			out = append(out, v)
		}
	}
	return cty.TupleVal(out), ""
}

// merge refuses a key that two objects have: a later one would win silently.
func merge(c *call) (cty.Value, string) {
	out := map[string]cty.Value{}
	for _, a := range c.args {
		if !c.charge(c.x, a.LengthInt(), 0) {
			return cty.NilVal, ""
		}
		for it := a.ElementIterator(); it.Next(); {
			k, v := it.Element()
			if _, twice := out[k.AsString()]; twice {
				return cty.NilVal, fmt.Sprintf("two of the objects have the key %q; say which one is meant.", k.AsString())
			}
			out[k.AsString()] = v
		}
	}
	return cty.ObjectVal(out), ""
}

func objectKeys(c *call) (cty.Value, string) {
	v := c.args[0]
	if !c.charge(c.x, v.LengthInt(), 0) {
		return cty.NilVal, ""
	}
	out := []cty.Value{}
	for it := v.ElementIterator(); it.Next(); {
		k, _ := it.Element()
		out = append(out, k)
	}
	return cty.TupleVal(out), ""
}

func objectValues(c *call) (cty.Value, string) {
	v := c.args[0]
	if !c.charge(c.x, v.LengthInt(), 0) {
		return cty.NilVal, ""
	}
	out := []cty.Value{}
	for it := v.ElementIterator(); it.Next(); {
		_, el := it.Element()
		out = append(out, el)
	}
	return cty.TupleVal(out), ""
}

func contains(c *call) (cty.Value, string) {
	in, what := c.args[0], c.args[1]
	switch kind(in) {
	case "string":
		if kind(what) != "string" {
			return cty.NilVal, "a string contains strings; this asks for " + aKind(what) + "."
		}
		c.charge(c.x, 0, len(in.AsString()))
		return cty.BoolVal(strings.Contains(in.AsString(), what.AsString())), ""
	case "list":
		for it := in.ElementIterator(); it.Next(); {
			_, v := it.Element()
			if !c.charge(c.x, 1, 0) {
				return cty.NilVal, ""
			}
			same, ok := c.equal(c.x, v, what)
			if !ok {
				return cty.NilVal, "" // said already
			}
			if same {
				return cty.True, ""
			}
		}
		return cty.False, ""
	}
	return cty.NilVal, "a list or a string contains something; this is " + aKind(in) + "."
}

func join(c *call) (cty.Value, string) {
	sep, list := c.str(0), c.args[1]
	if !c.charge(c.x, list.LengthInt(), 0) {
		return cty.NilVal, ""
	}
	var b strings.Builder
	i := 0
	for it := list.ElementIterator(); it.Next(); {
		_, v := it.Element()
		s, ok := text(v)
		if !ok {
			return cty.NilVal, "the list holds " + aKind(v) + "; only strings, numbers and bools can be joined."
		}
		if v.HasMark(pathMark) {
			return cty.NilVal, "the list holds a path; write the path as one template."
		}
		if i > 0 {
			b.WriteString(sep)
		}
		i++
		if !c.charge(c.x, 0, len(s)+len(sep)) {
			return cty.NilVal, ""
		}
		b.WriteString(s)
	}
	return cty.StringVal(b.String()), ""
}

func split(c *call) (cty.Value, string) {
	sep, s := c.str(0), c.str(1)
	if sep == "" {
		return cty.NilVal, "the separator is empty."
	}
	if !c.charge(c.x, strings.Count(s, sep)+1, len(s)) {
		return cty.NilVal, ""
	}
	out := []cty.Value{}
	for _, p := range strings.Split(s, sep) {
		out = append(out, cty.StringVal(p))
	}
	return cty.TupleVal(out), ""
}

// format knows %s, %d and %%; no widths, which would make text without end.
func format(c *call) (cty.Value, string) {
	f, args := c.str(0), c.args[1:]
	var b strings.Builder
	for {
		i := strings.IndexByte(f, '%')
		if i < 0 || i+1 == len(f) {
			break
		}
		b.WriteString(f[:i])
		verb := f[i+1]
		f = f[i+2:]
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		if verb != 's' && verb != 'd' {
			return cty.NilVal, fmt.Sprintf("the format has %%%c; there are %%s, %%d and %%%%.", verb)
		}
		if len(args) == 0 {
			return cty.NilVal, "the format asks for more values than there are."
		}
		s, ok := text(args[0])
		if !ok || verb == 'd' && (kind(args[0]) != "number" || !args[0].AsBigFloat().IsInt()) {
			what := aKind(args[0])
			if ok && what == "a number" {
				what = "a fraction"
			}
			return cty.NilVal, fmt.Sprintf("%%%c cannot show %s.", verb, what)
		}
		args = args[1:]
		if !c.charge(c.x, 0, len(s)) {
			return cty.NilVal, ""
		}
		b.WriteString(s)
	}
	switch {
	case f != "" && strings.HasSuffix(f, "%"):
		return cty.NilVal, "the format ends with a single %."
	case len(args) > 0:
		return cty.NilVal, "the format asks for fewer values than there are."
	}
	return c.made(b.String() + f)
}

func replace(c *call) (cty.Value, string) {
	s, old, with := c.str(0), c.str(1), c.str(2)
	if old == "" {
		return cty.NilVal, "the text to replace is empty."
	}
	// Both factors are below 64 MiB, so the product fits an int.
	if !c.charge(c.x, 0, len(s)+strings.Count(s, old)*len(with)) {
		return cty.NilVal, ""
	}
	return cty.StringVal(strings.ReplaceAll(s, old, with)), ""
}

func truth(c *call, all bool) (cty.Value, string) {
	out := all
	for it := c.args[0].ElementIterator(); it.Next(); {
		_, v := it.Element()
		if !c.charge(c.x, 1, 0) {
			return cty.NilVal, ""
		}
		if kind(v) != "bool" {
			return cty.NilVal, "the list holds " + aKind(v) + "; it takes bools."
		}
		if v.True() != all {
			out = !all
		}
	}
	return cty.BoolVal(out), ""
}

func tostring(c *call) (cty.Value, string) {
	s, ok := text(c.args[0])
	if !ok {
		return cty.NilVal, "this is " + aKind(c.args[0]) + "."
	}
	return c.made(s)
}

var decimalForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$`)

func tonumber(c *call) (cty.Value, string) {
	v := c.args[0]
	switch kind(v) {
	case "number":
		return v, ""
	case "string":
		if n, problem := parseNumber(v.AsString()); problem == "" {
			return n, ""
		}
	}
	return cty.NilVal, "this is no number in decimal form."
}

// parseNumber reads a decimal number exactly enough to give integers back
// unchanged: 100 digits at 512 bits.
func parseNumber(s string) (cty.Value, string) {
	if len(s) > maxDigits || !decimalForm.MatchString(s) {
		return cty.NilVal, "it is no decimal number of at most 100 characters"
	}
	v, err := cty.ParseNumberVal(s)
	if err != nil {
		return cty.NilVal, "it is no decimal number"
	}
	if !inRange(v.AsBigFloat()) {
		return cty.NilVal, "it is not within 1e-30 and 1e30"
	}
	return v, ""
}
