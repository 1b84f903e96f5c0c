package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sources writes the apt sources of a build into a folder: a file of the user's
// as it is, or this machine's own for Debian, with the suite of the lock in the
// place of the machine's.
func sources(file, etc, suite, dir string) error {
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return refuse("the apt sources: %w", err)
		}
		name := "given.list"
		if strings.Contains("\n"+string(b), "\nTypes:") {
			name = "given.sources"
		}
		return os.WriteFile(filepath.Join(dir, name), b, 0o644)
	}
	codename, err := debianCodename(filepath.Join(etc, "os-release"))
	if err != nil {
		return err
	}
	found := false
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		files, err := filepath.Glob(filepath.Join(etc, "apt", pattern))
		if err != nil {
			return err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return fmt.Errorf("image build: the apt sources: %w", err)
			}
			rewrite := rewriteLines
			if strings.HasSuffix(f, ".sources") {
				rewrite = rewriteStanzas
			}
			text := rewrite(string(b), codename, suite)
			if text == "" {
				continue
			}
			found = true
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("image build: no apt source of this machine is for Debian's %s; --apt-sources FILE gives one", codename)
	}
	return nil
}

// debianCodename is the word for the machine's release.
func debianCodename(file string) (string, error) {
	b, err := os.ReadFile(file)
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[k] = strings.Trim(v, `"'`)
	}
	if err != nil || values["ID"] != "debian" || values["VERSION_CODENAME"] == "" {
		return "", errors.New("image build: this machine is no release of Debian, whose apt sources could be used; --apt-sources FILE gives one")
	}
	return values["VERSION_CODENAME"], nil
}

// ours rewrites the suites that are of a release, but for backports, which would
// not be taken from anyway. It returns none where there is no such suite.
func ours(suites []string, codename, suite string) []string {
	var out []string
	for _, s := range suites {
		rest, ok := strings.CutPrefix(s, codename)
		if ok && slices.Contains([]string{"", "-updates", "-security"}, rest) {
			out = append(out, suite+rest)
		}
	}
	return out
}

// rewriteStanzas takes what is of the release from a file of stanzas.
func rewriteStanzas(text, codename, suite string) string {
	var out strings.Builder
	for stanza := range strings.SplitSeq(text, "\n\n") {
		var lines []string
		keep := false
		for line := range strings.SplitSeq(stanza, "\n") {
			field, value, _ := strings.Cut(line, ":")
			switch {
			case strings.HasPrefix(line, "#") || line == "":
				continue
			case strings.EqualFold(field, "Suites"):
				suites := ours(strings.Fields(value), codename, suite)
				keep = len(suites) > 0
				line = "Suites: " + strings.Join(suites, " ")
			case strings.EqualFold(field, "Types"):
				line = "Types: deb"
			}
			lines = append(lines, line)
		}
		if keep {
			out.WriteString(strings.Join(lines, "\n") + "\n\n")
		}
	}
	return out.String()
}

// rewriteLines takes what is of the release from a file of one source a line.
func rewriteLines(text, codename, suite string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		head, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || head != "deb" {
			continue
		}
		options := ""
		if strings.HasPrefix(strings.TrimSpace(rest), "[") {
			options, rest, _ = strings.Cut(rest, "]")
			options = strings.TrimSpace(options) + "] "
		}
		fields := strings.Fields(rest)
		if len(fields) < 3 {
			continue
		}
		if s := ours(fields[1:2], codename, suite); len(s) == 1 {
			out.WriteString("deb " + options + fields[0] + " " + s[0] + " " + strings.Join(fields[2:], " ") + "\n")
		}
	}
	return out.String()
}
