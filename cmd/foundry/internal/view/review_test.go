package view

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"foundry/compile"
	"foundry/plan"
	"foundry/plan/spend"
)

func reviewOf(t *testing.T, before, after *plan.Plan) *Review {
	t.Helper()
	before.WorstCase, after.WorstCase = spend.WorstCase(before), spend.WorstCase(after)
	return &Review{Before: &ReviewSide{Plan: before}, After: &ReviewSide{Plan: after}, Report: report(t, before, after)}
}

// TestReviewIsBounded: whatever is too much, the comment has its bound, each part
// that was cut says how much, and the comparison still has room.
func TestReviewIsBounded(t *testing.T) {
	long := strings.Repeat("é", 5000)
	guards := func(n int, result string) []plan.Guard {
		var out []plan.Guard
		for i := range n {
			out = append(out, plan.Guard{Set: fmt.Sprintf("set-%d", i%50), Name: fmt.Sprintf("%d-%s", i, long), Digest: "sha256:0", Result: result})
		}
		return out
	}
	problems := func(n int, s compile.Severity) []compile.Diagnostic {
		var out []compile.Diagnostic
		for i := range n {
			out = append(out, compile.Diagnostic{Severity: s, Summary: "Trouble", Detail: fmt.Sprintf("%d %s", i, long), Subject: compile.Range{File: long}})
		}
		return out
	}
	for _, c := range []struct {
		name string
		edit func(rv *Review)
		want []string
	}{
		{"guards", func(rv *Review) { rv.After.Plan.Guards = guards(3000, plan.GuardFail) }, []string{"**HEAD breaks 3000 guards**", "guards left out for length.**"}},
		{"kept guards of many sets", func(rv *Review) {
			rv.New = true
			rv.After.Plan.Guards = guards(50, plan.GuardPass)
			for i := range rv.After.Plan.Guards {
				rv.After.Plan.Guards[i].Set = fmt.Sprintf("%d%s", i, long)
			}
		}, []string{"1 rule kept", "sets left out for length.**"}},
		{"errors", func(rv *Review) { rv.After.Diagnostics = problems(2000, compile.Error) }, []string{"What is wrong with HEAD (2000)", "errors left out for length.**"}},
		{"warnings", func(rv *Review) { rv.After.Diagnostics = problems(2000, compile.Warning) }, []string{"Warnings of HEAD (2000)", "warnings left out for length.**"}},
		{"errors of both", func(rv *Review) {
			rv.Before.Diagnostics, rv.After.Diagnostics = problems(2000, compile.Error), problems(2000, compile.Error)
		}, []string{"What is wrong with BASE (2000)", "What is wrong with HEAD (2000)"}},
		{"logins", func(rv *Review) {
			for i := range 500 {
				rv.After.Plan.Harnesses = append(rv.After.Plan.Harnesses, plan.Harness{Name: fmt.Sprintf("%d%s", i, long), AuthStore: "x"})
			}
		}, []string{"**Not a bound**", "logins left out for length.**"}},
		{"trouble", func(rv *Review) { rv.Trouble, rv.Report = long, nil }, []string{"**They cannot be compared**"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := many(t, 400), many(t, 400)
			for i := range after.Nodes {
				after.Nodes[i].Budget.CostMicroUSD += int64(i + 1)
			}
			rv := reviewOf(t, before, after)
			c.edit(rv)
			s := ReviewMarkdown(rv, MaxMarkdown)
			if n := utf8.RuneCountInString(s); n > MaxMarkdown || !utf8.ValidString(s) {
				t.Fatalf("%d characters", n)
			}
			want := append(c.want, "### Spend", "phases left out for length.**")
			if rv.Report != nil {
				want = append(want, "### Plan diff: ", "#### Widens", "more money for one attempt")
			}
			for _, w := range want {
				if !strings.Contains(s, w) {
					t.Errorf("it lacks %q:\n%s", w, s[:min(len(s), 4000)])
				}
			}
		})
	}
}

// TestReviewEscapes: no name or message of a plan becomes Markdown, HTML, a
// mention or a direction of text.
func TestReviewEscapes(t *testing.T) {
	hostile := "x|y`*<img src=x>@all\u202e[a](http://h)\n# head"
	before, after := many(t, 3), many(t, 3)
	rv := reviewOf(t, before, after)
	after.Pipeline.Name = hostile
	after.Guards = []plan.Guard{{Name: hostile, Result: plan.GuardFail, Set: hostile}}
	after.Harnesses = append(after.Harnesses, plan.Harness{Name: hostile, AuthStore: "x"})
	after.Nodes[0].ID = hostile
	after.Budget.CostMicroUSD = 1
	rv.Trouble, rv.Report = hostile, nil
	rv.After.Diagnostics = []compile.Diagnostic{{Severity: compile.Error, Summary: hostile, Detail: hostile, Subject: compile.Range{File: hostile}}, {Severity: compile.Warning, Summary: hostile, Detail: hostile}}
	s := ReviewMarkdown(rv, MaxMarkdown)
	for _, bad := range []string{"x|y", "<img", "@all", "\u202e", "](http", "\n# head", "y`"} {
		if strings.Contains(s, bad) {
			t.Errorf("%q stands in it:\n%s", bad, s)
		}
	}
	if n := strings.Count(s, "&#64;all"); n < 8 {
		t.Errorf("the name stands %d times in it:\n%s", n, s)
	}
}

// TestGuardTable: each verdict and each change of one has its row, the worst
// first; what is simply kept is counted.
func TestGuardTable(t *testing.T) {
	before, after := many(t, 2), many(t, 2)
	g := func(name, digest, result string) plan.Guard {
		return plan.Guard{Set: "s", Name: name, Digest: digest, Result: result}
	}
	before.Guards = []plan.Guard{g("breaks", "1", "pass"), g("gone", "1", "pass"), g("heals", "1", "warn"), g("other", "1", "pass"), g("same", "1", "pass"), g("warns", "1", "warn")}
	after.Guards = []plan.Guard{g("breaks", "1", "fail"), g("fresh", "1", "pass"), g("heals", "1", "pass"), g("other", "2", "pass"), g("same", "1", "pass"), g("warns", "1", "warn")}
	got := reviewOf(t, before, after).guardTable(maxGuards)
	want := "\n### Guards\n\n- <code>s</code>: 1 rule kept\n\n| guard | before | after |\n| --- | --- | --- |\n" +
		"| <code>s/breaks</code> | kept | **broken** |\n" +
		"| <code>s/gone</code> | kept | **dropped** |\n" +
		"| <code>s/warns</code> | **warns** | **warns** |\n" +
		"| <code>s/heals</code> | **warns** | kept |\n" +
		"| <code>s/other</code> | kept | kept, another rule |\n" +
		"| <code>s/fresh</code> | – | kept |\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestChangedPhases: what grew most stands first; a phase that is new or gone
// is said to be.
func TestChangedPhases(t *testing.T) {
	phase := func(id string, cost, wall int64) spend.Phase {
		return spend.Phase{ID: id, Total: spend.Amount{CostMicroUSD: cost, WallSeconds: wall}}
	}
	before := &spend.Report{Phases: []spend.Phase{phase("a", 10, 1), phase("b", 10, 1), phase("c", 10, 1), phase("d", 10, 60)}}
	after := &spend.Report{Phases: []spend.Phase{phase("a", 20, 1), phase("b", 10, 2), phase("d", 10, 60), phase("e", 90, 1)}}
	want := []string{
		"| <code>e</code> (new) | **$0.00 → $0.00009** | **0s → 1s** | 0 tokens |\n",
		"| <code>a</code> | **$0.00001 → $0.00002** | 1s | 0 tokens |\n",
		"| <code>b</code> | $0.00001 | **1s → 2s** | 0 tokens |\n",
		"| <code>c</code> (gone) | $0.00001 → $0.00 | 1s → 0s | 0 tokens |\n",
	}
	if got := changedPhases(before, after); strings.Join(got, "") != strings.Join(want, "") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

// TestReviewWithoutAComparison: a new plan, and sides that do not compile.
func TestReviewWithoutAComparison(t *testing.T) {
	p := many(t, 2)
	p.Guards = nil
	p.WorstCase = spend.WorstCase(p)
	wrong := []compile.Diagnostic{{Severity: compile.Error, Summary: "Unknown word", Detail: "Away with it."}}
	for _, c := range []struct {
		name string
		rv   *Review
		want []string
		not  []string
	}{
		{"new", &Review{New: true, After: &ReviewSide{Plan: p}}, []string{"all of it is new", "**No guard judges this plan**", "### Spend"}, []string{"Plan diff", "→", "before"}},
		{"HEAD", &Review{Before: &ReviewSide{Plan: p}, After: &ReviewSide{Diagnostics: wrong}}, []string{"does not compile**: 1 error", "Away with it."}, []string{"### Spend", "### Guards", "Plan diff"}},
		{"BASE", &Review{Before: &ReviewSide{Diagnostics: wrong}, After: &ReviewSide{Plan: p}}, []string{"**BASE does not compile**", "What is wrong with BASE (1)", "### Spend"}, []string{"Plan diff"}},
		{"both", &Review{Before: &ReviewSide{Diagnostics: wrong}, After: &ReviewSide{Diagnostics: wrong}}, []string{"**BASE does not compile**", "**HEAD does not compile**"}, []string{"### Spend"}},
	} {
		s := ReviewMarkdown(c.rv, MaxMarkdown)
		for _, w := range c.want {
			if !strings.Contains(s, w) {
				t.Errorf("%s lacks %q:\n%s", c.name, w, s)
			}
		}
		for _, w := range c.not {
			if strings.Contains(s, w) {
				t.Errorf("%s has %q:\n%s", c.name, w, s)
			}
		}
	}
}
