package attempt

import (
	"strings"
	"unicode/utf8"
)

// maxText bounds what a worker says in a record, in bytes.
const maxText = 2000

// text makes a worker's words fit for a record.
func text(s string) string { return bounded(s, maxText) }

// bounded makes s valid UTF-8 of at most limit bytes and an ellipsis.
func bounded(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
