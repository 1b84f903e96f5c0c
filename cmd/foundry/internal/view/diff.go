package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"foundry/plan/diff"
)

// classes in the order in which a reader needs them.
var classes = []diff.Class{diff.Widens, diff.Narrows, diff.Neutral}

// changeGroup is one change, or the same one in several steps.
type changeGroup struct {
	diff.Change          // the first; its path has [*] for a step where there are several
	steps       []string // ids, of several
	paths       []string
}

// grouped joins what changes in the same way in several steps, the worst first,
// in the order of the plan.
func grouped(r *diff.Report) []*changeGroup {
	var out []*changeGroup
	byKey := map[string]*changeGroup{}
	for _, class := range classes {
		for _, c := range r.Changes {
			if c.Class != class {
				continue
			}
			list, id, rest := SplitPath(c.Path)
			if list != "nodes" || rest == "" || c.Kind == diff.Renamed || c.Kind == diff.Reordered {
				out = append(out, &changeGroup{Change: c, paths: []string{c.Path}})
				continue
			}
			key := strings.Join([]string{rest, string(c.Kind), string(c.Class), c.Before, c.After, c.Reason}, "\x00")
			if c.Text != nil {
				key += "\x00" + strings.Join(c.Text.Lines, "\n") + "\x00" + c.Text.Note
			}
			g := byKey[key]
			if g == nil {
				g = &changeGroup{Change: c}
				byKey[key] = g
				out = append(out, g)
			}
			g.paths = append(g.paths, c.Path)
			g.steps = append(g.steps, id)
			if len(g.steps) > 1 {
				g.Path = "nodes[*]" + rest
			}
		}
	}
	return out
}

// SplitPath divides a path of a change, nodes[ID].budget.turns, into its list,
// the entry's id and the rest. What is in no list has neither id nor rest.
func SplitPath(path string) (list, id, rest string) {
	list, after, ok := strings.Cut(path, "[")
	if !ok || strings.Contains(list, ".") {
		return path, "", ""
	}
	id, rest, _ = strings.Cut(after, "]")
	return list, id, rest
}

// where is the path of a group, and the steps that it stands for.
func (g *changeGroup) where(most int) string {
	if len(g.steps) < 2 {
		return Safe(g.Path)
	}
	shown := g.steps[:min(most, len(g.steps))]
	more := ""
	if rest := len(g.steps) - len(shown); rest > 0 {
		more = fmt.Sprintf(" and %d more", rest)
	}
	return fmt.Sprintf("%s in %s (%s%s)", Safe(g.Path), count(len(g.steps), "step"), Safe(strings.Join(shown, ", ")), more)
}

// changeValue is a value for people: numbers with their unit.
func changeValue(row, value string, most int) string {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
	case strings.HasSuffix(row, "_micro_usd"):
		return Dollars(n)
	case strings.HasSuffix(row, "_seconds"):
		return Seconds(n)
	case strings.HasSuffix(row, "bytes"):
		return Bytes(n)
	case n >= 1000:
		return Count(n)
	}
	return fit(Safe(value), most)
}

// before and after are both values, with a word for none.
func (g *changeGroup) before(most int) string { return changeValue(g.Row, g.Before, most) }
func (g *changeGroup) after(most int) string  { return changeValue(g.Row, g.After, most) }

// diffSummary is the count of the changes in words.
func diffSummary(r *diff.Report) string {
	if len(r.Changes) == 0 {
		return "no difference"
	}
	var parts []string
	for _, class := range classes {
		if n := r.Count(class); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, classWord(class, n)))
		}
	}
	return count(len(r.Changes), "change") + ": " + strings.Join(parts, ", ")
}

func classWord(c diff.Class, n int) string {
	switch {
	case c == diff.Neutral || n == 1:
		return string(c)
	case c == diff.Widens:
		return "widen"
	}
	return "narrow"
}

// maxTextValue bounds a value in the text view.
const maxTextValue = 400

// DiffText writes what differs for a terminal.
func DiffText(w io.Writer, r *diff.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", diffSummary(r))
	if len(r.Changes) > 0 {
		fmt.Fprintf(&b, "  before %s\n  after  %s\n", Safe(r.Before), Safe(r.After))
	}
	var class diff.Class
	for _, g := range grouped(r) {
		if g.Class != class {
			class = g.Class
			fmt.Fprintf(&b, "\n%s\n", class)
		}
		fmt.Fprintf(&b, "  %s\n", g.where(8))
		switch g.Kind {
		case diff.Added:
			fmt.Fprintf(&b, "    added %s\n", g.after(maxTextValue))
		case diff.Removed:
			fmt.Fprintf(&b, "    removed %s\n", g.before(maxTextValue))
		case diff.Reordered:
			if g.Before+g.After == "" {
				b.WriteString("    order\n")
				break
			}
			fmt.Fprintf(&b, "    order: %s → %s\n", orNone(g.before(maxTextValue)), orNone(g.after(maxTextValue)))
		case diff.Renamed:
			fmt.Fprintf(&b, "    renamed from %s\n", g.before(maxTextValue))
		default:
			fmt.Fprintf(&b, "    %s → %s\n", orNone(g.before(maxTextValue)), orNone(g.after(maxTextValue)))
		}
		fmt.Fprintf(&b, "    %s\n", Safe(g.Reason))
		textLines(&b, g.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func textLines(b *strings.Builder, t *diff.Text) {
	if t == nil {
		return
	}
	if t.Note != "" {
		fmt.Fprintf(b, "    | (%s)\n", Safe(t.Note))
	}
	for _, l := range t.Lines {
		if l == " " { // an empty line around the others
			l = ""
		}
		fmt.Fprintf(b, "    |%s\n", Safe(l))
	}
	if t.LeftOut > 0 {
		fmt.Fprintf(b, "    | … %s more\n", count(t.LeftOut, "line"))
	}
}

// diffJSON is the form of a comparison for programs.
type diffJSON struct {
	FormatVersion int           `json:"format_version"`
	Before        string        `json:"before"`
	After         string        `json:"after"`
	Class         diff.Class    `json:"class"` // "" when nothing differs
	Widens        int           `json:"widens"`
	Narrows       int           `json:"narrows"`
	Neutral       int           `json:"neutral"`
	Changes       []diff.Change `json:"changes"`
}

// DiffJSON writes what differs for a program. Characters that could mislead who
// looks at it are written as escapes.
func DiffJSON(w io.Writer, r *diff.Report) error {
	return safeJSON(w, diffJSON{1, r.Before, r.After, r.Class(), r.Count(diff.Widens), r.Count(diff.Narrows), r.Count(diff.Neutral), slices.Clip(r.Changes)})
}

// safeJSON writes a value as JSON in which every character is harmless to look
// at: what Safe would escape stands as an escape of JSON.
func safeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n' || !unsafeRune(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
