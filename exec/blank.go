package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/plan"
)

// blank is the record of a run that has not started.
func (e *engine) blank(bundles map[string]*plan.Bundle, program string) {
	p := e.opts.Plan
	now := e.opts.Now().UTC()
	e.run = &record.Run{
		FormatVersion: record.FormatVersion,
		ID:            now.Format("20060102-150405") + "-" + e.nonce,
		Status:        record.StatusRunning,
		Plan: record.PlanIdentity{Digest: plan.Digest(e.opts.PlanBytes), Mode: p.Mode, Pipeline: p.Pipeline.Name,
			SourceRevision: p.Pipeline.SourceRevision, AssemblyDigest: p.Pipeline.Digest},
		Program: record.Program{Version: e.opts.Version, Digest: program},
		Through: e.opts.Through,
		Started: e.stamp(),
		Usage:   record.NoUsage(),
	}
	for i := range p.Bundles {
		b := record.Bundle{ID: p.Bundles[i].ID, Digest: p.Bundles[i].Digest}
		switch class, _, _ := strings.Cut(b.ID, ":"); class {
		case plan.BundleInput:
			e.run.Inputs = append(e.run.Inputs, b)
		case plan.BundleRecorded:
			e.run.Fixtures = append(e.run.Fixtures, b)
		}
	}
	for _, probe := range p.Probes {
		e.run.Probes = append(e.run.Probes, record.Probe{Tool: probe.Tool, Status: record.ProbeNotRun})
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		h := e.harnesses[n.Harness]
		e.run.Nodes = append(e.run.Nodes, record.Node{ID: n.ID, Kind: n.Kind, Phase: n.Phase, Status: record.StatusNotReached,
			Invocation: attempt.InvocationOf(bundles[n.Skill]), Harness: attempt.HarnessOf(h),
			Fixture: attempt.FixtureOf(n, bundles), Usage: record.NoUsage()})
		if e.walk.Selected(i) && h != nil && h.TestStub {
			e.run.TestStub = true
		}
	}
}

func digestFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// show writes an artifact below artifacts/NODE/, as copies: whoever changes
// one there does not change the store.
func (e *engine) show(node string, a *attempt.Artifact) error {
	for _, f := range a.At(a.Filename) {
		dst := e.folder.Path(record.ArtifactsDir, record.FolderName(node), filepath.FromSlash(path.Clean(f.Path)))
		if f.Mode == plan.ModeDir {
			if err := os.MkdirAll(dst, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o444)
		if f.Mode == plan.ModeExecutable {
			mode = 0o555
		}
		if err := e.copyOut(f.Digest, dst, mode); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) copyOut(digest, dst string, mode os.FileMode) error {
	src, err := e.store.Open(digest)
	if err != nil {
		return err
	}
	defer src.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, src)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
