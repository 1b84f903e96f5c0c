package compile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"foundry/compile"
	"foundry/plan"
)

// pipe builds a small pipeline in memory.
type pipe struct {
	files   fstest.MapFS
	phases  []string // entries of the assembly
	tools   string   // required_tools
	options []func(*compile.Options)
	common  string // what stands before every policy
}

const common = `
assembly = "skills/pipeline-test/_assembly.json"
skills   = "skills"
harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
}
budget {
  wall     = "1h"
  cost_usd = "10.00"
  tokens   = 1000000
}
defaults {
  harness = "stub"
  budget {
    wall       = "1m"
    turns      = 10
    tool_calls = 10
    tokens     = 1000
    cost_usd   = "0.10"
    output     = "1MiB"
    files      = 10
  }
}
`

func newPipe() *pipe {
	p := &pipe{files: fstest.MapFS{}, tools: "[]", common: common}
	p.put("script.json", `{"version":1,"default":{"steps":[]}}`)
	return p
}

func (p *pipe) put(name, text string) {
	p.files["policy/"+name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
}

// art is "id", or "id=filename" for an output with a name of its own.
func (p *pipe) skill(name string, produces, consumes []string) {
	if _, ok := p.files["policy/skills/"+name+"/SKILL.md"]; ok {
		return
	}
	type output struct {
		ID       string `json:"id"`
		Kind     string `json:"kind"`
		Filename string `json:"default_filename"`
	}
	type source struct {
		ID        string   `json:"id"`
		Producers []string `json:"producers"`
	}
	outs, ins := []output{}, []source{}
	for _, a := range produces {
		id, file, ok := strings.Cut(a, "=")
		if !ok {
			file = id + ".json"
		}
		kind := "json"
		if !strings.HasSuffix(file, ".json") {
			kind = "markdown"
		}
		outs = append(outs, output{id, kind, file})
	}
	for _, a := range consumes {
		ins = append(ins, source{a, []string{}})
	}
	prov, err := json.MarshalIndent(map[string]any{
		"provenance_schema_version": 4, "cast_target": "test", "cast_at": "2026-01-01T00:00:00.000Z", "refs": []any{},
		"mold":      map[string]any{"name": name, "path": "x", "revision": 1, "content_hash": strings.Repeat("0", 64), "commit": strings.Repeat("0", 40)},
		"artifacts": map[string]any{"produces": outs, "consumes": ins},
	}, "", "  ")
	if err != nil {
		panic(err)
	}
	p.put("skills/"+name+"/_provenance.json", string(prov))
	p.put("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: A test skill.\n---\n\n# "+name+"\n")
}

// phase adds a phase of a skill that writes and reads artifacts.
func (p *pipe) phase(name string, produces, consumes []string) *pipe {
	return p.step(name, produces, consumes, false)
}

func (p *pipe) loop(name string, produces, consumes []string) *pipe {
	return p.step(name, produces, consumes, true)
}

func (p *pipe) step(name string, produces, consumes []string, loop bool) *pipe {
	p.skill(name, produces, consumes)
	p.phases = append(p.phases, fmt.Sprintf(`{"phase":%d,"kind":"mold","skill":%q,"cast_present":true,"loop":%t}`, len(p.phases)+1, name, loop))
	return p
}

func (p *pipe) branch(pattern string, chain ...string) *pipe {
	names, cast := []string{}, []string{}
	for _, c := range chain {
		names = append(names, fmt.Sprintf("%q", c))
		if c == "user-supplied" {
			cast = append(cast, "null")
		} else {
			cast = append(cast, "true")
		}
	}
	p.phases = append(p.phases, fmt.Sprintf(`{"phase":%d,"kind":"branch","pattern":%q,"chain":[%s],"cast_present":[%s]}`,
		len(p.phases)+1, pattern, strings.Join(names, ","), strings.Join(cast, ",")))
	return p
}

func (p *pipe) compile(t testing.TB, policy string) *compile.Result {
	t.Helper()
	p.put("skills/pipeline-test/_assembly.json", fmt.Sprintf(
		`{"source_pipeline":"test","source_revision":1,"harness_name":"pipeline-test","options":[],"required_tools":%s,"phases":[%s]}`,
		p.tools, strings.Join(p.phases, ",\n")))
	p.put("skills/pipeline-test/SKILL.md", "---\nname: pipeline-test\ndescription: A test pipeline.\n---\n")
	text := p.common + policy
	if !strings.Contains(text, "\nsandbox ") && strings.HasPrefix(text, "\n") {
		// Checks run in containers, and in tests of the local sandbox, too, they have
		// an image. The first line is empty.
		text = "sandbox { image = \"" + testImage + "\" }" + text
	}
	p.put("main.hcl", text)
	opts := compile.Options{Open: overlay(p.files), Adapters: adaptersWithAgent()}
	for _, set := range p.options {
		set(&opts)
	}
	return compile.Compile(context.Background(), "policy/main.hcl", opts)
}

func (p *pipe) mustCompile(t testing.TB, policy string) *plan.Plan {
	t.Helper()
	res := p.compile(t, policy)
	if res.Plan == nil {
		t.Fatal(show(res.Diagnostics))
	}
	return res.Plan
}

// refused requires exactly one error, with a summary and a part of its detail.
func (p *pipe) refused(t testing.TB, policy, summary string, detail ...string) compile.Diagnostic {
	t.Helper()
	res := p.compile(t, policy)
	if res.Plan != nil {
		t.Fatal("it compiled")
	}
	var errs []compile.Diagnostic
	for _, d := range res.Diagnostics {
		if d.Severity == compile.Error {
			errs = append(errs, d)
		}
	}
	if len(errs) != 1 || errs[0].Summary != summary {
		t.Fatalf("want one error %q, got\n%s", summary, show(res.Diagnostics))
	}
	for _, want := range detail {
		if !strings.Contains(errs[0].Detail, want) {
			t.Errorf("the detail lacks %q:\n%s", want, errs[0].Detail)
		}
	}
	return errs[0]
}

func input(n *plan.Node, artifact string) *plan.NodeInput {
	for i := range n.Inputs {
		if n.Inputs[i].Artifact == artifact {
			return &n.Inputs[i]
		}
	}
	return nil
}

func node(t testing.TB, p *plan.Plan, id string) *plan.Node {
	t.Helper()
	for i := range p.Nodes {
		if p.Nodes[i].ID == id {
			return &p.Nodes[i]
		}
	}
	t.Fatalf("no node %s", id)
	return nil
}
