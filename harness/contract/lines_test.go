package contract

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// all reads every line; it copies, because a line is valid until the next.
func all(l *LineReader) ([]string, error) {
	var got []string
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, string(line))
	}
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name, in string
		max      int
		want     []string
		skipped  int64
	}{
		{"empty", "", 0, nil, 0},
		{"one", "a\n", 0, []string{"a"}, 0},
		{"unterminated last", "a\nb", 0, []string{"a", "b"}, 0},
		{"empty lines", "\n\na\n\n", 0, []string{"", "", "a", ""}, 0},
		{"LF only", "a\r\nb\u2028c\x85d\n", 0, []string{"a\r", "b\u2028c\x85d"}, 0},
		{"beyond the buffer", "a\n" + long + "\nb\n", 0, []string{"a", long, "b"}, 0},
		{"exactly the cap", "abcd\nab\n", 4, []string{"abcd", "ab"}, 0},
		{"above the cap", "abcde\nab\n", 4, []string{"ab"}, 1},
		{"far above the cap", "a\n" + long + "\nb\n" + long, 100_000, []string{"a", "b"}, 2},
		{"unterminated too long", "a\nabcde", 4, []string{"a"}, 1},
		{"unterminated at the cap", "abcd", 4, []string{"abcd"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
				l := NewLineReader(r, c.max)
				got, err := all(l)
				if err != nil || !slices.Equal(got, c.want) || l.Skipped() != c.skipped {
					t.Errorf("%d lines, %d skipped, %v", len(got), l.Skipped(), err)
				}
			}
		})
	}
}

func TestLineReaderGivesWhatCameBeforeAnError(t *testing.T) {
	broken := errors.New("broken")
	l := NewLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 0)
	got, err := all(l)
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// FIELD-CASES D2: all usage is counted although lines of 70 KB, 20 MB and one
// above the cap stand between.
func TestNoUsageIsLostToLongLines(t *testing.T) {
	var in bytes.Buffer
	add := func(id string, tokens int64) {
		in.Write(Encode(Event{ProtocolVersion: 2, Type: UsageType, Usage: &Usage{Message: id, Output: tokens}}))
	}
	add("m1", 100)
	for _, n := range []int{70_000, 20_000_000, MaxLineBytes + 1} {
		in.Write(bytes.Repeat([]byte("z"), n))
		in.WriteByte('\n')
	}
	add("m2", 200)
	l := NewLineReader(&in, 0)
	var c Checker
	noise := 0
	for {
		line, err := l.Next()
		if err != nil {
			break
		}
		ev, err := DecodeEvent(line)
		if err != nil {
			noise++
			continue
		}
		_ = c.Add(ev) // before started: counted all the same
	}
	if c.Usage().Output != 300 || noise != 2 || l.Skipped() != 1 {
		t.Errorf("usage %d, noise %d, skipped %d", c.Usage().Output, noise, l.Skipped())
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add("a\nbb\n\nccc", 2)
	f.Add(strings.Repeat("x", 70_000)+"\ny", 66_000)
	f.Fuzz(func(t *testing.T, in string, max int) {
		if max <= 0 || max > 1<<20 {
			max = 1 << 20
		}
		var want []string
		var skipped int64
		parts := strings.Split(in, "\n")
		if parts[len(parts)-1] == "" {
			parts = parts[:len(parts)-1]
		}
		for _, p := range parts {
			if len(p) > max {
				skipped++
				continue
			}
			want = append(want, p)
		}
		l := NewLineReader(strings.NewReader(in), max)
		got, err := all(l)
		if err != nil || !slices.Equal(got, want) || l.Skipped() != skipped {
			t.Fatalf("%q: %q, %d skipped, %v; want %q, %d", in, got, l.Skipped(), err, want, skipped)
		}
	})
}
