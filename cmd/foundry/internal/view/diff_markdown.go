package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"foundry/plan"
	"foundry/plan/diff"
)

// MaxMarkdown is how many characters a comment on a pull request may have.
const MaxMarkdown = 65_535

// Bounds of one cell and one text of the Markdown view.
const (
	maxCell          = 300
	maxMarkdownLines = 150
)

// DiffMarkdown is what differs as Markdown of at most most bytes, and so no
// more characters: a table for each class, the changed part of the graph, and
// texts line by line. What does not fit is counted. The plans are for the
// graph.
func DiffMarkdown(r *diff.Report, before, after *plan.Plan, most int) string {
	m := &markdown{most: most}
	m.must("### Plan diff: " + diffSummary(r) + "\n\n")
	if len(r.Changes) == 0 {
		return m.String()
	}
	m.must(fmt.Sprintf("before `%s`, after `%s`\n", Safe(r.Before), Safe(r.After)))
	groups := grouped(r)
	rank := ranks(groups)
	rows := m.admit(groups, rank, r)
	var texts []*changeGroup
	var left []*changeGroup
	var class diff.Class
	for _, g := range groups {
		row, ok := rows[g]
		if !ok {
			left = append(left, g)
			continue
		}
		if g.Class != class {
			class = g.Class
			m.must(tableHead(r, class))
		}
		m.must(row)
		if g.Text != nil {
			texts = append(texts, g)
		}
	}
	m.leftOut(left)
	m.graph(r, before, after)
	slices.SortStableFunc(texts, func(a, b *changeGroup) int { return rank[a] - rank[b] })
	m.texts(texts)
	return m.String()
}

// markdown is a text that may not grow beyond a bound.
type markdown struct {
	strings.Builder
	most int
}

// footRoom is kept for what is said of what was left out.
const footRoom = 1_000

func tableHead(r *diff.Report, class diff.Class) string {
	return fmt.Sprintf("\n#### %s (%d)\n\n| where | before | after | what it means |\n| --- | --- | --- | --- |\n", title(class), r.Count(class))
}

// ranks numbers the changes of each field and class.
func ranks(groups []*changeGroup) map[*changeGroup]int {
	rank := make(map[*changeGroup]int, len(groups))
	seen := map[[2]string]int{}
	for _, g := range groups {
		k := [2]string{string(g.Class), g.Row}
		rank[g] = seen[k]
		seen[k]++
	}
	return rank
}

// admit chooses the rows that fit: what widens before the rest, and of each
// field of a plan one change before the second of another, so that a thousand
// changes of one kind do not hide the only one of another. A fifth of the text
// is kept for the graph and the texts.
func (m *markdown) admit(groups []*changeGroup, rank map[*changeGroup]int, r *diff.Report) map[*changeGroup]string {
	order := map[diff.Class][]*changeGroup{}
	for _, g := range groups {
		order[g.Class] = append(order[g.Class], g)
	}
	room := m.most - m.most/5 - footRoom - m.Len()
	rows := map[*changeGroup]string{}
	for _, class := range classes {
		head := len(tableHead(r, class))
		slices.SortStableFunc(order[class], func(a, b *changeGroup) int { return rank[a] - rank[b] })
		for _, g := range order[class] {
			row := g.markdownRow()
			if head+len(row) > room {
				continue
			}
			room -= head + len(row)
			head = 0
			rows[g] = row
		}
	}
	return rows
}

func (m *markdown) must(s string) { m.WriteString(s) }

// try adds a text where it leaves room, and reports whether it did.
func (m *markdown) try(s string, room int) bool {
	if m.Len()+len(s)+room+footRoom > m.most {
		return false
	}
	m.WriteString(s)
	return true
}

// leftOut says how many changes have no row, and of which fields most are.
func (m *markdown) leftOut(groups []*changeGroup) {
	sum := 0
	of, fields := map[diff.Class]int{}, map[string]int{}
	for _, g := range groups {
		sum += len(g.paths)
		of[g.Class] += len(g.paths)
		fields[g.Row] += len(g.paths)
	}
	if sum == 0 {
		return
	}
	var parts []string
	for _, c := range classes {
		if of[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of[c], classWord(c, of[c])))
		}
	}
	names := slices.Collect(maps.Keys(fields))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(fields[b]-fields[a], strings.Compare(a, b)) })
	var most []string
	for _, n := range names[:min(6, len(names))] {
		most = append(most, fmt.Sprintf("%d of `%s`", fields[n], n))
	}
	more := ""
	if len(names) > len(most) {
		more = " and others"
	}
	m.must(fmt.Sprintf("\n**%s left out for length: %s.** They are %s%s; `foundry diff` shows all.\n", count(sum, "change"), strings.Join(parts, ", "), strings.Join(most, ", "), more))
}

func (m *markdown) graph(r *diff.Report, before, after *plan.Plan) {
	if after == nil {
		return
	}
	for _, most := range []int{40, 15} {
		g := changedGraph(r, before, after, most)
		if g == "" || m.try("\n<details><summary>The changed part of the graph</summary>\n\n```mermaid\n"+g+"```\n\n</details>\n", 0) {
			return
		}
	}
}

func (m *markdown) texts(texts []*changeGroup) {
	left := 0
	for _, g := range texts {
		t := g.Text
		if t.Note != "" && len(t.Lines) == 0 {
			continue
		}
		lines, more := t.Lines, t.LeftOut
		if len(lines) > maxMarkdownLines {
			more += len(lines) - maxMarkdownLines
			lines = lines[:maxMarkdownLines]
		}
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(Safe(l) + "\n")
		}
		if more > 0 {
			fmt.Fprintf(&b, "… %s more\n", count(more, "line"))
		}
		fence := strings.Repeat("`", max(3, longestRun(b.String(), '`')+1))
		if !m.try(fmt.Sprintf("\n<details><summary>%s</summary>\n\n%sdiff\n%s%s\n\n</details>\n", code(g.where(4)), fence, b.String(), fence), 0) {
			left++
		}
	}
	if left > 0 {
		m.must(fmt.Sprintf("\n%s left out for length.\n", count(left, "text")))
	}
}

func longestRun(s string, of byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != of {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

func title(c diff.Class) string {
	return strings.ToUpper(string(c[:1])) + string(c[1:])
}

// markdownRow is a group as a row of a table.
func (g *changeGroup) markdownRow() string {
	before, after := code(g.before(maxCell)), code(g.after(maxCell))
	note := ""
	switch g.Kind {
	case diff.Added:
		before, note = "–", "added: "
	case diff.Removed:
		after, note = "–", "removed: "
	case diff.Renamed:
		note = "renamed: "
	case diff.Reordered:
		note = "order: "
	}
	return fmt.Sprintf("| %s | %s | %s | %s%s |\n", code(g.where(6)), before, after, note, Safe(g.Reason))
}

// code is a text as code in a cell of a table, whatever it holds.
func code(s string) string {
	if s == "" {
		return "–"
	}
	return "<code>" + markdownText(s) + "</code>"
}

// markdownText writes a text so that neither Markdown nor HTML finds a sign in
// it, and nothing that looks like an address becomes a link.
func markdownText(s string) string {
	var b strings.Builder
	for _, r := range Safe(s) {
		plain := unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -.,;/=+?%()…→", r)
		if r == '.' && strings.EqualFold(b.String()[max(0, b.Len()-3):], "www") {
			plain = false
		}
		if plain {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}
