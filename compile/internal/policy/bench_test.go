package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// phases is a policy of n phase blocks, with a variable in each, as real ones
// have.
func phases(n int) string {
	var b strings.Builder
	b.WriteString("variable \"corpus\" {\n  type = string\n  default = \"skills\"\n}\n")
	for i := range n {
		fmt.Fprintf(&b, `phase "phase-%d" {
  harness        = "worker"
  inputs         = ["artifact-%d", "artifact-%d"]
  task           = "Summarize {in:artifact-%d} as ${var.corpus} says."
  not_applicable = ["freeform-summary", "summary-nextflow"]
  budget {
    wall     = "10m"
    turns    = 60
    cost_usd = "3.00"
  }
}
`, i, i, i+1, i)
	}
	return b.String()
}

// floorPolicy is the least that any reader of such a file does.
type floorPolicy struct {
	Variables []struct {
		Name    string         `hcl:"name,label"`
		Type    hcl.Expression `hcl:"type"`
		Default hcl.Expression `hcl:"default"`
	} `hcl:"variable,block"`
	Phases []struct {
		Name          string   `hcl:"name,label"`
		Harness       string   `hcl:"harness"`
		Inputs        []string `hcl:"inputs"`
		Task          string   `hcl:"task"`
		NotApplicable []string `hcl:"not_applicable"`
		Budget        struct {
			Wall    string `hcl:"wall"`
			Turns   int64  `hcl:"turns"`
			CostUSD string `hcl:"cost_usd"`
		} `hcl:"budget,block"`
	} `hcl:"phase,block"`
}

func floor(tb testing.TB, src []byte, n int) {
	file, diags := hclsyntax.ParseConfig(src, "p.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		tb.Fatal(diags)
	}
	var p floorPolicy
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{"corpus": cty.StringVal("skills")})}}
	if diags := gohcl.DecodeBody(file.Body, ctx, &p); diags.HasErrors() || len(p.Phases) != n {
		tb.Fatal(diags)
	}
}

// BenchmarkLoad measures Load and the floor in turns, in one run; "x-floor" is
// the ratio of their medians.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			src := phases(n)
			open := openMem(map[string]string{"p.hcl": src})
			var ours, theirs []time.Duration
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				start := time.Now()
				p, d := Load(context.Background(), "p.hcl", Options{Open: open})
				ours = append(ours, time.Since(start))
				if len(d) > 0 || len(p.Phases) != n {
					b.Fatal(render(p, d))
				}
				b.StopTimer()
				start = time.Now()
				floor(b, []byte(src), n)
				theirs = append(theirs, time.Since(start))
				b.StartTimer()
			}
			b.ReportMetric(float64(median(ours))/float64(median(theirs)), "x-floor")
		})
	}
}

func median(d []time.Duration) time.Duration {
	s := append([]time.Duration{}, d...)
	by(s, func(t time.Duration) string { return fmt.Sprintf("%020d", t) })
	return s[len(s)/2]
}
