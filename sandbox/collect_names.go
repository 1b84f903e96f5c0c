package sandbox

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// configNames are names that agents or developers' tools take for their own
// configuration and act on, as fold keys. A worker that left one in a folder
// artifact would steer the next one.
var configNames = keySet(
	// agents
	"CLAUDE.md", "CLAUDE.local.md", ".claude", ".claude.json", ".mcp.json", "mcp.json",
	"AGENTS.md", "AGENTS.override.md", "AGENT.md", ".agents", ".agent",
	".codex", ".pi", "GEMINI.md", ".gemini", ".opencode", "opencode.json", "opencode.jsonc",
	".cursor", ".cursorrules", ".windsurf", ".windsurfrules", ".clinerules", ".roo", ".aider.conf.yml",
	"copilot-instructions.md",
	// tools that start programs on the host's behalf
	".git", ".gitattributes", ".gitmodules", ".gitconfig", ".hg", ".hgrc", ".jj", ".svn",
	".envrc", ".env", ".direnv", ".mise.toml", "mise.toml", ".tool-versions",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".husky", ".pre-commit-config.yaml", ".vscode", ".idea", ".devcontainer", ".devcontainer.json",
	"sitecustomize.py", "usercustomize.py",
)

func keySet(names ...string) map[string]bool {
	f := newFolder()
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[f.key(n)] = true
	}
	return set
}

// folder maps names to keys that are equal where a file system that keeps
// neither letter case nor Unicode form would take them for one name. It is not
// safe for concurrent use.
type folder struct{ caser cases.Caser }

func newFolder() folder { return folder{cases.Fold()} }

func (f folder) key(name string) string {
	ascii := true
	for i := range len(name) {
		if name[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(name)
	}
	// Format characters (a zero-width joiner, say) are invisible, and some file
	// systems drop them.
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	return norm.NFC.String(f.caser.String(norm.NFD.String(name)))
}
