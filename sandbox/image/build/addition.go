package build

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Kinds of additions.
const (
	kindApt  = "apt"
	kindNPM  = "npm"
	kindFile = "file"
)

// Addition is something that an image holds beside the agent.
type Addition struct {
	kind    string
	name    string // of a package, or the base name of a file
	version string // of an npm package
	path    string // of a file
}

var (
	debianName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	npmName    = regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$`)
	npmVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)
	fileName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
)

// ParseAddition reads apt:PACKAGE, npm:PACKAGE@VERSION or file:PATH.
func ParseAddition(s string) (Addition, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch kind {
	case kindApt:
		if debianName.MatchString(rest) {
			return Addition{kind: kind, name: rest}, nil
		}
		return Addition{}, refuse("%q names no Debian package: write apt:PACKAGE; its version is the lock's", s)
	case kindNPM:
		if at := strings.LastIndexByte(rest, '@'); at > 0 && npmName.MatchString(rest[:at]) && npmVersion.MatchString(rest[at+1:]) {
			return Addition{kind: kind, name: rest[:at], version: rest[at+1:]}, nil
		}
		return Addition{}, refuse("%q names no npm package of one version: write npm:PACKAGE@1.2.3, no range and no tag", s)
	case kindFile:
		a := Addition{kind: kind, name: filepath.Base(rest), path: rest}
		info, err := os.Stat(rest)
		switch {
		case err != nil:
			return Addition{}, refuse("%q: %w", s, err)
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			return Addition{}, refuse("%q is no executable file: it becomes a program in /usr/local/bin", s)
		case !fileName.MatchString(a.name):
			return Addition{}, refuse("%q: a program's name has letters, digits and . _ + - alone", s)
		}
		return a, nil
	}
	return Addition{}, refuse("%q is not apt:PACKAGE, npm:PACKAGE@VERSION or file:PATH", s)
}

// String is the addition as it is written.
func (a Addition) String() string {
	switch a.kind {
	case kindNPM:
		return a.kind + ":" + a.name + "@" + a.version
	case kindFile:
		return a.kind + ":" + a.path
	}
	return a.kind + ":" + a.name
}

// tool is the name that the addition has among the tools of an image.
func (a Addition) tool() string { return a.name[strings.LastIndexByte(a.name, '/')+1:] }

// locked lists the additions that a lock file has to know, sorted.
func locked(with []Addition) []string {
	list := []string{}
	for _, a := range with {
		if a.kind != kindFile {
			list = append(list, a.String())
		}
	}
	slices.Sort(list)
	return list
}

// checkAdditions refuses two tools of one name, and those that are there anyway.
func checkAdditions(adapter string, with []Addition) error {
	seen := map[string]string{adapter: "the agent", "node": "the agent's Node", "rg": "the base", "fd": "the base", "ripgrep": "the base", "fd-find": "the base"}
	for _, a := range with {
		if by, twice := seen[a.tool()]; twice {
			return refuse("--with %s: a tool %s is there already, by %s", a, a.tool(), by)
		}
		seen[a.tool()] = a.String()
	}
	return nil
}

// Refusal is a request that cannot be met as it is written: another machine or
// another day would not change that.
type Refusal struct{ err error }

func (e *Refusal) Error() string { return "image build: " + e.err.Error() }

// Unwrap is what is wrong.
func (e *Refusal) Unwrap() error { return e.err }

func refuse(format string, args ...any) error { return &Refusal{fmt.Errorf(format, args...)} }
