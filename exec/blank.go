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
	"foundry/sandbox"
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
	for _, t := range p.Tools {
		had := record.Tool{Name: t.Name, Had: record.ToolImage, Detail: t.Image}
		switch t.By {
		case plan.ToolSchema:
			had.Had = record.ToolSubstituted
		case plan.ToolUnavailable:
			had.Had, had.Detail = record.ToolUnavailable, t.Reason
		}
		e.run.Tools = append(e.run.Tools, had)
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
		if e.walk.Selected(i) && h != nil && p.PlaysScript(h.Provider) {
			e.run.PlaysScript = true
		}
	}
	for _, l := range p.Loops {
		e.run.Loops = append(e.run.Loops, record.Loop{ID: l.ID, Status: record.StatusNotReached, MaxIterations: l.MaxIterations})
	}
	for _, b := range p.Branches {
		e.run.Branches = append(e.run.Branches, record.Branch{ID: b.ID, Status: record.StatusNotReached})
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

// show makes artifacts/NODE what an attempt promoted, in one step, as copies:
// whoever changes one there does not change the store.
func (e *engine) show(job *attempt.Job, artifacts []attempt.Artifact) error {
	made := e.folder.Path(record.WorkDir, "view-"+job.ID)
	if len(artifacts) > 0 {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	for i := range artifacts {
		for _, f := range artifacts[i].At(artifacts[i].Filename) {
			if err := e.copyOut(f, filepath.Join(made, filepath.FromSlash(path.Clean(f.Path)))); err != nil {
				return err
			}
		}
	}
	view := e.folder.Path(record.ArtifactsDir, record.FolderName(job.Node.ID))
	if job.Iteration > 1 || job.Attempt > 1 {
		if err := sandbox.RemoveTree(view); err != nil {
			return err
		}
	}
	if len(artifacts) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(view), 0o755); err != nil {
		return err
	}
	return os.Rename(made, view)
}

func (e *engine) copyOut(f plan.BundleFile, dst string) error {
	if f.Mode == plan.ModeDir {
		return os.MkdirAll(dst, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	src, err := e.store.Open(f.Digest)
	if err != nil {
		return err
	}
	defer src.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o444)
	if f.Mode == plan.ModeExecutable {
		mode = 0o555
	}
	_, err = io.Copy(out, src)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
