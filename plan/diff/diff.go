package diff

import (
	"fmt"
	"io"
	"reflect"

	"foundry/plan"
)

// Class is what a change means.
type Class string

// Classes of a change, in ascending order.
const (
	Neutral Class = "neutral" // nothing more and nothing less
	Narrows Class = "narrows" // less may be done, spent or accepted
	Widens  Class = "widens"  // more may, or it cannot be shown that no more may
)

// Kind is how something changed.
type Kind string

// Kinds of a change.
const (
	Changed   Kind = "changed"
	Added     Kind = "added"
	Removed   Kind = "removed"
	Renamed   Kind = "renamed"   // the same thing under another name
	Reordered Kind = "reordered" // the same things in another order
)

// Change is one difference. Texts are as the plans have them: who shows them
// must escape what could mislead.
type Change struct {
	// Path leads to the place by ids, as nodes[summarize-cwl].sandbox.network;
	// the ids are those after the change, of what was removed those before it.
	Path   string `json:"path"`
	Row    string `json:"row"` // of the table, as Sandbox.network
	Kind   Kind   `json:"kind"`
	Class  Class  `json:"class"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Reason string `json:"reason"`
	Text   *Text  `json:"text,omitempty"` // lines, of prompts and files
}

// Side is one of the two plans.
type Side struct {
	Plan   *plan.Plan
	Digest string // the plan's identity, "" where nobody asked for it
	// Open gives a blob that the plan names; nil where the bytes are not at hand:
	// then files are compared by their digests alone.
	Open func(digest string) (io.ReadCloser, error)
}

// Report is what differs. Changes stand in the order of the plan's fields and
// lists. The same two plans give the same report.
type Report struct {
	Before  string   `json:"before"` // digests
	After   string   `json:"after"`
	Changes []Change `json:"changes"`
}

// Class is the worst of all changes: Widens before Narrows before Neutral, ""
// without any.
func (r *Report) Class() Class {
	for _, c := range []Class{Widens, Narrows, Neutral} {
		if r.Count(c) > 0 {
			return c
		}
	}
	return ""
}

// Count is the number of changes of a class.
func (r *Report) Count(class Class) int {
	n := 0
	for i := range r.Changes {
		if r.Changes[i].Class == class {
			n++
		}
	}
	return n
}

// Plans compares two plans. No change means that their encodings are equal. It
// is an error when a plan is of another format version, or has names that a
// reader could take for one another. It takes any two plans, valid or not.
func Plans(before, after Side) (*Report, error) {
	for _, s := range []struct {
		name string
		plan *plan.Plan
	}{{"before", before.Plan}, {"after", after.Plan}} {
		if s.plan == nil {
			return nil, fmt.Errorf("diff: there is no plan %s the change", s.name)
		}
		if s.plan.FormatVersion != plan.FormatVersion {
			return nil, fmt.Errorf("diff: the plan %s the change has format_version %d, this program compares %d: compile it again with this program", s.name, s.plan.FormatVersion, plan.FormatVersion)
		}
		if err := lookalikes(s.plan); err != nil {
			return nil, fmt.Errorf("diff: the plan %s the change: %w", s.name, err)
		}
	}
	d := &differ{before: before, after: after, report: &Report{Before: before.Digest, After: after.Digest, Changes: []Change{}}}
	d.rename()
	d.structs("", reflect.ValueOf(before.Plan).Elem(), reflect.ValueOf(after.Plan).Elem())
	d.cutValues()
	return d.report, nil
}

// differ is the state of one comparison.
type differ struct {
	before, after Side
	report        *Report
	renamed       map[string]map[string]string // list → id before → id after
	bundles       map[string][2]*plan.Bundle   // by id after the change, nil until it is asked for
	order         *order                       // nil until it is asked for
	phases        int                          // steps whose phase has another number
	phaseAt       int                          // the change that says so
	proven        int                          // work of the proofs so far
	choices       map[string]bool              // steps that were alternatives of a branch that is still there, nil until it is asked for
	shown         int                          // lines of texts so far
}

// structs compares two structs field by field, each by its row.
func (d *differ) structs(at string, a, b reflect.Value) {
	for _, f := range fieldsOf(a.Type()) {
		fa, fb := a.Field(f.index), b.Field(f.index)
		if same(fa, fb) {
			continue
		}
		path := f.key
		if at != "" {
			path = at + "." + f.key
		}
		place := &place{differ: d, row: f.row, path: path, in: [2]reflect.Value{a, b}}
		f.row.compare(place, fa, fb)
	}
}

// place is a field that differs.
type place struct {
	*differ
	row  *Row
	path string
	in   [2]reflect.Value // the structs that hold the field

	writable map[string]bool // of a list of mounts, folders after the change; nil until it is asked for
}

// say reports a change: when is one of the row's cases.
func (p *place) say(when string, kind Kind, before, after string) *Change {
	return p.sayAt(p.path, when, kind, before, after)
}

func (p *place) sayAt(path, when string, kind Kind, before, after string) *Change {
	c := Change{Path: path, Row: p.row.Field, Kind: kind, Class: Widens, Reason: when, Before: before, After: after}
	for _, k := range p.row.Cases {
		if k.When == when {
			c.Class, c.Reason = k.Class, k.Why
		}
	}
	p.report.Changes = append(p.report.Changes, c)
	return &p.report.Changes[len(p.report.Changes)-1]
}

// same reports whether two values are encoded to the same bytes.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.Pointer() == b.Pointer() || same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return true
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	default:
		return a.Int() == b.Int()
	}
}
