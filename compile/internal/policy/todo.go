package policy

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// SummaryOpen is the summary of the error that a decision of the policy is
// still to be taken.
const SummaryOpen = "Decision is open"

// todoWord marks what only a person can decide: todo("what to decide") in the
// place of a value, and as the name of a model, which is a block's label.
const todoWord = "todo"

// mayBeOpen reports whether a file may hold an open decision, without parsing
// it.
func mayBeOpen(src []byte) bool { return bytes.Contains(src, []byte(todoWord)) }

// open reports the open decisions in an attribute's value, which is then not
// read.
func (d *decoder) open(s *attrSpec, a *hclsyntax.Attribute) bool {
	if !d.todos {
		return false
	}
	found := false
	_ = hclsyntax.VisitAll(a.Expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if x, ok := n.(*hclsyntax.FunctionCallExpr); ok && x.Name == todoWord {
			found = true
			text, bad := todoText(x)
			if bad != "" {
				d.errorf(At(x.Range()), "Wrong call of todo", "%s", bad)
			} else {
				d.errorf(At(x.Range()), SummaryOpen, "%s`%s` takes %s: %s.", text, s.name, article(s.kind), s.doc)
			}
		}
		return nil
	})
	return found
}

// todoText is what is to be decided, as a sentence with a space behind it.
func todoText(x *hclsyntax.FunctionCallExpr) (text, bad string) {
	if len(x.Args) == 1 {
		if s, ok := literal(x.Args[0]); ok && !x.ExpandFinal {
			return sentence(s), ""
		}
	}
	return "", "An open decision is written todo(\"what to decide\"), with one plain text."
}

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if strings.IndexByte(".!?:;", s[len(s)-1]) < 0 {
		s += "."
	}
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:] + " "
}

func article(kind string) string {
	if strings.HasPrefix(kind, "one of ") || strings.HasPrefix(kind, "USD") || strings.HasPrefix(kind, "sha256") || strings.Contains(kind, "input.") || kind == "text" {
		return kind
	}
	return aWord(kind)
}

// openExpression reports a todo that is met in an evaluation: of a local, or
// of a variable's default.
func (e *eval) openExpression(x *hclsyntax.FunctionCallExpr) {
	if text, bad := todoText(x); bad != "" {
		e.errorf(x, "Wrong call of todo", "%s", bad)
	} else {
		e.errorf(x, SummaryOpen, "%sWrite the value in its place.", text)
	}
}

// openLabel reports the name of a model that is still to be chosen. Whatever
// else is open in the block is told too.
func (d *decoder) openLabel(spec *blockSpec, b *hclsyntax.Block) {
	if spec == modelSpec && b.Labels[0] == todoWord {
		d.errorf(At(b.LabelRanges[0]), SummaryOpen, "The label of this block is the model's id, as its provider knows it: write model \"ID\" { … }.")
	}
}
