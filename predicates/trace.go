package predicates

import (
	"strconv"
	"strings"

	"foundry/plan"
)

// Trace is an evaluated predicate: the tree with what each node was. It holds
// nothing but strings, bools and integers, so that plan.EncodeCanonical writes
// it. Its size follows the predicate, not the facts.
//
// Args has the arguments in order. Of an every or some these are the array and
// the predicate for one element: the one that decided, or the last one where
// none did; Element is its number, from 1, and 0 over an empty array. What was
// not evaluated, because the result was known before, has Skipped and nothing
// below it.
type Trace struct {
	Op      string  `json:"op"`
	Text    string  `json:"text,omitempty"`  // of a leaf or of what was skipped, as Format writes it
	Type    string  `json:"type,omitempty"`  // string, number, bool, null, array, object; "" without a value
	Value   string  `json:"value,omitempty"` // for people: strings quoted and cut at 120 bytes, "array of 3"
	Element int64   `json:"element,omitempty"`
	Skipped bool    `json:"skipped,omitempty"`
	Error   string  `json:"error,omitempty"` // on the node where evaluation ended
	Args    []Trace `json:"args,omitempty"`
}

// Line renders the trace as one line:
//
//	length(output.refs.json.items) (0) > 0 is false
func (t Trace) Line() string {
	var b strings.Builder
	t.verdict(&b)
	return b.String()
}

// verdict writes a condition and what it was.
func (t *Trace) verdict(b *strings.Builder) {
	if t.Text != "" {
		b.WriteString(t.Text)
	} else {
		t.condition(b)
	}
	switch {
	case t.Skipped:
		b.WriteString(" was not evaluated")
	case t.Type != "":
		b.WriteString(" is " + t.Value)
	default:
		if failed := t.failed(); failed != nil {
			b.WriteString(" is an error: " + failed.Error)
		}
	}
}

// failed finds the node that ended the evaluation.
func (t *Trace) failed() *Trace {
	if t.Error != "" {
		return t
	}
	for i := range t.Args {
		if f := t.Args[i].failed(); f != nil {
			return f
		}
	}
	return nil
}

// condition writes a node with the values of its operands.
func (t *Trace) condition(b *strings.Builder) {
	switch t.Op {
	case plan.OpAll, plan.OpAny:
		for i := range t.Args {
			if i > 0 {
				b.WriteString(infix[t.Op].sign)
			}
			t.Args[i].part(b)
		}
	case plan.OpNot:
		b.WriteString("!")
		for i := range t.Args {
			t.Args[i].part(b)
		}
	case plan.OpEvery, plan.OpSome:
		b.WriteString(t.Op + "(")
		for i := range t.Args {
			if i == 0 {
				t.Args[i].operand(b)
				continue
			}
			b.WriteString(", ")
			if t.Element > 0 {
				b.WriteString("item " + strconv.FormatInt(t.Element, 10) + ": ")
			}
			t.Args[i].verdict(b)
		}
		b.WriteString(")")
	default:
		t.write(b, (*Trace).operand)
	}
}

// write writes a node's operator around its arguments.
func (t *Trace) write(b *strings.Builder, arg func(*Trace, *strings.Builder)) {
	in, ok := infix[t.Op]
	if !ok {
		name := plainName(t.Op)
		if t.Op == plan.OpNot {
			name = "!"
		}
		b.WriteString(name + "(")
		in.sign = ", "
	}
	for i := range t.Args {
		if i > 0 {
			b.WriteString(in.sign)
		}
		arg(&t.Args[i], b)
	}
	if !ok {
		b.WriteString(")")
	}
}

// part writes a condition within a condition, in parentheses. An error is told
// once, outside.
func (t *Trace) part(b *strings.Builder) {
	b.WriteString("(")
	switch failed := t.Type == "" && !t.Skipped; {
	case !failed:
		t.verdict(b)
	case t.Text != "":
		b.WriteString(t.Text)
	default:
		t.condition(b)
	}
	b.WriteString(")")
}

// operand writes a value: a literal as it is, anything else with its value.
func (t *Trace) operand(b *strings.Builder) {
	t.bare(b)
	if t.Op != plan.OpLiteral && t.Type != "" {
		b.WriteString(" (" + t.Value + ")")
	}
}

// bare writes a node without values.
func (t *Trace) bare(b *strings.Builder) {
	if t.Text != "" {
		b.WriteString(t.Text)
		return
	}
	if _, ok := infix[t.Op]; ok {
		b.WriteString("(")
		defer b.WriteString(")")
	}
	t.write(b, (*Trace).bare)
}
