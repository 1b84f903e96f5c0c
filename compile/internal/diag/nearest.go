package diag

import (
	"fmt"
	"slices"
	"strings"
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
		d := distance(strings.ToLower(word), strings.ToLower(c), limit)
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

// distance is the optimal string alignment distance of a and b (a swap of two
// neighbours is one edit), or limit+1 when it is larger than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return min(prev[len(b)], limit+1)
}
