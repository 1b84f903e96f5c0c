package predicates

import (
	"fmt"
	"strings"
	"testing"

	"foundry/plan"
)

func BenchmarkEval(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `,{"name":"step %d","done":true}`, i)
		}
		f := Facts{Outputs: map[string]Output{"o": {Exists: true, JSON: parse(b, "["+text.String()[1:]+"]")}}}
		e := op(plan.OpEvery, js(""), op(plan.OpAll, op(plan.OpEq, item("/done"), truth(true)), op(plan.OpMatches, item("/name"), str("^step"))))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ok, _, err := Eval(e, f); err != nil || !ok {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
