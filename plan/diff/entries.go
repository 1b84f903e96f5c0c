package diff

import (
	"reflect"
	"strings"

	"foundry/plan"
)

// price is what the provider asks: where it is lower, the same budget buys more.
func price() rule {
	return decimal(narrow("the same budget buys less"), widen("the same budget buys more"))
}

// wayOut is the way out of a branch.
func wayOut(input, fail, another verdict) rule {
	return rule{[]Case{input.when(whenSet), fail.when(whenDropped), another.when(whenChanges)}, func(p *place, a, b reflect.Value) {
		before, after := p.translate(a.String()), b.String()
		switch {
		case before == after:
		case before == plan.OtherwiseFail:
			p.say(whenSet, Changed, before, after)
		case after == plan.OtherwiseFail:
			p.say(whenDropped, Changed, before, after)
		default:
			p.say(whenChanges, Changed, before, after)
		}
	}}
}

// Cases of bundles, tools and outputs.
const (
	whenSchemaAdded     = "a schema added"
	whenWaivedAdded     = "a waived one added"
	whenOptionalRemoved = "an optional one removed"
)

// bundleRows is the list of bundles.
func bundleRows() rule {
	return keyed(list{keys: []string{"ID"},
		cases: append(plainly(widen("bytes that a step may be given"), less), neutral("outputs are held against it where they name it").when(whenSchemaAdded)),
		when: func(_ *place, v reflect.Value, kind Kind) string {
			switch {
			case kind == Removed:
				return whenRemoved
			case strings.HasPrefix(v.FieldByName("ID").String(), plan.BundleSchema+":"):
				return whenSchemaAdded
			}
			return whenAdded
		},
		shown: func(v reflect.Value) string { return v.FieldByName("Digest").String() },
		content: func(p *place, v reflect.Value, kind Kind) *Text {
			if kind == Removed {
				return nil
			}
			all := &Text{}
			b := v.Addr().Interface().(*plan.Bundle)
			for i := range b.Files {
				f := &b.Files[i]
				all.Lines = append(all.Lines, "@@ "+f.Path+" "+f.Mode)
				all.join(p.bytes(nil, f))
			}
			return all
		},
	})
}

// treeDigest is the digest of a bundle's list of files: it follows from them,
// and says more only where it does not.
func treeDigest() rule {
	return rule{[]Case{widen("it does not follow from the files").when(whenChanges)}, func(p *place, a, b reflect.Value) {
		if same(p.in[0].FieldByName("Files"), p.in[1].FieldByName("Files")) {
			p.say(whenChanges, Changed, a.String(), b.String())
		}
	}}
}

// fileSize is the size of a file: it follows from its bytes.
func fileSize() rule {
	return rule{[]Case{widen("it does not follow from the bytes").when(whenChanges)}, func(p *place, a, b reflect.Value) {
		if same(p.in[0].FieldByName("Digest"), p.in[1].FieldByName("Digest")) {
			p.say(whenChanges, Changed, brief(a), brief(b))
		}
	}}
}

// toolList is how each required tool is had.
func toolList() rule {
	return keyed(list{keys: []string{"Name"},
		cases: []Case{neutral("a tool that is required is there").when(whenAdded), widen("a tool that is required is waived").when(whenWaivedAdded), neutral("it is not required any more").when(whenRemoved)},
		when: func(_ *place, v reflect.Value, kind Kind) string {
			switch {
			case kind == Removed:
				return whenRemoved
			case v.FieldByName("By").String() == plan.ToolUnavailable:
				return whenWaivedAdded
			}
			return whenAdded
		},
	})
}

// outputList is what a step must and may give.
func outputList() rule {
	return keyed(list{keys: []string{"Artifact"},
		cases: []Case{widen("one more artifact crosses the border").when(whenAdded), widen("the step succeeds without it").when(whenRemoved), narrow("the step does not give it any more").when(whenOptionalRemoved)},
		when: func(_ *place, v reflect.Value, kind Kind) string {
			switch {
			case kind == Added:
				return whenAdded
			case v.FieldByName("Required").String() == plan.Optional:
				return whenOptionalRemoved
			}
			return whenRemoved
		},
	})
}

// textFiles are the small files that stand in the plan itself.
func textFiles() rule {
	return keyed(list{keys: []string{"Path"}, cases: plainly(text, widen("what the file said does not hold any more")),
		shown: func(v reflect.Value) string { return size(v.FieldByName("Content").String()) },
		content: func(p *place, v reflect.Value, kind Kind) *Text {
			if c := v.FieldByName("Content").String(); kind == Removed {
				return p.text(c, "")
			} else {
				return p.text("", c)
			}
		},
	})
}

const whenUncovered = "one inside a writable folder removed"

// mountList is what a process sees of the world.
func mountList() rule {
	return keyed(list{keys: []string{"Destination"}, shown: mountShown,
		cases: append(plainly(widen("it sees one more folder"), narrow("it sees one folder fewer")), widen("it may write where that was").when(whenUncovered)),
		when: func(p *place, v reflect.Value, kind Kind) string {
			if kind == Added {
				return whenAdded
			}
			if p.writable == nil {
				p.writable = map[string]bool{}
				mounts := p.in[1].FieldByName("Mounts")
				for i := range mounts.Len() {
					m := mounts.Index(i).Addr().Interface().(*plan.Mount)
					p.writable[m.Destination] = m.Mode != plan.MountReadOnly
				}
			}
			at := v.FieldByName("Destination").String()
			for i := strings.LastIndexByte(at, '/'); i > 0; i = strings.LastIndexByte(at, '/') {
				if at = at[:i]; p.writable[at] {
					return whenUncovered
				}
			}
			return whenRemoved
		},
	})
}

func mountShown(v reflect.Value) string {
	m := v.Addr().Interface().(*plan.Mount)
	s := m.Mode + " " + m.Source
	if m.Bytes > 0 {
		s += ", " + brief(v.FieldByName("Bytes")) + " bytes"
	}
	return s
}
