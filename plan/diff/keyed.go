package diff

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/mtibben/confusables"
)

// list is how a list of structs is compared: entries with one key are the same
// entry.
type list struct {
	keys  []string // Go names of the fields that are the key
	cases []Case
	// when says which case an entry is that was added or removed; without it,
	// whenAdded and whenRemoved.
	when func(p *place, entry reflect.Value, kind Kind) string
	// ordered reports the order of the entries; without it, it means nothing.
	ordered func(p *place, before, after []paired)
	// shown is an entry in one line; without it, brief.
	shown func(reflect.Value) string
	// content is the text of an entry that was added or removed, if it has one.
	content func(p *place, entry reflect.Value, kind Kind) *Text
}

// paired is an entry that both plans have.
type paired struct {
	key  string // after the change
	a, b int    // index before and after
}

func keyed(l list) rule {
	if l.ordered == nil {
		l.cases = append(l.cases, neutral("the same entries: their order means nothing").when(whenReordered))
	}
	return rule{l.cases, l.compare}
}

// plainly are the cases of a list whose entries all mean the same.
func plainly(added, removed verdict) []Case {
	return []Case{added.when(whenAdded), removed.when(whenRemoved)}
}

func (l *list) compare(p *place, a, b reflect.Value) {
	before, after := l.keysOf(a), l.keysOf(b)
	for i, k := range before {
		before[i] = p.nowCalled(p.row.Field, k)
	}
	before, after = unique(before), unique(after)
	at := make(map[string]int, len(before))
	for i, k := range before {
		at[k] = i
	}
	moved := p.movedFiles(a, b, at, after)
	var pairs []paired
	for j, k := range after {
		i, ok := at[k]
		if !ok {
			if i, ok = moved[j]; !ok {
				l.say(p, k, b.Index(j), Added)
				continue
			}
			delete(at, before[i])
		}
		delete(at, k)
		pairs = append(pairs, paired{k, i, j})
		if x, y := a.Index(i), b.Index(j); !same(x, y) {
			p.structs(p.path+"["+k+"]", x, y)
		}
	}
	for i, k := range before {
		if j, ok := at[k]; ok && j == i {
			l.say(p, k, a.Index(i), Removed)
		}
	}
	if slices.IsSortedFunc(pairs, func(x, y paired) int { return x.a - y.a }) {
		return
	}
	if l.ordered != nil {
		sorted := slices.Clone(pairs)
		slices.SortFunc(sorted, func(x, y paired) int { return x.a - y.a })
		l.ordered(p, sorted, pairs)
		return
	}
	p.say(whenReordered, Reordered, "", "")
}

func (l *list) say(p *place, key string, entry reflect.Value, kind Kind) {
	when := whenAdded
	if kind == Removed {
		when = whenRemoved
	}
	if l.when != nil {
		when = l.when(p, entry, kind)
	}
	shown := brief
	if l.shown != nil {
		shown = l.shown
	}
	before, after := shown(entry), ""
	if kind == Added {
		before, after = "", before
	}
	c := p.sayAt(p.path+"["+key+"]", when, kind, before, after)
	switch {
	case l.content != nil:
		c.Text = l.content(p, entry, kind)
	case l.shown == nil && kind == Added:
		p.whole(c, reflect.Value{}, entry)
	case l.shown == nil:
		p.whole(c, entry, reflect.Value{})
	}
}

func (l *list) keysOf(v reflect.Value) []string {
	out := make([]string, v.Len())
	for i := range out {
		out[i] = keyOf(v.Index(i), l.keys)
	}
	return out
}

func keyOf(v reflect.Value, keys []string) string {
	if len(keys) == 1 {
		return v.FieldByName(keys[0]).String()
	}
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = v.FieldByName(k).String()
	}
	return strings.Join(parts, " ")
}

// unique tells entries of one key apart by their number: no valid plan has any.
func unique(keys []string) []string {
	seen := make(map[string]int, len(keys))
	for i, k := range keys {
		if seen[k]++; seen[k] > 1 {
			keys[i] = k + "\x00" + strconv.Itoa(seen[k])
		}
	}
	return keys
}

// key is a field that tells the entries of a list apart: another key is another
// entry, so that this field alone never changes.
func key() rule {
	return rule{nil, func(p *place, a, b reflect.Value) { p.say(whenChanges, Changed, brief(a), brief(b)) }}
}

const whenAlike = "to one that looks the same"

// name is a key under which nothing but references changes when the entry is
// renamed.
func name(v verdict) rule {
	return rule{[]Case{v.when(whenRenamed), widen("the new name looks like the old one").when(whenAlike)}, func(p *place, a, b reflect.Value) {
		when := whenRenamed
		if confusables.Confusable(a.String(), b.String()) {
			when = whenAlike
		}
		p.say(when, Renamed, a.String(), b.String())
	}}
}
