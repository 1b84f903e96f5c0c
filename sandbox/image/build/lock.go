package build

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"foundry/sandbox/image"
)

// lockFormat is the version of lock files.
const lockFormat = 1

// builtinLock is the lock of the images without additions.
const builtinLock = "debian.lock.json"

// Lock pins what the files of an adapter do not: the Debian packages of the base,
// and the additions.
type Lock struct {
	Format       int             `json:"format"`
	Suite        string          `json:"suite"` // of Debian
	Architecture string          `json:"architecture"`
	With         []string        `json:"with,omitempty"` // the additions that it was made for, but for files
	Packages     []Package       `json:"packages"`       // all of the base, sorted by name
	NPM          json.RawMessage `json:"npm,omitempty"`  // the package-lock.json of the additions from npm
}

// Package is one Debian package.
type Package struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Architecture string `json:"architecture"`
	SHA256       string `json:"sha256"` // of its .deb, in hex
}

var (
	suiteName     = regexp.MustCompile(`^[a-z]+$`)
	debianVersion = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~:-]*$`)
	hexDigest     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// file is the name of the package's .deb, as Debian's tools write it.
func (p Package) file() string {
	return p.Name + "_" + strings.ReplaceAll(p.Version, ":", "%3a") + "_" + p.Architecture + ".deb"
}

// upstream is the version that the program itself would name: without Debian's
// epoch, revision and mark of repacking.
func (p Package) upstream() string {
	v := p.Version
	if _, rest, ok := strings.Cut(v, ":"); ok {
		v = rest
	}
	if i := strings.LastIndexByte(v, '-'); i > 0 {
		v = v[:i]
	}
	for _, mark := range []string{"+dfsg", ".dfsg", "~dfsg", "+ds"} {
		if i := strings.Index(v, mark); i > 0 {
			v = v[:i]
		}
	}
	return v
}

// readLock reads a lock file, or the one in this program.
func readLock(name string) (Lock, error) {
	var b []byte
	var err error
	if name == "" {
		name = "the lock in this program"
		b, err = image.Recipes.ReadFile(builtinLock)
	} else {
		b, err = os.ReadFile(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Lock{}, refuse("there is no lock file %s; --update-lock makes it", name)
	}
	if err != nil {
		return Lock{}, refuse("the lock file: %w", err)
	}
	l, err := decodeLock(b)
	if err != nil {
		return Lock{}, refuse("%s: %w; --lock FILE --update-lock writes a new one", name, err)
	}
	return l, nil
}

// decodeLock takes only what could be handed to apt and used as a file's name.
func decodeLock(b []byte) (Lock, error) {
	var l Lock
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Lock{}, err
	}
	if l.Format != lockFormat {
		return Lock{}, fmt.Errorf("it has the format %d, and this program reads %d", l.Format, lockFormat)
	}
	if !suiteName.MatchString(l.Suite) || l.Architecture != architecture || len(l.Packages) == 0 {
		return Lock{}, fmt.Errorf("it is not for a suite of Debian on %s, with its packages", architecture)
	}
	for i, p := range l.Packages {
		if !debianName.MatchString(p.Name) || !debianVersion.MatchString(p.Version) || !hexDigest.MatchString(p.SHA256) ||
			p.Architecture != l.Architecture && p.Architecture != "all" {
			return Lock{}, fmt.Errorf("package %d is not one with name, version, architecture and sha256", i+1)
		}
		if i > 0 && l.Packages[i-1].Name >= p.Name {
			return Lock{}, fmt.Errorf("the packages are not sorted by name, each once: %s", p.Name)
		}
	}
	return l, nil
}

// encode is the text of a lock file.
func (l Lock) encode() ([]byte, error) {
	b, err := json.MarshalIndent(l, "", "  ")
	return append(b, '\n'), err
}

// covers refuses additions that the lock was not made for.
func (l Lock) covers(with []Addition) error {
	want := locked(with)
	if slices.Equal(want, l.With) || len(want)+len(l.With) == 0 {
		return nil
	}
	return refuse("the lock is for --with [%s], and the image is to have [%s]: --lock FILE --update-lock writes one for it",
		strings.Join(l.With, " "), strings.Join(want, " "))
}

// find is the package of a name.
func (l Lock) find(name string) (Package, bool) {
	i := slices.IndexFunc(l.Packages, func(p Package) bool { return p.Name == name })
	if i < 0 {
		return Package{}, false
	}
	return l.Packages[i], true
}
