//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/sandbox"
)

// Folders below Task.Dir.
const (
	outDir     = "out"
	scratchDir = "scratch"
	treesDir   = "fs" // holds each tree at the destination its mount has in a container
)

// place is where the process sees a mount.
func (b *box) place(m plan.Mount) string {
	switch m.Source {
	case plan.MountOutput:
		return filepath.Join(b.task.Dir, outDir)
	case plan.MountScratch:
		return filepath.Join(b.task.Dir, scratchDir)
	case plan.MountTmpfs:
		return ""
	}
	return filepath.Join(b.task.Dir, treesDir, filepath.FromSlash(m.Destination))
}

// stage makes everything below Task.Dir.
func (b *box) stage(ctx context.Context) error {
	for _, d := range [...]string{outDir, scratchDir} {
		if err := os.Mkdir(filepath.Join(b.task.Dir, d), 0o700); err != nil {
			return err
		}
	}
	mounts := slices.Clone(b.task.Sandbox.Mounts)
	// A tree that lies within another is refused below, whatever their order.
	slices.SortFunc(mounts, func(a, c plan.Mount) int { return strings.Compare(a.Destination, c.Destination) })
	for _, m := range mounts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.mount(m); err != nil {
			return fmt.Errorf("mount %s: %w", m.Source, err)
		}
	}
	if err := b.process(); err != nil {
		return err
	}
	for _, f := range b.task.Files {
		if err := b.file(f); err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
	}
	return nil
}

// mount stages one line of the mount manifest as a copy of this attempt's own.
func (b *box) mount(m plan.Mount) error {
	to := b.place(m)
	if to == "" || b.task.Absent(m) {
		return nil
	}
	switch m.Source {
	case plan.MountOutput, plan.MountScratch:
	default:
		dest, abs := strings.CutPrefix(m.Destination, "/")
		if !abs {
			return fmt.Errorf("the destination %q is not absolute", m.Destination)
		}
		if err := errors.Join(sandbox.CheckPath(dest), pasteable("the destination", dest, "compile the policy again")); err != nil {
			return err
		}
		from, ok := b.task.Trees[m.Source]
		if !ok {
			return errors.New("the executor gave no folder for it")
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := sandbox.CopyTree(from, to, m.Mode == plan.MountReadWrite); err != nil {
			return err
		}
	}
	b.mounts = append(b.mounts, sandbox.AppliedMount{Source: m.Source, Destination: to, Mode: m.Mode})
	return nil
}

// process expands argv, environment and working folder.
func (b *box) process() error {
	p := b.task.Process
	if len(p.Argv) == 0 {
		return errors.New("the plan names no program")
	}
	// The marker comes first: looking for it then reads little.
	b.env = []string{b.marker}
	for _, e := range p.Env {
		kv, err := b.Expand(e)
		if err != nil {
			return err
		}
		key, _, ok := strings.Cut(kv, "=")
		if !ok || key == "" || strings.ContainsRune(kv, 0) {
			return fmt.Errorf("the environment entry %q has not the form KEY=value", e)
		}
		if key == MarkerVar {
			return fmt.Errorf("the environment variable %s belongs to the runtime: name yours otherwise", MarkerVar)
		}
		b.env = append(b.env, kv)
	}
	for _, a := range p.Argv {
		s, err := b.Expand(a)
		if err != nil {
			return err
		}
		b.argv = append(b.argv, s)
	}
	cwd, err := b.Expand(p.Cwd)
	if err != nil {
		return err
	}
	if cwd == "" {
		cwd = filepath.Join(b.task.Dir, scratchDir)
	}
	if !filepath.IsAbs(cwd) {
		return fmt.Errorf("the working folder %q is not absolute", cwd)
	}
	if err := b.ownFolders(); err != nil {
		return err
	}
	b.cwd = cwd
	if b.agent != nil {
		path, argv := start(*b.agent)
		b.path, b.argv = path, append(argv, b.argv[1:]...)
		return nil
	}
	b.path, err = b.program()
	return err
}

// ownFolders makes what the process expects to find below {scratch}.
func (b *box) ownFolders() error {
	scratch := filepath.Join(b.task.Dir, scratchDir)
	folders, err := sandbox.OwnFolders(b.task.Process, b.Expand, scratch)
	for _, rel := range folders {
		err = errors.Join(err, os.MkdirAll(filepath.Join(scratch, filepath.FromSlash(rel)), 0o700))
	}
	return err
}

func (b *box) belowScratch(path string) (rel string, ok bool) {
	rel, ok = strings.CutPrefix(path, filepath.Join(b.task.Dir, scratchDir)+"/")
	return rel, ok
}

// program finds argv[0] by the plan's PATH, never by this process's.
func (b *box) program() (string, error) {
	name := b.argv[0]
	var tries []string
	switch {
	case filepath.IsAbs(name):
		tries = []string{name}
	case strings.Contains(name, "/"):
		tries = []string{filepath.Join(b.cwd, name)}
	default:
		for _, e := range b.env {
			if list, ok := strings.CutPrefix(e, "PATH="); ok {
				for _, dir := range filepath.SplitList(list) {
					if filepath.IsAbs(dir) {
						tries = append(tries, filepath.Join(dir, name))
					}
				}
			}
		}
	}
	for _, path := range tries {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot find the program %q in the plan's PATH on this machine: %w", name, exec.ErrNotFound)
}

// file writes one of the plan's small files.
func (b *box) file(f plan.File) error {
	path, err := b.Expand(f.Path)
	if err != nil {
		return err
	}
	rel, ok := b.belowScratch(path)
	if !ok {
		return errors.New("it is not below {scratch}")
	}
	if err := sandbox.CheckPath(rel); err != nil {
		return err
	}
	content, err := b.Expand(f.Content)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.WriteString(content)
	return errors.Join(err, out.Close())
}

// Expand implements sandbox.Sandbox.
func (b *box) Expand(s string) (string, error) {
	return plan.Expand(s, b.lookup)
}

// remove deletes what stage made.
func (b *box) remove() error {
	var err error
	for _, d := range [...]string{outDir, scratchDir, treesDir} {
		err = errors.Join(err, sandbox.RemoveTree(filepath.Join(b.task.Dir, d)))
	}
	return err
}
