package bundle

import (
	"fmt"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/plan/document"
)

// SummaryDrift is the summary of the warning that a bundle's file is not the
// one that its _provenance.json records.
const SummaryDrift = "Bundle drift"

// kinds of artifacts.
var kinds = []string{
	plan.KindJSON, plan.KindYAML, plan.KindMarkdown, plan.KindText, plan.KindFile, plan.KindDirectory, plan.KindProvenance,
}

var provenanceLimits = document.Limits{Bytes: 16 << 20, Depth: 32}

// provenance reads _provenance.json into sk. Keys that it does not know are
// tolerated: the file also records how the skill was made.
func (s *source) provenance(sk *Skill) {
	v, ok := s.parse(document.ParseJSON, provenanceLimits)
	if !ok {
		return
	}
	o, ok := s.object(v, "the provenance", tolerate,
		"provenance_schema_version", "cast_target", "mold", "cast_at", "refs", "artifacts", "cast_bundle_sha256",
		"cast_date", "cast_revision", "cast_history", "cast_method", "cast_agent", "validation_results", "open_questions")
	if !ok {
		return
	}
	sk.Bundle.Mold = s.mold(o)
	refs, _ := o.list("refs")
	for i, ref := range refs {
		s.ref(ref, i+1, sk)
	}
	artifacts := v.Get("artifacts")
	if artifacts == nil {
		return
	}
	a, ok := s.object(artifacts, "the artifacts", nearMiss, "produces", "consumes")
	if !ok {
		return
	}
	sk.HasArtifacts = true
	produces, _ := a.list("produces")
	seen := map[string]bool{}
	for i, item := range produces {
		if p, ok := s.produced(item, i+1, sk); ok && s.once(seen, p.ID, "produces", item) {
			sk.Produces = append(sk.Produces, p)
		}
	}
	consumes, _ := a.list("consumes")
	seen = map[string]bool{}
	for i, item := range consumes {
		if c, ok := s.consumed(item, i+1); ok && s.once(seen, c.ID, "consumes", item) {
			sk.Consumes = append(sk.Consumes, c)
		}
	}
}

func (s *source) once(seen map[string]bool, id, list string, v *document.Value) bool {
	if seen[id] {
		s.problems.Errorat(s.at(v.Pos), summaryDuplicate, fmt.Sprintf("The artifact %q stands twice in %s. Keep one.", id, list))
		return false
	}
	seen[id] = true
	return true
}

func (s *source) mold(o object) *plan.Mold {
	m := &plan.Mold{ProvenanceDigest: plan.Digest(s.data)}
	if hash, ok := o.optText("cast_bundle_sha256"); ok && o.v.Get("cast_bundle_sha256") != nil {
		if !hexDigest(hash) {
			o.bad("cast_bundle_sha256", fmt.Sprintf("\"cast_bundle_sha256\" is %q: it must be 64 lower-case hex digits.", clip(hash)))
		}
		m.CastBundleSHA256 = hash
	}
	v := o.v.Get("mold")
	if v == nil {
		return m
	}
	mo, ok := s.object(v, "the mold", tolerate, "name", "path", "revision", "content_hash", "commit")
	if !ok {
		return m
	}
	m.Name, _ = mo.text("name")
	m.Revision, _ = mo.count("revision")
	m.Commit, _ = mo.optText("commit")
	m.ContentHash, _ = mo.optText("content_hash")
	return m
}

// ref checks one file that the cast copied into the bundle.
func (s *source) ref(v *document.Value, number int, sk *Skill) {
	o, ok := s.object(v, fmt.Sprintf("ref %d", number), tolerate, "dst", "dst_hash")
	if !ok {
		return
	}
	dst, ok := o.text("dst")
	if !ok {
		return
	}
	hash, ok := o.optText("dst_hash")
	if !ok {
		return
	}
	_, present := sk.Data[dst]
	switch {
	case !plan.ValidPath(dst):
		o.bad("dst", fmt.Sprintf("\"dst\" of %s is %q: it must be a path inside the bundle.", o.what, dst))
	case !present && hasFolder(sk, dst) && hash == "":
	case !present:
		o.bad("dst", fmt.Sprintf("The bundle lacks %q, which its provenance says was copied into it. Publish it again, with that file.", dst))
	case hash == "" && v.Get("dst_hash") == nil:
	case !hexDigest(hash):
		o.bad("dst_hash", fmt.Sprintf("\"dst_hash\" of %s is %q: it must be 64 lower-case hex digits.", o.what, clip(hash)))
	case digestOf(sk, dst) != "sha256:"+hash:
		s.problems.Warnat(s.at(v.Get("dst_hash").Pos), SummaryDrift, fmt.Sprintf("%q is not the file that was cast: its sha256 is %s, the provenance records %s. Cast the skill again, or restore the file.", dst, strings.TrimPrefix(digestOf(sk, dst), "sha256:"), hash))
	}
}

// digestOf returns the digest that the tree already has of a file.
func digestOf(sk *Skill, name string) string {
	i, ok := slices.BinarySearchFunc(sk.Bundle.Files, name, byPath)
	if !ok {
		return ""
	}
	return sk.Bundle.Files[i].Digest
}

func hexDigest(s string) bool { return plan.ValidDigest("sha256:" + s) }

func (s *source) produced(v *document.Value, number int, sk *Skill) (Produced, bool) {
	o, ok := s.object(v, fmt.Sprintf("entry produces[%d]", number-1), nearMiss, "id", "kind", "default_filename", "schema", "description")
	if !ok {
		return Produced{}, false
	}
	p := Produced{At: s.at(v.Pos)}
	var idOK, kindOK, nameOK, schemaOK bool
	p.ID, idOK = o.id("id")
	p.Kind, kindOK = o.kind()
	p.Filename, nameOK = o.filename()
	p.Schema, schemaOK = o.schemaName("schema")
	if schemaOK && p.Schema != "" {
		schemaOK = s.schemaPresent(o, p.Schema, sk)
	}
	return p, idOK && kindOK && nameOK && schemaOK
}

func (s *source) schemaPresent(o object, name string, sk *Skill) bool {
	if _, ok := sk.Data[schemaPath(name)]; ok {
		return true
	}
	o.bad("schema", fmt.Sprintf("%s has the schema %q, but the bundle lacks %q.", capital(o.what), name, schemaPath(name)))
	return false
}

func (o object) kind() (string, bool) {
	kind, ok := o.text("kind")
	if !ok {
		return "", false
	}
	if slices.Contains(kinds, kind) {
		return kind, true
	}
	o.bad("kind", fmt.Sprintf("The kind %q of %s is unknown.%s", kind, o.what, didYouMean(nearest(kind, kinds), kinds)))
	return "", false
}

// filename returns default_filename, a path below the output folder.
func (o object) filename() (string, bool) {
	name, ok := o.text("default_filename")
	if !ok {
		return "", false
	}
	if !plan.ValidPath(name) {
		o.bad("default_filename", fmt.Sprintf("\"default_filename\" of %s is %+q: it must be a clean path below the output folder.", o.what, name))
		return "", false
	}
	return name, true
}

func (s *source) consumed(v *document.Value, number int) (Consumed, bool) {
	o, ok := s.object(v, fmt.Sprintf("entry consumes[%d]", number-1), nearMiss, "id", "description", "producers", "inherited_schema")
	if !ok {
		return Consumed{}, false
	}
	c := Consumed{At: s.at(v.Pos)}
	var idOK, schemaOK bool
	c.ID, idOK = o.id("id")
	c.Schema, schemaOK = o.schemaName("inherited_schema")
	var producersOK bool
	c.Producers, producersOK = o.texts("producers")
	return c, idOK && schemaOK && producersOK
}

// verify reads _verify.json strictly: all real ones have the same keys, and
// an entry that is misread checks nothing.
func (s *source) verify(sk *Skill) {
	v, ok := s.parse(document.ParseJSON, provenanceLimits)
	if !ok {
		return
	}
	o, ok := s.object(v, "the verification", refuse, "verify_schema_version", "entries")
	if !ok {
		return
	}
	if n, ok := o.count("verify_schema_version"); ok && n != 1 {
		o.bad("verify_schema_version", fmt.Sprintf("The verify_schema_version is %d, this program reads 1.", n))
		return
	}
	if o.need("entries") == nil {
		return
	}
	entries, _ := o.list("entries")
	for i, item := range entries {
		if entry, ok := s.verifyEntry(item, i, sk); ok {
			sk.Verify = append(sk.Verify, entry)
		}
	}
}

func (s *source) verifyEntry(v *document.Value, index int, sk *Skill) (Verify, bool) {
	o, ok := s.object(v, fmt.Sprintf("entry entries[%d]", index), refuse,
		"artifact_id", "direction", "kind", "default_filename", "schema", "validator_bin", "args")
	if !ok {
		return Verify{}, false
	}
	e := Verify{At: s.at(v.Pos)}
	var idOK, dirOK, kindOK, nameOK, schemaOK, toolOK, argsOK bool
	e.Artifact, idOK = o.id("artifact_id")
	if e.Direction, dirOK = o.text("direction"); dirOK && e.Direction != "input" && e.Direction != "output" {
		o.bad("direction", fmt.Sprintf("The direction of %s is %q: it is input or output.", o.what, e.Direction))
		dirOK = false
	}
	e.Kind, kindOK = o.kind()
	e.Filename, nameOK = o.filename()
	e.Schema, schemaOK = o.schemaName("schema")
	// An input's schema may be the producer's: not every consumer brings a copy.
	if schemaOK && e.Schema != "" && e.Direction == "output" {
		schemaOK = s.schemaPresent(o, e.Schema, sk)
	}
	e.Tool, toolOK = o.id("validator_bin")
	e.Args, argsOK = o.texts("args")
	if !idOK || !dirOK || !kindOK || !nameOK || !schemaOK || !toolOK || !argsOK {
		return Verify{}, false
	}
	return e, s.verifyDeclared(o, e, sk)
}

// verifyDeclared refuses an entry for an artifact that the skill does not
// declare: it would check nothing.
func (s *source) verifyDeclared(o object, e Verify, sk *Skill) bool {
	if !sk.HasArtifacts || s.problems.HasErrors() {
		return true // not declared, or not known what is
	}
	var ids []string
	if e.Direction == "output" {
		for _, p := range sk.Produces {
			ids = append(ids, p.ID)
		}
	} else {
		for _, c := range sk.Consumes {
			ids = append(ids, c.ID)
		}
	}
	if slices.Contains(ids, e.Artifact) {
		return true
	}
	o.bad("artifact_id", fmt.Sprintf("%s checks the %s %q, which the skill's provenance does not declare.%s", capital(o.what), e.Direction, e.Artifact, didYouMean(nearest(e.Artifact, ids), nil)))
	return false
}
