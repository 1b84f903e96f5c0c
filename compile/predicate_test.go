package compile_test

import (
	"strings"
	"testing"

	"foundry/predicates"
)

// loopWith compiles a loop with an until over an output with a JSON document,
// a Markdown output and a check.
func loopWith(until string) (*pipe, string) {
	p := newPipe().phase("a", []string{"in"}, nil).loop("l", []string{"doc", "notes=notes.md"}, []string{"in"})
	return p, first + `
locals {
  bound = 5
  word  = "done"
}
loop "l" {
  max_iterations = 3
  until          = ` + until + `
  check "next" { argv = ["next", "{in:doc}"] }
}`
}

func TestPredicates(t *testing.T) {
	for _, c := range []struct{ until, want string }{
		{`check.next.json.draft == false`, `check.next.json.draft == false`},
		{`output.doc.exists`, `output.doc.exists`},
		{`!output.doc.json.todo || iteration >= 3`, `!output.doc.json.todo || iteration >= 3`},
		{`output.doc.json.a == 1 && output.doc.json.b == 2 && iteration > 1`, `output.doc.json.a == 1 && output.doc.json.b == 2 && iteration > 1`},
		{`length(output.doc.json.refs) > 0`, `length(output.doc.json.refs) > 0`},
		{`output.doc.json.items[0].name == "x"`, `output.doc.json.items[0].name == "x"`},
		{`output.doc.json["a b"].c == local.word`, `output.doc.json["a b"].c == "done"`},
		{`output.doc.json.n >= local.bound`, `output.doc.json.n >= 5`},
		{`output.doc.json.n == 1.50`, `output.doc.json.n == 1.5`},
		{`output.doc.json.n == -3`, `output.doc.json.n == -3`},
		{`exists(output.doc.json.a)`, `exists(output.doc.json.a)`},
		{`contains(output.doc.json.tags, "x")`, `contains(output.doc.json.tags, "x")`},
		{`contains(["a", "b"], output.doc.json.kind)`, `output.doc.json.kind == "a" || output.doc.json.kind == "b"`},
		{`matches(check.next.stdout, "^ok")`, `matches(check.next.stdout, "^ok")`},
		{`alltrue([for r in output.doc.json.rows : r.ok == true])`, `every(output.doc.json.rows, item.ok == true)`},
		{`anytrue([for r in output.doc.json.rows : r == 1])`, `some(output.doc.json.rows, item == 1)`},
		{`worker.status == "settled"`, `worker.status == "settled"`},
		{`output.doc.json.a == null`, `output.doc.json.a == null`},
		{`check.next.exit_code == 0`, `check.next.exit_code == 0`},
		{`output.notes.lines > 3 && output.notes.bytes < 1000`, `output.notes.lines > 3 && output.notes.bytes < 1000`},
	} {
		p, policy := loopWith(c.until)
		res := p.compile(t, policy)
		if res.Plan == nil {
			t.Errorf("%s:\n%s", c.until, show(res.Diagnostics))
			continue
		}
		e := res.Plan.Loops[0].Until
		if got := predicates.Format(e); got != c.want {
			t.Errorf("%s lowers to %s, want %s", c.until, got, c.want)
		}
	}
}

// E8 and the words of the language: what a predicate must not say.
func TestRefusedPredicates(t *testing.T) {
	for _, c := range []struct{ until, summary, detail string }{
		{`iteration == "5"`, "Types differ", "compares a number with a string"},
		{`check.next.stdout == 5`, "Types differ", "compares a string with a number"},
		{`output.doc.exists == "true"`, "Types differ", "compares a boolean with a string"},
		{`iteration > "10"`, "Types differ", "compare numbers, and this is a string"},
		{`iteration`, "Predicate is no question", "this is a number"},
		{`"yes"`, "Predicate is no question", "this is a string"},
		{`iteration-1 > 0`, "Unknown fact", `"iteration-1" is one name`},
		{`iteration - 1 > 0`, "Not in a predicate", "does no arithmetic"},
		{`output.dok.exists`, "Unknown artifact", `Did you mean "doc"?`},
		{`output.doc.jsn.a == 1`, "Unknown fact", `Did you mean "json"?`},
		{`output.doc.yaml.a == 1`, "Artifact has another form", "`doc` is json"},
		{`output.doc.bytes.a == 1`, "Unknown fact", "nothing is inside it"},
		{`check.nxt.exit_code == 0`, "Unknown check", `Did you mean "next"?`},
		{`outputs.doc.exists`, "Unknown fact", `Did you mean "output"?`},
		{`lenght(output.doc.json.a) == 1`, "Unknown function", `Did you mean "length"?`},
		{`length(iteration) == 1`, "Types differ", "this is a number"},
		{`matches(check.next.stdout, "(")`, "Pattern does not compile", ""},
		{`output.doc.exists ? true : false`, "Not in a predicate", "`? :`"},
		{`output.doc.json.a[iteration] == 1`, "Not in a predicate", "literal"},
		{`alltrue([for r in output.doc.json.a : r.x > 1 if r.y])`, "Not in a predicate", "one form"},
		{`contains([], output.doc.json.a)`, "Empty list", ""},
	} {
		p, policy := loopWith(c.until)
		res := p.compile(t, policy)
		text := show(res.Diagnostics)
		if res.Plan != nil || !strings.Contains(text, "error: "+c.summary+" at policy/main.hcl:") || !strings.Contains(text, c.detail) {
			t.Errorf("%s: want %q with %q, got\n%s", c.until, c.summary, c.detail, text)
		}
	}
}

func TestIterationOutsideLoop(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, nil)
	p.refused(t, `phase "a" {
  inputs = []
  check "c" {
    argv   = ["true"]
    assert = iteration > 1
  }
}`, "Not in a loop", "in a loop only")
}
