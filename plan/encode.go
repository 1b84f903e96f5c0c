package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxEncodedBytes bounds what Decode reads: 256 MiB, far above a plan of
// 10,000 nodes (about 30 MB).
const MaxEncodedBytes = 256 << 20

// Encode writes the one canonical form of p: struct field order, two-space
// indent, no HTML escaping, a final newline. It does not validate.
func Encode(p *Plan) ([]byte, error) {
	return EncodeCanonical(p)
}

// EncodeCanonical writes any value made of structs, slices, pointers, strings,
// booleans and integers in the canonical form that plan.json has. A nil slice
// is written as [], unless its field says omitempty. Floats, maps and invalid
// UTF-8 are errors: they have no canonical form.
func EncodeCanonical(v any) ([]byte, error) {
	e := encoder{buf: make([]byte, 0, 4<<10)}
	if err := e.value(reflect.ValueOf(v), 0); err != nil {
		return nil, err
	}
	return append(e.buf, '\n'), nil
}

// Decode reads a plan and refuses every byte that Encode would not have
// written, because Go's JSON decoder folds case and takes the last of
// duplicate keys: a reviewer could see one value and the program use another.
// It does not validate; see Validate.
func Decode(data []byte) (*Plan, error) {
	if len(data) > MaxEncodedBytes {
		return nil, fmt.Errorf("plan: file has %d bytes, more than %d", len(data), MaxEncodedBytes)
	}
	p := new(Plan)
	err := DecodeCanonical(data, p)
	if err == nil && p.FormatVersion == FormatVersion {
		return p, nil
	}
	var head struct {
		FormatVersion *int `json:"format_version"`
	}
	// The version first: a plan of another one may have fields that this one
	// does not know.
	if json.Unmarshal(data, &head) == nil && head.FormatVersion != nil && *head.FormatVersion != FormatVersion {
		return nil, fmt.Errorf("plan: format_version is %d, this program reads %d: compile the policy again with this program", *head.FormatVersion, FormatVersion)
	}
	if err == nil {
		err = fmt.Errorf("format_version is missing or not %d", FormatVersion)
	}
	return nil, fmt.Errorf("plan: %w", err)
}

// DecodeCanonical reads data into v, a pointer to a struct, and requires that
// EncodeCanonical gives exactly data back.
func DecodeCanonical(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return describe(data, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: something follows the document", lineAt(data, int(dec.InputOffset())))
	}
	// Deep indents can make much of little: what is longer than data differs.
	e := encoder{buf: make([]byte, 0, len(data)+1), limit: len(data)}
	if err := e.value(reflect.ValueOf(v), 0); err != nil && !errors.Is(err, errLimit) {
		return err
	}
	again := append(e.buf, '\n')
	if bytes.Equal(again, data) {
		return nil
	}
	i := 0
	for i < len(again) && i < len(data) && again[i] == data[i] {
		i++
	}
	return fmt.Errorf("line %d: not canonical: it has %s where the canonical form has %s (a duplicate or wrong-case key, another spacing, order or escape): write plans with this program only",
		lineAt(data, i), snippet(data, i), snippet(again, i))
}

func describe(data []byte, err error) error {
	if syn, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("line %d: %w", lineAt(data, int(syn.Offset)), err)
	}
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("line %d: %w", lineAt(data, int(typ.Offset)), err)
	}
	return err
}

func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], []byte{'\n'})
}

func snippet(data []byte, at int) string {
	if at >= len(data) {
		return "the end"
	}
	end := min(at+24, len(data))
	return strconv.QuoteToASCII(string(data[at:end]))
}

// Digest returns the identity of encoded bytes: "sha256:" and 64 hex digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ValidDigest reports whether s is "sha256:" and 64 lower-case hex digits.
func ValidDigest(s string) bool {
	h, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(h) != 64 {
		return false
	}
	for i := range len(h) {
		if c := h[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// TreeDigest is the digest of a bundle: sha256 over the canonical form of its
// file list, which must be sorted by path bytes.
func TreeDigest(files []BundleFile) (string, error) {
	data, err := EncodeCanonical(struct {
		Files []BundleFile `json:"files"`
	}{files})
	if err != nil {
		return "", err
	}
	return Digest(data), nil
}

// encoder stops with errLimit soon after buf is longer than limit, unless that
// is 0.
type encoder struct {
	buf   []byte
	limit int
}

var errLimit = errors.New("longer than the limit")

type field struct {
	index     int
	key       []byte // quoted, with colon and space
	omitEmpty bool
}

var fieldCache sync.Map // reflect.Type → []field

func fieldsOf(t reflect.Type) []field {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		key := append(appendString(nil, name), ':', ' ')
		fields = append(fields, field{index: i, key: key, omitEmpty: opts == "omitempty"})
	}
	fieldCache.Store(t, fields)
	return fields
}

func (e *encoder) newline(depth int) {
	e.buf = append(e.buf, '\n')
	for range depth {
		e.buf = append(e.buf, ' ', ' ')
	}
}

func (e *encoder) value(v reflect.Value, depth int) error {
	if e.limit > 0 && len(e.buf) > e.limit {
		return errLimit
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			e.buf = append(e.buf, "null"...)
			return nil
		}
		return e.value(v.Elem(), depth)
	case reflect.Struct:
		return e.object(v, depth)
	case reflect.Slice:
		return e.array(v, depth)
	case reflect.String:
		s := v.String()
		if !utf8.ValidString(s) {
			return fmt.Errorf("%q is not valid UTF-8", s)
		}
		e.buf = appendString(e.buf, s)
	case reflect.Bool:
		e.buf = strconv.AppendBool(e.buf, v.Bool())
	case reflect.Int, reflect.Int64:
		e.buf = strconv.AppendInt(e.buf, v.Int(), 10)
	default:
		return fmt.Errorf("a %s has no canonical form", v.Type())
	}
	return nil
}

func (e *encoder) object(v reflect.Value, depth int) error {
	e.buf = append(e.buf, '{')
	empty := true
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		if f.omitEmpty && isEmpty(fv) {
			continue
		}
		if !empty {
			e.buf = append(e.buf, ',')
		}
		empty = false
		e.newline(depth + 1)
		e.buf = append(e.buf, f.key...)
		if err := e.value(fv, depth+1); err != nil {
			return err
		}
	}
	if !empty {
		e.newline(depth)
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) array(v reflect.Value, depth int) error {
	e.buf = append(e.buf, '[')
	for i := range v.Len() {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.newline(depth + 1)
		if err := e.value(v.Index(i), depth+1); err != nil {
			return err
		}
	}
	if v.Len() > 0 {
		e.newline(depth)
	}
	e.buf = append(e.buf, ']')
	return nil
}

// isEmpty is what omitempty means to encoding/json, for the kinds used here.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.String:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

const hexDigits = "0123456789abcdef"

// appendString quotes s as encoding/json does with HTML escaping off.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != '\u2028' && r != '\u2029' {
				i += size
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&0xF])
			i += size
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}
