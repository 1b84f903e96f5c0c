package view

import (
	"fmt"
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
	maxMarkdownLines = 80
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
	var texts []*changeGroup
	var class diff.Class
	left := map[diff.Class]int{}
	for _, g := range groups {
		head := ""
		if g.Class != class {
			head = fmt.Sprintf("\n#### %s (%d)\n\n| where | before | after | what it means |\n| --- | --- | --- | --- |\n", title(g.Class), r.Count(g.Class))
		}
		// Room is kept for the graph: without it, a fifth of the text.
		if !m.try(head+g.markdownRow(), m.most/5) {
			left[g.Class] += len(g.paths)
			continue
		}
		class = g.Class
		if g.Text != nil {
			texts = append(texts, g)
		}
	}
	m.leftOut(left)
	m.graph(r, before, after)
	m.texts(texts)
	return m.String()
}

// markdown is a text that may not grow beyond a bound.
type markdown struct {
	strings.Builder
	most int
}

// footRoom is kept for what is said of what was left out.
const footRoom = 400

func (m *markdown) must(s string) { m.WriteString(s) }

// try adds a text where it leaves room, and reports whether it did.
func (m *markdown) try(s string, room int) bool {
	if m.Len()+len(s)+room+footRoom > m.most {
		return false
	}
	m.WriteString(s)
	return true
}

func (m *markdown) leftOut(left map[diff.Class]int) {
	var parts []string
	sum := 0
	for _, c := range classes {
		if left[c] > 0 {
			sum += left[c]
			parts = append(parts, fmt.Sprintf("%d %s", left[c], classWord(c, left[c])))
		}
	}
	if sum > 0 {
		m.must(fmt.Sprintf("\n**%s left out for length: %s.** `foundry diff` shows all.\n", count(sum, "change"), strings.Join(parts, ", ")))
	}
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
// it.
func markdownText(s string) string {
	var b strings.Builder
	for _, r := range Safe(s) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -.,:;/=+?%()…→", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}
