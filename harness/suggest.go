package harness

import (
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// Suggest returns the candidate that word was most likely meant to be, "" if
// none is near: at most one edit in three characters, and never more than
// four. Of equally near ones it takes the smallest.
func Suggest(word string, candidates []string) string {
	limit := min(4, max(1, utf8.RuneCountInString(word)/3))
	best, at := "", limit+1
	for _, c := range candidates {
		if c == word || c == "" {
			continue
		}
		d := levenshtein.Distance(word, c, nil)
		if d < at || d == at && d <= limit && c < best {
			best, at = c, d
		}
	}
	return best
}

// DidYouMean is the end of an error message: ": did you mean X?", or "".
func DidYouMean(word string, candidates []string) string {
	if s := Suggest(word, candidates); s != "" {
		return ": did you mean " + s + "?"
	}
	return ""
}
