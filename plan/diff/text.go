package diff

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"foundry/plan"
)

// Text is the difference of two texts by lines. Each line starts with "+" (it is
// new), "-" (it is gone), " " (it stands around them) or "@@" (where that is).
type Text struct {
	Lines   []string `json:"lines"`
	LeftOut int      `json:"left_out,omitempty"` // lines that are not shown
	Note    string   `json:"note,omitempty"`     // why there are none
}

// Bounds of texts.
const (
	maxTextBytes  = 1 << 20 // of one side; larger ones are not compared
	maxTextLines  = 400     // of one text
	maxShownLines = 20_000  // of a whole report; beyond them, each text is cut short
	minTextLines  = 20      // of a text that is cut short
	maxPartsLines = 2_000   // of a text that is made of several
	maxLineBytes  = 500     // a longer line is shown, and compared, in pieces
	context       = 3
)

// text compares two texts.
func (d *differ) text(before, after string) *Text {
	if len(before) > maxTextBytes || len(after) > maxTextBytes {
		return &Text{Note: "too large to be compared by lines"}
	}
	if !readable(before) || !readable(after) {
		return &Text{Note: "no text"}
	}
	if before == after {
		return nil
	}
	ends := func(s string) bool { return s == "" || strings.HasSuffix(s, "\n") }
	oneEnds := ends(before) != ends(after)
	before, after = pieces(before), pieces(after)
	t := &Text{}
	add := func(mark, line string) {
		if n := len(t.Lines); n >= maxTextLines || n >= minTextLines && d.shown >= maxShownLines {
			t.LeftOut++
			return
		}
		d.shown++
		text, whole := strings.CutSuffix(line, "\n")
		if !whole && oneEnds && mark != "@@" {
			text += " (no line feed at the end)"
		}
		t.Lines = append(t.Lines, mark+text)
	}
	if before == "" || after == "" { // nothing is to be compared
		add("@@", fmt.Sprintf(" -1,%d +1,%d @@", countLines(before), countLines(after)))
		for line := range strings.Lines(before) {
			add("-", line)
		}
		for line := range strings.Lines(after) {
			add("+", line)
		}
		return t
	}
	u, err := udiff.ToUnifiedDiff("", "", before, udiff.Lines(before, after), context)
	if err != nil {
		return &Text{Note: "not compared by lines: " + err.Error()}
	}
	for _, h := range u.Hunks {
		add("@@", hunkHead(h))
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Delete:
				add("-", l.Content)
			case udiff.Insert:
				add("+", l.Content)
			default:
				add(" ", l.Content)
			}
		}
	}
	return t
}

// pieces divides long lines, so that a change far behind in one is seen.
func pieces(s string) string {
	long := false
	for line := range strings.SplitSeq(s, "\n") {
		long = long || len(line) > maxLineBytes
	}
	if !long {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		for len(line) > maxLineBytes+1 {
			n := maxLineBytes
			for n > 0 && !utf8.RuneStart(line[n]) {
				n--
			}
			b.WriteString(line[:n])
			b.WriteString("…\n")
			line = "…" + line[n:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// join puts the lines of another text behind these.
func (t *Text) join(other *Text) {
	if other == nil {
		return
	}
	n := max(0, min(len(other.Lines), maxPartsLines-len(t.Lines)))
	t.Lines = append(t.Lines, other.Lines[:n]...)
	t.LeftOut += other.LeftOut + len(other.Lines) - n
	if other.Note != "" {
		t.Lines = append(t.Lines, "@@ "+other.Note)
	}
}

// hunkHead says which lines a part is, before and after.
func hunkHead(h *udiff.Hunk) string {
	before, after := 0, 0
	for _, l := range h.Lines {
		if l.Kind != udiff.Insert {
			before++
		}
		if l.Kind != udiff.Delete {
			after++
		}
	}
	return fmt.Sprintf(" -%d,%d +%d,%d @@", h.FromLine, before, h.ToLine, after)
}

func readable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// bytes compares two files of a bundle; either may be nil.
func (d *differ) bytes(before, after *plan.BundleFile) *Text {
	if d.before.Open == nil && before != nil || d.after.Open == nil && after != nil {
		return &Text{Note: "only digests are at hand: compare closures or policies to see the lines"}
	}
	x, err := read(d.before.Open, before)
	if err == nil {
		var y string
		if y, err = read(d.after.Open, after); err == nil {
			return d.text(x, y)
		}
	}
	return &Text{Note: err.Error()}
}

func read(open func(string) (io.ReadCloser, error), f *plan.BundleFile) (string, error) {
	if f == nil || f.Mode == plan.ModeDir {
		return "", nil
	}
	if f.Bytes > maxTextBytes {
		return "", errors.New("too large to be compared by lines")
	}
	r, err := open(f.Digest)
	if err != nil {
		return "", errors.New("its bytes cannot be read")
	}
	data, err := io.ReadAll(io.LimitReader(r, maxTextBytes+1))
	if r.Close() != nil || err != nil {
		return "", errors.New("its bytes cannot be read")
	}
	return string(data), nil
}

// fileBytes is the digest of a file in a bundle: its bytes.
func fileBytes() rule {
	return rule{[]Case{widen("what a step reads or is held against is another text").when(whenChanges)}, func(p *place, a, b reflect.Value) {
		c := p.say(whenChanges, Changed, a.String(), b.String())
		c.Text = p.bytes(p.in[0].Addr().Interface().(*plan.BundleFile), p.in[1].Addr().Interface().(*plan.BundleFile))
	}}
}

// fileList is the files of a bundle.
func fileList() rule {
	return keyed(list{keys: []string{"Path"}, cases: plainly(widen("one more file that a step reads or is held against"), widen("what the file said does not hold any more")),
		shown: func(v reflect.Value) string {
			f := v.Addr().Interface().(*plan.BundleFile)
			return strings.TrimSpace(f.Mode + " " + f.Digest)
		},
		content: func(p *place, v reflect.Value, kind Kind) *Text {
			f := v.Addr().Interface().(*plan.BundleFile)
			if kind == Removed {
				return p.bytes(f, nil)
			}
			return p.bytes(nil, f)
		},
	})
}

const whenFollows = "changes only in the digests of bundles that changed"

// promptText is the exact text that a worker gets. It names its skills by their
// digests: where nothing else of it changed, that says no more than the skills.
func promptText() rule {
	return rule{[]Case{text.when(whenChanges), neutral("it names a skill that changed by its digest").when(whenFollows)}, func(p *place, a, b reflect.Value) {
		if p.withSkillsOf(p.in[0], a.String()) == b.String() {
			p.say(whenFollows, Changed, size(a.String()), size(b.String()))
			return
		}
		c := p.say(whenChanges, Changed, size(a.String()), size(b.String()))
		c.Text = p.text(a.String(), b.String())
	}}
}

// withSkillsOf is a prompt before the change with what it says of the node's
// skills as it is after it.
func (d *differ) withSkillsOf(node reflect.Value, prompt string) string {
	ids := []string{node.FieldByName("Skill").String()}
	if nested := node.FieldByName("NestedSkills"); nested.IsValid() {
		for i := range nested.Len() {
			ids = append(ids, nested.Index(i).String())
		}
	}
	if d.bundles == nil {
		d.bundles = map[string][2]*plan.Bundle{}
		for i := range d.before.Plan.Bundles {
			b := &d.before.Plan.Bundles[i]
			d.bundles[d.nowCalled(bundleList, b.ID)] = [2]*plan.Bundle{b}
		}
		for i := range d.after.Plan.Bundles {
			b := &d.after.Plan.Bundles[i]
			d.bundles[b.ID] = [2]*plan.Bundle{d.bundles[b.ID][0], b}
		}
	}
	var pairs []string
	for _, id := range ids {
		x, y := d.bundles[d.nowCalled(bundleList, id)][0], d.bundles[d.nowCalled(bundleList, id)][1]
		if x == nil || y == nil {
			continue
		}
		pairs = append(pairs, x.Digest, y.Digest)
		if x.Mold != nil && y.Mold != nil {
			pairs = append(pairs, x.Mold.ProvenanceDigest, y.Mold.ProvenanceDigest, castOf(x.Mold), castOf(y.Mold))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == "" { // a replacer would put the other between all characters
			return prompt
		}
	}
	return strings.NewReplacer(pairs...).Replace(prompt)
}

// castOf is how a prompt names the cast of a skill.
func castOf(m *plan.Mold) string { return fmt.Sprintf("revision %d, commit %s", m.Revision, m.Commit) }
