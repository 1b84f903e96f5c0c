package diff

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"foundry/plan"
	"foundry/predicates"
)

// rule is how a field is compared.
type rule struct {
	cases   []Case
	compare func(p *place, before, after reflect.Value)
}

func row(name string, r rule) Row { return Row{Field: name, Cases: r.cases, compare: r.compare} }

// verdict is a class with its reason.
type verdict struct {
	class Class
	why   string
}

func widen(why string) verdict   { return verdict{Widens, why} }
func narrow(why string) verdict  { return verdict{Narrows, why} }
func neutral(why string) verdict { return verdict{Neutral, why} }

func (v verdict) when(when string) Case { return Case{when, v.class, v.why} }

// What happened to a field; the words of Case.When.
const (
	whenChanges   = "changes"
	whenGrows     = "grows"
	whenShrinks   = "shrinks"
	whenSet       = "is set"
	whenDropped   = "is dropped"
	whenAdded     = "added"
	whenRemoved   = "removed"
	whenRenamed   = "renamed"
	whenReordered = "reordered"
	whenTowards   = "towards " // one of words that have an order
	whenNarrower  = "is provably narrower"
	whenSame      = "says the same in other words"
	whenTrue      = "becomes true"
	whenFalse     = "becomes false"
)

// whole is a value any change of which means the same.
func whole(v verdict) rule {
	return rule{[]Case{v.when(whenChanges)}, func(p *place, a, b reflect.Value) {
		p.say(whenChanges, Changed, brief(a), brief(b))
	}}
}

// grows is a number that bounds something: more of it is more.
func grows(what string) rule {
	return number(widen("more "+what), narrow("less "+what))
}

// growsCount is the same for what is counted.
func growsCount(what string) rule {
	return number(widen("more "+what), narrow("fewer "+what))
}

// number is an integer.
func number(more, less verdict) rule {
	return rule{[]Case{more.when(whenGrows), less.when(whenShrinks)}, func(p *place, a, b reflect.Value) {
		when := whenGrows
		if b.Int() < a.Int() {
			when = whenShrinks
		}
		p.say(when, Changed, brief(a), brief(b))
	}}
}

// flagged is a boolean.
func flagged(yes, no verdict) rule {
	return rule{[]Case{yes.when(whenTrue), no.when(whenFalse)}, func(p *place, a, b reflect.Value) {
		when := whenFalse
		if b.Bool() {
			when = whenTrue
		}
		p.say(when, Changed, brief(a), brief(b))
	}}
}

// optional is a text that may be absent.
func optional(set, dropped, changes verdict) rule {
	return rule{[]Case{set.when(whenSet), dropped.when(whenDropped), changes.when(whenChanges)}, func(p *place, a, b reflect.Value) {
		before, after := p.translate(a.String()), b.String()
		switch {
		case before == after:
		case before == "":
			p.say(whenSet, Changed, "", after)
		case after == "":
			p.say(whenDropped, Changed, before, "")
		default:
			p.say(whenChanges, Changed, before, after)
		}
	}}
}

// ranked is one of words that stand in the order of what they allow. Words that
// are not among them, and those in one group, cannot be compared: that widens.
func ranked(more, less, other verdict, groups ...[]string) rule {
	rank := func(s string) int {
		return slices.IndexFunc(groups, func(g []string) bool { return slices.Contains(g, s) })
	}
	up := whenTowards + strings.Join(groups[len(groups)-1], " or ")
	down := whenTowards + strings.Join(slices.DeleteFunc(slices.Clone(groups[0]), func(s string) bool { return s == "" }), " or ")
	return rule{[]Case{more.when(up), less.when(down), other.when(whenChanges)}, func(p *place, a, b reflect.Value) {
		x, y := rank(a.String()), rank(b.String())
		when := whenChanges
		switch {
		case x < 0 || y < 0 || x == y:
		case y > x:
			when = up
		default:
			when = down
		}
		p.say(when, Changed, a.String(), b.String())
	}}
}

func words(s ...string) []string { return s }

// decimal is a number that is written as a text.
func decimal(more, less verdict) rule {
	return rule{[]Case{more.when(whenGrows), less.when(whenShrinks)}, func(p *place, a, b reflect.Value) {
		when := whenGrows
		if compareDecimals(a.String(), b.String()) >= 0 {
			when = whenShrinks
		}
		p.say(when, Changed, a.String(), b.String())
	}}
}

// compareDecimals compares two canonical decimal numbers of at least 0; what is
// no such number is taken for 0, which widens where less widens.
func compareDecimals(a, b string) int {
	aw, af := halves(a)
	bw, bf := halves(b)
	if len(aw) != len(bw) {
		return len(aw) - len(bw)
	}
	if c := strings.Compare(aw, bw); c != 0 {
		return c
	}
	return strings.Compare(af, bf)
}

func halves(s string) (whole, fraction string) {
	if !plan.ValidDecimal(s) || s[0] == '-' {
		return "0", ""
	}
	whole, fraction, _ = strings.Cut(s, ".")
	return whole, fraction
}

// set is a list of texts whose order means nothing.
func set(added, removed verdict) rule {
	return rule{[]Case{added.when(whenAdded), removed.when(whenRemoved), neutral("the same entries: their order means nothing").when(whenReordered)}, func(p *place, a, b reflect.Value) {
		before, after := p.texts(a, true), p.texts(b, false)
		in, out := lacking(after, before), lacking(before, after)
		for _, s := range in {
			p.say(whenAdded, Added, "", s)
		}
		for _, s := range out {
			p.say(whenRemoved, Removed, s, "")
		}
		if len(in)+len(out) == 0 && !slices.Equal(before, after) {
			p.say(whenReordered, Reordered, join(before), join(after))
		}
	}}
}

// sequence is a list of texts whose order means something. It is named as order
// where the same entries stand in another one.
func sequence(added, removed, order verdict) rule {
	return rule{[]Case{added.when(whenAdded), removed.when(whenRemoved), order.when(whenReordered)}, func(p *place, a, b reflect.Value) {
		before, after := p.texts(a, true), p.texts(b, false)
		in, out := lacking(after, before), lacking(before, after)
		for _, s := range in {
			p.say(whenAdded, Added, "", s)
		}
		for _, s := range out {
			p.say(whenRemoved, Removed, s, "")
		}
		if stay, still := without(before, out), without(after, in); !slices.Equal(stay, still) {
			p.say(whenReordered, Reordered, join(stay), join(still))
		}
	}}
}

// argv is a list of texts that means something as a whole.
func argv(v verdict) rule {
	return rule{[]Case{v.when(whenChanges)}, func(p *place, a, b reflect.Value) {
		c := p.say(whenChanges, Changed, brief(a), brief(b))
		p.whole(c, a, b)
	}}
}

// texts are the entries of a list, with ids as they are after the change.
func (p *place) texts(v reflect.Value, before bool) []string {
	out := make([]string, v.Len())
	for i := range out {
		out[i] = v.Index(i).String()
		if before {
			out[i] = p.translate(out[i])
		}
	}
	return out
}

func join(list []string) string { return strings.Join(list, ", ") }

// lacking are the entries of a that b has not, as often as a has more of them.
func lacking(a, b []string) []string {
	have := make(map[string]int, len(b))
	for _, s := range b {
		have[s]++
	}
	var out []string
	for _, s := range a {
		if have[s]--; have[s] < 0 {
			out = append(out, s)
		}
	}
	return out
}

// without is a list less the last of its entries that drop has.
func without(list, drop []string) []string {
	gone := make(map[string]int, len(drop))
	for _, s := range drop {
		gone[s]++
	}
	out := make([]string, 0, len(list))
	for _, s := range slices.Backward(list) {
		if gone[s] > 0 {
			gone[s]--
			continue
		}
		out = append(out, s)
	}
	slices.Reverse(out)
	return out
}

// object is a struct that is always there.
func object() rule {
	return rule{nil, func(p *place, a, b reflect.Value) { p.structs(p.path, a, b) }}
}

// part is a struct that may be absent.
func part(added, removed verdict) rule {
	return rule{[]Case{added.when(whenAdded), removed.when(whenRemoved)}, func(p *place, a, b reflect.Value) {
		switch {
		case a.IsNil():
			c := p.say(whenAdded, Added, "", brief(b))
			p.whole(c, reflect.Value{}, b)
		case b.IsNil():
			c := p.say(whenRemoved, Removed, brief(a), "")
			p.whole(c, a, reflect.Value{})
		default:
			p.structs(p.path, a.Elem(), b.Elem())
		}
	}}
}

// inside is a field that is compared with the whole that it is a part of: the
// field itself is never reached.
func inside(v verdict) rule { return whole(v) }

// predicate is a condition that something must meet.
func predicate(narrower, changes verdict, more ...Case) rule {
	cases := append([]Case{narrower.when(whenNarrower), neutral("the same conditions").when(whenSame), changes.when(whenChanges)}, more...)
	return rule{cases, func(p *place, a, b reflect.Value) {
		if a.Kind() == reflect.Pointer {
			switch {
			case a.IsNil():
				p.say(whenSet, Added, "", predicates.Format(*b.Interface().(*plan.Expr)))
				return
			case b.IsNil():
				p.say(whenDropped, Removed, predicates.Format(*a.Interface().(*plan.Expr)), "")
				return
			}
			a, b = a.Elem(), b.Elem()
		}
		before, after := a.Addr().Interface().(*plan.Expr), b.Addr().Interface().(*plan.Expr)
		stricter := p.implies(after, before)
		when := whenChanges
		switch {
		case stricter && p.implies(before, after):
			when = whenSame
		case stricter:
			when = whenNarrower
		}
		p.say(when, Changed, predicates.Format(*before), predicates.Format(*after))
	}}
}

// lines is a text of lines.
func lines(v verdict) rule {
	return rule{[]Case{v.when(whenChanges)}, func(p *place, a, b reflect.Value) {
		c := p.say(whenChanges, Changed, size(a.String()), size(b.String()))
		c.Text = p.text(a.String(), b.String())
	}}
}

func size(s string) string {
	switch n := countLines(s); n {
	case 0:
		return "nothing"
	case 1:
		return "1 line"
	default:
		return strconv.Itoa(n) + " lines"
	}
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// maxBrief bounds a value in one line: what is longer stands in the change's
// text, too, so that nothing hides behind a cut.
const maxBrief = 240

// brief is a value in one line.
func brief(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.Interface()); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// whole gives a change the lines of both values, as the plan's file has them,
// where one is too long for one line. A value that is not there is zero.
func (d *differ) whole(c *Change, a, b reflect.Value) {
	if len(c.Before) <= maxBrief && len(c.After) <= maxBrief {
		return
	}
	c.Text = d.text(canonical(a), canonical(b))
}

// canonical is a value as the plan's file has it.
func canonical(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	return encoding(v.Interface())
}

// cutValues bounds the values of all changes. One that had no lines so far and
// is cut gets them.
func (d *differ) cutValues() {
	for i := range d.report.Changes {
		c := &d.report.Changes[i]
		if c.Text == nil && (len(c.Before) > maxBrief || len(c.After) > maxBrief) {
			c.Text = d.text(c.Before, c.After)
		}
		c.Before, c.After = cut(c.Before, 4*maxBrief), cut(c.After, 4*maxBrief)
	}
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
