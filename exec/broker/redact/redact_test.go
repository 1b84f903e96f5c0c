package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const canary = `sk-ant-CANARY/+"0123456789<&>`

func set(t testing.TB, values ...string) *Set {
	t.Helper()
	s, err := New(values...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// D20: plain, in pieces, base64 at any alignment, hex, in a URL, in JSON.
func TestForms(t *testing.T) {
	s := set(t, canary)
	quoted, _ := json.Marshal(canary)
	for name, text := range map[string]string{
		"plain": canary, "query": url.QueryEscape(canary), "path": url.PathEscape(canary), "json": string(quoted),
		"hex": hex.EncodeToString([]byte(canary)), "twice": canary + canary,
		"base64": base64.StdEncoding.EncodeToString([]byte(canary)), "url base64": base64.URLEncoding.EncodeToString([]byte("ab" + canary + "cd")),
		"shifted by 1": base64.StdEncoding.EncodeToString([]byte("x" + canary)), "shifted by 2": base64.StdEncoding.EncodeToString([]byte("xy" + canary + "z")),
	} {
		if got := s.String("before " + text + " after"); strings.Contains(got, text) || !strings.Contains(got, Mask) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %q", name, got)
		}
		if !s.Contains([]byte(text)) {
			t.Errorf("%s is not found", name)
		}
	}
	if got := s.String("nothing of it: sk-ant-CANAR"); got != "nothing of it: sk-ant-CANAR" {
		t.Errorf("%q", got)
	}
	if _, err := New("short"); err == nil {
		t.Error("a short value was taken")
	}
	if (*Set)(nil).Contains([]byte(canary)) {
		t.Error("the nil set finds something")
	}
}

// Whatever the pieces, the outcome is that of the whole; and what is no
// beginning of a value does not wait.
func TestWriterIsBytes(t *testing.T) {
	s := set(t, canary, "another-secret")
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(rapid.Just(canary), rapid.Just("another-secret"), rapid.Just(canary[:7]), rapid.StringN(0, 10, 20))).Draw(t, "parts")
		text := []byte(strings.Join(parts, ""))
		var out bytes.Buffer
		w := s.Writer(&out)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Contains(out.Bytes()) {
			t.Fatalf("%q holds a value", out.String())
		}
		if want := s.Bytes(text); !bytes.Equal(out.Bytes(), want) {
			t.Fatalf("%q, the whole gives %q", out.String(), want)
		}
	})
	var out bytes.Buffer
	w := s.Writer(&out)
	w.Write([]byte("data: {}\n\n"))
	if out.String() != "data: {}\n\n" {
		t.Errorf("it waits: %q", out.String())
	}
}
