package attempt

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/plan"
)

// A tool's provenance must name the very bundle that made it: what is missing,
// malformed or of another bundle is no proof.
func TestProvenance(t *testing.T) {
	good := strings.Repeat("ab", 32)
	for name, c := range map[string]struct{ text, reason, pointer string }{
		"its bundle":   {"generated:\n  cast_artifact_sha: " + good + "\n", "", ""},
		"JSON":         {`{"generated": {"cast_artifact_sha": "` + good + `"}}`, "", ""},
		"another":      {"generated:\n  cast_artifact_sha: " + strings.Repeat("cd", 32) + "\n", record.ReasonProvenanceMismatch, castPointer},
		"with a word":  {"generated:\n  cast_artifact_sha: sha256:" + good + "\n", record.ReasonProvenanceMismatch, castPointer},
		"missing":      {"generated:\n  by_mold: x\n", record.ReasonProvenanceMismatch, castPointer},
		"no such part": {"source: here\n", record.ReasonProvenanceMismatch, castPointer},
		"a number":     {"generated:\n  cast_artifact_sha: 12\n", record.ReasonProvenanceMismatch, castPointer},
		"a list":       {"[1, 2]\n", record.ReasonProvenanceMismatch, castPointer},
		"no document":  {"generated: [\n", record.ReasonProvenanceMismatch, castPointer},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, settle(func(w *exectest.Worker) { w.File("_provenance.yml", c.text) }))
			l.runner.Bundles["skill:tool"] = &plan.Bundle{ID: "skill:tool", Digest: "sha256:" + strings.Repeat("0", 64), Mold: &plan.Mold{CastBundleSHA256: good}}
			l.job.Node.Skill = "skill:tool"
			l.job.Node.Outputs = append(l.job.Node.Outputs, plan.NodeOutput{Artifact: "provenance", Filename: "_provenance.yml", Kind: plan.KindProvenance, Required: plan.RequiredAlways})
			if want := harness.CastArtifactSHA(l.runner.Bundles["skill:tool"]); want != good {
				t.Fatalf("the worker is told %s", want)
			}
			rec := l.run(t.Context())
			reason, pointer := "", ""
			if rec.Failure != nil {
				reason = rec.Failure.Reason
			}
			for _, o := range rec.Outputs {
				for _, p := range o.Problems {
					if p.Rule == ruleCast {
						pointer = p.Pointer
					}
				}
			}
			if reason != c.reason || pointer != c.pointer {
				t.Errorf("%s at %q: %+v", reason, pointer, rec.Failure)
			}
		})
	}
}

// An artifact that holds a secret is refused, and its bytes are kept nowhere.
func TestArtifactWithASecret(t *testing.T) {
	const secret = "a-login-of-thirty-characters-0"
	login := filepath.Join(t.TempDir(), "login.json")
	if err := os.WriteFile(login, []byte(`{"lab": {"key": "`+secret+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plain":  `{"class": "X", "inputs": ["` + secret + `"]}`,
		"base64": `{"class": "X", "inputs": ["YS1sb2dpbi1vZi10aGlydHktY2hhcmFjdGVycy0w"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, settle(func(w *exectest.Worker) {
				w.File("doc.json", text)
				w.File("notes.md", "nothing secret\n")
			}))
			l.job.Harness.AuthStore, l.runner.Logins = "lab", map[string]string{"lab": login}
			l.job.Adapter = lender{exectest.Adapter{}}
			rec := l.run(t.Context())
			if rec.Failure == nil || rec.Failure.Reason != record.ReasonInvalidArtifact || len(rec.Outputs[0].Problems) != 1 || rec.Outputs[0].Problems[0].Rule != ruleSecret {
				t.Fatalf("%+v, %+v", rec.Failure, rec.Outputs[0])
			}
			err := filepath.WalkDir(l.runner.Folder.Path(), func(name string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				data, err := os.ReadFile(name)
				if strings.Contains(string(data), secret) || strings.Contains(string(data), "YS1sb2dpbi1v") {
					t.Errorf("%s holds the secret", name)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// lender is an adapter with a login of its own.
type lender struct{ exectest.Adapter }

func (lender) AuthFile() string { return "{scratch}/own/auth.json" }
