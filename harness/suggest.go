package harness

import "unicode/utf8"

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
		d := distance([]rune(word), []rune(c), limit)
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

// distance counts insertions, deletions, replacements and swaps of neighbours;
// more than limit is returned as limit+1.
func distance(a, b []rune, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		prev[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j+1]+1, row[j]+1, prev[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], prev2[j-1]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return min(prev[len(b)], limit+1)
}
