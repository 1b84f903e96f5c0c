package document

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseJSON reads one JSON document (RFC 8259). It is stricter than the RFC
// demands where readers differ: no byte order mark, valid UTF-8 only, no
// unpaired surrogate, no key twice or in two letter cases, no number beyond
// the bounds of CanonicalNumber. An error is an *Error. The tree keeps one
// copy of the text alive.
func ParseJSON(data []byte, l Limits) (*Value, error) {
	l = l.withDefaults()
	if err := checkText(data, l, "JSON"); err != nil {
		return nil, err
	}
	p := jsonParser{src: string(data), line: 1, limits: l}
	v, err := p.document()
	if err != nil {
		return nil, err // not v, err: a nil *Error must not become an error
	}
	return v, nil
}

// checkText refuses what neither parser should see: too many bytes, a byte
// order mark, invalid UTF-8, a Markdown fence around the document.
func checkText(data []byte, l Limits, format string) error {
	if int64(len(data)) > l.Bytes {
		return &Error{Msg: fmt.Sprintf("the document has %d bytes, more than %d", len(data), l.Bytes)}
	}
	if bytes.HasPrefix(data, []byte("\xEF\xBB\xBF")) {
		return &Error{Line: 1, Column: 1, Msg: "the document starts with a byte order mark", Hint: "write it as UTF-8 without one"}
	}
	if bytes.HasPrefix(data, []byte("\xFF\xFE")) || bytes.HasPrefix(data, []byte("\xFE\xFF")) {
		return &Error{Line: 1, Column: 1, Msg: "the document is UTF-16", Hint: "write it as UTF-8 without a byte order mark"}
	}
	if !utf8.Valid(data) {
		at := 0
		for at < len(data) {
			r, size := utf8.DecodeRune(data[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		line := 1 + bytes.Count(data[:at], []byte{'\n'})
		column := at - bytes.LastIndexByte(data[:at], '\n')
		return &Error{Line: line, Column: column, Msg: fmt.Sprintf("the byte 0x%02X is no valid UTF-8", data[at]), Hint: "write the document as UTF-8"}
	}
	body := bytes.TrimLeft(data, " \t\r\n")
	if bytes.HasPrefix(body, []byte("```")) || bytes.HasPrefix(body, []byte("~~~")) {
		at := len(data) - len(body)
		return &Error{
			Line: 1 + bytes.Count(data[:at], []byte{'\n'}), Column: at - bytes.LastIndexByte(data[:at], '\n'),
			Msg:  "the document starts with a Markdown fence",
			Hint: fmt.Sprintf("the artifact must be the bare %s document, without the lines of ``` around it", format),
		}
	}
	return nil
}

type jsonParser struct {
	src       string
	at        int
	line      int
	lineStart int // offset of the first byte of the line
	values    int
	limits    Limits
	slab      []Value
}

func (p *jsonParser) document() (*Value, *Error) {
	p.space()
	if p.at == len(p.src) {
		return nil, p.fail(p.at, "the document is empty", "a JSON document is one value")
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	p.space()
	if p.at < len(p.src) {
		return nil, p.fail(p.at, "something follows the document: "+p.seen(), p.trailingHint())
	}
	return v, nil
}

func (p *jsonParser) trailingHint() string {
	switch c := p.src[p.at]; c {
	case '/', '#':
		return "JSON has no comments"
	case '`', '~':
		return "the artifact must be the bare JSON document, without the lines of ``` around it"
	default:
		return "the artifact must be one JSON document and nothing else"
	}
}

func (p *jsonParser) pos() Pos {
	return Pos{Line: p.line, Column: p.at - p.lineStart + 1, Offset: p.at}
}

// fail makes the error for the byte at the given offset of the current line.
func (p *jsonParser) fail(at int, msg, hint string) *Error {
	return &Error{Line: p.line, Column: at - p.lineStart + 1, Msg: msg, Hint: hint}
}

// seen names what stands at the current place.
func (p *jsonParser) seen() string {
	if p.at >= len(p.src) {
		return "the end of the document"
	}
	r, _ := utf8.DecodeRuneInString(p.src[p.at:])
	return fmt.Sprintf("%+q", r)
}

func (p *jsonParser) space() {
	for p.at < len(p.src) {
		switch p.src[p.at] {
		case ' ', '\t', '\r':
			p.at++
		case '\n':
			p.at++
			p.line++
			p.lineStart = p.at
		default:
			return
		}
	}
}

// next hands out values from blocks, which costs a fraction of allocating each.
func (p *jsonParser) next(kind Kind) (*Value, *Error) {
	if p.values++; p.values > p.limits.Values {
		return nil, p.fail(p.at, fmt.Sprintf("the document has more than %d values", p.limits.Values), "")
	}
	if len(p.slab) == 0 {
		p.slab = make([]Value, min(max(p.values, 4), 256))
	}
	v := &p.slab[0]
	p.slab = p.slab[1:]
	v.Kind, v.Pos = kind, p.pos()
	return v, nil
}

func (p *jsonParser) value(depth int) (*Value, *Error) {
	if p.at == len(p.src) {
		return nil, p.fail(p.at, "the document ends where a value must be", "it is cut short")
	}
	switch c := p.src[p.at]; {
	case c == '{' || c == '[':
		if depth >= p.limits.Depth {
			return nil, p.fail(p.at, fmt.Sprintf("arrays and objects are nested deeper than %d", p.limits.Depth), "")
		}
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case c == '"':
		v, err := p.next(String)
		if err == nil {
			v.Str, err = p.str()
		}
		return v, err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	default:
		return p.word()
	}
}

func (p *jsonParser) word() (*Value, *Error) {
	rest := p.src[p.at:]
	end := 0
	for end < len(rest) && (rest[end] >= 'a' && rest[end] <= 'z' || rest[end] >= 'A' && rest[end] <= 'Z') {
		end++
	}
	kind := Bool
	switch rest[:end] {
	case "true", "false":
	case "null":
		kind = Null
	case "":
		return nil, p.fail(p.at, p.seen()+" where a value must be", p.valueHint())
	default:
		return nil, p.fail(p.at, fmt.Sprintf("%s where a value must be", quote(rest[:end])), wordHint(rest[:end]))
	}
	v, err := p.next(kind)
	if err != nil {
		return nil, err
	}
	v.Bool = rest[0] == 't'
	p.at += end
	return v, nil
}

func (p *jsonParser) valueHint() string {
	switch p.src[p.at] {
	case '\'':
		return "JSON strings stand in double quotes"
	case '/', '#':
		return "JSON has no comments"
	case ']', '}':
		return "JSON allows no comma before it"
	case '+', '.':
		return "JSON numbers start with a digit or \"-\""
	default:
		return ""
	}
}

func wordHint(word string) string {
	switch lower := strings.ToLower(word); lower {
	case "true", "false", "null":
		return fmt.Sprintf("write %s in lower case", lower)
	case "none", "nil", "undefined":
		return "write null"
	case "nan", "infinity", "inf":
		return "JSON has finite numbers only"
	default:
		return "text stands in double quotes"
	}
}

// number checks the grammar and the bounds that CanonicalNumber has.
func (p *jsonParser) number() (*Value, *Error) {
	v, err := p.next(Number)
	if err != nil {
		return nil, err
	}
	src, start, i := p.src, p.at, p.at
	if src[i] == '-' {
		i++
	}
	whole := i
	i = digitsEnd(src, i)
	switch {
	case i == whole:
		return nil, p.fail(start, "\"-\" without a number", "JSON has finite decimal numbers only")
	case src[whole] == '0' && i > whole+1:
		return nil, p.fail(start, "a number that starts with 0", "JSON numbers have no leading zero; put quotes around an identifier")
	}
	if i < len(src) && src[i] == '.' {
		fraction := i + 1
		if i = digitsEnd(src, fraction); i == fraction {
			return nil, p.fail(start, "a number that ends with its point", "a digit must follow the point")
		}
	}
	plain := true
	if i < len(src) && (src[i] == 'e' || src[i] == 'E') {
		plain = false
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		exponent := i
		if i = digitsEnd(src, exponent); i == exponent {
			return nil, p.fail(start, "a number without the digits of its exponent", "")
		}
	}
	v.Number = src[start:i]
	// A plain number this short is in bounds.
	if !plain || i-start > MaxDigits {
		if _, err := CanonicalNumber(v.Number); err != nil {
			return nil, p.fail(start, err.Error(), "write it as a string if it is no number to count with")
		}
	}
	p.at = i
	return v, nil
}

func digitsEnd(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

func (p *jsonParser) array(depth int) (*Value, *Error) {
	v, err := p.next(Array)
	if err != nil {
		return nil, err
	}
	p.at++ // [
	p.space()
	if p.at < len(p.src) && p.src[p.at] == ']' {
		p.at++
		return v, nil
	}
	for {
		item, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, item)
		p.space()
		more, err := p.comma(']', "array")
		if err != nil {
			return nil, err
		}
		if !more {
			return v, nil
		}
	}
}

func (p *jsonParser) object(depth int) (*Value, *Error) {
	v, err := p.next(Object)
	if err != nil {
		return nil, err
	}
	p.at++ // {
	p.space()
	if p.at < len(p.src) && p.src[p.at] == '}' {
		p.at++
		return v, nil
	}
	var keys keySet
	for {
		if p.at == len(p.src) || p.src[p.at] != '"' {
			hint := "keys stand in double quotes"
			if p.at < len(p.src) && p.src[p.at] == '}' {
				hint = p.valueHint()
			}
			return nil, p.fail(p.at, p.seen()+" where a key must be", hint)
		}
		keyPos := p.pos()
		key, err := p.str()
		if err != nil {
			return nil, err
		}
		v.Members = append(v.Members, Member{Key: key, KeyPos: keyPos})
		if err := keys.add(v.Members); err != nil {
			return nil, err
		}
		p.space()
		if p.at == len(p.src) || p.src[p.at] != ':' {
			return nil, p.fail(p.at, p.seen()+" where \":\" must follow the key", "")
		}
		p.at++
		p.space()
		if v.Members[len(v.Members)-1].Value, err = p.value(depth); err != nil {
			return nil, err
		}
		p.space()
		more, err := p.comma('}', "object")
		if err != nil {
			return nil, err
		}
		if !more {
			return v, nil
		}
	}
}

// comma reads what stands after an item: a comma and space, or the end.
func (p *jsonParser) comma(end byte, what string) (more bool, err *Error) {
	if p.at == len(p.src) {
		return false, p.fail(p.at, "the document ends within an "+what, "it is cut short")
	}
	switch p.src[p.at] {
	case ',':
		p.at++
		p.space()
		return true, nil
	case end:
		p.at++
		return false, nil
	default:
		hint := ""
		if c := p.src[p.at]; c == '/' || c == '#' {
			hint = "JSON has no comments"
		}
		return false, p.fail(p.at, fmt.Sprintf("%s in an %s where \",\" or %q must be", p.seen(), what, end), hint)
	}
}

// str reads a string; p.at is at its opening quote.
func (p *jsonParser) str() (string, *Error) {
	start := p.at + 1
	i := start
	for i < len(p.src) && p.src[i] != '"' && p.src[i] != '\\' && p.src[i] >= 0x20 {
		i++
	}
	if i < len(p.src) && p.src[i] == '"' {
		p.at = i + 1
		return p.src[start:i], nil
	}
	var b strings.Builder
	for i < len(p.src) {
		switch c := p.src[i]; {
		case c == '"':
			b.WriteString(p.src[start:i])
			p.at = i + 1
			return b.String(), nil
		case c < 0x20:
			return "", p.fail(i, fmt.Sprintf("the control character 0x%02X in a string", c), "write it as an escape, such as \\n")
		case c == '\\':
			b.WriteString(p.src[start:i])
			size, err := p.escape(&b, i)
			if err != nil {
				return "", err
			}
			i += size
			start = i
		default:
			i++
		}
	}
	return "", p.fail(p.at, "a string without its closing quote", "the document may be cut short")
}

// escape writes what the escape at offset i means and returns its length.
func (p *jsonParser) escape(b *strings.Builder, i int) (int, *Error) {
	rest := p.src[i:]
	if len(rest) < 2 {
		return 0, p.fail(i, "the document ends within an escape", "it is cut short")
	}
	if rest[1] != 'u' {
		const letters, meaning = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		which := strings.IndexByte(letters, rest[1])
		if which < 0 {
			p.at = i + 1
			return 0, p.fail(i, "a backslash before "+p.seen()+" is no escape of JSON", "write a backslash as \\\\")
		}
		b.WriteByte(meaning[which])
		return 2, nil
	}
	r, ok := hex4(rest[2:])
	if !ok {
		return 0, p.fail(i, "\\u without four hexadecimal digits", "")
	}
	if !utf16.IsSurrogate(r) {
		b.WriteRune(r)
		return 6, nil
	}
	if len(rest) >= 8 && rest[6] == '\\' && rest[7] == 'u' {
		if low, ok := hex4(rest[8:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				b.WriteRune(pair)
				return 12, nil
			}
		}
	}
	return 0, p.fail(i, fmt.Sprintf("the surrogate \\u%04X has no partner", r), "a character beyond U+FFFF is written as two surrogates, or as itself")
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
