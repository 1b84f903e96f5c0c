package harness

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"foundry/plan"
)

// Prompt composes the exact text that the worker of req gets: activation, the
// digests of what it works with, inputs, outputs, task. Activation is the
// adapter's own way to ask for the skill, such as "/skill:NAME"; agents take it
// from the start of the text up to the first space, so text follows it on the
// same line. The same request gives the same bytes; there is no final newline.
func Prompt(req Request, activation string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s Carry out this skill once, as the step %s of a pipeline.\n", activation, oneLine(req.Node))
	b.WriteString("\nSkill:\n")
	fmt.Fprintf(&b, "- name: %s\n- folder: {skill}\n", oneLine(req.Skill))
	if req.SkillBundle != nil {
		writeIdentity(&b, req.SkillBundle)
	}
	for _, name := range req.NestedSkills {
		fmt.Fprintf(&b, "- nested skill: %s in {skill:%s}\n", name, name)
	}
	b.WriteString("\nInputs (read-only):\n")
	for _, in := range req.Inputs {
		fmt.Fprintf(&b, "- %s\n", inputLine(in))
	}
	if len(req.Inputs) == 0 {
		b.WriteString("- none\n")
	}
	b.WriteString("\nOutputs (write these files and nothing else below {out}):\n")
	for _, out := range req.Outputs {
		fmt.Fprintf(&b, "- %s\n", outputLine(out, req.SkillBundle))
	}
	if len(req.Outputs) == 0 {
		b.WriteString("- none\n")
	}
	task := strings.TrimSpace(req.Task)
	if task == "" {
		task = "Follow the skill's instructions: read the inputs, write the outputs."
	}
	b.WriteString("\nTask:\n" + task)
	return b.String()
}

// writeIdentity names the frozen bytes of the skill, so that a trace proves
// which ones the worker was pointed at.
func writeIdentity(b *strings.Builder, bundle *plan.Bundle) {
	fmt.Fprintf(b, "- bundle digest: %s\n", bundle.Digest)
	m := bundle.Mold
	if m == nil {
		return
	}
	if m.CastBundleSHA256 != "" {
		fmt.Fprintf(b, "- cast_bundle_sha256: %s\n", oneLine(m.CastBundleSHA256))
	}
	fmt.Fprintf(b, "- provenance digest: %s\n", m.ProvenanceDigest)
	fmt.Fprintf(b, "- mold: %s, revision %d", oneLine(m.Name), m.Revision)
	if m.Commit != "" {
		fmt.Fprintf(b, ", commit %s", oneLine(m.Commit))
	}
	b.WriteString("\n")
}

// inputLine gives no path where no step of the plan can ever produce the
// artifact: a path that is never there invites a search.
func inputLine(in plan.NodeInput) string {
	if in.From == plan.FromNone && in.CarriedFrom == "" {
		return fmt.Sprintf("%s (%s): not available in this pipeline", in.Artifact, in.Kind)
	}
	line := fmt.Sprintf("%s (%s%s): {in:%s}", in.Artifact, in.Kind, schemaWords(in.Schema), in.Artifact)
	if !in.Required {
		line += " (may be absent)"
	}
	return line
}

// CastArtifactSHA is what the generated.cast_artifact_sha of an artifact of kind
// galaxy-tool-provenance must be, 64 hex digits: the hash that the bundle's
// provenance gives itself, else the digest of the frozen bundle. "" without a
// bundle.
func CastArtifactSHA(bundle *plan.Bundle) string {
	switch {
	case bundle == nil:
		return ""
	case bundle.Mold != nil && bundle.Mold.CastBundleSHA256 != "":
		return bundle.Mold.CastBundleSHA256
	}
	return strings.TrimPrefix(bundle.Digest, "sha256:")
}

func outputLine(out plan.NodeOutput, skill *plan.Bundle) string {
	when := oneLine(out.Required)
	switch out.Required {
	case plan.RequiredAlways:
		when = "required"
	case plan.RequiredAtEnd:
		when = "required by the last iteration of the loop"
	case plan.Optional:
		when = "optional"
	}
	if sha := CastArtifactSHA(skill); out.Kind == plan.KindProvenance && sha != "" {
		when += "; its generated.cast_artifact_sha is " + oneLine(sha)
	}
	return fmt.Sprintf("%s (%s%s): {out}/%s (%s)", out.Artifact, out.Kind, schemaWords(out.Schema), oneLine(out.Filename), when)
}

// schemaWords drops the class of the bundle id: the worker knows the schema by
// its name.
func schemaWords(id string) string {
	if id == "" {
		return ""
	}
	return ", schema " + oneLine(strings.TrimPrefix(id, plan.BundleSchema+":"))
}

// oneLine keeps text that came out of a skill from adding lines to the prompt.
func oneLine(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
