package diff

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"foundry/plan"
)

// sample reads a plan of the golden files of package plan.
func sample(t testing.TB, name string) *plan.Plan {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", name+".plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everything is a plan that has every field: the trace with all features, and
// the package of the black box.
func everything(t testing.TB) *plan.Plan {
	p := sample(t, "full")
	p.Package = sample(t, "blackbox").Package
	return p
}

func compare(t testing.TB, a, b *plan.Plan) *Report {
	t.Helper()
	r, err := Plans(Side{Plan: a}, Side{Plan: b})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fieldTypes are the fields of a plan by the names of their rows.
func fieldTypes() map[string]reflect.Type {
	out, seen := map[string]reflect.Type{}, map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out[typ.Name()+"."+key] = f.Type
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[plan.Plan]())
	return out
}

// TestEveryFieldHasARow fails when a field is added to a plan without a row, or
// a row is left behind.
func TestEveryFieldHasARow(t *testing.T) {
	types := fieldTypes()
	rows := map[string]bool{}
	for _, r := range Rows() {
		if rows[r.Field] {
			t.Errorf("%s has two rows", r.Field)
		}
		rows[r.Field] = true
		if types[r.Field] == nil {
			t.Errorf("the row %s is of no field of a plan", r.Field)
		}
	}
	for name := range types {
		if !rows[name] {
			t.Errorf("%s of a plan has no row in table.go: say what its changes mean", name)
		}
	}
	if len(types) < 190 {
		t.Errorf("only %d fields are found", len(types))
	}
}

// TestFieldWithoutARow: what the table does not know widens.
func TestFieldWithoutARow(t *testing.T) {
	type thing struct {
		Known   string `json:"id"`
		Unheard string `json:"unheard"`
	}
	typ := reflect.TypeFor[thing]()
	found := indexRows(typ, map[reflect.Type][]field{})[typ]
	for _, f := range found {
		d := &differ{report: &Report{}}
		f.row.compare(&place{differ: d, row: f.row, path: f.key}, reflect.ValueOf("a"), reflect.ValueOf("b"))
		if d.report.Class() != Widens || d.report.Changes[0].Row != "thing."+f.key {
			t.Errorf("%+v", d.report.Changes)
		}
	}
	if len(found) != 2 {
		t.Errorf("%d fields", len(found))
	}
}

func TestNoDifference(t *testing.T) {
	for _, name := range []string{"full", "blackbox", "minimal", "pipeline12"} {
		if r := compare(t, sample(t, name), sample(t, name)); len(r.Changes) > 0 || r.Class() != "" {
			t.Errorf("%s differs from itself: %+v", name, r.Changes)
		}
	}
}

// chain is a plan of n steps, each after the one before it.
func chain(t testing.TB, n int) *plan.Plan {
	p := sample(t, "pipeline12")
	model := p.Nodes[1]
	p.Nodes = p.Nodes[:1]
	for i := 1; i < n; i++ {
		x := model
		x.ID = fmt.Sprintf("%s#%d", p.Nodes[0].ID, i+1)
		x.Phase = int64(i + 1)
		x.Needs = []string{p.Nodes[i-1].ID}
		p.Nodes = append(p.Nodes, x)
	}
	return p
}

// BenchmarkDiff prints how long a comparison of two plans takes beside the
// decoding of both, which whoever compares them must do first.
func BenchmarkDiff(b *testing.B) {
	for _, change := range []string{"nothing", "one", "every", "renamed", "turned", "another"} {
		for _, n := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", change, n), func(b *testing.B) {
				before, after := chain(b, n), chain(b, n)
				switch change {
				case "one":
					after.Nodes[n/2].Budget.Turns++
				case "renamed":
					for i := range after.Nodes {
						after.Nodes[i].ID += ".x"
						for k := range after.Nodes[i].Needs {
							after.Nodes[i].Needs[k] += ".x"
						}
					}
				case "turned":
					slices.Reverse(after.Nodes)
					for i := range after.Nodes {
						after.Nodes[i].Phase = int64(i + 1)
						after.Nodes[i].Needs = nil
						if i > 0 {
							after.Nodes[i].Needs = []string{after.Nodes[i-1].ID}
						}
					}
				case "another":
					for i := range after.Nodes {
						x := &after.Nodes[i]
						x.ID, x.Skill, x.Outputs = fmt.Sprintf("other#%d", i+2), "skill:other", nil
						x.Needs = nil
					}
				case "every":
					// One step is new, so that all behind it have another number, and every
					// step may write more.
					for i := range after.Nodes {
						x := &after.Nodes[i]
						x.Phase++
						x.Budget.OutputBytes++
						x.Prompt += "More.\n"
					}
				}
				var encoded [2][]byte
				for i, p := range []*plan.Plan{before, after} {
					data, err := plan.Encode(p)
					if err != nil {
						b.Fatal(err)
					}
					encoded[i] = data
				}
				var decoding, comparing time.Duration
				for b.Loop() {
					start := time.Now()
					var sides [2]Side
					for i := range sides {
						p, err := plan.Decode(bytes.Clone(encoded[i]))
						if err != nil {
							b.Fatal(err)
						}
						sides[i].Plan = p
					}
					middle := time.Now()
					r, err := Plans(sides[0], sides[1])
					if err != nil || (len(r.Changes) > 0) != (change != "nothing") {
						b.Fatal(err, len(r.Changes))
					}
					decoding += middle.Sub(start)
					comparing += time.Since(middle)
				}
				b.ReportMetric(float64(comparing)/float64(decoding), "diff/decode")
			})
		}
	}
}
