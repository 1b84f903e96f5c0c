package bundle

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"foundry/compile/internal/diag"
	"foundry/plan"
	"foundry/plan/document"
)

// Summaries of what is wrong with a document's form.
const (
	summarySyntax     = "Invalid document"
	summaryUnknownKey = "Unknown key"
	summaryWrongCase  = "Misspelled key"
	summaryMissingKey = "Missing key"
	summaryWrongType  = "Wrong type"
	summaryBadValue   = "Invalid value"
	summaryDuplicate  = "Duplicate entry"
)

// source is one file that is being decoded; problems are written to it.
type source struct {
	file     string // as the user named it
	data     []byte // the whole file
	problems *diag.List
}

// parse reads the source's document, or says why it cannot be read.
func (s *source) parse(parser func([]byte, document.Limits) (*document.Value, error), l document.Limits) (*document.Value, bool) {
	v, err := parser(s.data, l)
	if err == nil {
		return v, true
	}
	at := s.place(0)
	detail := err.Error()
	if de, ok := errors.AsType[*document.Error](err); ok {
		at = s.placeError(de)
		detail = sentence(de.Msg, de.Hint)
	} else {
		detail = sentence(detail, "")
	}
	s.problems.Errorat(at, summarySyntax, detail)
	return nil, false
}

// sentence joins what is wrong and the way out.
func sentence(msg, hint string) string {
	msg = capital(msg) + "."
	if hint != "" {
		msg += " Way out: " + strings.TrimSuffix(hint, ".") + "."
	}
	return msg
}

func capital(s string) string {
	s = strings.TrimSuffix(s, ".")
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// placeError is where a refused document is wrong.
func (s *source) placeError(e *document.Error) diag.Range {
	if e.Line <= 0 {
		return s.place(0)
	}
	at := 0
	for line := 1; line < e.Line; line++ {
		next := bytes.IndexByte(s.data[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	end := len(s.data)
	if next := bytes.IndexByte(s.data[at:], '\n'); next >= 0 {
		end = at + next
	}
	return s.place(min(at+max(e.Column, 1)-1, end))
}

// at is the place of a value or key of the document.
func (s *source) at(p document.Pos) diag.Range {
	return s.span(p.Line, p.Offset-(p.Column-1), p.Offset)
}

// place is the place of a byte of the file.
func (s *source) place(offset int) diag.Range {
	offset = min(max(offset, 0), len(s.data))
	before := s.data[:offset]
	return s.span(1+bytes.Count(before, []byte{'\n'}), bytes.LastIndexByte(before, '\n')+1, offset)
}

// maxCounted is up to where a column is counted in what a reader sees; beyond
// it, in a file without line breaks, in bytes, so that the cost stays linear.
const maxCounted = 4096

func (s *source) span(line, start, offset int) diag.Range {
	column := 1 + offset - start
	if column <= maxCounted {
		column = 1 + uniseg.GraphemeClusterCount(string(s.data[start:offset]))
	}
	p := diag.Pos{Line: line, Column: column, Byte: offset}
	return diag.Range{File: s.file, Start: p, End: p}
}

// object is one object of a document. What says which, for messages.
type object struct {
	*source
	v    *document.Value
	what string
}

// How object treats a key that it does not know.
type unknownKeys int

const (
	refuse   unknownKeys = iota // any
	nearMiss                    // only one that is nearly the name of a known key that is absent
	tolerate                    // none
)

// object checks that v is an object and its keys. In every mode a key that
// differs from a known one by letter case alone is refused: readers disagree
// on what it means.
func (s *source) object(v *document.Value, what string, unknown unknownKeys, known ...string) (object, bool) {
	if v.Kind != document.Object {
		s.problems.Errorat(s.at(v.Pos), summaryWrongType, fmt.Sprintf("%s must be an object, it is %s.", capital(what), aKind(v.Kind)))
		return object{}, false
	}
	ok := true
	for _, m := range v.Members {
		if slices.Contains(known, m.Key) {
			continue
		}
		near := nearest(m.Key, known)
		switch {
		case near != "" && foldName(near) == foldName(m.Key):
			s.problems.Errorat(s.at(m.KeyPos), summaryWrongCase, fmt.Sprintf("The key %q of %s is spelled %q. Write it so.", m.Key, what, near))
		case unknown == refuse, unknown == nearMiss && near != "" && v.Get(near) == nil:
			s.problems.Errorat(s.at(m.KeyPos), summaryUnknownKey, fmt.Sprintf("%s has no key %q.%s", capital(what), m.Key, didYouMean(near, known)))
		default:
			continue
		}
		ok = false
	}
	return object{s, v, what}, ok
}

func (o object) wrong(v *document.Value, key, want string) {
	o.problems.Errorat(o.at(v.Pos), summaryWrongType, fmt.Sprintf("%q of %s must be %s, it is %s.", key, o.what, want, aKind(v.Kind)))
}

func (o object) bad(key, detail string) {
	at := o.v.Pos
	if v := o.v.Get(key); v != nil {
		at = v.Pos
	}
	o.problems.Errorat(o.at(at), summaryBadValue, detail)
}

// need returns the value of a key that must be there.
func (o object) need(key string) *document.Value {
	v := o.v.Get(key)
	if v == nil {
		o.problems.Errorat(o.at(o.v.Pos), summaryMissingKey, fmt.Sprintf("%s has no %q.", capital(o.what), key))
	}
	return v
}

// text returns a string that is not empty.
func (o object) text(key string) (string, bool) {
	if o.need(key) == nil {
		return "", false
	}
	s, ok := o.optText(key)
	if ok && s == "" {
		o.bad(key, fmt.Sprintf("%q of %s is empty.", key, o.what))
		return "", false
	}
	return s, ok
}

// optText returns a string, "" when the key is absent.
func (o object) optText(key string) (string, bool) {
	v := o.v.Get(key)
	if v == nil {
		return "", true
	}
	if v.Kind != document.String {
		o.wrong(v, key, "a string")
		return "", false
	}
	return v.Str, true
}

// id returns a name that may stand in a plan.
func (o object) id(key string) (string, bool) {
	s, ok := o.text(key)
	if ok && !plan.ValidID(s) {
		o.bad(key, fmt.Sprintf("%q of %s is %q: %s.", key, o.what, s, idRule))
		return "", false
	}
	return s, ok
}

const idRule = "a name has 1 to 128 of a-z, A-Z, 0-9, '.', '_' and '-' and starts with a letter or digit"

// count returns a whole number from 0 on.
func (o object) count(key string) (int64, bool) {
	v := o.need(key)
	if v == nil {
		return 0, false
	}
	if v.Kind != document.Number {
		o.wrong(v, key, "a whole number")
		return 0, false
	}
	n, err := strconv.ParseInt(v.Number, 10, 64)
	if err != nil || n < 0 {
		o.bad(key, fmt.Sprintf("%q of %s is %s: it must be a whole number from 0 on, without exponent or fraction.", key, o.what, v.Number))
		return 0, false
	}
	return n, true
}

func (o object) boolean(key string) (value, ok bool) {
	v := o.need(key)
	if v == nil {
		return false, false
	}
	if v.Kind != document.Bool {
		o.wrong(v, key, "true or false")
		return false, false
	}
	return v.Bool, true
}

// list returns the items of an array, none when the key is absent.
func (o object) list(key string) ([]*document.Value, bool) {
	v := o.v.Get(key)
	if v == nil {
		return nil, true
	}
	if v.Kind != document.Array {
		o.wrong(v, key, "a list")
		return nil, false
	}
	return v.Items, true
}

// texts returns the items of an array of strings.
func (o object) texts(key string) ([]string, bool) {
	items, ok := o.list(key)
	var texts []string
	for i, item := range items {
		if item.Kind != document.String {
			o.wrong(item, fmt.Sprintf("%s[%d]", key, i), "a string")
			ok = false
			continue
		}
		texts = append(texts, item.Str)
	}
	return texts, ok
}

// schemaName returns the name in "[[name]]", "" when the key is absent.
func (o object) schemaName(key string) (string, bool) {
	s, ok := o.optText(key)
	if !ok || o.v.Get(key) == nil {
		return "", ok
	}
	name, opened := strings.CutPrefix(s, "[[")
	name, closed := strings.CutSuffix(name, "]]")
	if !opened || !closed || !plan.ValidID(name) {
		o.bad(key, fmt.Sprintf("%q of %s is %q: it must be [[NAME]], for the file references/schemas/NAME.schema.json of the bundle.", key, o.what, s))
		return "", false
	}
	return name, true
}

// aKind names a kind with its article.
func aKind(k document.Kind) string {
	switch k {
	case document.Array, document.Object:
		return "an " + k.String()
	case document.Null:
		return "null"
	default:
		return "a " + k.String()
	}
}

// nearest returns the word of known that is most like s, "" when none is. A
// word that differs by case alone comes first.
func nearest(s string, known []string) string {
	for _, k := range known {
		if foldName(k) == foldName(s) {
			return k
		}
	}
	return diag.Nearest(s, known)
}

// didYouMean is the end of a message on an unknown word.
func didYouMean(near string, known []string) string {
	if near != "" {
		return fmt.Sprintf(" Did you mean %q?", near)
	}
	const most = 12
	sorted := slices.Clone(known)
	slices.SortFunc(sorted, cmp.Compare[string])
	if len(sorted) > most {
		return ""
	}
	return " Known are " + strings.Join(sorted, ", ") + "."
}
