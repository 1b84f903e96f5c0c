package diag

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"phase", "loop", "branch", "max_iterations", "network", "credentials", "worker_credentials"}
	for _, c := range []struct{ word, want string }{
		{"phsae", "phase"},
		{"phase", ""}, // the word itself is no suggestion
		{"Phases", "phase"},
		{"lop", "loop"},
		{"max_iteration", "max_iterations"},
		{"maximum_iterations", "max_iterations"},
		{"credential", "credentials"},
		{"zzz", ""},
		{"", ""},
	} {
		if got := Nearest(c.word, words); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.word, got, c.want)
		}
	}
	if got := Nearest("ab", []string{"ac", "aa"}); got != "aa" {
		t.Errorf("of equals %q, want the first in order", got)
	}
}

func TestSortIsTotal(t *testing.T) {
	var l List
	for _, file := range []string{"a.hcl", "b.hcl"} {
		for i := range 5 {
			at := Range{File: file, Start: Pos{i, 1, i}, End: Pos{i, 2, i + 1}}
			l.Errorat(at, "one", "x")
			l.Errorat(at, "one", "y")
			l.Warnat(at, "one", "x")
		}
	}
	want := slices.Clone(l)
	want.Sort()
	for range 50 {
		got := append(slices.Clone(l), l[0]) // a repeat is dropped
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		got.Sort()
		if !slices.Equal(got, want) {
			t.Fatalf("order depends on the order of finding:\n%v\n%v", got, want)
		}
	}
}

func TestOneOf(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{{nil, "nothing"}, {[]string{"a"}, "a"}, {[]string{"b", "a", "c"}, "a, b or c"}} {
		if got := OneOf(c.words); got != c.want {
			t.Errorf("OneOf(%v) = %q, want %q", c.words, got, c.want)
		}
	}
}
