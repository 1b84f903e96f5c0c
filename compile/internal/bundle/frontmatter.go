package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"foundry/compile/internal/diag"
	"foundry/plan/document"
)

// summaryHeader is the summary of everything that is wrong with a header.
const summaryHeader = "Invalid SKILL.md header"

// Keys of the header of a SKILL.md, and words that somebody may write for
// allowed-tools. A reader drops a key that it does not know, and the limit
// with it.
var (
	headerKeys   = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
	toolLimits   = []string{"allowedtools", "allowtools", "tools", "toolsallowed", "disallowedtools", "deniedtools", "allowed"}
	headerLimits = document.Limits{Bytes: 64 << 10, Depth: 16, Values: 2000}
)

// maxSkillBytes bounds SKILL.md, which a worker reads whole: 128 KiB, four times
// the largest real one. Parsing Markdown made to be slow grows with the square
// of its size: 10 seconds at this one, minutes at 512 KiB.
const maxSkillBytes = 128 << 10

// header reads the YAML header of SKILL.md strictly: what one reader would
// take for a header and another one would not is refused, so that a broken
// header can never mean fewer limits. It returns the description and where the
// body starts, -1 when that is unknown.
func (s *source) header(skill string) (description string, body int) {
	end, body := s.headerBounds()
	if end < 0 {
		return "", -1
	}
	// The opening "---" is YAML too, so that all places are those of the file.
	doc := *s
	doc.data = s.data[:end]
	if !doc.headerLines() {
		return "", body
	}
	v, err := document.ParseYAML(doc.data, headerLimits)
	if err != nil {
		doc.headerError(err)
		return "", body
	}
	if v.Kind != document.Object {
		s.problems.Errorat(doc.place(0), summaryHeader, fmt.Sprintf("The header must be \"key: value\" lines, it is %s.", aKind(v.Kind)))
		return "", body
	}
	return doc.headerValues(v, skill), body
}

// headerBounds finds the header's end and the body's start, -1 when there is
// no well-formed header.
func (s *source) headerBounds() (end, body int) {
	refuse := func(offset int, detail string) (int, int) {
		s.problems.Errorat(s.place(offset), summaryHeader, detail)
		return -1, -1
	}
	if len(s.data) > maxSkillBytes {
		return refuse(0, fmt.Sprintf("The file has %d bytes, more than %d. Move parts of it to references/.", len(s.data), maxSkillBytes))
	}
	if bytes.HasPrefix(s.data, []byte("\xEF\xBB\xBF")) {
		return refuse(0, "The file starts with a byte order mark (BOM), which hides the header from some readers. Save it as UTF-8 without BOM.")
	}
	if !utf8.Valid(s.data) {
		return refuse(invalidAt(s.data), "The file is not valid UTF-8 here. Save it as UTF-8.")
	}
	first, rest, found := bytes.Cut(s.data, []byte{'\n'})
	line := strings.TrimSuffix(string(first), "\r")
	switch trimmed := strings.TrimSpace(line); {
	case line == "---":
	case trimmed == "---":
		return refuse(max(strings.Index(line, "---"), 0), fmt.Sprintf("The first line is %+q: it must be \"---\" and nothing else, no space before or after it.", line))
	case trimmed == "" && strings.HasPrefix(strings.TrimSpace(string(rest)), "---"):
		return refuse(0, "The header must start on line 1. Remove the blank lines before \"---\".")
	default:
		return refuse(0, "There is no header: line 1 must be \"---\", followed by name and description, and another line \"---\".")
	}
	if !found {
		return refuse(len(first), "The header has no closing line \"---\".")
	}
	for at := len(first) + 1; at < len(s.data); {
		stop, next := len(s.data), len(s.data)
		if i := bytes.IndexByte(s.data[at:], '\n'); i >= 0 {
			stop, next = at+i, at+i+1
		}
		line := strings.TrimSuffix(string(s.data[at:stop]), "\r")
		if line == "---" {
			return at, next
		}
		if strings.HasPrefix(line, "---") || line == "..." {
			return refuse(at, fmt.Sprintf("The line %+q ends the header for some readers and not for others. Close the header with \"---\" alone.", clip(line)))
		}
		at = next
	}
	return refuse(0, "The header that starts on line 1 has no closing line \"---\".")
}

// headerLines refuses what the YAML reader would refuse less clearly.
func (s *source) headerLines() bool {
	ok := true
	at := 0
	for line := range strings.Lines(string(s.data)) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 && strings.TrimSpace(line) != "" {
			s.problems.Errorat(s.place(at+tab), summaryHeader, "A tab stands in the indentation, where YAML knows only spaces. Write spaces.")
			ok = false
		}
		at += len(line)
	}
	return ok
}

func (s *source) headerError(err error) {
	at, detail := s.place(0), sentence(err.Error(), "")
	if de, ok := errors.AsType[*document.Error](err); ok {
		at = s.placeError(de)
		if at.Start.Byte == len(s.data) {
			at = s.openLine(at)
		}
		detail = sentence(de.Msg, de.Hint)
		// A line that is wrong by itself is right in quotes.
		if line := s.line(at.Start.Byte); wrongAlone(line) && quotedLine(line) != "" {
			detail = fmt.Sprintf("%s. Put the value in quotes: %s", capital(de.Msg), quotedLine(line))
		}
	}
	s.problems.Errorat(at, summaryHeader, detail)
}

// openLine is the place of the first line that is wrong by itself: what is open
// at the end of the header, such as a quote, was opened there.
func (s *source) openLine(end diag.Range) diag.Range {
	at := 0
	for line := range strings.Lines(string(s.data)) {
		if wrongAlone(line) && quotedLine(line) != "" {
			return s.place(at)
		}
		at += len(line)
	}
	return end
}

func wrongAlone(line string) bool {
	_, err := document.ParseYAML([]byte(line), headerLimits)
	return err != nil
}

// line returns the line that holds a byte.
func (s *source) line(offset int) string {
	start := bytes.LastIndexByte(s.data[:offset], '\n') + 1
	line, _, _ := strings.Cut(string(s.data[start:]), "\n")
	return strings.TrimSuffix(line, "\r")
}

// quotedLine returns a "key: value" line of the header with its value in
// quotes, "" when it is no such line.
func quotedLine(line string) string {
	key, value, ok := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if !ok || value == "" || !isHeaderKey(key) {
		return ""
	}
	if q := value[0]; q == '"' || q == '\'' {
		value = strings.Trim(value, string(q))
	}
	return key + ": " + strconv.Quote(value)
}

func isHeaderKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return !(r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	})
}

func (s *source) headerValues(v *document.Value, skill string) (description string) {
	s.headerUnknown(v)
	refuse := func(at document.Pos, detail string) {
		s.problems.Errorat(s.at(at), summaryHeader, detail)
	}
	text := func(key string) (string, bool) {
		value := v.Get(key)
		switch {
		case value == nil:
			refuse(v.Pos, fmt.Sprintf("The header has no %q.", key))
		case value.Kind != document.String:
			detail := fmt.Sprintf("%q must be a string, it is %s.", key, aKind(value.Kind))
			if quoted := quotedLine(s.keyLine(v, key)); quoted != "" {
				detail += " Put the value in quotes: " + quoted
			}
			refuse(value.Pos, detail)
		case strings.TrimSpace(value.Str) == "":
			refuse(value.Pos, fmt.Sprintf("%q is empty.", key))
		default:
			return value.Str, true
		}
		return "", false
	}
	if name, ok := text("name"); ok && name != skill {
		refuse(v.Get("name").Pos, fmt.Sprintf("The name is %q, but the folder is %q: a worker finds a skill by the one and the plan by the other. Make them equal.", name, skill))
	}
	description, _ = text("description")
	for _, key := range []string{"license", "compatibility"} {
		if v.Get(key) != nil {
			text(key)
		}
	}
	if m := v.Get("metadata"); m != nil && m.Kind != document.Object {
		refuse(m.Pos, fmt.Sprintf("\"metadata\" must be an object, it is %s.", aKind(m.Kind)))
	}
	switch tools := v.Get("allowed-tools"); {
	case tools == nil:
	case !toolList(tools):
		refuse(tools.Pos, "\"allowed-tools\" must be a string or a list of strings and not empty: a reader that does not understand it allows everything.")
	default:
		s.problems.Warnat(s.at(tools.Pos), "Tools of a skill are not enforced", "The skill says which tools it is allowed, and nothing holds its worker to that: it gets the `tools` that the policy's `harness` lists. Let that list be no longer than this one.")
	}
	return description
}

// keyLine returns the line that a key of the header stands on.
func (s *source) keyLine(v *document.Value, key string) string {
	for _, m := range v.Members {
		if m.Key == key {
			return s.line(m.KeyPos.Offset)
		}
	}
	return ""
}

func toolList(v *document.Value) bool {
	if v.Kind == document.String {
		return strings.TrimSpace(v.Str) != ""
	}
	return v.Kind == document.Array && len(v.Items) > 0 &&
		!slices.ContainsFunc(v.Items, func(item *document.Value) bool {
			return item.Kind != document.String || strings.TrimSpace(item.Str) == ""
		})
}

// headerUnknown reports keys that the header does not know.
func (s *source) headerUnknown(v *document.Value) {
	squeeze := strings.NewReplacer("-", "", "_", "", " ", "", ".", "")
	for _, m := range v.Members {
		if slices.Contains(headerKeys, m.Key) {
			continue
		}
		near := nearest(m.Key, headerKeys)
		squeezed := squeeze.Replace(foldName(m.Key))
		switch {
		case near == "allowed-tools" || slices.Contains(toolLimits, squeezed):
			s.problems.Errorat(s.at(m.KeyPos), summaryHeader, fmt.Sprintf("Readers do not know the key %q, so the limit it sets would be dropped. Write \"allowed-tools\", or remove it.", m.Key))
		case near != "" && foldName(near) == foldName(m.Key):
			s.problems.Errorat(s.at(m.KeyPos), summaryHeader, fmt.Sprintf("The key %q is spelled %q. Write it so.", m.Key, near))
		default:
			s.problems.Warnat(s.at(m.KeyPos), "Unknown key in a SKILL.md header", fmt.Sprintf("The key %q has no effect here.%s", m.Key, didYouMean(near, headerKeys)))
		}
	}
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// clip shortens text that a message quotes.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
