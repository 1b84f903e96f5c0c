package policy

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
	"foundry/plan"
)

// value is how the value of an attribute is read into a field, and what
// the documentation calls it.
type value[F any] struct {
	kind string
	read func(d *decoder, a *hclsyntax.Attribute) F
}

// attr makes an attribute of the table: where it goes and how it is read.
func attr[T, F any](name string, get func(*T) *F, v value[F], doc string) attrSpec {
	return attrSpec{name: name, kind: v.kind, doc: doc,
		set: func(d *decoder, target any, a *hclsyntax.Attribute) { *get(target.(*T)) = v.read(d, a) }}
}

// need makes an attribute required.
func need(a attrSpec) attrSpec { a.required = true; return a }

// rule says what is wrong with a text, or "".
type rule func(string) string

func (d *decoder) value(x hclsyntax.Expression) (cty.Value, bool) {
	v, ok := d.ev.value(x)
	if !ok {
		d.failed = true
	}
	return v, ok
}

// str reads a string; marked tells that it came from a path variable.
func (d *decoder) str(x hclsyntax.Expression, name string) (s string, marked, ok bool) {
	if s, ok := literal(x); ok {
		return s, false, true
	}
	v, ok := d.value(x)
	if !ok {
		return "", false, false
	}
	return d.asString(v, x, name)
}

func (d *decoder) asString(v cty.Value, x hclsyntax.Expression, name string) (s string, marked, ok bool) {
	marked = v.HasMark(pathMark)
	v, _ = v.Unmark()
	if k := kind(v); k != "string" {
		hint := ""
		if t, plain := text(v); plain && k == "number" {
			hint = fmt.Sprintf(" Write it in quotes: %s = %q.", name, t)
		}
		d.errorf(At(x.Range()), "Wrong type", "%q takes a string; this is %s.%s%s", name, aKind(v), nullHint(v), hint)
		return "", false, false
	}
	return v.AsString(), marked, true
}

func nullHint(v cty.Value) string {
	if v.IsNull() {
		return " Null never means \"no limit\" or \"default\": leave the attribute out, or write its value."
	}
	return ""
}

// ruled reads a string that no path variable may have made.
func (d *decoder) ruled(x hclsyntax.Expression, name string, prose bool, r rule) Text {
	t := Text{At: At(x.Range())}
	s, marked, ok := d.str(x, name)
	if !ok {
		return t
	}
	if marked {
		d.errorf(t.At, "Path outside a path", pathElsewhere)
		return t
	}
	t.Value = d.checked(s, t.At, name, prose, r)
	return t
}

// checked returns s, or "" after saying what is wrong with it.
func (d *decoder) checked(s string, at diag.Range, name string, prose bool, r rule) string {
	if bad := badText(s, prose); bad != "" {
		d.errorf(at, "Invalid text", "%q holds %s.", name, bad)
		return ""
	}
	if r != nil {
		if problem := r(s); problem != "" {
			if secretive[name] {
				d.errorf(at, "Invalid value", "%s: %s", name, problem)
			} else {
				d.errorf(at, "Invalid value", "%s = %q: %s", name, s, problem)
			}
			return ""
		}
	}
	return s
}

// secretive are attributes whose wrong value may be a secret, which no message
// repeats.
var secretive = map[string]bool{"credential": true, "credentials": true, "worker_credentials": true, "base_url": true}

func ruledText(kind string, prose bool, r rule) value[Text] {
	return value[Text]{kind, func(d *decoder, a *hclsyntax.Attribute) Text { return d.ruled(a.Expr, a.Name, prose, r) }}
}

// enum is one of some words.
func enum(words ...string) value[Text] {
	return ruledText("one of "+strings.Join(words, ", "), false, oneOf(words...))
}

func oneOf(words ...string) rule {
	return func(s string) string {
		for _, w := range words {
			if s == w {
				return ""
			}
		}
		return "it is " + diag.OneOf(words) + "." + diag.DidYouMean(s, words)
	}
}

// pathText reads a path; see the package comment.
var pathText = value[Text]{"path", func(d *decoder, a *hclsyntax.Attribute) Text { return d.path(a.Expr, a.Name) }}

func (d *decoder) path(x hclsyntax.Expression, name string) Text {
	t := Text{At: At(x.Range())}
	if s, marked, ok := d.str(x, name); ok {
		t.Value = d.place(s, marked, t.At, name)
	}
	return t
}

// place makes a path one that can be opened from the current folder.
func (d *decoder) place(s string, marked bool, at diag.Range, name string) string {
	s = d.checked(s, at, name, false, notEmpty)
	switch {
	case s == "":
		return ""
	case marked || path.IsAbs(s):
		return path.Clean(s)
	}
	return path.Join(d.dir, s)
}

// list reads a list of strings, each with its place.
func (d *decoder) list(a *hclsyntax.Attribute, item func(x hclsyntax.Expression, v *cty.Value) Text, unique bool) Names {
	n := Names{At: At(a.Expr.Range())}
	if t, ok := a.Expr.(*hclsyntax.TupleConsExpr); ok {
		n.Items = make([]Text, 0, len(t.Exprs))
		for _, x := range t.Exprs {
			n.Items = append(n.Items, item(x, nil))
		}
	} else {
		v, ok := d.value(a.Expr)
		if !ok {
			return n
		}
		if kind(v) != "list" {
			d.errorf(n.At, "Wrong type", "%q takes a list of strings; this is %s.%s", a.Name, aKind(v), nullHint(v))
			return n
		}
		if !d.ev.charge(a.Expr, v.LengthInt(), 0) {
			d.failed = true
			return n
		}
		for it := v.ElementIterator(); it.Next(); {
			_, el := it.Element()
			n.Items = append(n.Items, item(a.Expr, &el))
		}
	}
	if unique && len(n.Items) > 1 {
		seen := make(map[string]bool, len(n.Items))
		for _, t := range n.Items {
			if t.Value != "" && seen[t.Value] {
				d.errorf(t.At, "Written twice", "%s has %q twice. Take one out.", a.Name, t.Value)
			}
			seen[t.Value] = true
		}
	}
	return n
}

func ruledList(kind string, prose, unique bool, r rule) value[Names] {
	return value[Names]{kind, func(d *decoder, a *hclsyntax.Attribute) Names {
		return d.list(a, func(x hclsyntax.Expression, v *cty.Value) Text {
			if v == nil {
				return d.ruled(x, a.Name, prose, r)
			}
			t := Text{At: At(x.Range())}
			if s, marked, ok := d.asString(*v, x, a.Name); marked {
				d.errorf(t.At, "Path outside a path", pathElsewhere)
			} else if ok {
				t.Value = d.checked(s, t.At, a.Name, prose, r)
			}
			return t
		}, unique)
	}}
}

// pathList reads a list of paths.
var pathList = value[Names]{"list of paths", func(d *decoder, a *hclsyntax.Attribute) Names {
	return d.list(a, func(x hclsyntax.Expression, v *cty.Value) Text {
		if v == nil {
			return d.path(x, a.Name)
		}
		t := Text{At: At(x.Range())}
		if s, marked, ok := d.asString(*v, x, a.Name); ok {
			t.Value = d.place(s, marked, t.At, a.Name)
		}
		return t
	}, true)
}}

var boolean = value[Bool]{"bool", func(d *decoder, a *hclsyntax.Attribute) Bool {
	b := Bool{At: At(a.Expr.Range())}
	v, ok := d.value(a.Expr)
	if ok && kind(v) != "bool" {
		d.errorf(b.At, "Wrong type", "%q takes true or false, without quotes; this is %s.%s", a.Name, aKind(v), nullHint(v))
		ok = false
	}
	b.Value = ok && v.True()
	return b
}}

// expression keeps an attribute as syntax.
var expression = value[Expr]{"predicate", func(d *decoder, a *hclsyntax.Attribute) Expr {
	return Expr{Syntax: a.Expr, At: At(a.Expr.Range()), Scope: d.ev.Scope}
}}

// Rules of texts.

func notEmpty(s string) string {
	if strings.TrimSpace(s) == "" {
		return "it is empty; leave the attribute out, or write its value."
	}
	return ""
}

func validID(s string) string {
	if !plan.ValidID(s) {
		return "a name has 1 to 128 of the ASCII letters, digits, '.', '_' and '-', and starts with a letter or digit."
	}
	return ""
}

func phaseName(s string) string {
	if !validName(s) {
		return "a phase is named as its skill is, or NAME#2 for the second one of that skill."
	}
	return ""
}

var credentialForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func credential(s string) string {
	if !credentialForm.MatchString(s) {
		return "a credential is named as an environment variable is, such as ANTHROPIC_API_KEY. A policy holds its name, never its value."
	}
	return ""
}

func image(s string) string {
	if !plan.ValidImage(s) {
		return "an image is named by digest (NAME@sha256:…, 64 hex digits) or is the reserved word builtin. What a tag stands for changes, and the plan must not: look the digest up and write it."
	}
	return ""
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func digest(s string) string {
	if !digestForm.MatchString(s) {
		return "a digest is sha256: and 64 hex digits in lower case."
	}
	return ""
}

var hostForm = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$`)

func host(s string) string {
	if !hostForm.MatchString(s) {
		return "a host is a name or an address, with :PORT where it is not 443."
	}
	return ""
}

func baseURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "a base URL is https://HOST/PATH, without query and fragment."
	}
	if u.User != nil {
		return "a URL in a policy has no user and no password: name the credential instead."
	}
	return ""
}

func modelName(s string) bool {
	if len(s) > 128 {
		return false
	}
	return plan.ValidID(strings.NewReplacer("/", "-", ":", "-", "@", "-", "+", "-").Replace(s))
}
