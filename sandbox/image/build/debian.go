package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// defaultSuite is Debian's release for new locks. The fd of the one before it
// lacks a flag that Pi's tool gives it.
const defaultSuite = "trixie"

// architecture of the images, in Debian's words and in Go's.
const architecture = "amd64"

// basePackages are in every image, beside those that Debian calls essential: the
// search tools of agents, and the library of Node.
var basePackages = []string{"fd-find", "libstdc++6", "ripgrep", "usr-is-merged"}

// apt is a way to Debian's packages that leaves the machine's own lists alone.
type apt struct {
	dir     string // state and sources
	sources string // a file of the user's, or ""
	suite   string
	updated bool
}

// command is a call of apt's, far from the machine's state.
func (a *apt) command(argv ...string) command {
	options := []string{
		"Dir::State=" + a.dir, "Dir::State::Lists=" + a.dir + "/lists", "Dir::State::status=" + a.dir + "/status",
		"Dir::State::extended_states=" + a.dir + "/extended_states",
		"Dir::Cache=" + a.dir + "/cache", "Dir::Etc::SourceList=/dev/null", "Dir::Etc::SourceParts=" + a.dir + "/sources",
		"Dir::Etc::Preferences=/dev/null", "Dir::Etc::PreferencesParts=/dev/null",
		"APT::Architecture=" + architecture, "APT::Architectures=" + architecture, "APT::Sandbox::User=root",
		"APT::Update::Error-Mode=any", "Acquire::Languages=none", "pkgCacheGen::ForceEssential=,", "Acquire::Retries=3",
	}
	out := []string{argv[0]}
	for _, o := range options {
		out = append(out, "-o", o)
	}
	return command{dir: a.dir, argv: append(out, argv[1:]...)}
}

// update fetches the lists of packages, once.
func (a *apt) update(ctx context.Context) error {
	if a.updated {
		return nil
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial", "sources"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(a.dir, "status"), nil, 0o644); err != nil {
		return err
	}
	if err := sources(a.sources, "/etc", a.suite, filepath.Join(a.dir, "sources")); err != nil {
		return err
	}
	if _, err := a.command("apt-get", "update", "-qq").run(ctx); err != nil {
		return err
	}
	a.updated = true
	return nil
}

// installation matches a line of apt's simulation.
var installation = regexp.MustCompile(`(?m)^Inst (\S+) \((\S+) .*\[(\w+)\]`)

// resolve lists the packages that the base consists of today, without hashes.
func (a *apt) resolve(ctx context.Context, names []string) ([]Package, error) {
	if err := a.update(ctx); err != nil {
		return nil, err
	}
	out, err := a.command(append([]string{"apt-get", "--simulate", "--no-install-recommends", "install", "?essential"}, names...)...).run(ctx)
	if err != nil {
		return nil, err
	}
	var list []Package
	for _, m := range installation.FindAllSubmatch(out, -1) {
		list = append(list, Package{Name: string(m[1]), Version: string(m[2]), Architecture: string(m[3])})
	}
	if len(list) == 0 {
		return nil, errors.New("image build: apt-get --simulate named no package to install")
	}
	slices.SortFunc(list, func(x, y Package) int { return strings.Compare(x.Name, y.Name) })
	return list, nil
}

// MovedError says which packages of a lock are not to be had any more.
type MovedError struct {
	Lock    string // "" for the one in this program
	Problem []string
}

func (e *MovedError) Error() string {
	how := "--update-lock rewrites " + e.Lock + " from what there is now"
	if e.Lock == "" {
		how = "--lock FILE --update-lock writes a lock of your own from what there is now"
	}
	return "image build: the mirror has moved on from the lock: " + strings.Join(e.Problem, "; ") + "; " + how
}

// fetch brings packages into a folder of the cache, where they are called by
// their hash, and returns them with their hashes. A package that has none in the
// lock gets that of what was fetched.
func (a *apt) fetch(ctx context.Context, list []Package, cache, lock string) ([]Package, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	out := slices.Clone(list)
	var missing []int
	for i, p := range list {
		if p.SHA256 == "" || !holds(filepath.Join(cache, p.SHA256+".deb"), p.SHA256) {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	if err := a.update(ctx); err != nil {
		return nil, err
	}
	if err := a.offered(ctx, list, missing, lock); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	argv := []string{"apt-get", "download", "-qq"}
	for _, i := range missing {
		argv = append(argv, list[i].Name+"="+list[i].Version)
	}
	c := a.command(argv...)
	c.dir = dir
	if _, err := c.run(ctx); err != nil {
		return nil, err
	}
	moved := &MovedError{Lock: lock}
	for _, i := range missing {
		p := &out[i]
		file := filepath.Join(dir, p.file())
		sum, err := hashFile(file)
		if err != nil {
			return nil, fmt.Errorf("image build: apt-get download left no %s: %w", p.file(), err)
		}
		if p.SHA256 != "" && p.SHA256 != sum {
			moved.Problem = append(moved.Problem, fmt.Sprintf("%s %s has the hash %s, and the lock %s", p.Name, p.Version, sum, p.SHA256))
			continue
		}
		p.SHA256 = sum
		if err := os.Rename(file, filepath.Join(cache, sum+".deb")); err != nil {
			return nil, err
		}
	}
	if len(moved.Problem) > 0 {
		return nil, moved
	}
	return out, nil
}

// offered names the packages that the sources do not have in the version that is
// needed.
func (a *apt) offered(ctx context.Context, list []Package, missing []int, lock string) error {
	argv := []string{"apt-cache", "madison"}
	for _, i := range missing {
		argv = append(argv, list[i].Name)
	}
	out, err := a.command(argv...).run(ctx)
	if err != nil {
		return err
	}
	versions := map[string][]string{}
	for line := range bytes.Lines(out) {
		f := strings.Split(string(line), "|")
		if len(f) == 3 {
			name := strings.TrimSpace(f[0])
			versions[name] = append(versions[name], strings.TrimSpace(f[1]))
		}
	}
	moved := &MovedError{Lock: lock}
	for _, i := range missing {
		p := list[i]
		switch have := versions[p.Name]; {
		case len(have) == 0:
			moved.Problem = append(moved.Problem, p.Name+" "+p.Version+" is gone, in every version")
		case !slices.Contains(have, p.Version):
			moved.Problem = append(moved.Problem, p.Name+" "+p.Version+" is gone, there is "+have[0])
		}
	}
	if len(moved.Problem) > 0 {
		return moved
	}
	return nil
}

// holds reports whether a file has a hash.
func holds(file, sum string) bool {
	got, err := hashFile(file)
	return err == nil && got == sum
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
