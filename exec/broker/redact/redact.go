// Package redact takes secret values out of what is kept or handed on: exactly
// the values that the controller knows, in the forms in which they travel. Lists
// of the prefixes of known vendors would miss the next one.
//
// It imports the standard library alone.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Mask stands where a value was.
const Mask = "[redacted]"

// MinBytes is how long a value must be: a shorter one would be found in
// everything, and a mask in its place would tell where.
const MinBytes = 8

// Set is values to take out. The zero Set takes out nothing. It is safe for
// concurrent use.
type Set struct {
	patterns [][]byte // the longest first
	longest  int
}

// New makes a set of values, each in all of its forms: plain, base64 at every
// alignment and in both alphabets, hex, escaped for URLs, and escaped for JSON.
// Empty values are left out; a short one is an error.
func New(values ...string) (*Set, error) {
	s := &Set{}
	seen := map[string]bool{}
	for _, v := range values {
		if v == "" {
			continue
		}
		if len(v) < MinBytes {
			return nil, fmt.Errorf("redact: a secret of %d bytes is too short to be kept out of anything: use one of at least %d", len(v), MinBytes)
		}
		for _, form := range forms(v) {
			if !seen[form] {
				seen[form] = true
				s.patterns = append(s.patterns, []byte(form))
				s.longest = max(s.longest, len(form))
			}
		}
	}
	slices.SortFunc(s.patterns, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	return s, nil
}

func forms(v string) []string {
	out := []string{v, url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	if quoted, err := json.Marshal(v); err == nil {
		out = append(out, strings.Trim(string(quoted), `"`))
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) == nil {
		out = append(out, strings.Trim(strings.TrimSpace(plain.String()), `"`))
	}
	for shift := range 3 {
		// What stands before and after the value decides the first and the last
		// characters; those between are the same wherever it stands.
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString(append(make([]byte, shift), v...))
			from := (shift*8 + 5) / 6
			to := (shift + len(v)) * 8 / 6
			out = append(out, text[from:to])
		}
	}
	return slices.DeleteFunc(out, func(f string) bool { return len(f) < MinBytes })
}

// first is where the first pattern begins, and how long it is; -1 for none.
func (s *Set) first(b []byte) (at, n int) {
	at = -1
	for _, p := range s.patterns {
		if i := bytes.Index(b, p); i >= 0 && (at < 0 || i < at) {
			at, n = i, len(p)
		}
	}
	return at, n
}

// Contains reports whether a value stands in b.
func (s *Set) Contains(b []byte) bool {
	if s == nil {
		return false
	}
	at, _ := s.first(b)
	return at >= 0
}

// Bytes returns b without the values; b itself is not changed.
func (s *Set) Bytes(b []byte) []byte {
	if !s.Contains(b) {
		return b
	}
	var out []byte
	for {
		at, n := s.first(b)
		if at < 0 {
			return append(out, b...)
		}
		out = append(append(out, b[:at]...), Mask...)
		b = b[at+n:]
	}
}

// String is Bytes of a string.
func (s *Set) String(text string) string { return string(s.Bytes([]byte(text))) }

// held is how many bytes at the end of b may be the beginning of a value.
func (s *Set) held(b []byte) int {
	for n := min(len(b), s.longest-1); n > 0; n-- {
		tail := b[len(b)-n:]
		for _, p := range s.patterns {
			if len(p) > n && bytes.Equal(p[:n], tail) {
				return n
			}
		}
	}
	return 0
}

// Writer hands on what is written to it without the values, also where one
// comes in several writes: then, and only then, its beginning waits for the
// rest. Close writes what waits, and does not close w.
func (s *Set) Writer(w io.Writer) io.WriteCloser {
	if s == nil || len(s.patterns) == 0 {
		return plain{w}
	}
	return &writer{s: s, w: w}
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

type writer struct {
	s    *Set
	w    io.Writer
	wait []byte
}

func (x *writer) Write(p []byte) (int, error) {
	b := p
	if len(x.wait) > 0 {
		b = append(x.wait, p...)
	}
	clean := b
	var out []byte
	for {
		at, n := x.s.first(clean)
		if at < 0 {
			break
		}
		out = append(append(out, clean[:at]...), Mask...)
		clean = clean[at+n:]
	}
	keep := x.s.held(clean)
	if out == nil {
		out = clean[:len(clean)-keep]
	} else {
		out = append(out, clean[:len(clean)-keep]...)
	}
	_, err := x.w.Write(out)
	x.wait = append([]byte(nil), clean[len(clean)-keep:]...)
	return len(p), err
}

func (x *writer) Close() error {
	rest := x.wait
	x.wait = nil
	if len(rest) == 0 {
		return nil
	}
	_, err := x.w.Write(rest)
	return err
}
