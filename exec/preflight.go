package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/plan"
	"foundry/sandbox"
)

// Classes of NodeInput.From, the part before the colon.
const (
	fromInput  = "input"
	fromNode   = "node"
	fromBranch = "branch"
)

func source(from string) (class, id string) {
	class, id, _ = strings.Cut(from, ":")
	return class, id
}

// preflight says what would stop the run, before anything is made.
func (e *engine) preflight() error {
	o := &e.opts
	encoded, err := plan.Encode(o.Plan)
	if err != nil {
		return err
	}
	if !bytes.Equal(encoded, o.PlanBytes) {
		return errors.New("exec: the plan's bytes are not those of the plan")
	}
	if bad := plan.Validate(o.Plan); len(bad) > 0 {
		return fmt.Errorf("exec: the plan is not valid: %s (%d problems in all)", bad[0], len(bad))
	}
	if o.Plan.Mode != plan.ModeTrace {
		return fmt.Errorf("exec: the plan's mode is %s, and this version executes %s alone", o.Plan.Mode, plan.ModeTrace)
	}
	if !filepath.IsAbs(o.Executable) {
		return fmt.Errorf("exec: the executable %q is not absolute", o.Executable)
	}
	e.nonce = o.Nonce()
	if strings.Trim(e.nonce, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || e.nonce == "" {
		return fmt.Errorf("exec: the nonce %q is not made of a-z and 0-9", e.nonce)
	}
	if e.walk, err = NewWalk(o.Plan, o.Through); err != nil {
		return err
	}
	e.harnesses = map[string]*plan.Harness{}
	for i := range o.Plan.Harnesses {
		e.harnesses[o.Plan.Harnesses[i].Name] = &o.Plan.Harnesses[i]
	}
	for i := range o.Plan.Nodes {
		if e.walk.Selected(i) && !e.walk.unsupported[i] {
			if err := e.runnable(&o.Plan.Nodes[i]); err != nil {
				return fmt.Errorf("exec: node %s: %w", o.Plan.Nodes[i].ID, err)
			}
		}
	}
	return nil
}

// runnable says why a node cannot run here.
func (e *engine) runnable(n *plan.Node) error {
	if e.opts.Runtimes[n.Sandbox.Mode] == nil {
		return fmt.Errorf("the sandbox %q is not to be had here: there is %s", n.Sandbox.Mode, list(e.opts.Runtimes))
	}
	h := e.harnesses[n.Harness]
	// An agent with a login of its own reaches its provider past the broker, as the
	// plan says; a local process has the host's network anyway.
	own := h != nil && h.AuthStore != "" && n.Sandbox.Network == plan.NetworkBridge && n.Sandbox.Mode == plan.SandboxLocal
	if n.Sandbox.Network != plan.NetworkNone && n.Sandbox.Network != plan.NetworkProvider && !own {
		return fmt.Errorf("the network %q is not built yet: this version gives %s and %s", n.Sandbox.Network, plan.NetworkNone, plan.NetworkProvider)
	}
	if len(n.Sandbox.WorkerCredentials) > 0 {
		return fmt.Errorf("worker credentials (%s) are not built yet", strings.Join(n.Sandbox.WorkerCredentials, ", "))
	}
	if n.Kind == plan.NodeCheck {
		return nil
	}
	if h == nil {
		return fmt.Errorf("the plan has no harness %q", n.Harness)
	}
	if n.Sandbox.Network == plan.NetworkProvider && h.Provider == "" {
		return fmt.Errorf("its network is %s, and the harness %s has none: give it a provider and a model, or the step the network %s", plan.NetworkProvider, h.Name, plan.NetworkNone)
	}
	a := e.opts.Adapters[h.Adapter]
	if a == nil {
		return fmt.Errorf("the adapter %q of harness %s is not known: there is %s", h.Adapter, h.Name, list(e.opts.Adapters))
	}
	caps, err := a.Capabilities(h.Version)
	if err != nil {
		return fmt.Errorf("harness %s: %w", h.Name, err)
	}
	if caps.TestStub != h.TestStub {
		return fmt.Errorf("harness %s: the plan says test_stub = %v, the adapter %s says %v", h.Name, h.TestStub, h.Adapter, caps.TestStub)
	}
	if _, ok := a.Session(harness.SessionConfig{Harness: *h}).(harness.Resubmitter); n.SubmitAttempts > 1 && !ok {
		return fmt.Errorf("submit_attempts = %d: the adapter %s takes nothing back from its worker", n.SubmitAttempts, h.Adapter)
	}
	if own {
		return e.lendable(h)
	}
	if n.Sandbox.Network != plan.NetworkProvider {
		return nil
	}
	e.brokered = true
	return e.payable(h)
}

// lendable says why an agent cannot have its own login.
func (e *engine) lendable(h *plan.Harness) error {
	file := e.opts.Logins[h.AuthStore]
	if file == "" {
		return fmt.Errorf("the harness %s works with the login %s of its own, and nobody says where that is: give its file (apply --auth-store %s=FILE)", h.Name, h.AuthStore, h.AuthStore)
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("the login %s of harness %s: %w", h.AuthStore, h.Name, err)
	}
	if !info.Mode().IsRegular() || !filepath.IsAbs(file) {
		return fmt.Errorf("the login %s of harness %s: %s is no regular file with an absolute path", h.AuthStore, h.Name, file)
	}
	return nil
}

// payable says which credential is missing before anything else is spent.
func (e *engine) payable(h *plan.Harness) error {
	for _, p := range e.opts.Plan.Providers {
		if p.Name != h.Provider || p.Credential == "" {
			continue
		}
		if e.opts.Credential == nil {
			return fmt.Errorf("the provider %s needs the credential %s, and nobody gives it", p.Name, p.Credential)
		}
		if _, err := e.opts.Credential(p.Credential); err != nil {
			return fmt.Errorf("the provider %s needs the credential %s: %w", p.Name, p.Credential, err)
		}
	}
	return nil
}

func list[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// take makes the run's own store and record, or completes those of a run that
// goes on. A *Refusal is about the plan's bytes.
func (e *engine) take(ctx context.Context) error {
	o := &e.opts
	var err error
	if e.store, err = sandbox.OpenStore(e.folder.Path(record.StoreDir)); err != nil {
		return err
	}
	if err := os.Mkdir(e.folder.Path(record.WorkDir), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(e.folder.Path(record.PlanFile), o.PlanBytes, 0o600); err != nil {
		return err
	}
	bundles := make(map[string]*plan.Bundle, len(o.Plan.Bundles))
	for i := range o.Plan.Bundles {
		bundles[o.Plan.Bundles[i].ID] = &o.Plan.Bundles[i]
	}
	e.inputs = map[string]*attempt.Artifact{}
	needed, schemas, err := e.needed(bundles)
	if err != nil {
		return &Refusal{err}
	}
	for _, id := range needed {
		if err := e.copyBundle(ctx, bundles[id]); err != nil {
			return err
		}
	}
	compiled := attempt.NewSchemas(o.Plan, e.store)
	for _, id := range schemas {
		if _, err := compiled.Get(id); err != nil {
			return &Refusal{err}
		}
	}
	program, err := digestFile(o.Executable)
	if err != nil {
		return err
	}
	e.blank(bundles, program)
	e.runner = &attempt.Runner{Run: e.run.ID, Folder: e.folder, Store: e.store, Schemas: compiled, Bundles: bundles,
		Trees: attempt.NewTrees(e.folder.Path(record.WorkDir, "trees"), e.store), Executable: o.Executable, Logins: o.Logins, Now: o.Now, Grace: attempt.FinishGrace}
	if e.brokered {
		if e.runner.Broker, err = attempt.OpenBroker(e.folder, o.Plan, e.store, o.Credential); err != nil {
			return err
		}
	}
	e.made = make([]history, len(o.Plan.Nodes))
	e.state = e.walk.Initial()
	return nil
}

// needed lists the bundles that the executed part uses, sorted, and the
// schemas among them. It also makes the artifacts of the policy's inputs.
func (e *engine) needed(bundles map[string]*plan.Bundle) (all, schemas []string, _ error) {
	inputs := map[string]*plan.Input{}
	for i := range e.opts.Plan.Inputs {
		inputs[e.opts.Plan.Inputs[i].ID] = &e.opts.Plan.Inputs[i]
	}
	set, schemaSet := map[string]bool{}, map[string]bool{}
	for i := range e.opts.Plan.Nodes {
		if !e.walk.Selected(i) {
			continue
		}
		n := &e.opts.Plan.Nodes[i]
		for _, m := range n.Sandbox.Mounts {
			if bundles[m.Source] != nil {
				set[m.Source] = true
			}
		}
		if h := e.harnesses[n.Harness]; h != nil {
			for k := range e.opts.Plan.Providers {
				if p := &e.opts.Plan.Providers[k]; p.Name == h.Provider && p.Script != "" {
					set[p.Script] = true
				}
			}
		}
		for _, out := range n.Outputs {
			schemaSet[out.Schema] = true
		}
		for _, in := range n.Inputs {
			schemaSet[in.Schema] = true
			if err := e.needInput(in.From, inputs, bundles, set); err != nil {
				return nil, nil, fmt.Errorf("exec: node %s: %w", n.ID, err)
			}
		}
		if u := &e.walk.units[e.walk.unitOf[i]]; u.kind == branchUnit {
			if err := e.needInput(u.branch.Otherwise, inputs, bundles, set); err != nil {
				return nil, nil, fmt.Errorf("exec: branch %s: %w", u.id, err)
			}
		}
	}
	delete(schemaSet, "")
	for id := range schemaSet {
		if bundles[id] == nil {
			return nil, nil, fmt.Errorf("exec: the plan has no bundle %s", id)
		}
		set[id] = true
	}
	return slices.Sorted(maps.Keys(set)), slices.Sorted(maps.Keys(schemaSet)), nil
}

// needInput makes the artifact of a policy input, if that is what from names.
func (e *engine) needInput(from string, inputs map[string]*plan.Input, bundles map[string]*plan.Bundle, set map[string]bool) error {
	class, id := source(from)
	if class != fromInput || e.inputs[id] != nil {
		return nil
	}
	in := inputs[id]
	if in == nil || bundles[in.Bundle] == nil {
		return fmt.Errorf("it reads the input %s, which the plan does not have", id)
	}
	set[in.Bundle] = true
	var err error
	e.inputs[id], err = inputArtifact(in, bundles[in.Bundle])
	return err
}

func inputArtifact(in *plan.Input, b *plan.Bundle) (*attempt.Artifact, error) {
	a := &attempt.Artifact{Tree: b.Files, Artifact: record.Artifact{Artifact: in.ID, Filename: in.Filename, Kind: in.Kind, Digest: b.Digest}}
	for _, f := range b.Files {
		if f.Mode != plan.ModeDir {
			a.Bytes += f.Bytes
			a.Files++
		}
	}
	if a.Directory() {
		return a, nil
	}
	if len(b.Files) != 1 || b.Files[0].Mode == plan.ModeDir {
		return nil, fmt.Errorf("exec: the input %s is a file, but its bundle %s does not hold exactly one", in.ID, b.ID)
	}
	a.Digest = b.Files[0].Digest
	return a, nil
}

// copyBundle brings the bytes of a bundle into the run's store, and refuses
// those that are not the plan's.
func (e *engine) copyBundle(ctx context.Context, b *plan.Bundle) error {
	if b.ID != "" {
		if got, err := plan.TreeDigest(b.Files); err != nil || got != b.Digest {
			return &Refusal{fmt.Errorf("exec: bundle %s: its file list has the digest %s, the plan says %s", b.ID, got, b.Digest)}
		}
	}
	for _, f := range b.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.Mode == plan.ModeDir || e.store.Has(f.Digest) {
			continue
		}
		if err := e.copyBlob(f); err != nil {
			if refused, ok := errors.AsType[*Refusal](err); ok {
				return &Refusal{fmt.Errorf("exec: bundle %s: %s: %w", b.ID, f.Path, refused.Err)}
			}
			return fmt.Errorf("exec: bundle %s: %s: %w", b.ID, f.Path, err)
		}
	}
	return nil
}

// copyBlob copies one file through a temporary one, whatever its size.
func (e *engine) copyBlob(f plan.BundleFile) error {
	src, err := e.opts.Blobs.Open(f.Digest)
	if err != nil {
		return &Refusal{err}
	}
	defer src.Close()
	tmp := e.folder.Path(record.WorkDir, "blob")
	dst, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	in := &readError{r: io.LimitReader(src, f.Bytes+1)}
	_, err = io.Copy(dst, in)
	if err = errors.Join(err, dst.Close()); err != nil {
		if in.err != nil {
			return &Refusal{in.err}
		}
		return err
	}
	got, n, err := e.store.PutFile(tmp)
	if err != nil {
		return err
	}
	if got != f.Digest || n != f.Bytes {
		return &Refusal{fmt.Errorf("the bytes changed: the plan names %s (%d bytes), there is %s (%d bytes or more)", f.Digest, f.Bytes, got, n)}
	}
	return nil
}

// readError keeps the error of the source apart from that of the destination.
type readError struct {
	r   io.Reader
	err error
}

func (r *readError) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
