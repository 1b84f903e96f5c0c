package document

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fewKeys is up to where comparing each key with each other is cheaper than
// building a map.
const fewKeys = 8

// keySet finds keys of one object that are equal, or equal after Unicode case
// folding. The latter are refused because many readers, Go's among them, fold
// case, so one reader would see one value and the next one another.
type keySet struct{ seen map[string]int }

// add checks the last member of members against the ones before it.
func (k *keySet) add(members []Member) *Error {
	last := len(members) - 1
	key := members[last].Key
	if last < fewKeys {
		for i := range last {
			if strings.EqualFold(members[i].Key, key) {
				return keyClash(members[i], members[last])
			}
		}
		return nil
	}
	if k.seen == nil {
		k.seen = make(map[string]int, 2*fewKeys)
		for i := range last {
			k.seen[foldKey(members[i].Key)] = i
		}
	}
	folded := foldKey(key)
	if i, ok := k.seen[folded]; ok {
		return keyClash(members[i], members[last])
	}
	k.seen[folded] = last
	return nil
}

func keyClash(first, second Member) *Error {
	e := &Error{Line: second.KeyPos.Line, Column: second.KeyPos.Column}
	if first.Key == second.Key {
		e.Msg = fmt.Sprintf("the key %s is there twice, first at line %d, column %d", quote(second.Key), first.KeyPos.Line, first.KeyPos.Column)
		e.Hint = "keep one of the two"
		return e
	}
	e.Msg = fmt.Sprintf("the key %s differs only by letter case from %s at line %d, column %d",
		quote(second.Key), quote(first.Key), first.KeyPos.Line, first.KeyPos.Column)
	e.Hint = "some readers take the two for one key: rename one"
	return e
}

// foldKey maps keys that strings.EqualFold takes for equal to one string.
func foldKey(s string) string {
	i := 0
	for i < len(s) && s[i] < utf8.RuneSelf && (s[i] < 'a' || s[i] > 'z') {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		b.WriteRune(foldRune(r))
	}
	return b.String()
}

// foldRune returns the smallest rune that equals r after simple case folding.
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if r >= 'a' && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// quote quotes a key for a message, in printable characters only and short.
func quote(s string) string {
	const most = 60
	if len(s) <= most {
		return fmt.Sprintf("%+q", s)
	}
	return fmt.Sprintf("%+q…", strings.ToValidUTF8(s[:most], ""))
}
