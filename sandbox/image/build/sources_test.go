package build

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSources(t *testing.T) {
	const debian = "ID=debian\nVERSION_CODENAME=\"bookworm\"\n"
	for what, c := range map[string]struct {
		files map[string]string // below /etc
		want  map[string]string
		err   string
	}{
		"stanzas": {
			files: map[string]string{"os-release": debian, "apt/sources.list.d/debian.sources": `# a comment
Types: deb deb-src
# of the file
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/d.gpg

Types: deb
URIs: http://other.example/
Suites: nodistro
Components: main
`},
			want: map[string]string{"debian.sources": `Types: deb
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/d.gpg

`},
		},
		"lines": {
			files: map[string]string{"os-release": debian, "apt/sources.list": `# deb http://no.example bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/security bookworm-security main
deb http://other.example cloud-bookworm main
deb http://flat.example ./
`},
			want: map[string]string{"sources.list": `deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian trixie main contrib
deb http://mirror.example/security trixie-security main
`},
		},
		"none":         {files: map[string]string{"os-release": debian, "apt/sources.list": "deb http://x.example sid main\n"}, err: "no apt source of this machine is for Debian's bookworm; --apt-sources FILE gives one"},
		"other system": {files: map[string]string{"os-release": "ID=other\nVERSION_CODENAME=x\n"}, err: "no release of Debian"},
		"no system":    {err: "no release of Debian"},
	} {
		etc, dir := t.TempDir(), t.TempDir()
		for name, text := range c.files {
			name = filepath.Join(etc, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		err := sources("", etc, "trixie", dir)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, not %q", what, err, c.err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(c.want) {
			t.Errorf("%s: wrote %v, %v", what, entries, err)
		}
		for name, want := range c.want {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
				t.Errorf("%s: %s is %v\n%s", what, name, err, b)
			}
		}
	}
}

// A file of the user's is taken as it is, in either form.
func TestGivenSources(t *testing.T) {
	for text, name := range map[string]string{"Types: deb\nURIs: http://a.example\n": "given.sources", "deb http://a.example x main\n": "given.list"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "mine")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := sources(file, "/nonexistent", "trixie", dir); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
			t.Errorf("%s: %v: %s", name, err, b)
		}
	}
	err := sources("/nonexistent", "/etc", "trixie", t.TempDir())
	if _, refused := errors.AsType[*Refusal](err); !refused {
		t.Errorf("got %v", err)
	}
}

// Whatever a machine's files hold, what is taken are packages of the release that
// the lock is for, and nothing else.
func FuzzSources(f *testing.F) {
	f.Add("Types: deb deb-src\nURIs: http://a.example\nSuites: bookworm bookworm-updates\n\nTypes: deb\nSuites: sid\n")
	f.Add("deb [arch=amd64] http://a.example bookworm main\ndeb-src http://a.example bookworm main\n")
	f.Add("suites: bookworm\r\nTypes: deb-src\n\n\nSuites:bookworm\n")
	f.Fuzz(func(t *testing.T, text string) {
		for line := range strings.Lines(rewriteLines(text, "bookworm", "trixie")) {
			fields := strings.Fields(line)
			_, after, _ := strings.Cut(line, "]")
			if after == "" {
				after = strings.TrimPrefix(line, "deb ")
			}
			if suite := strings.Fields(after); fields[0] != "deb" || len(suite) < 3 || !strings.HasPrefix(suite[1], "trixie") {
				t.Errorf("%q gives %q", text, line)
			}
		}
		for stanza := range strings.SplitSeq(strings.TrimSuffix(rewriteStanzas(text, "bookworm", "trixie"), "\n\n"), "\n\n") {
			suites := 0
			for line := range strings.Lines(stanza) {
				field, value, _ := strings.Cut(line, ":")
				switch {
				case strings.EqualFold(field, "Suites"):
					suites++
					for _, s := range strings.Fields(value) {
						if !strings.HasPrefix(s, "trixie") {
							t.Errorf("%q gives the suite %q", text, s)
						}
					}
				case strings.EqualFold(field, "Types") && strings.TrimSpace(value) != "deb":
					t.Errorf("%q gives %q", text, line)
				}
			}
			if stanza != "" && suites == 0 {
				t.Errorf("%q gives a stanza without a suite: %q", text, stanza)
			}
		}
	})
}
