package closure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"foundry/plan"
)

// Root says where the bytes of bundles are: a bundle's id and its folder or
// file, or a class of bundles (skill, input, recorded …) and the folder that
// holds one entry for each.
type Root struct{ Name, Dir string }

// ParseRoot reads NAME=DIR.
func ParseRoot(s string) (Root, error) {
	name, dir, ok := strings.Cut(s, "=")
	if !ok || name == "" || dir == "" {
		return Root{}, fmt.Errorf("--root %q is not NAME=DIR: NAME is a bundle of the plan (skill:summarize-cwl) or a class of them (skill)", s)
	}
	return Root{name, dir}, nil
}

// Memory holds blobs by digest.
type Memory map[string][]byte

// Open gives the bytes of a blob.
func (m Memory) Open(digest string) (io.ReadCloser, error) {
	data, ok := m[digest]
	if !ok {
		return nil, fmt.Errorf("%s: %w", digest, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Gather reads the plan's bundles from folders and verifies each file by its
// digest; the first that differs is the error, with both digests. The bytes
// are read once: what happens to the folders afterwards changes nothing.
func Gather(p *plan.Plan, roots []Root) (Memory, error) {
	m := Memory{}
	used := make([]bool, len(roots))
	for i := range p.Bundles {
		b := &p.Bundles[i]
		class, name, _ := strings.Cut(b.ID, ":")
		for k, r := range roots {
			dir := r.Dir
			switch r.Name {
			case b.ID:
			case class:
				// Recorded files of all steps come from one folder.
				if class != plan.BundleRecorded {
					dir = filepath.Join(dir, filepath.FromSlash(name))
				}
			default:
				continue
			}
			used[k] = true
			if err := gather(m, b, dir); err != nil {
				return nil, err
			}
		}
	}
	for k, r := range roots {
		if !used[k] {
			return nil, fmt.Errorf("--root %s=%s: the plan has no bundle of that name or class; it has %s", r.Name, r.Dir, strings.Join(bundleIDs(p), ", "))
		}
	}
	for i := range p.Bundles {
		b := &p.Bundles[i]
		for _, f := range b.Files {
			if _, ok := m[f.Digest]; !ok && f.Mode != plan.ModeDir {
				return nil, fmt.Errorf("the bytes of %s (%s) are not in any --root: name its folder with --root %s=DIR", b.ID, f.Path, b.ID)
			}
		}
	}
	return m, nil
}

func bundleIDs(p *plan.Plan) []string {
	var ids []string
	for _, b := range p.Bundles {
		ids = append(ids, b.ID)
	}
	slices.Sort(ids)
	return ids
}

// gather reads one bundle. A bundle of one file may be named by the file
// itself or by its folder.
func gather(m Memory, b *plan.Bundle, dir string) error {
	single := ""
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%s: %w", b.ID, err)
	} else if !info.IsDir() {
		dir, single = filepath.Dir(dir), filepath.Base(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", b.ID, err)
	}
	defer root.Close()
	for _, f := range b.Files {
		if f.Mode == plan.ModeDir {
			continue
		}
		name := f.Path
		if single != "" {
			name = single
		}
		shown := filepath.Join(dir, filepath.FromSlash(name))
		data, err := readBounded(root, name, f.Bytes)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %s is missing; the plan was made with %s", b.ID, shown, f.Digest)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", b.ID, shown, err)
		}
		if got := plan.Digest(data); got != f.Digest {
			return fmt.Errorf("%s: %s is not the file that the plan was made with: it has %s, the plan names %s", b.ID, shown, got, f.Digest)
		}
		m[f.Digest] = data
	}
	return nil
}

// readBounded reads at most one byte more than the plan says: that is enough
// to see that a file differs, but not to say its digest, so a file that is
// only longer is read whole up to 64 MiB.
func readBounded(root *os.Root, name string, want int64) ([]byte, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	limit := max(want, 64<<20) + 1
	return io.ReadAll(io.LimitReader(f, limit))
}
