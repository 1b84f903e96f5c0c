package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the type of a value.
type Kind int

// The kinds of a value: the six of JSON.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "bool", "number", "string", "array", "object"}

// String names the kind in lower case.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "kind " + strconv.Itoa(int(k))
	}
	return kindNames[k]
}

// Pos is a place in the text. Line and Column count from 1, Column in bytes;
// Offset counts bytes from 0.
type Pos struct{ Line, Column, Offset int }

// Member is one member of an object.
type Member struct {
	Key    string
	KeyPos Pos
	Value  *Value
}

// Value is one value of a document. Only the field of its kind is set.
//
// Number is the text of the number: as it stands in JSON, in the form of
// CanonicalNumber in YAML. CanonicalNumber accepts each of them. Members stand
// in the order of the text. What a YAML alias repeats has the alias' place.
type Value struct {
	Kind    Kind
	Pos     Pos
	Bool    bool
	Number  string
	Str     string
	Items   []*Value
	Members []Member
}

// Defaults of Limits, and the deepest nesting that Limits can allow.
const (
	DefaultBytes  = 64 << 20
	DefaultDepth  = 200
	DefaultValues = 2_000_000
	MaxDepth      = 10_000
)

// Limits bounds one document. A zero field means its default; Depth is at most
// MaxDepth, since both parsers use the stack. Depth counts arrays and objects
// around a value, Values every value of the tree, aliases expanded.
type Limits struct {
	Bytes  int64 // default 64 MiB
	Depth  int   // default 200
	Values int   // default 2,000,000
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Depth <= 0 {
		l.Depth = DefaultDepth
	}
	l.Depth = min(l.Depth, MaxDepth)
	if l.Values <= 0 {
		l.Values = DefaultValues
	}
	return l
}

// Error says why a document is refused and where. Column counts bytes; a Line
// of 0 means the document as a whole. Hint is a way out, or "".
type Error struct {
	Line, Column int
	Msg          string
	Hint         string
}

func (e *Error) Error() string {
	s := e.Msg
	if e.Line > 0 {
		s = fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, s)
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// ErrMissing is wrapped by the error of Pointer when the pointer is well
// formed but leads nowhere.
var ErrMissing = errors.New("there is no such value")

// Get returns the value of the member key, matched byte by byte, or nil where
// v is nil, no object, or has no such member.
func (v *Value) Get(key string) *Value {
	if v == nil || v.Kind != Object {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Key == key {
			return v.Members[i].Value
		}
	}
	return nil
}

// Pointer returns the value that the JSON pointer (RFC 6901) leads to. "" is v
// itself. The error names the step that is missing and wraps ErrMissing, or
// says what is wrong with the pointer.
func (v *Value) Pointer(ptr string) (*Value, error) {
	steps, err := SplitPointer(ptr)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, fmt.Errorf("pointer %q: %w: there is no document", ptr, ErrMissing)
	}
	for i, step := range steps {
		next, err := v.Step(step)
		if err != nil {
			return nil, fmt.Errorf("pointer %q, step %d: %w", ptr, i+1, err)
		}
		v = next
	}
	return v, nil
}

// Step takes one step of a pointer, unescaped. Its error wraps ErrMissing.
func (v *Value) Step(step string) (*Value, error) {
	next, why := v.step(step)
	if next == nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrMissing, quote(step), why)
	}
	return next, nil
}

func (v *Value) step(step string) (*Value, string) {
	switch v.Kind {
	case Object:
		if next := v.Get(step); next != nil {
			return next, ""
		}
		for _, m := range v.Members {
			if strings.EqualFold(m.Key, step) {
				return nil, fmt.Sprintf("the object has no such member, but one that is spelled %s", quote(m.Key))
			}
		}
		return nil, fmt.Sprintf("the object (line %d) has no such member", v.Pos.Line)
	case Array:
		n, ok := arrayIndex(step)
		if !ok {
			return nil, "no index of an array"
		}
		if n >= len(v.Items) {
			return nil, fmt.Sprintf("the array (line %d) has %d items", v.Pos.Line, len(v.Items))
		}
		return v.Items[n], ""
	default:
		return nil, fmt.Sprintf("the value (line %d) is a %s and has no members", v.Pos.Line, v.Kind)
	}
}

// arrayIndex reads an index as RFC 6901 writes it: no sign, no leading zero.
func arrayIndex(step string) (int, bool) {
	if step == "" || len(step) > 9 || len(step) > 1 && step[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(step) {
		if step[i] < '0' || step[i] > '9' {
			return 0, false
		}
		n = n*10 + int(step[i]-'0')
	}
	return n, true
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// SplitPointer returns the steps of a JSON pointer, unescaped: none for "". A
// pointer that is not empty starts with "/"; "~" stands before 0 or 1 only.
func SplitPointer(ptr string) ([]string, error) {
	if ptr == "" {
		return nil, nil
	}
	if ptr[0] != '/' {
		return nil, fmt.Errorf("pointer %q: a JSON pointer is empty or starts with \"/\"", ptr)
	}
	steps := strings.Split(ptr[1:], "/")
	for i, s := range steps {
		for at := strings.IndexByte(s, '~'); at >= 0; {
			if at+1 == len(s) || s[at+1] != '0' && s[at+1] != '1' {
				return nil, fmt.Errorf("pointer %q: step %d: \"~\" must be written \"~0\", and \"/\" in a step \"~1\"", ptr, i+1)
			}
			next := strings.IndexByte(s[at+1:], '~')
			if next < 0 {
				break
			}
			at += 1 + next
		}
		if strings.Contains(s, "~") {
			steps[i] = unescapePointer.Replace(s)
		}
	}
	return steps, nil
}

// Any returns the value as the standard library would hold it:
// map[string]any, []any, string, bool, nil and json.Number. A nil v is nil.
func (v *Value) Any() any {
	if v == nil {
		return nil
	}
	switch v.Kind {
	case Bool:
		return v.Bool
	case Number:
		return json.Number(v.Number)
	case String:
		return v.Str
	case Array:
		items := make([]any, len(v.Items))
		for i, item := range v.Items {
			items[i] = item.Any()
		}
		return items
	case Object:
		members := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			members[m.Key] = m.Value.Any()
		}
		return members
	default:
		return nil
	}
}
