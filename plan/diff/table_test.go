package diff

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"foundry/plan"
)

// change is one change of one field: what it must be called.
type change struct {
	row   string
	when  string
	class Class
	edit  func(a, b *plan.Plan)
}

type changes []change

func (l *changes) add(row, when string, class Class, edit func(a, b *plan.Plan)) {
	*l = append(*l, change{row, when, class, edit})
}

// after edits the plan after the change alone.
func (l *changes) after(row, when string, class Class, edit func(p *plan.Plan)) {
	l.add(row, when, class, func(_, b *plan.Plan) { edit(b) })
}

// both edits either plan: once in one direction and once in the other.
func (l *changes) both(row, when string, class Class, back string, backClass Class, edit func(p *plan.Plan)) {
	l.add(row, when, class, func(_, b *plan.Plan) { edit(b) })
	l.add(row, back, backClass, func(a, _ *plan.Plan) { edit(a) })
}

// grows: a larger number widens and a smaller one narrows.
func (l *changes) grows(row string, of func(p *plan.Plan) *int64) {
	l.both(row, "grows", Widens, "shrinks", Narrows, func(p *plan.Plan) { *of(p)++ })
}

// neutralNumber: neither means anything.
func (l *changes) neutralNumber(row string, of func(p *plan.Plan) *int64) {
	l.both(row, "grows", Neutral, "shrinks", Neutral, func(p *plan.Plan) { *of(p)++ })
}

// flips: a boolean that becomes true is of one class, and false of the other.
func (l *changes) flips(row string, yes, no Class, of func(p *plan.Plan) *bool) {
	l.add(row, "becomes true", yes, func(a, b *plan.Plan) { *of(a), *of(b) = false, true })
	l.add(row, "becomes false", no, func(a, b *plan.Plan) { *of(a), *of(b) = true, false })
}

// becomes: a text becomes another one.
func (l *changes) becomes(row, when string, class Class, of func(p *plan.Plan) *string, from, to string) {
	l.add(row, when, class, func(a, b *plan.Plan) { *of(a), *of(b) = from, to })
}

// present: a text is set, dropped and replaced.
func (l *changes) present(row string, set, dropped, changes Class, of func(p *plan.Plan) *string) {
	l.becomes(row, "is set", set, of, "", "one")
	l.becomes(row, "is dropped", dropped, of, "one", "")
	l.becomes(row, "changes", changes, of, "one", "another")
}

// ranks: words from the least to the most that each allows.
func (l *changes) ranks(row string, of func(p *plan.Plan) *string, least, most string) {
	i := slices.IndexFunc(table, func(r Row) bool { return r.Field == row })
	l.becomes(row, table[i].Cases[0].When, Widens, of, least, most)
	l.becomes(row, table[i].Cases[1].When, Narrows, of, most, least)
	l.becomes(row, "changes", Widens, of, least, "unheard")
}

// list: an entry more, an entry less, and the same in another order.
func (l *changes) list(row string, added, removed, order Class, of func(p *plan.Plan) *[]string) {
	l.add(row, "added", added, func(a, b *plan.Plan) { *of(a), *of(b) = []string{"a", "b"}, []string{"a", "b", "c"} })
	l.add(row, "removed", removed, func(a, b *plan.Plan) { *of(a), *of(b) = []string{"a", "b"}, []string{"b"} })
	l.add(row, "reordered", order, func(a, b *plan.Plan) { *of(a), *of(b) = []string{"a", "b"}, []string{"b", "a"} })
}

// entries: of a list of structs, one more, one less, another order.
func entries[T any](l *changes, row string, added, removed Class, of func(p *plan.Plan) *[]T, extra T) {
	l.both(row, "added", added, "removed", removed, func(p *plan.Plan) { *of(p) = append(slices.Clone(*of(p)), extra) })
	reorders(l, row, of, extra)
}

func reorders[T any](l *changes, row string, of func(p *plan.Plan) *[]T, extra T) {
	l.add(row, "reordered", Neutral, func(a, b *plan.Plan) {
		*of(a), *of(b) = append(slices.Clone(*of(a)), extra), append([]T{extra}, *of(b)...)
	})
}

// TestEachChangeOfEachField makes one change of every field of a plan, of each
// kind that the table knows, and holds its class against what is written here.
func TestEachChangeOfEachField(t *testing.T) {
	var all changes
	all.addPlan()
	all.addBundles()
	all.addWorkers()
	all.addNode()
	all.addSandbox()
	all.addFlow()
	all.addCallable()
	all.addEvaluation()

	type rowCase struct{ row, when string }
	tested := map[rowCase]bool{}
	for _, c := range all {
		tested[rowCase{c.row, c.when}] = true
		t.Run(c.row+" "+c.when, func(t *testing.T) {
			a, b := everything(t), everything(t)
			c.edit(a, b)
			r := compare(t, a, b)
			var found *Change
			for i := range r.Changes {
				if r.Changes[i].Row == c.row {
					found = &r.Changes[i]
				}
			}
			if found == nil {
				t.Fatalf("no change of %s: %+v", c.row, r.Changes)
			}
			if found.Class != c.class {
				t.Errorf("%s is %s, want %s: %+v", c.row, found.Class, c.class, *found)
			}
			why := ""
			for _, row := range Rows() {
				if row.Field == c.row {
					for _, k := range row.Cases {
						if k.When == c.when {
							why = k.Why
						}
					}
				}
			}
			if found.Reason != why || why == "" {
				t.Errorf("the reason is %q, and the table's %q for %q", found.Reason, why, c.when)
			}
			if !strings.Contains(found.Path, strings.ToLower(c.row[strings.IndexByte(c.row, '.')+1:])) && found.Kind != Added && found.Kind != Removed && found.Kind != Reordered {
				t.Errorf("%s is at %s", c.row, found.Path)
			}
		})
	}
	for _, r := range Rows() {
		struc, _, _ := strings.Cut(r.Field, ".")
		if struc == "Expr" || struc == "Fact" || struc == "Literal" {
			continue // compared as a whole: see TestPredicates
		}
		for _, k := range r.Cases {
			if !tested[rowCase{r.Field, k.When}] {
				t.Errorf("no change is made of %s: %q (%s)", r.Field, k.When, k.Class)
			}
		}
	}
}

// keys are the fields that tell the entries of a list apart, each with another
// value.
var keys = map[string]func(p *plan.Plan){
	"Model.id":            func(p *plan.Plan) { p.Providers[0].Models[0].ID = "other" },
	"File.path":           func(p *plan.Plan) { p.Nodes[0].Files[0].Path = "{scratch}/other" },
	"NodeInput.artifact":  func(p *plan.Plan) { p.Nodes[0].Inputs[0].Artifact = "other" },
	"NodeOutput.artifact": func(p *plan.Plan) { p.Nodes[0].Outputs[0].Artifact = "other" },
	"Mount.destination":   func(p *plan.Plan) { p.Nodes[0].Sandbox.Mounts[0].Destination = "/other" },
	"Probe.tool":          func(p *plan.Plan) { p.Probes[0].Tool = "other" },
	"Tool.name":           func(p *plan.Plan) { p.Tools[0].Name, p.Tools[0].By = "other", plan.ToolUnavailable },
	"Callable.skill":      func(p *plan.Plan) { p.Package.Callable[0].Skill = "skill:other" },
	"Guard.set":           func(p *plan.Plan) { p.Guards[0].Set = "other" },
	"Guard.name":          func(p *plan.Plan) { p.Guards[0].Name = "other" },
	"Property.key":        func(p *plan.Plan) { p.Evaluation.Properties[0].Key = "other" },
	"Property.kind":       func(p *plan.Plan) { p.Evaluation.Properties[0].Kind = "other" },
	"Case.key":            func(p *plan.Plan) { p.Evaluation.Cases[0].Key = "other" },
}

// TestKeys: with another key an entry is another one, the old one is gone, and
// one of the two widens.
func TestKeys(t *testing.T) {
	for row, edit := range keys {
		a, b := everything(t), everything(t)
		edit(b)
		r := compare(t, a, b)
		kinds := map[Kind]int{}
		for _, c := range r.Changes {
			kinds[c.Kind]++
		}
		if len(r.Changes) != 2 || kinds[Added] != 1 || kinds[Removed] != 1 || r.Count(Widens) == 0 {
			t.Errorf("%s: %+v", row, r.Changes)
		}
	}
	types := fieldTypes()
	for _, r := range Rows() {
		if len(r.Cases) == 0 && keys[r.Field] == nil && types[r.Field].Kind() != reflect.Struct && r.Field != "Plan.format_version" {
			t.Errorf("%s has no case and is tested nowhere", r.Field)
		}
	}
}
