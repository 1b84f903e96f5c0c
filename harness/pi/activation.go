package pi

import (
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
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
	_, rest := header(text)
	return strings.TrimFunc(rest, space)
}

// header splits a SKILL.md as Pi does: its header is YAML, "" where there is
// none.
func header(text string) (head, rest string) {
	text = strings.TrimPrefix(text, "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if strings.HasPrefix(text, "---") {
		if end := strings.Index(text[3:], "\n---"); end >= 0 {
			return text[3 : 3+end], text[3+end+len("\n---"):]
		}
	}
	return "", text
}

// space is what JavaScript trims: not quite what Go does.
func space(r rune) bool {
	return r == '\uFEFF' || unicode.IsSpace(r) && r != '\u0085'
}

// description is that of a SKILL.md, where its header can be read.
func description(file []byte) (string, bool) {
	head, _ := header(string(file))
	var h struct {
		Description string `yaml:"description"`
	}
	if yaml.Unmarshal([]byte(head), &h) != nil || h.Description == "" {
		return "", false
	}
	return h.Description, true
}
