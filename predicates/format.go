package predicates

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"foundry/plan"
	"foundry/plan/document"
)

// Format writes a predicate as one line of text for people, close to how a
// policy writes it:
//
//	length(output.refs.json.items) > 0 && !(check.lint.exit_code == 1)
//
// It takes any Expr, also one that Check refuses. Strings are quoted so that
// the text holds printable characters only.
func Format(e plan.Expr) string {
	var b strings.Builder
	format(&b, &e, 0)
	return b.String()
}

// brief is Format, bounded, for messages.
func brief(e plan.Expr) string {
	const most = 200
	s := Format(e)
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Binding of operators, weakest first, as HCL has it.
const (
	bindOr = iota + 1
	bindAnd
	bindCompare
	bindNot
)

var infix = map[string]struct {
	sign string
	bind int
}{
	plan.OpAny: {" || ", bindOr}, plan.OpAll: {" && ", bindAnd},
	plan.OpEq: {" == ", bindCompare}, plan.OpNe: {" != ", bindCompare},
	plan.OpLt: {" < ", bindCompare}, plan.OpLe: {" <= ", bindCompare},
	plan.OpGt: {" > ", bindCompare}, plan.OpGe: {" >= ", bindCompare},
}

// maxFormatDepth keeps the stack small for trees that were never checked.
const maxFormatDepth = 2 * MaxDepth

func format(b *strings.Builder, e *plan.Expr, depth int) {
	if depth > maxFormatDepth {
		b.WriteString("…")
		return
	}
	switch e.Op {
	case plan.OpFact:
		b.WriteString(factText(e.Fact))
		return
	case plan.OpItem:
		b.WriteString("item" + pointerText(e.Pointer))
		return
	case plan.OpLiteral:
		b.WriteString(literalText(e.Literal))
		return
	}
	if e.Op == plan.OpNot && len(e.Args) == 1 {
		b.WriteString("!")
		operand(b, &e.Args[0], bindNot, depth)
		return
	}
	if in, ok := infix[e.Op]; ok && len(e.Args) > 1 {
		for i := range e.Args {
			if i > 0 {
				b.WriteString(in.sign)
			}
			operand(b, &e.Args[i], in.bind, depth)
		}
		return
	}
	b.WriteString(plainName(e.Op) + "(")
	for i := range e.Args {
		if i > 0 {
			b.WriteString(", ")
		}
		format(b, &e.Args[i], depth+1)
	}
	b.WriteString(")")
}

// operand puts parentheses around what binds no stronger than what is outside.
func operand(b *strings.Builder, e *plan.Expr, outside, depth int) {
	in, ok := infix[e.Op]
	if !ok || len(e.Args) < 2 || in.bind > outside {
		format(b, e, depth+1)
		return
	}
	b.WriteString("(")
	format(b, e, depth+1)
	b.WriteString(")")
}

func factText(f *plan.Fact) string {
	if f == nil {
		return "fact(?)"
	}
	s := plainName(f.Source)
	for _, part := range []string{f.Name, f.Field} {
		if part != "" {
			s += "." + plainName(part)
		}
	}
	return s + pointerText(f.Pointer)
}

// pointerText writes a pointer as HCL writes steps: .name, [0], ["any text"].
func pointerText(pointer string) string {
	steps, err := document.SplitPointer(pointer)
	if err != nil {
		return "[" + strconv.Quote(pointer) + "]"
	}
	var b strings.Builder
	for _, s := range steps {
		switch {
		case isName(s):
			b.WriteString("." + s)
		case isIndex(s):
			b.WriteString("[" + s + "]")
		default:
			b.WriteString("[" + strconv.Quote(s) + "]")
		}
	}
	return b.String()
}

func literalText(l *plan.Literal) string {
	switch {
	case l == nil:
		return "literal(?)"
	case l.Type == plan.TypeString:
		return strconv.Quote(l.Value)
	case l.Type == plan.TypeNull:
		return "null"
	default:
		return plainName(l.Value)
	}
}

// plainName keeps what is no more than letters, digits and punctuation of ids
// and numbers, and quotes the rest.
func plainName(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return s
	}
	return strconv.Quote(s)
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

func isIndex(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// maxValueText bounds a value in a trace: enough to see what it is.
const maxValueText = 120

// valueText writes a value for a trace: scalars as they are, strings quoted and
// cut, arrays and objects by their size.
func valueText(v *document.Value) string {
	switch v.Kind {
	case document.Null:
		return "null"
	case document.Bool:
		return strconv.FormatBool(v.Bool)
	case document.Number:
		return cut(v.Number)
	case document.String:
		if len(v.Str) <= maxValueText {
			return strconv.Quote(v.Str)
		}
		end := maxValueText
		for end > 0 && !utf8.RuneStart(v.Str[end]) {
			end--
		}
		return strconv.Quote(v.Str[:end]) + "… (" + strconv.Itoa(len(v.Str)) + " bytes)"
	case document.Array:
		return "array of " + strconv.Itoa(len(v.Items))
	default:
		return "object of " + strconv.Itoa(len(v.Members))
	}
}

func cut(s string) string {
	if len(s) <= maxValueText {
		return s
	}
	return s[:maxValueText] + "…"
}
