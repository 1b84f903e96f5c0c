package diff

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"foundry/plan"
)

var update = flag.Bool("update", false, "write docs/diff-classes.md again")

// TestDocs: the page of the table is the table.
func TestDocs(t *testing.T) {
	name := filepath.Join("..", "..", "docs", "diff-classes.md")
	want := classesPage()
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not the table any more: go test ./plan/diff -update writes it", name)
	}
}

func classesPage() []byte {
	var b bytes.Buffer
	b.WriteString(`# What a change of a plan means

Written by ` + "`go test ./plan/diff -update`" + ` from the table that ` + "`foundry diff`" + ` uses. A row stands for
one field of a plan; [review.md](review.md) says how to read it. A predicate is compared as a
whole: ` + "`all`, `any`, `every`" + ` and bounds of one number are compared by form, and what cannot be
proven narrower widens. What has no row widens.

| field | widens | narrows | neutral |
| --- | --- | --- | --- |
`)
	paths := fieldPaths()
	for _, r := range Rows() {
		struc, _, _ := strings.Cut(r.Field, ".")
		if len(r.Cases) == 0 || struc == "Expr" || struc == "Fact" || struc == "Literal" {
			continue
		}
		fmt.Fprintf(&b, "| `%s` |", paths[r.Field])
		for _, class := range []Class{Widens, Narrows, Neutral} {
			var whys []string
			when := map[string][]string{}
			for _, k := range r.Cases {
				if k.Class == class {
					if when[k.Why] == nil {
						whys = append(whys, k.Why)
					}
					when[k.Why] = append(when[k.Why], k.When)
				}
			}
			for i, why := range whys {
				whys[i] = "*" + strings.Join(when[why], ", ") + "*: " + why
			}
			fmt.Fprintf(&b, " %s |", strings.Join(whys, "<br>"))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// fieldPaths is where each row's field first stands in a plan.
func fieldPaths() map[string]string {
	out := map[string]string{}
	var walk func(typ reflect.Type, at string)
	walk = func(typ reflect.Type, at string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			if typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct {
				at += "[ID]"
			}
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for i := range typ.NumField() {
			key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			name := typ.Name() + "." + key
			if out[name] != "" {
				continue
			}
			path := strings.TrimPrefix(at+"."+key, ".")
			out[name] = path
			walk(typ.Field(i).Type, path)
		}
	}
	walk(reflect.TypeFor[plan.Plan](), "")
	return out
}
