package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocs keeps the list of words in docs/policy.md what the decoder reads.
func TestDocs(t *testing.T) {
	name := filepath.Join("..", "..", "..", "docs", "policy.md")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- words: begin -->\n", "<!-- words: end -->\n"
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/policy.md has no place for the words")
	}
	want := head + begin + wordTable() + end + tail
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(data) {
		t.Error("docs/policy.md does not list the words of the decoder: go test ./compile/internal/policy -run TestDocs -update")
	}
}

func wordTable() string {
	var b strings.Builder
	b.WriteString("| word | value | meaning |\n| --- | --- | --- |\n")
	seen := map[string]bool{}
	for _, w := range Words() {
		// "loop.phase.check.argv" is the argv of a check, wherever it stands.
		parts := strings.Split(w.Path, ".")
		short := w.Path
		if len(parts) > 2 {
			short = strings.Join(parts[len(parts)-2:], ".")
		}
		key := short + w.Doc
		if seen[key] {
			continue
		}
		seen[key] = true
		value := w.Kind
		if w.Block {
			value = "block"
			if w.Label != "" {
				value += ", labelled with " + w.Label
			}
		}
		if w.Required {
			value += " (required)"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", w.Path, strings.ReplaceAll(value, "|", "\\|"), strings.ReplaceAll(w.Doc, "|", "\\|"))
	}
	return b.String()
}
