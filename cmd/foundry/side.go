package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"foundry/cmd/foundry/internal/closure"
	"foundry/cmd/foundry/internal/revision"
	"foundry/cmd/foundry/internal/view"
	"foundry/compile"
	"foundry/plan"
	"foundry/plan/diff"
)

// side loads one side of a comparison: what load takes, or REV:PATH, the same of
// a commit of the git repository around the current folder. A name that is on
// disk is no REV:PATH.
func (a *app) side(name string, f *compileFlags) (*source, error) {
	rev, file, ok := strings.Cut(name, ":")
	if _, err := os.Lstat(name); err == nil || !ok || rev == "" || filepath.VolumeName(name) != "" {
		return a.load(name, f, nil)
	}
	tree, err := revision.Open(".", rev)
	if err != nil {
		return nil, usage("%s: %w", name, err)
	}
	s, err := a.committed(tree, tree.Name(file), f)
	if e, ok := errors.AsType[*exitError](err); ok && e.err == nil {
		fmt.Fprintf(a.stderr, "These are of %s\n", view.Safe(name))
	}
	return s, err
}

// committed loads what a path of a commit is: a policy, a plan file or a
// closure.
func (a *app) committed(tree *revision.Tree, name string, f *compileFlags) (*source, error) {
	parent, err := tree.Folder(path.Dir(name))
	if err != nil {
		return nil, usage("%w", err)
	}
	info, err := fs.Stat(parent, path.Base(name))
	if err != nil {
		return nil, usage("%s is not in the revision: %w", name, err)
	}
	if !info.IsDir() {
		if !strings.EqualFold(path.Ext(name), ".json") {
			return a.committedPolicy(tree, name, f)
		}
		return committedPlan(parent, path.Base(name), name)
	}
	folder, err := tree.Folder(name)
	if err != nil {
		return nil, usage("%w", err)
	}
	if _, err := fs.Stat(folder, "oci-layout"); err != nil {
		return a.committedPolicy(tree, name, f)
	}
	s, err := committedPlan(folder, closure.PlanFile, path.Join(name, closure.PlanFile))
	if err != nil {
		return nil, err
	}
	s.blobs = committedBlobs{folder}
	return s, nil
}

func (a *app) committedPolicy(tree *revision.Tree, name string, f *compileFlags) (*source, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	opts.Open = func(dir string) (fs.FS, error) {
		if fsys, ok := lent(dir, opts.Vars); ok {
			return fsys, nil
		}
		return tree.Folder(dir)
	}
	res, err := a.compileWith(name, opts)
	if err != nil {
		return nil, err
	}
	return compiled(name, res), nil
}

// lent opens a folder in one that the user named absolutely in a --var: the
// policy of a commit reads what the user lends it, and nothing else of the disk.
func lent(dir string, vars []compile.Assignment) (fs.FS, bool) {
	for _, v := range vars {
		if !filepath.IsAbs(v.Value) {
			continue
		}
		rel, err := filepath.Rel(v.Value, filepath.FromSlash(dir))
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		outer, err := os.OpenRoot(v.Value)
		if err != nil {
			continue
		}
		inner, err := outer.OpenRoot(rel)
		outer.Close()
		if err == nil {
			return inner.FS(), true
		}
	}
	return nil, false
}

func committedPlan(folder fs.FS, file, name string) (*source, error) {
	encoded, err := fs.ReadFile(folder, file)
	if err != nil {
		return nil, usage("%w", err)
	}
	p, err := plan.Decode(encoded)
	if err != nil {
		return nil, usage("%s: %w", name, err)
	}
	return checked(name, &source{plan: p, encoded: encoded})
}

// committedBlobs are the blobs of a closure in a commit.
type committedBlobs struct{ folder fs.FS }

// Open gives the bytes of a blob, proven by their digest.
func (c committedBlobs) Open(digest string) (io.ReadCloser, error) {
	algorithm, hash, _ := strings.Cut(digest, ":")
	data, err := fs.ReadFile(c.folder, path.Join("blobs", algorithm, hash))
	if err != nil {
		return nil, err
	}
	if got := plan.Digest(data); got != digest {
		return nil, fmt.Errorf("the blob %s has the digest %s", digest, got)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// compared is a source as a comparison takes it.
func (s *source) compared() diff.Side {
	side := diff.Side{Plan: s.plan, Digest: plan.Digest(s.encoded)}
	if s.blobs != nil {
		side.Open = s.blobs.Open
	}
	return side
}
