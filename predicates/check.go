package predicates

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/plan/document"
)

// Bounds of a predicate. A person writes some tens of nodes; ten thousand leave
// room for generated ones and keep an evaluation at milliseconds.
const (
	MaxDepth        = 100    // of nodes within nodes
	MaxNodes        = 10_000 // of one predicate
	MaxPatternBytes = 1_000  // of one pattern of matches
	MaxPatternSize  = 10_000 // of its compiled form, in instructions, repetitions written out
)

// Fields of the sources of facts.
const (
	fieldExists   = "exists"
	fieldBytes    = "bytes"
	fieldLines    = "lines"
	fieldJSON     = "json"
	fieldYAML     = "yaml"
	fieldExitCode = "exit_code"
	fieldStdout   = "stdout"
	fieldStatus   = "status"
)

var fieldsOf = map[string][]string{
	plan.FactOutput:    {fieldExists, fieldBytes, fieldLines, fieldJSON, fieldYAML},
	plan.FactCheck:     {fieldExitCode, fieldJSON, fieldStdout},
	plan.FactIteration: {""},
	plan.FactWorker:    {fieldStatus},
}

// Error is why a predicate is not well formed (from Check) or has no result
// (from Eval; the reason predicate_error of a run).
type Error struct {
	Expr string // the part it is about, as Format writes it
	Msg  string
	Hint string // a way out, or ""
}

func (e *Error) Error() string {
	s := "predicate_error: " + e.Msg
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	if e.Expr != "" {
		s += " (in " + e.Expr + ")"
	}
	return s
}

// Check reports whether e is well formed: known operators with the right
// number of arguments and nothing else on a node, facts and literals of the
// closed forms, types that fit where they are known before a run, and the
// bounds above. The error is an *Error and names the first fault from the left.
func Check(e plan.Expr) error {
	if _, err := compile(e); err != nil {
		return err
	}
	return nil
}

// typ is a type known before a run; "" = any, known only in the run.
type typ string

const (
	typAny    typ = ""
	typString typ = plan.TypeString
	typNumber typ = plan.TypeNumber
	typBool   typ = plan.TypeBool
	typNull   typ = plan.TypeNull
)

type pattern struct {
	re   *regexp.Regexp
	size int64
}

type checker struct {
	nodes    int
	patterns map[string]pattern
}

// compile checks e and returns its patterns, compiled.
func compile(e plan.Expr) (map[string]pattern, *Error) {
	c := checker{patterns: map[string]pattern{}}
	t, err := c.expr(&e, 1, false)
	if err != nil {
		return nil, err
	}
	if t != typAny && t != typBool {
		return nil, &Error{Expr: brief(e), Msg: fmt.Sprintf("the predicate is a %s, not true or false", t), Hint: "compare it with something"}
	}
	return c.patterns, nil
}

func fault(e *plan.Expr, hint, format string, args ...any) *Error {
	return &Error{Expr: brief(*e), Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// arity is the number of arguments of each operator; -1 = one or more.
var arity = map[string]int{
	plan.OpAll: -1, plan.OpAny: -1, plan.OpNot: 1,
	plan.OpEq: 2, plan.OpNe: 2, plan.OpLt: 2, plan.OpLe: 2, plan.OpGt: 2, plan.OpGe: 2,
	plan.OpContains: 2, plan.OpMatches: 2, plan.OpExists: 1, plan.OpLength: 1,
	plan.OpEvery: 2, plan.OpSome: 2,
	plan.OpFact: 0, plan.OpLiteral: 0, plan.OpItem: 0,
}

// expr checks one node; item says whether an every or some is around it.
func (c *checker) expr(e *plan.Expr, depth int, item bool) (typ, *Error) {
	if depth > MaxDepth {
		return "", &Error{Msg: fmt.Sprintf("the predicate is nested deeper than %d", MaxDepth)}
	}
	if c.nodes++; c.nodes > MaxNodes {
		return "", &Error{Msg: fmt.Sprintf("the predicate has more than %d nodes", MaxNodes)}
	}
	if err := shape(e); err != nil {
		return "", err
	}
	switch e.Op {
	case plan.OpFact:
		return factType(e)
	case plan.OpLiteral:
		return literalType(e)
	case plan.OpItem:
		if !item {
			return "", fault(e, "", "item stands outside every and some")
		}
		return typAny, pointerFault(e, e.Pointer)
	}
	types := make([]typ, len(e.Args))
	for i := range e.Args {
		within := item || i == 1 && (e.Op == plan.OpEvery || e.Op == plan.OpSome)
		var err *Error
		if types[i], err = c.expr(&e.Args[i], depth+1, within); err != nil {
			return "", err
		}
	}
	return c.operator(e, types)
}

// shape checks the operator, its arity, and that nothing else is on the node.
func shape(e *plan.Expr) *Error {
	want, known := arity[e.Op]
	switch {
	case !known:
		return fault(e, "", "the operator %q is unknown", e.Op)
	case want < 0 && len(e.Args) == 0:
		return fault(e, "", "%s has no argument", e.Op)
	case want >= 0 && len(e.Args) != want:
		return fault(e, "", "%s has %d arguments, want %d", e.Op, len(e.Args), want)
	case (e.Fact != nil) != (e.Op == plan.OpFact):
		return fault(e, "", "a fact belongs to the operator fact and to no other")
	case (e.Literal != nil) != (e.Op == plan.OpLiteral):
		return fault(e, "", "a literal belongs to the operator literal and to no other")
	case e.Pointer != "" && e.Op != plan.OpItem:
		return fault(e, "", "a pointer on a node belongs to the operator item and to no other")
	}
	return nil
}

func (c *checker) operator(e *plan.Expr, types []typ) (typ, *Error) {
	switch e.Op {
	case plan.OpAll, plan.OpAny, plan.OpNot:
		for i := range types {
			if err := want(e, i, types[i], typBool); err != nil {
				return "", err
			}
		}
	case plan.OpEq, plan.OpNe:
		return typBool, equality(e, types)
	case plan.OpLt, plan.OpLe, plan.OpGt, plan.OpGe:
		for i := range types {
			if err := want(e, i, types[i], typNumber); err != nil {
				return "", err
			}
		}
	case plan.OpContains:
		return typBool, containment(e, types)
	case plan.OpMatches:
		if err := want(e, 0, types[0], typString); err != nil {
			return "", err
		}
		return typBool, c.pattern(e)
	case plan.OpExists:
		return typBool, existence(e)
	case plan.OpLength:
		if t := types[0]; t != typAny && t != typString {
			return "", fault(e, "length takes a string, an array or an object", "length of a %s", t)
		}
		return typNumber, nil
	case plan.OpEvery, plan.OpSome:
		if types[0] != typAny {
			return "", fault(e, "", "%s over a %s, which is no array", e.Op, types[0])
		}
		if err := want(e, 1, types[1], typBool); err != nil {
			return "", err
		}
	}
	return typBool, nil
}

func want(e *plan.Expr, arg int, got, want typ) *Error {
	if got == want || got == typAny {
		return nil
	}
	return fault(e, "", "%s is a %s where %s takes a %s", brief(e.Args[arg]), got, e.Op, want)
}

func equality(e *plan.Expr, types []typ) *Error {
	a, b := types[0], types[1]
	switch {
	case a == typAny || b == typAny:
		return nil
	case a == typNull || b == typNull:
		return fault(e, "use exists to ask whether a fact is there", "%s is compared with %s and can only have one answer", brief(e.Args[0]), brief(e.Args[1]))
	case a != b:
		return fault(e, "compare values of one type; text in quotes is a string", "a %s is compared with a %s", a, b)
	}
	return nil
}

func containment(e *plan.Expr, types []typ) *Error {
	switch hay, needle := types[0], types[1]; {
	case hay != typAny && hay != typString:
		return fault(e, "contains takes a string and a string, or an array and a value", "contains in a %s", hay)
	case needle == typNull:
		return fault(e, "use some(…, item == null)", "contains does not look for null")
	case hay == typString && needle != typAny && needle != typString:
		return fault(e, "a string contains strings; text in quotes is a string", "contains looks for a %s in a string", needle)
	}
	return nil
}

func existence(e *plan.Expr) *Error {
	arg := &e.Args[0]
	if arg.Op != plan.OpFact && arg.Op != plan.OpItem {
		return fault(e, "", "exists takes a fact or item, not %s", arg.Op)
	}
	if arg.Op == plan.OpFact && arg.Fact.Field == fieldExists {
		return fault(e, "leave exists(…) out", "%s is true or false already, and always there", brief(*arg))
	}
	return nil
}

func factType(e *plan.Expr) (typ, *Error) {
	f := e.Fact
	fields, known := fieldsOf[f.Source]
	if !known {
		return "", fault(e, "facts come from output, check, iteration and worker", "the source of facts %q is unknown", f.Source)
	}
	if !slices.Contains(fields, f.Field) {
		return "", fault(e, "it has "+strings.Join(fields, ", "), "the field %q of %s is unknown", f.Field, f.Source)
	}
	named := f.Source == plan.FactOutput || f.Source == plan.FactCheck
	switch {
	case named && !plan.ValidID(f.Name):
		return "", fault(e, "", "%q names no %s", f.Name, f.Source)
	case !named && f.Name != "":
		return "", fault(e, "", "%s has no names, but %q is given", f.Source, f.Name)
	case f.Pointer != "" && f.Field != fieldJSON && f.Field != fieldYAML:
		return "", fault(e, "only json and yaml have parts", "a pointer into %q", f.Field)
	}
	switch f.Field {
	case fieldJSON, fieldYAML:
		return typAny, pointerFault(e, f.Pointer)
	case fieldExists:
		return typBool, nil
	case fieldStdout, fieldStatus:
		return typString, nil
	default:
		return typNumber, nil
	}
}

func pointerFault(e *plan.Expr, pointer string) *Error {
	if _, err := document.SplitPointer(pointer); err != nil {
		return fault(e, "", "%v", err)
	}
	return nil
}

func literalType(e *plan.Expr) (typ, *Error) {
	l := e.Literal
	switch l.Type {
	case plan.TypeString:
		if strings.ToValidUTF8(l.Value, "") != l.Value {
			return "", fault(e, "", "a string that is no valid UTF-8")
		}
	case plan.TypeNumber:
		if canonical, err := document.CanonicalNumber(l.Value); err != nil {
			return "", fault(e, "", "%v", err)
		} else if canonical != l.Value {
			return "", fault(e, "", "the number %q is not in canonical form, which is %q", l.Value, canonical)
		}
	case plan.TypeBool:
		if l.Value != "true" && l.Value != "false" {
			return "", fault(e, "", "the bool %q is neither true nor false", l.Value)
		}
	case plan.TypeNull:
		if l.Value != "" {
			return "", fault(e, "", "null has the value %q, want none", l.Value)
		}
	default:
		return "", fault(e, "", "the type of literal %q is unknown", l.Type)
	}
	return typ(l.Type), nil
}

// pattern compiles the pattern of matches. Its size is found before it is
// compiled, since repetitions within repetitions multiply.
func (c *checker) pattern(e *plan.Expr) *Error {
	arg := e.Args[1]
	if arg.Op != plan.OpLiteral || arg.Literal.Type != plan.TypeString {
		return fault(e, "write it into the policy", "the pattern of matches is no literal string")
	}
	s := arg.Literal.Value
	if len(s) > MaxPatternBytes {
		return fault(e, "", "the pattern has %d bytes, more than %d", len(s), MaxPatternBytes)
	}
	if _, done := c.patterns[s]; done {
		return nil
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return fault(e, "patterns are RE2: no look-around and no back-references", "the pattern does not compile: %v", err)
	}
	size := patternSize(tree)
	if size > MaxPatternSize {
		return fault(e, "use smaller repetitions", "the pattern is too large: its repetitions written out need more than %d instructions", MaxPatternSize)
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return fault(e, "", "the pattern does not compile: %v", err)
	}
	c.patterns[s] = pattern{re: re, size: size}
	return nil
}

// patternSize bounds the number of instructions of a pattern from above. It
// stops counting past the bound, so that it cannot overflow.
func patternSize(re *syntax.Regexp) int64 {
	size := int64(1)
	if re.Op == syntax.OpLiteral {
		size += int64(len(re.Rune))
	}
	for _, sub := range re.Sub {
		size = min(size+patternSize(sub)+1, MaxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		size = min(size*int64(max(re.Max, re.Min, 1)+1), MaxPatternSize+1)
	}
	return size
}
