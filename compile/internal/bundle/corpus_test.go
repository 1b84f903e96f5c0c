package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/compile/internal/diag"
)

// corpus opens the published skills, which lie beside this repository.
func corpus(t testing.TB) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join("..", "..", "..", "..", "shared", "corpus", "galaxy-foundry", "skills"))
	if err != nil {
		t.Skip("the corpus of real skills is not beside this repository")
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func corpusNames(t testing.TB, root *os.Root) (skills, pipelines []string) {
	t.Helper()
	dir, err := root.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, "pipeline-") {
			pipelines = append(pipelines, name)
		} else {
			skills = append(skills, name)
		}
	}
	return skills, pipelines
}

func TestCorpusSkills(t *testing.T) {
	root := corpus(t)
	names, _ := corpusNames(t, root)
	if len(names) != 47 {
		t.Fatalf("%d skills, want 47", len(names))
	}
	var problems diag.List
	var produces, consumes, verify, tools, withTools, drift int
	var noArtifacts, broken []string
	for _, name := range names {
		s, list := ReadSkill(root.FS(), ".", name, "skills")
		problems = append(problems, list...)
		if s == nil {
			continue
		}
		produces += len(s.Produces)
		consumes += len(s.Consumes)
		verify += len(s.Verify)
		tools += len(s.Tools)
		if s.Tools != nil {
			withTools++
		}
		if !s.HasArtifacts {
			noArtifacts = append(noArtifacts, name)
		}
		if m := s.Bundle.Mold; m == nil || m.Name != name || len(m.Commit) != 40 || m.Revision < 1 || len(m.ContentHash) != 64 {
			t.Errorf("%s: mold %+v", name, m)
		}
		if s.Description == "" || s.Bundle.ID != "skill:"+name {
			t.Errorf("%s: description %q, id %q", name, s.Description, s.Bundle.ID)
		}
		for _, tool := range s.Tools {
			if tool.Bad != "" {
				t.Errorf("%s: tool %s: %s", name, tool.Tool, tool.Bad)
			}
		}
		for schema, data := range Schemas(s) {
			if err := CompileSchema(schema, data); err != nil {
				broken = append(broken, name+"/"+schema)
			}
		}
	}
	for _, p := range problems {
		if p.Severity == diag.Error {
			t.Errorf("%s:%d: %s: %s", p.Subject.File, p.Subject.Start.Line, p.Summary, p.Detail)
		}
		if p.Summary == SummaryDrift {
			drift++
		}
	}
	if drift != 1 || len(problems) != 1 {
		t.Errorf("%d problems, %d of them drift, want one drift alone: %+v", len(problems), drift, problems)
	} else if p := problems[0]; p.Subject.File != "skills/summarize-cwl/_provenance.json" || !strings.Contains(p.Detail, `"references/notes/cwl-v1.2/cwl.yaml"`) {
		t.Errorf("drift: %+v", p)
	}
	got := fmt.Sprint(produces, consumes, verify, tools, withTools)
	if want := "63 94 31 21 16"; got != want {
		t.Errorf("produces consumes verify tools skills-with-tools = %s, want %s", got, want)
	}
	if want := []string{"convert-nfcore-module-to-galaxy-tool", "validate-galaxy-workflow"}; !slices.Equal(noArtifacts, want) {
		t.Errorf("without artifacts: %q, want %q", noArtifacts, want)
	}
	t.Log("schemas that do not compile:", broken)
}

func TestCorpusAssemblies(t *testing.T) {
	root := corpus(t)
	_, names := corpusNames(t, root)
	var molds, branches, loops, tools int
	for _, name := range names {
		data, err := root.ReadFile(name + "/_assembly.json")
		if err != nil {
			t.Fatal(err)
		}
		a, problems := ReadAssembly(data, name+"/_assembly.json")
		if len(problems) > 0 {
			t.Errorf("%s: %+v", name, problems)
			continue
		}
		if "pipeline-"+a.Pipeline != name || !slices.Equal(a.Options, knownOptions) {
			t.Errorf("%s: pipeline %q, options %q", name, a.Pipeline, a.Options)
		}
		tools += len(a.Tools)
		for _, p := range a.Phases {
			switch {
			case p.Branch:
				branches++
				if p.Pattern != "test-data-resolution" || !slices.Contains(p.Chain, UserSupplied) {
					t.Errorf("%s: branch %+v", name, p)
				}
			case p.Loop:
				loops++
				fallthrough
			default:
				molds++
			}
		}
		for _, tool := range a.Tools {
			if tool.Bad != "" {
				t.Errorf("%s: tool %s: %s", name, tool.Tool, tool.Bad)
			}
		}
	}
	if got, want := fmt.Sprint(len(names), molds, branches, loops, tools), "7 76 5 11 20"; got != want {
		t.Errorf("assemblies molds branches loops tools = %s, want %s", got, want)
	}
}

func BenchmarkReadSkills(b *testing.B) {
	root := corpus(b)
	names, _ := corpusNames(b, root)
	names = names[:15]
	for b.Loop() {
		for _, name := range names {
			if s, _ := ReadSkill(root.FS(), ".", name, "skills"); s == nil {
				b.Fatal(name)
			}
		}
	}
}
