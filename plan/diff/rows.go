package diff

import (
	"reflect"
	"slices"
	"strings"

	"foundry/plan"
)

// Row says how one field of a plan is compared, and what its changes mean.
type Row struct {
	Field   string // Go type of the struct, a dot, the key in the file: Sandbox.network
	Cases   []Case
	compare func(p *place, before, after reflect.Value)
}

// Case is one way in which a field changes.
type Case struct {
	When  string
	Class Class
	Why   string // what the change lets happen
}

// Rows is the table: a row for every field of a plan, in the order of the file.
func Rows() []Row {
	rows := slices.Clone(table)
	for i := range rows {
		rows[i].Cases = slices.Clone(rows[i].Cases)
	}
	return rows
}

type field struct {
	index int
	key   string
	row   *Row
}

// fields has the compared fields of each struct of a plan.
var fields map[reflect.Type][]field

func init() { fields = indexRows(reflect.TypeFor[plan.Plan](), map[reflect.Type][]field{}) }

func fieldsOf(t reflect.Type) []field { return fields[t] }

// unknownField is the row of a field that the table lacks: a test keeps it from
// being used, and if it is, what changed there widens.
func unknownField(name string) *Row {
	r := row(name, whole(widen("nothing is known about this field")))
	return &r
}

func indexRows(t reflect.Type, into map[reflect.Type][]field) map[reflect.Type][]field {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return indexRows(t.Elem(), into)
	case reflect.Struct:
	default:
		return into
	}
	if into[t] != nil {
		return into
	}
	into[t] = []field{}
	var list []field
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		name := t.Name() + "." + key
		r := slices.IndexFunc(table, func(r Row) bool { return r.Field == name })
		if r < 0 {
			list = append(list, field{i, key, unknownField(name)})
		} else {
			list = append(list, field{i, key, &table[r]})
		}
		indexRows(t.Field(i).Type, into)
	}
	into[t] = list
	return into
}
