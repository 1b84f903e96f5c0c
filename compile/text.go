package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
	"foundry/plan/document"
)

// sentence makes a full sentence of an error text.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return s
	}
	r, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(r)) + s[size:]
	if last := s[len(s)-1]; last != '.' && last != '!' && last != '?' {
		s += "."
	}
	return s
}

func quote(s string) string { return strconv.Quote(s) }

// list writes names for a message: "a", "a and b", "a, b and c".
func list(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + n + "`"
	}
	switch n := len(quoted); n {
	case 0:
		return "none"
	case 1:
		return quoted[0]
	default:
		return strings.Join(quoted[:n-1], ", ") + " and " + quoted[n-1]
	}
}

// hint says which of the words there are may have been meant.
func hint(word string, candidates []string) string {
	if near := diag.Nearest(word, candidates); near != "" {
		return fmt.Sprintf("Did you mean %s?", quote(near))
	}
	sorted := slices.Clone(candidates)
	slices.Sort(sorted)
	switch {
	case len(sorted) == 0:
		return "There is none."
	case len(sorted) == 1:
		return "There is " + list(sorted) + "."
	case len(sorted) > 12:
		return fmt.Sprintf("There are %s and %d more.", list(sorted[:12]), len(sorted)-12)
	}
	return "There are " + list(sorted) + "."
}

// sortedSet returns a sorted copy without repeats; never nil.
func sortedSet(items []string) []string {
	out := append([]string{}, items...)
	slices.Sort(out)
	return slices.Compact(out)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// decimal is the canonical decimal text of an evaluated number.
func decimal(v cty.Value) (string, error) {
	return document.CanonicalNumber(v.AsBigFloat().Text('f', -1))
}
