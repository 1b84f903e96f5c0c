package diag

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// maxWord bounds the words that are compared, so that a long one costs nothing.
const maxWord = 128

// Nearest returns the candidate that is closest to word by edit distance, or
// "" when none is close enough to be a slip of the hand: one edit for up to
// four letters, two for up to eight, then a quarter of the length. Of equals it takes
// the one that sorts first.
func Nearest(word string, candidates []string) string {
	if word == "" || len(word) > maxWord {
		return ""
	}
	limit := 1
	switch n := len(word); {
	case n > 8:
		limit = n / 4
		limit = max(limit, 2)
	case n > 4:
		limit = 2
	}
	best, found := limit+1, ""
	for _, c := range candidates {
		if len(c) > maxWord || c == word {
			continue
		}
		d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(c), nil)
		if d < best || d == best && d <= limit && c < found {
			best, found = d, c
		}
	}
	return found
}

// DidYouMean is Nearest as a sentence with a leading space, or "".
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return fmt.Sprintf(" Did you mean %q?", near)
	}
	return ""
}

// OneOf lists words for a message: "a, b or c", sorted.
func OneOf(words []string) string {
	w := slices.Clone(words)
	slices.Sort(w)
	switch len(w) {
	case 0:
		return "nothing"
	case 1:
		return w[0]
	}
	return strings.Join(w[:len(w)-1], ", ") + " or " + w[len(w)-1]
}
