package pi

import (
	"strings"
	"unicode"
)

// expansion is what Pi puts before the model for an explicit skill command, to
// the byte: the skill's text without its header, in an element that names the
// skill and its place. What was said after the command follows it.
func expansion(name, dir string, file []byte) string {
	return "<skill name=\"" + name + "\" location=\"" + dir + "/SKILL.md\">\nReferences are relative to " + dir + ".\n\n" +
		body(string(file)) + "\n</skill>"
}

// body is a SKILL.md without its header.
func body(text string) string {
	text = strings.TrimPrefix(text, "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if strings.HasPrefix(text, "---") {
		if end := strings.Index(text[3:], "\n---"); end >= 0 {
			text = text[3+end+len("\n---"):]
		}
	}
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' })
}
