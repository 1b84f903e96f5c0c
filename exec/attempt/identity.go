package attempt

import (
	"maps"
	"slices"
	"strings"

	"foundry/exec/record"
	"foundry/plan"
)

// InvocationOf is the identity of a skill; nil for no skill.
func InvocationOf(b *plan.Bundle) *record.Invocation {
	if b == nil {
		return nil
	}
	inv := &record.Invocation{Skill: b.ID, SkillSHA256: b.Digest}
	if m := b.Mold; m != nil {
		inv.Provenance = &record.Mold{Digest: m.ProvenanceDigest, Name: m.Name, Revision: m.Revision, Commit: m.Commit, ContentHash: m.ContentHash}
	}
	return inv
}

// HarnessOf is the identity of a harness; nil for none.
func HarnessOf(h *plan.Harness) *record.Harness {
	if h == nil {
		return nil
	}
	return &record.Harness{Name: h.Name, Adapter: h.Adapter, Version: h.Version, Provider: h.Provider, Model: h.Model,
		Thinking: h.Thinking, TestStub: h.TestStub}
}

// FixtureOf is the bundle of recorded files that a node mounts; nil for none.
func FixtureOf(n *plan.Node, bundles map[string]*plan.Bundle) *record.Bundle {
	for _, m := range n.Sandbox.Mounts {
		if b := bundles[m.Source]; b != nil && strings.HasPrefix(m.Source, plan.BundleRecorded+":") {
			return &record.Bundle{ID: b.ID, Digest: b.Digest}
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
