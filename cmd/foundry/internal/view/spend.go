package view

import (
	"fmt"
	"io"
	"strings"

	"foundry/plan/spend"
)

// amount is a number of one dimension with its unit.
func amount(dimension string, n int64) string {
	switch dimension {
	case spend.Cost:
		return Dollars(n)
	case spend.Wall:
		return Seconds(n)
	}
	return Count(n) + " tokens"
}

// repeats says what a phase multiplies.
func repeats(p *spend.Phase) string {
	switch {
	case p.Kind == spend.KindLoop:
		return "loop, " + count(int(p.Iterations), "iteration")
	case p.Kind == spend.KindBranch:
		n := 0
		for _, s := range p.Steps {
			if s.Kind != spend.KindCheck {
				n++
			}
		}
		return "branch, " + count(n, "alternative")
	case p.Iterations != 1:
		return count(int(p.Iterations), "call")
	}
	return p.Kind
}

// SpendText writes the static spend of a plan for a terminal.
func SpendText(w io.Writer, pipeline string, r *spend.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "The most that %s may spend\n\n", pipeline)
	rows := [][]string{{"phase", "", "money", "time", "tokens"}}
	for i := range r.Phases {
		p := &r.Phases[i]
		rows = append(rows, amountRow(p.ID, repeats(p), p.Total))
		if p.Kind == spend.KindLoop || p.Kind == spend.KindBranch {
			for _, s := range p.Steps {
				rows = append(rows, amountRow("  "+s.ID, "each time", s.Each))
			}
		}
	}
	rows = append(rows, amountRow("all", "", r.Uncapped), amountRow("budget", "of the run", r.Budget), amountRow("a run", "at most", r.Capped))
	if r.Grading != nil {
		rows = append(rows, amountRow("grading", "beside the run", *r.Grading))
	}
	columns(&b, rows)
	for _, name := range r.Unbounded {
		fmt.Fprintf(&b, "\nNOT A BOUND: %s works with a login of its own, past the broker: nobody stops what it spends\n", name)
	}
	if len(r.Starved) > 0 {
		b.WriteString("\nMay find too little of the run's budget left\n")
	}
	for _, g := range starvedGroups(r) {
		fmt.Fprintf(&b, "  %s: %s\n", g.who(8), g.text())
	}
	groups := unreachableGroups(r)
	if len(groups) > 0 {
		b.WriteString("\nBounds that are never reached\n")
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "  %s\n", g.text(8))
	}
	_, err := io.WriteString(w, SafeLines(b.String()))
	return err
}

func amountRow(name, note string, a spend.Amount) []string {
	return []string{name, note, Dollars(a.CostMicroUSD), Seconds(a.WallSeconds), Count(a.Tokens)}
}

// columns writes rows below each other; the last three are numbers.
func columns(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len([]rune(Safe(cell))))
		}
	}
	for _, r := range rows {
		b.WriteString(" ")
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-len([]rune(Safe(cell))))
			if i < 2 {
				b.WriteString(" " + cell + pad + " ")
			} else {
				b.WriteString(" " + pad + cell + " ")
			}
		}
		b.WriteString("\n")
	}
}

// starvedGroup is one phase that may find too little, or several that lack the
// same because of the same.
type starvedGroup struct {
	spend.Starved // of the first
	phases        []string
}

func starvedGroups(r *spend.Report) []*starvedGroup {
	var out []*starvedGroup
	known := map[string]*starvedGroup{}
	for _, s := range r.Starved {
		like := s
		like.Phase = ""
		key := fmt.Sprintf("%#v", like)
		g := known[key]
		if g == nil {
			g = &starvedGroup{Starved: s}
			known[key] = g
			out = append(out, g)
		}
		g.phases = append(g.phases, s.Phase)
	}
	return out
}

// who names at most most phases.
func (g *starvedGroup) who(most int) string {
	t := strings.Join(g.phases[:min(most, len(g.phases))], ", ")
	if more := len(g.phases) - most; more > 0 {
		t += fmt.Sprintf(" and %s more", Count(int64(more)))
	}
	return t
}

// text says what is lacking, and because of whom.
func (g *starvedGroup) text() string {
	each, left := "needs ", "nothing"
	if len(g.phases) > 1 {
		each = "each needs "
	}
	if g.Left > 0 {
		left = amount(g.Dimension, g.Left)
	}
	t := fmt.Sprintf("%s%s, %s may be left", each, amount(g.Dimension, g.Needs), left)
	if g.Of > 1 {
		t += fmt.Sprintf(", %s of %s sure", Count(g.Sure), isAre(g.Of))
	}
	if g.Count == 0 {
		return t + "; the run has less than its worst case"
	}
	t += "; because of " + strings.Join(g.By, ", ")
	if more := g.Count - len(g.By); more > 0 {
		t += fmt.Sprintf(" and %s more", Count(int64(more)))
	}
	return t
}

func isAre(n int64) string { return count(int(n), "iteration") + " are" }

// unreachableGroup is a bound that is never reached in the same way in several
// places.
type unreachableGroup struct {
	spend.Unreachable // of the first
	steps             []string
}

func unreachableGroups(r *spend.Report) []*unreachableGroup {
	var out []*unreachableGroup
	known := map[string]*unreachableGroup{}
	for _, u := range r.Unreachable {
		_, id, rest := SplitPath(u.Path)
		key := fmt.Sprint(rest, "\x00", u.Bound, "\x00", u.Most, "\x00", u.Why)
		g := known[key]
		if g == nil || id == "" {
			g = &unreachableGroup{Unreachable: u}
			known[key] = g
			out = append(out, g)
		}
		if id != "" {
			g.steps = append(g.steps, id)
		}
	}
	return out
}

// text names at most most steps.
func (g *unreachableGroup) text(most int) string {
	where, d := g.Path, g.Path[strings.LastIndexByte(g.Path, '.')+1:]
	if len(g.steps) > 1 {
		list, _, rest := SplitPath(g.Path)
		where = fmt.Sprintf("%s[*]%s in %s", list, rest, strings.Join(g.steps[:min(most, len(g.steps))], ", "))
		if more := len(g.steps) - most; more > 0 {
			where += fmt.Sprintf(" and %s more", Count(int64(more)))
		}
	}
	return fmt.Sprintf("%s is %s, at most %s can be spent: %s", where, amount(d, g.Bound), amount(d, g.Most), g.Why)
}

// spendJSON is the form for programs.
type spendJSON struct {
	FormatVersion int    `json:"format_version"`
	Pipeline      string `json:"pipeline"`
	Plan          string `json:"plan"` // digest
	*spend.Report
}

// SpendJSON writes the static spend for a program.
func SpendJSON(w io.Writer, pipeline, digest string, r *spend.Report) error {
	return safeJSON(w, spendJSON{1, pipeline, digest, r})
}
