package attempt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/exec/internal/exectest"
	"foundry/plan"
	"foundry/sandbox"
)

// corpus is the shared folder of published skills, beside the repository.
const corpus = "../../../shared/corpus/galaxy-foundry"

// The recorded drafts do not satisfy the published schema, and the recorded
// summaries satisfy theirs: both as the corpus says.
func TestRecordedArtifacts(t *testing.T) {
	if _, err := os.Stat(corpus); err != nil {
		t.Skip("the shared corpus is not beside the repository")
	}
	for _, tt := range []struct {
		schema, artifacts, kind string
		want                    []string // pointers
	}{
		{"galaxy-workflow-draft.schema.json", "recorded/salmon-rnaseq-cwl-galaxy-5step/galaxy-workflow-draft.gxwf.yml", plan.KindYAML, []string{"/class", "/inputs"}},
		{"galaxy-workflow-draft.schema.json", "recorded/[cmn]*/galaxy-workflow-draft.gxwf.yml", plan.KindYAML, []string{"/class", "/name"}},
		{"summary-cwl.schema.json", "recorded/*/summary-cwl.json", plan.KindJSON, nil},
	} {
		schemas, _ := filepath.Glob(filepath.Join(corpus, "skills", "*", "references", "schemas", tt.schema))
		artifacts, _ := filepath.Glob(filepath.Join(corpus, tt.artifacts))
		if len(schemas) == 0 || len(artifacts) == 0 {
			t.Fatalf("%d schemas, %d artifacts of %s", len(schemas), len(artifacts), tt.schema)
		}
		data, err := os.ReadFile(schemas[0])
		if err != nil {
			t.Fatal(err)
		}
		b := &exectest.Builder{Plan: &plan.Plan{}, Blobs: exectest.Blobs{}}
		b.Bundle("schema:x", map[string]string{tt.schema: string(data)})
		store, err := sandbox.OpenStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		store.Put(data)
		schema, err := NewSchemas(b.Plan, store).Get("schema:x")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range artifacts {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found, dropped := Check(tt.kind, text, schema)
			at := map[string]bool{}
			for _, p := range found {
				at[p.Pointer] = true
			}
			if dropped > 0 || (len(found) > 0) != (len(tt.want) > 0) {
				t.Errorf("%s: %d dropped, %v", path, dropped, found)
			}
			for _, p := range tt.want {
				if !at[p] {
					t.Errorf("%s: %s is not among %v", path, p, found)
				}
			}
			if len(found) > 0 {
				detail := problems{list: found}.failure("output x", schema.Digest).Detail
				for _, part := range append(tt.want, plan.Digest(data)) {
					if !strings.Contains(detail, part) {
						t.Errorf("the detail lacks %s: %s", part, detail)
					}
				}
			}
		}
	}
}
