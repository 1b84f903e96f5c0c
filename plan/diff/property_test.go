package diff

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"foundry/plan"
)

// TestEmptyWhereTheDigestsAreEqual: whatever is changed anywhere in a plan, it
// differs where and only where its bytes do, in both directions.
func TestEmptyWhereTheDigestsAreEqual(t *testing.T) {
	full := everything(t)
	encoded, err := plan.Encode(full)
	if err != nil {
		t.Fatal(err)
	}
	different := 0
	rapid.Check(t, func(t *rapid.T) {
		var sides [2]*plan.Plan
		for i := range sides {
			p, err := plan.Decode(encoded)
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 3).Draw(t, "edits") {
				mutate(t, reflect.ValueOf(p).Elem())
			}
			p.FormatVersion = plan.FormatVersion
			sides[i] = p
		}
		a, errA := plan.Encode(sides[0])
		b, errB := plan.Encode(sides[1])
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		r, err := Plans(Side{Plan: sides[0]}, Side{Plan: sides[1]})
		if err != nil {
			return // names that look alike
		}
		if same := bytes.Equal(a, b); same != (len(r.Changes) == 0) {
			t.Fatalf("equal bytes: %v; changes: %+v\n%s", same, r.Changes, cmp.Diff(string(a), string(b)))
		} else if !same {
			different++
		}
		back, err := Plans(Side{Plan: sides[1]}, Side{Plan: sides[0]})
		if err != nil || (len(back.Changes) == 0) != (len(r.Changes) == 0) {
			t.Fatalf("back: %v, %+v", err, back)
		}
		for _, c := range r.Changes {
			if c.Path == "" || c.Reason == "" || c.Row == "" || c.Kind == "" {
				t.Fatalf("not told: %+v", c)
			}
			if c.Kind == Changed && c.Before == c.After && (c.Text == nil || len(c.Text.Lines) == 0) && strings.HasSuffix(c.Before, "…") {
				t.Fatalf("hidden behind a cut: %+v", c)
			}
		}
	})
	if different == 0 {
		t.Error("no two plans differed")
	}
}

var long = strings.Repeat("long ", 500)

// mutate changes one place somewhere below a value.
func mutate(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		mutate(t, v.Field(rapid.IntRange(0, v.NumField()-1).Draw(t, "field")))
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
		case rapid.IntRange(0, 3).Draw(t, "drop") == 0:
			v.SetZero()
		default:
			mutate(t, v.Elem())
		}
	case reflect.Slice:
		n := v.Len()
		if n == 0 {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			return
		}
		i := rapid.IntRange(0, n-1).Draw(t, "index")
		// A copy: slices of one plan may share their entries.
		list := reflect.MakeSlice(v.Type(), 0, n+1)
		switch rapid.IntRange(0, 5).Draw(t, "how") {
		case 0:
			list = reflect.AppendSlice(reflect.AppendSlice(list, v.Slice(0, i)), v.Slice(i+1, n))
		case 1:
			list = reflect.Append(reflect.AppendSlice(list, v), v.Index(i))
		case 2:
			list = reflect.AppendSlice(list, v)
			x, y := list.Index(0).Interface(), list.Index(i).Interface()
			list.Index(0).Set(reflect.ValueOf(y))
			list.Index(i).Set(reflect.ValueOf(x))
		default:
			list = reflect.AppendSlice(list, v)
			mutate(t, list.Index(i))
		}
		v.Set(list)
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "a", "b", v.String() + "x", long, long + "x", "input:refs", "node:draft", "skill:draft", "summarize", "10", "9.5", "fail"}).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		v.SetInt(v.Int() + rapid.Int64Range(-2, 2).Draw(t, "number"))
	}
}

// FuzzDiff: no two plans make a comparison panic; a plan does not differ from
// itself, and differs from another one in the same way each time, if and only
// if their bytes differ.
func FuzzDiff(f *testing.F) {
	var all [][]byte
	for _, name := range []string{"full", "blackbox", "minimal"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", name+".plan.json"))
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, data)
	}
	for _, a := range all {
		for _, b := range all {
			f.Add(a, b)
		}
	}
	f.Fuzz(func(t *testing.T, x, y []byte) {
		var sides [2]Side
		var encoded [2][]byte
		for i, data := range [][]byte{x, y} {
			// A change of bytes seldom leaves them canonical: what they mean counts.
			p := new(plan.Plan)
			if json.Unmarshal(data, p) != nil || len(data) > 1<<18 {
				return
			}
			p.FormatVersion = plan.FormatVersion
			var err error
			if encoded[i], err = plan.Encode(p); err != nil {
				return
			}
			sides[i] = Side{Plan: p, Digest: strconv.Itoa(i)}
		}
		for _, s := range sides {
			if r, err := Plans(s, s); err == nil && len(r.Changes) > 0 {
				t.Errorf("a plan differs from itself: %+v", r.Changes)
			}
		}
		r, err := Plans(sides[0], sides[1])
		again, errAgain := Plans(sides[0], sides[1])
		if (err == nil) != (errAgain == nil) {
			t.Fatal(err, errAgain)
		}
		if err != nil {
			return
		}
		if d := cmp.Diff(r, again); d != "" {
			t.Errorf("another report of the same plans:\n%s", d)
		}
		if bytes.Equal(encoded[0], encoded[1]) != (len(r.Changes) == 0) {
			t.Errorf("equal bytes: %v; changes: %+v", bytes.Equal(encoded[0], encoded[1]), r.Changes)
		}
	})
}
