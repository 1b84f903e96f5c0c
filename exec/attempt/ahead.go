package attempt

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"foundry/exec/record"
	"foundry/plan"
	"foundry/sandbox"
)

// Ahead is the sandbox of a step that was prepared while another step ran: its
// inputs are mounted as empty folders, and filled when it starts.
type Ahead struct {
	id    string
	ready chan struct{} // closed when the other fields are set
	sb    sandbox.Sandbox
	way   *way
	work  string
	empty map[string]string // artifact → the folder that is mounted for it
	err   error             // of Prepare; nothing is left then
}

// ID is the id of the job that it was prepared for.
func (x *Ahead) ID() string { return x.id }

// Foreseeable reports whether a node's sandbox can be prepared before its
// inputs are there: in containers alone, as the local sandbox copies them, and
// only where it is certain which inputs there will be.
func Foreseeable(n *plan.Node, rt sandbox.Runtime) bool {
	if rt == nil || rt.Mode() != plan.SandboxContainer {
		return false
	}
	for _, in := range n.Inputs {
		if !in.Required || in.From == plan.FromNone || in.CarriedFrom != "" {
			return false
		}
	}
	return true
}

// Prepare begins to prepare the sandbox of a job and returns at once. Job.Ahead
// takes it; one that is not taken must be dropped.
func (r *Runner) Prepare(ctx context.Context, job *Job) *Ahead {
	x := &Ahead{id: job.ID, ready: make(chan struct{}), empty: map[string]string{}}
	go func() {
		defer close(x.ready)
		x.err = r.prepareAhead(ctx, job, x)
	}()
	return x
}

func (r *Runner) prepareAhead(ctx context.Context, job *Job, x *Ahead) error {
	n := job.Node
	x.work = r.Folder.Path(record.WorkDir, job.ID)
	trees, paths := map[string]string{}, map[string]string{}
	for _, in := range n.Inputs {
		dir := filepath.Join(x.inputs(), in.Artifact)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return errors.Join(err, x.remove())
		}
		trees["in:"+in.Artifact], paths[in.Artifact], x.empty[in.Artifact] = dir, in.Path, dir
	}
	for _, m := range n.Sandbox.Mounts {
		b := r.Bundles[m.Source]
		if b == nil {
			continue
		}
		dir, err := r.Trees.Folder(ctx, b.Files)
		if err != nil {
			return errors.Join(err, x.remove())
		}
		trees[m.Source] = dir
	}
	sb, w, err := r.prepare(ctx, job, x.work, trees, paths)
	if err != nil {
		return errors.Join(err, x.remove())
	}
	x.sb, x.way = sb, w
	return nil
}

// inputs is the folder that holds the inputs' folders, beside the work folder.
func (x *Ahead) inputs() string { return x.work + ".in" }

func (x *Ahead) remove() error {
	return errors.Join(sandbox.RemoveTree(x.work), sandbox.RemoveTree(x.inputs()))
}

// take waits for the preparation and fills the inputs' folders, in place: they
// are mounted already.
func (x *Ahead) take(ctx context.Context, store *sandbox.Store, inputs []Input) error {
	<-x.ready
	if x.err != nil {
		return x.err
	}
	if p, ok := x.sb.(sandbox.Perishable); ok && p.Lost() {
		return errors.New("it was lost before its start")
	}
	for _, in := range inputs {
		dir := x.empty[in.Spec.Artifact]
		if err := fill(ctx, store, in.Artifact.At(in.Spec.Path), dir); err != nil {
			return err
		}
	}
	return nil
}

func fill(ctx context.Context, store *sandbox.Store, files []plan.BundleFile, dir string) error {
	fresh := dir + ".new"
	if err := sandbox.Materialize(ctx, store, files, fresh); err != nil {
		return err
	}
	entries, err := os.ReadDir(fresh)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(fresh, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		return err
	}
	return sandbox.RemoveTree(fresh)
}

// Drop removes a sandbox that is not needed after all.
func (x *Ahead) Drop(ctx context.Context) error {
	<-x.ready
	if x.err != nil {
		return nil
	}
	x.way.close()
	return errors.Join(x.sb.Close(ctx), x.remove())
}
