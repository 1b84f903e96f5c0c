package view

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"foundry/compile"
)

const (
	wrapColumns  = 88  // of the detail
	maxLineShown = 160 // runes of a source line
)

// Diagnostics writes findings as a compiler does: what, where with the source
// line, why and the way out. The last line counts them. sources are the files
// that they point into.
func Diagnostics(w io.Writer, ds []compile.Diagnostic, sources map[string][]byte) error {
	var b strings.Builder
	errors, warnings := 0, 0
	for _, d := range ds {
		word := "error"
		if d.Severity == compile.Warning {
			word = "warning"
			warnings++
		} else {
			errors++
		}
		fmt.Fprintf(&b, "%s: %s\n", word, Safe(d.Summary))
		writePlace(&b, d, sources)
		for _, line := range wrap(Safe(d.Detail), wrapColumns) {
			fmt.Fprintf(&b, "  %s\n", line)
		}
		b.WriteByte('\n')
	}
	if errors+warnings > 0 {
		fmt.Fprintf(&b, "%s, %s\n", count(errors, "error"), count(warnings, "warning"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

func writePlace(b *strings.Builder, d compile.Diagnostic, sources map[string][]byte) {
	s := d.Subject
	if s.File == "" {
		return
	}
	if s.Start.Line == 0 {
		fmt.Fprintf(b, "  at %s\n", Safe(s.File))
		return
	}
	fmt.Fprintf(b, "  at %s:%d:%d\n", Safe(s.File), s.Start.Line, max(s.Start.Column, 1))
	line, ok := sourceLine(sources[s.File], s.Start.Line)
	if !ok {
		return
	}
	number := strconv.Itoa(s.Start.Line)
	from := max(s.Start.Column, 1) - 1
	to := from + 1
	if s.End.Line == s.Start.Line && s.End.Column > s.Start.Column {
		to = s.End.Column - 1
	} else if s.End.Line > s.Start.Line {
		to = utf8.RuneCountInString(line)
	}
	text, mark := underline(line, from, to)
	fmt.Fprintf(b, "  %s | %s\n", number, text)
	fmt.Fprintf(b, "  %s | %s\n", strings.Repeat(" ", len(number)), mark)
}

func sourceLine(data []byte, number int) (string, bool) {
	for i := 1; len(data) > 0; i++ {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		if i == number {
			return strings.TrimSuffix(string(line), "\r"), true
		}
		data = rest
	}
	return "", false
}

// underline renders a line with marks below the runes from..to. Tabs become
// one space, so that the marks stand right in every terminal.
func underline(line string, from, to int) (text, mark string) {
	var t, m strings.Builder
	i := 0
	for _, r := range line {
		if i >= maxLineShown {
			t.WriteString(" …")
			break
		}
		shown := string(r)
		if r == '\t' {
			shown = " "
		} else {
			shown = Safe(shown)
		}
		sign := " "
		if i >= from && i < to {
			sign = "^"
		}
		t.WriteString(shown)
		m.WriteString(strings.Repeat(sign, utf8.RuneCountInString(shown)))
		i++
	}
	if mark = strings.TrimRight(m.String(), " "); mark == "" {
		mark = "^"
	}
	return strings.TrimRight(t.String(), " "), mark
}

// Safe escapes what could change a terminal or hide text: control, bidi and
// zero-width characters, and invalid UTF-8. Line feeds and tabs are escaped
// too.
func Safe(s string) string {
	clean := true
	for _, r := range s {
		if unsafeRune(r) {
			clean = false
			break
		}
	}
	if clean && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unsafeRune(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// SafeLines is Safe for text of several lines: its line feeds stay.
func SafeLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Safe(l)
	}
	return strings.Join(lines, "\n")
}

func unsafeRune(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

func wrap(s string, columns int) []string {
	var lines []string
	line, width := "", 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		if width > 0 && width+1+n > columns {
			lines = append(lines, line)
			line, width = "", 0
		}
		if width > 0 {
			line += " "
			width++
		}
		line += word
		width += n
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
