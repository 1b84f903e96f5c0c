package view

import (
	"fmt"
	"slices"
	"strings"

	"foundry/compile"
	"foundry/plan"
	"foundry/plan/diff"
	"foundry/plan/spend"
)

// Review is what a comment on a change is made of.
type Review struct {
	Before  *ReviewSide // nil where it is new
	After   *ReviewSide
	New     bool
	Report  *diff.Report // nil where nothing was compared
	Trouble string       // why not, beside a side without a plan
}

// ReviewSide is a plan as reviewed. One of a policy that does not compile has no
// Plan, but for one that its guards alone refuse.
type ReviewSide struct {
	Plan        *plan.Plan
	Digest      string
	Diagnostics []compile.Diagnostic // of a policy
	Sources     map[string][]byte
}

// Broken lists the guards that a plan breaks.
func (s *ReviewSide) Broken() []plan.Guard {
	var out []plan.Guard
	for _, g := range s.guards() {
		if g.Result == plan.GuardFail {
			out = append(out, g)
		}
	}
	return out
}

func (s *ReviewSide) guards() []plan.Guard {
	if s == nil || s.Plan == nil {
		return nil
	}
	return s.Plan.Guards
}

func (s *ReviewSide) count(severity compile.Severity) int {
	n := 0
	for _, d := range s.Diagnostics {
		if d.Severity == severity {
			n++
		}
	}
	return n
}

// Room of the parts before the comparison, which has what is left. None fills a
// comment alone.
const (
	maxProblems = 10_000
	maxGuards   = 9_000
	maxSpend    = 14_000
	maxWarnings = 3_000
)

// ReviewMarkdown is a review as Markdown of at most most bytes, and so no more
// characters: a summary, what is wrong, the guards, the spend, the comparison.
// What does not fit is counted.
func ReviewMarkdown(rv *Review, most int) string {
	var b strings.Builder
	b.WriteString(rv.summary())
	if rv.Before != nil && rv.Before.count(compile.Error) > 0 {
		b.WriteString(problems("What is wrong with BASE", rv.Before, compile.Error, maxProblems/2))
	}
	if rv.After.count(compile.Error) > 0 {
		b.WriteString(problems("What is wrong with HEAD", rv.After, compile.Error, maxProblems))
	}
	if rv.After.Plan != nil {
		b.WriteString(rv.guardTable(maxGuards))
		b.WriteString(rv.spendTables(maxSpend))
	}
	if rv.After.count(compile.Warning) > 0 {
		b.WriteString(problems("Warnings of HEAD", rv.After, compile.Warning, maxWarnings))
	}
	if rv.Report != nil {
		b.WriteString("\n" + DiffMarkdown(rv.Report, rv.Before.Plan, rv.After.Plan, most-b.Len()-1))
	}
	return b.String()
}

// summary is the head of the comment: what a reader must know first.
func (rv *Review) summary() string {
	var b strings.Builder
	name := "a policy that does not compile"
	if rv.After.Plan != nil {
		name = code(fit(rv.After.Plan.Pipeline.Name, 100))
	}
	fmt.Fprintf(&b, "## Review of %s\n\n", name)
	point := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }
	switch n := rv.After.count(compile.Error); {
	case rv.After.Plan == nil:
		point("**HEAD does not compile**: %s", count(n, "error"))
	case len(rv.After.Broken()) > 0:
		point("**HEAD breaks %s**", count(len(rv.After.Broken()), "guard"))
	case len(rv.After.guards()) == 0:
		point("**No guard judges this plan**")
	}
	switch {
	case rv.New:
		point("**BASE does not have it: all of it is new**")
	case rv.Before.Plan == nil:
		point("**BASE does not compile**, so nothing can be compared: %s", count(rv.Before.count(compile.Error), "error"))
	case rv.Trouble != "":
		point("**They cannot be compared**: %s", markdownText(fit(rv.Trouble, 1000)))
	case rv.Report == nil:
	case rv.Report.Count(diff.Widens) > 0:
		point("**%s**", diffSummary(rv.Report))
	default:
		point("%s", diffSummary(rv.Report))
	}
	if p := rv.After.Plan; p != nil {
		was := ""
		if rv.Before != nil && rv.Before.Plan != nil && most(rv.Before.Plan) != most(p) {
			was = ", before " + most(rv.Before.Plan)
		}
		point("A run spends at most %s%s", most(p), was)
	}
	return b.String()
}

func most(p *plan.Plan) string {
	w := p.WorstCase
	return fmt.Sprintf("%s, %s, %s tokens", Dollars(w.CostMicroUSD), Seconds(w.WallSeconds), Count(w.Tokens))
}

// bounded writes a head and those of the rows that fit into room bytes, and
// counts the rest.
func bounded(head string, rows []string, foot string, room int, word string) string {
	var b strings.Builder
	b.WriteString(head)
	left := 0
	for i, r := range rows {
		if b.Len()+len(r)+len(foot)+footRoom/4 > room {
			left = len(rows) - i
			break
		}
		b.WriteString(r)
	}
	b.WriteString(foot)
	if left > 0 {
		fmt.Fprintf(&b, "\n**%s left out for length.**\n", count(left, word))
	}
	return b.String()
}

// problems lists diagnostics of one severity with their places.
func problems(title string, s *ReviewSide, severity compile.Severity, room int) string {
	var rows []string
	for _, d := range s.Diagnostics {
		if d.Severity != severity {
			continue
		}
		at := ""
		if d.Subject.File != "" {
			at = fmt.Sprintf(" at %s", code(fmt.Sprintf("%s:%d:%d", fit(d.Subject.File, maxCell), d.Subject.Start.Line, d.Subject.Start.Column)))
		}
		rows = append(rows, fmt.Sprintf("- %s%s: %s\n", markdownText(d.Summary), at, markdownText(fit(strings.Join(strings.Fields(d.Detail), " "), 1000))))
	}
	head, foot := fmt.Sprintf("\n### %s (%d)\n\n", title, len(rows)), ""
	if severity == compile.Warning {
		head, foot = fmt.Sprintf("\n<details><summary>%s (%d)</summary>\n\n", title, len(rows)), "\n</details>\n"
	}
	return bounded(head, rows, foot, room, strings.ToLower(severityWord(severity)))
}

func severityWord(s compile.Severity) string {
	if s == compile.Error {
		return "error"
	}
	return "warning"
}

// verdictWords are the results of guards for people.
var verdictWords = map[string]string{plan.GuardPass: "kept", plan.GuardWarn: "**warns**", plan.GuardFail: "**broken**"}

// guardTable has a row for each guard that is not simply kept on both sides,
// the worst first, and counts those that are.
func (rv *Review) guardTable(room int) string {
	after := rv.After.guards()
	type row struct {
		rank int
		text string
	}
	var rows []row
	kept := map[string]int{}
	var sets []string
	before := map[string]plan.Guard{}
	for _, g := range rv.Before.guards() {
		before[g.Set+"\x00"+g.Name] = g
	}
	add := func(rank int, g plan.Guard, was, is string) {
		rows = append(rows, row{rank, fmt.Sprintf("| %s | %s | %s |\n", code(fit(guardName(g), maxCell)), was, is)})
	}
	for _, g := range after {
		key := g.Set + "\x00" + g.Name
		old, known := before[key]
		delete(before, key)
		was, is := "–", verdictWords[g.Result]
		if known {
			was = verdictWords[old.Result]
			if old.Digest != g.Digest {
				is += ", another rule"
			}
		}
		switch {
		case g.Result == plan.GuardFail:
			add(0, g, was, is)
		case g.Result == plan.GuardWarn:
			add(2, g, was, is)
		case known && (old.Digest != g.Digest || old.Result != g.Result):
			add(3, g, was, is)
		case !known && !rv.New && rv.Before.Plan != nil:
			add(4, g, was, is)
		default:
			if kept[g.Set]++; kept[g.Set] == 1 {
				sets = append(sets, g.Set)
			}
		}
	}
	for _, g := range rv.Before.guards() {
		if _, gone := before[g.Set+"\x00"+g.Name]; gone {
			add(1, g, verdictWords[g.Result], "**dropped**")
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.rank - b.rank })
	var out strings.Builder
	out.WriteString("\n### Guards\n")
	if len(after) == 0 {
		out.WriteString("\n**No guard judges this plan.** `guards = [\"baseline\"]` in the policy is a start.\n")
	}
	if len(sets) > 0 {
		lines := make([]string, len(sets))
		for i, set := range sets {
			name := "of the policy"
			if set != "" {
				name = code(fit(set, maxCell))
			}
			lines[i] = fmt.Sprintf("- %s: %s kept\n", name, count(kept[set], "rule"))
		}
		out.WriteString(bounded("\n", lines, "", room/2, "set"))
	}
	if len(rows) == 0 {
		return out.String()
	}
	texts := make([]string, len(rows))
	for i := range rows {
		texts[i] = rows[i].text
	}
	return out.String() + bounded("\n| guard | before | after |\n| --- | --- | --- |\n", texts, "", room-out.Len(), "guard")
}

// spendTables are what may be spent, before and after.
func (rv *Review) spendTables(room int) string {
	after := spend.Of(rv.After.Plan)
	var before *spend.Report
	if rv.Before != nil && rv.Before.Plan != nil {
		before = spend.Of(rv.Before.Plan)
	}
	var b strings.Builder
	b.WriteString("\n### Spend\n\n| at most | money | time | tokens |\n| --- | --- | --- | --- |\n")
	for _, l := range []struct {
		name string
		of   func(*spend.Report) spend.Amount
	}{
		{"all steps, uncapped", func(r *spend.Report) spend.Amount { return r.Uncapped }},
		{"the run's budget", func(r *spend.Report) spend.Amount { return r.Budget }},
		{"a run", func(r *spend.Report) spend.Amount { return r.Capped }},
	} {
		cells := make([]string, len(spend.Dimensions))
		for i, d := range spend.Dimensions {
			cells[i] = amount(d, l.of(after).Of(d))
			if before != nil {
				cells[i] = fromTo(d, l.of(before).Of(d), l.of(after).Of(d))
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", l.name, strings.Join(cells, " | "))
	}
	var logins []string
	for _, name := range after.Unbounded {
		logins = append(logins, fmt.Sprintf("- **Not a bound**: %s works with a login of its own, past the broker.\n", code(fit(name, maxCell))))
	}
	if len(logins) > 0 {
		b.WriteString(bounded("\n", logins, "", room/4, "login"))
	}
	if before != nil {
		if rows := changedPhases(before, after); len(rows) > 0 {
			b.WriteString(bounded("\n| phase | money | time | tokens |\n| --- | --- | --- | --- |\n", rows, "", room/2-b.Len(), "phase"))
		}
	}
	b.WriteString(findings("Phases that may find too little of the run's budget left", starvedLines(before), starvedLines(after), before != nil, (room-b.Len())/2, "line"))
	b.WriteString(findings("Bounds that are never reached", unreachableLines(before), unreachableLines(after), before != nil, room-b.Len(), "line"))
	return b.String()
}

func fromTo(d string, was, is int64) string {
	switch {
	case was == is:
		return amount(d, is)
	case is > was:
		return "**" + amount(d, was) + " → " + amount(d, is) + "**"
	}
	return amount(d, was) + " → " + amount(d, is)
}

// changedPhases are rows for the phases whose worst case changed, that which
// grew most first.
func changedPhases(before, after *spend.Report) []string {
	type change struct {
		id      string
		was, is spend.Amount
		note    string
	}
	old := map[string]spend.Amount{}
	for _, p := range before.Phases {
		old[p.ID] = p.Total
	}
	var all []change
	for _, p := range after.Phases {
		was, known := old[p.ID]
		delete(old, p.ID)
		switch {
		case !known:
			all = append(all, change{p.ID, spend.Amount{}, p.Total, " (new)"})
		case was != p.Total:
			all = append(all, change{p.ID, was, p.Total, ""})
		}
	}
	for _, p := range before.Phases {
		if _, gone := old[p.ID]; gone {
			all = append(all, change{p.ID, p.Total, spend.Amount{}, " (gone)"})
		}
	}
	growth := func(c change, d string) int64 { return c.is.Of(d) - c.was.Of(d) }
	slices.SortStableFunc(all, func(a, b change) int {
		for _, d := range spend.Dimensions {
			if x, y := growth(a, d), growth(b, d); x != y {
				if x > y {
					return -1
				}
				return 1
			}
		}
		return 0
	})
	rows := make([]string, len(all))
	for i, c := range all {
		cells := []string{code(fit(c.id, maxCell)) + c.note}
		for _, d := range spend.Dimensions {
			cells = append(cells, fromTo(d, c.was.Of(d), c.is.Of(d)))
		}
		rows[i] = "| " + strings.Join(cells, " | ") + " |\n"
	}
	return rows
}

func starvedLines(r *spend.Report) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, g := range starvedGroups(r) {
		out = append(out, g.who(8)+": "+g.text())
	}
	return out
}

func unreachableLines(r *spend.Report) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, g := range unreachableGroups(r) {
		out = append(out, g.text(8))
	}
	return out
}

// findings lists lines, those first that were not there before.
func findings(title string, before, after []string, compared bool, room int, word string) string {
	if len(after) == 0 {
		return ""
	}
	was := map[string]bool{}
	for _, l := range before {
		was[l] = true
	}
	var fresh, known []string
	for _, l := range after {
		text := "- " + markdownText(fit(l, 1000)) + "\n"
		if compared && !was[l] {
			fresh = append(fresh, "- **new** "+strings.TrimPrefix(text, "- "))
		} else {
			known = append(known, text)
		}
	}
	note := ""
	if len(fresh) > 0 {
		note = fmt.Sprintf(", %d new", len(fresh))
	}
	return bounded(fmt.Sprintf("\n<details><summary>%s (%d%s)</summary>\n\n", title, len(after), note), append(fresh, known...), "\n</details>\n", room, word)
}
