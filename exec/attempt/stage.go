package attempt

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"foundry/exec/record"
	"foundry/plan"
	"foundry/sandbox"
)

// Artifact is one version of an artifact with the files that it is made of.
// For a file Tree has one entry, named as the producer names it.
type Artifact struct {
	record.Artifact
	Tree []plan.BundleFile
}

// Directory reports whether the artifact is a folder.
func (a *Artifact) Directory() bool { return a.Kind == plan.KindDirectory }

// At is the artifact's tree as a consumer sees it, below the input's root.
func (a *Artifact) At(place string) []plan.BundleFile {
	if !a.Directory() {
		files := make([]plan.BundleFile, len(a.Tree))
		copy(files, a.Tree)
		for i := range files {
			files[i].Path = place
		}
		return files
	}
	if len(a.Tree) == 0 && place != "" && place != "." {
		return []plan.BundleFile{{Path: place, Mode: plan.ModeDir}}
	}
	files := make([]plan.BundleFile, len(a.Tree))
	for i, f := range a.Tree {
		f.Path = path.Join(place, f.Path)
		files[i] = f
	}
	return files
}

// Trees stages read-only folders from a store, each once in a run, shared by
// its attempts.
type Trees struct {
	dir   string
	store *sandbox.Store
	mu    sync.Mutex
	made  map[string]bool
}

// NewTrees stages below dir, which is made when it is needed.
func NewTrees(dir string, store *sandbox.Store) *Trees {
	return &Trees{dir: dir, store: store, made: map[string]bool{}}
}

// Folder returns the folder that holds files.
func (t *Trees) Folder(ctx context.Context, files []plan.BundleFile) (string, error) {
	digest, err := plan.TreeDigest(files)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	dir := filepath.Join(t.dir, strings.TrimPrefix(digest, "sha256:"))
	if t.made[digest] {
		return dir, nil
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return "", err
	}
	if err := sandbox.Materialize(ctx, t.store, files, dir); err != nil {
		return "", err
	}
	t.made[digest] = true
	return dir, nil
}

// Remove removes everything that was staged.
func (t *Trees) Remove() error { return sandbox.RemoveTree(t.dir) }

// trees stages what the mount manifest of a node names: bundles and inputs.
func (r *Runner) trees(ctx context.Context, job *Job) (map[string]string, map[string]string, error) {
	trees, paths := map[string]string{}, map[string]string{}
	inputs := map[string]*Input{}
	for i := range job.Inputs {
		in := &job.Inputs[i]
		inputs["in:"+in.Spec.Artifact] = in
		if in.Artifact != nil {
			paths[in.Spec.Artifact] = in.Spec.Path
		}
	}
	for _, m := range job.Node.Sandbox.Mounts {
		var files []plan.BundleFile
		switch {
		case m.Source == plan.MountOutput || m.Source == plan.MountScratch || m.Source == plan.MountTmpfs:
			continue
		case inputs[m.Source] != nil:
			in := inputs[m.Source]
			if in.Artifact == nil {
				continue
			}
			files = in.Artifact.At(in.Spec.Path)
		case r.Bundles[m.Source] != nil:
			files = r.Bundles[m.Source].Files
		default:
			return nil, nil, fmt.Errorf("attempt: the mount %s of node %s is no bundle and no input of it", m.Source, job.Node.ID)
		}
		dir, err := r.Trees.Folder(ctx, files)
		if err != nil {
			return nil, nil, err
		}
		trees[m.Source] = dir
	}
	return trees, paths, nil
}
