package predicates

import (
	"testing"

	"foundry/plan"
	"foundry/plan/document"
)

// Short forms to write predicates with.
func op(name string, args ...plan.Expr) plan.Expr { return plan.Expr{Op: name, Args: args} }
func lit(typ, value string) plan.Expr {
	return plan.Expr{Op: plan.OpLiteral, Literal: &plan.Literal{Type: typ, Value: value}}
}
func num(s string) plan.Expr { return lit(plan.TypeNumber, s) }
func str(s string) plan.Expr { return lit(plan.TypeString, s) }
func null() plan.Expr        { return lit(plan.TypeNull, "") }
func truth(b bool) plan.Expr {
	if b {
		return lit(plan.TypeBool, "true")
	}
	return lit(plan.TypeBool, "false")
}
func fact(source, name, field, pointer string) plan.Expr {
	return plan.Expr{Op: plan.OpFact, Fact: &plan.Fact{Source: source, Name: name, Field: field, Pointer: pointer}}
}
func out(field, pointer string) plan.Expr { return fact(plan.FactOutput, "o", field, pointer) }
func js(pointer string) plan.Expr         { return out("json", pointer) }
func item(pointer string) plan.Expr       { return plan.Expr{Op: plan.OpItem, Pointer: pointer} }
func iteration() plan.Expr                { return fact(plan.FactIteration, "", "", "") }

func parse(t testing.TB, text string) *document.Value {
	t.Helper()
	v, err := document.ParseJSON([]byte(text), document.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const sample = `{"n":5,"ten":10,"big":9007199254740993,"f":0.30,"exp":1e3,"s":"grün","empty":"","five":"5","t":true,"ttext":"true",
"null":null,"refs":[],"nums":[1,2.0,30e-1],"tags":["a","b"],"mixed":[1,"a"],"nested":[[1,2],[3]],"o":{"x":1},
"steps":[{"id":"one","done":true,"deps":[]},{"id":"two","done":false,"deps":["one"]}]}`

func sampleFacts(t testing.TB) Facts {
	return Facts{
		Outputs: map[string]Output{
			"o":              {Exists: true, Bytes: 120, Lines: 3, JSON: parse(t, sample)},
			"y":              {Exists: true, Bytes: 1, Lines: -1, YAML: parse(t, `{"has_todo":false}`)},
			"gone":           {},
			"test-data-refs": {Exists: true, JSON: parse(t, `{"refs":[],"a b":{"0":[7]}}`)},
		},
		Checks: map[string]CheckResult{
			"next-step": {ExitCode: 1, Stdout: "line one\nDONE\n", JSON: parse(t, `{"draft":false}`)},
			"plain":     {ExitCode: 0, Stdout: "text"},
		},
		Iteration:    3,
		WorkerStatus: "settled",
	}
}
