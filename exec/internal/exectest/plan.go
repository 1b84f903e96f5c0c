// Package exectest is what the tests of exec and exec/attempt share: small
// valid plans, and a runtime and an adapter in memory. Only tests import it.
package exectest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"foundry/plan"
)

// Blobs is bytes by digest.
type Blobs map[string][]byte

// Put adds bytes.
func (b Blobs) Put(data string) string {
	d := plan.Digest([]byte(data))
	b[d] = []byte(data)
	return d
}

// Open implements sandbox.Blobs.
func (b Blobs) Open(digest string) (io.ReadCloser, error) {
	data, ok := b[digest]
	if !ok {
		return nil, fmt.Errorf("no blob %s: %w", digest, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Builder makes a plan.
type Builder struct {
	Plan  *plan.Plan
	Blobs Blobs
}

// New is a plan with one harness "stub" of the adapter.
func New(adapter, version string) *Builder {
	return &Builder{Blobs: Blobs{}, Plan: &plan.Plan{
		FormatVersion: plan.FormatVersion, Mode: plan.ModeTrace, Order: plan.OrderAssembly,
		Pipeline:  plan.Pipeline{Name: "test", SourceRevision: 1, Digest: plan.Digest([]byte("assembly"))},
		Harnesses: []plan.Harness{{Name: "stub", Adapter: adapter, Version: version, TestStub: true}},
		Budget:    plan.RunBudget{WallSeconds: 600, CostMicroUSD: 1_000_000, Tokens: 100_000, Unknown: plan.UnknownFail},
	}}
}

// Bundle adds a bundle of files, path → text.
func (b *Builder) Bundle(id string, files map[string]string) {
	var list []plan.BundleFile
	for p, text := range files {
		list = append(list, plan.BundleFile{Path: p, Mode: plan.ModeRegular, Bytes: int64(len(text)), Digest: b.Blobs.Put(text)})
	}
	slices.SortFunc(list, func(x, y plan.BundleFile) int { return strings.Compare(x.Path, y.Path) })
	digest, err := plan.TreeDigest(list)
	if err != nil {
		panic(err)
	}
	bundle := plan.Bundle{ID: id, Digest: digest, Files: list}
	if strings.HasPrefix(id, plan.BundleSkill+":") {
		bundle.Mold = &plan.Mold{Name: strings.TrimPrefix(id, "skill:"), Revision: 3, Commit: "0123abcd", ContentHash: "abc",
			ProvenanceDigest: plan.Digest([]byte("provenance"))}
	}
	b.Plan.Bundles = append(b.Plan.Bundles, bundle)
	slices.SortFunc(b.Plan.Bundles, func(x, y plan.Bundle) int { return strings.Compare(x.ID, y.ID) })
}

// Input adds a policy input that is one file.
func (b *Builder) Input(id, kind, filename, text string) {
	b.Bundle("input:"+id, map[string]string{filename: text})
	b.Plan.Inputs = append(b.Plan.Inputs, plan.Input{ID: id, Bundle: "input:" + id, Kind: kind, Filename: filename})
}

// Node adds an agent that runs a skill of its own name. Its mounts follow from
// its inputs and outputs.
func (b *Builder) Node(id string, change func(*plan.Node)) *plan.Node {
	b.Bundle("skill:"+id, map[string]string{"SKILL.md": "---\nname: " + id + "\n---\n"})
	n := plan.Node{
		ID: id, Kind: plan.NodeAgent, Phase: int64(len(b.Plan.Nodes) + 1), Skill: "skill:" + id, Harness: "stub",
		Prompt:  "do it, write to {out}",
		Process: plan.Process{Argv: []string{"{foundry}", "worker"}, Env: []string{"HOME={scratch}", "PATH=/usr/bin:/bin"}, Cwd: "{scratch}", User: "65534:65534"},
		Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Network: plan.NetworkNone,
			Resources: plan.Resources{MemoryBytes: 1 << 30, PIDs: 64, CPUMillis: 1000}},
		Budget: plan.NodeBudget{WallSeconds: 60, Turns: 10, ToolCalls: 10, Tokens: 1000, CostMicroUSD: 1000,
			OutputBytes: 1 << 20, OutputFiles: 16},
		SubmitAttempts: 1,
	}
	if k := len(b.Plan.Nodes); k > 0 {
		n.Needs = []string{b.Plan.Nodes[k-1].ID}
	}
	if change != nil {
		change(&n)
	}
	mounts := []plan.Mount{
		{Source: n.Skill, Destination: "/skills/" + id, Mode: plan.MountReadOnly},
		{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: n.Budget.OutputBytes},
		{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: 1 << 20},
		{Source: plan.MountTmpfs, Destination: "/tmp", Mode: plan.MountReadWrite, Bytes: 1 << 20},
	}
	for _, in := range n.Inputs {
		mounts = append(mounts, plan.Mount{Source: "in:" + in.Artifact, Destination: "/in/" + in.Artifact, Mode: plan.MountReadOnly})
	}
	slices.SortFunc(mounts, func(x, y plan.Mount) int { return strings.Compare(x.Destination, y.Destination) })
	n.Sandbox.Mounts = mounts
	b.Plan.Nodes = append(b.Plan.Nodes, n)
	return &b.Plan.Nodes[len(b.Plan.Nodes)-1]
}

// Bytes is the encoded plan.
func (b *Builder) Bytes() []byte {
	data, err := plan.Encode(b.Plan)
	if err != nil {
		panic(err)
	}
	return data
}
