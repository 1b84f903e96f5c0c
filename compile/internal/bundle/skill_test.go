package bundle

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"foundry/compile/internal/diag"
	"foundry/plan"
)

func TestReadSkill(t *testing.T) {
	s, problems := ReadSkill(demo(nil), ".", "demo", "my/skills")
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	at := func(file string, line, column, byte int) diag.Range {
		p := diag.Pos{Line: line, Column: column, Byte: byte}
		return diag.Range{File: "my/skills/demo/" + file, Start: p, End: p}
	}
	place := func(file, text, mark string) diag.Range {
		i := strings.Index(text, mark)
		line := strings.Count(text[:i], "\n")
		return at(file, 1+line, i-strings.LastIndexByte(text[:i], '\n'), i)
	}
	want := &Skill{
		Name: "demo", Description: "Sums numbers up.", HasArtifacts: true, At: at("SKILL.md", 1, 1, 0),
		Produces: []Produced{{ID: "sum", Kind: "json", Filename: "sum.json", Schema: "sum", At: place("_provenance.json", goodProv, `{"id": "sum"`)}},
		Consumes: []Consumed{{ID: "numbers", Schema: "numbers", Producers: []string{"other"}, At: place("_provenance.json", goodProv, `{"id": "numbers"`)}},
		Verify: []Verify{{Artifact: "sum", Direction: "output", Kind: "json", Filename: "sum.json", Schema: "sum", Tool: "checker",
			Args: []string{"check", "{artifact_path}"}, At: place("_verify.json", goodVerify, `{"artifact_id"`)}},
		Tools: []RequiredTool{{Tool: "adder", Argv: []string{"adder", "--help"}, Expect: "sum", Check: "adder --help | grep -q sum", At: at("_required_tools.json", 1, 2, 1)}},
	}
	want.Bundle, want.Data = s.Bundle, s.Data
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	wantMold := &plan.Mold{Name: "demo", Revision: 3, Commit: "bb", ContentHash: "aa", ProvenanceDigest: plan.Digest([]byte(goodProv))}
	if d := cmp.Diff(wantMold, s.Bundle.Mold); d != "" {
		t.Errorf("mold (-want +got):\n%s", d)
	}
	if digest, _ := plan.TreeDigest(s.Bundle.Files); digest != s.Bundle.Digest || s.Bundle.ID != "skill:demo" || len(s.Bundle.Files) != 6 {
		t.Errorf("bundle %+v", s.Bundle)
	}
	if schemas := Schemas(s); len(schemas) != 1 || string(schemas["sum"]) != `{"type": "object"}` {
		t.Errorf("schemas %q", schemas)
	}
}

func TestHeaderProblems(t *testing.T) {
	cases := []struct{ name, text string }{
		{"crlf is fine", "---\r\nname: demo\r\ndescription: a\r\n---\r\nbody\r\n"},
		{"folded block is fine", "---\nname: demo\ndescription: >-\n  two\n  lines\n---\n"},
		{"all keys are fine", "---\nname: demo\ndescription: \"a: b\"\nlicense: MIT\ncompatibility: any\nmetadata: {a: b}\nallowed-tools: Read Bash(git *)\n---\n"},
		{"tool list is fine", "---\nname: demo\ndescription: a\nallowed-tools: [Read, Bash]\n---\n"},
		{"unquoted colon", "---\nname: demo\ndescription: Use when: the user asks\n---\n"},
		{"list", "---\nname: demo\ndescription: [x]\n---\n"},
		{"alias", "---\nname: demo\ndescription: *a\n---\n"},
		{"at", "---\nname: demo\ndescription: @a\n---\n"},
		{"comment only", "---\nname: demo\ndescription: # note\n---\n"},
		{"empty description", "---\nname: demo\ndescription: \"  \"\n---\n"},
		{"number", "---\nname: demo\ndescription: 12\n---\n"},
		{"no description", "---\nname: demo\n---\n"},
		{"tab indent", "---\nname: demo\ndescription: >-\n\ttext\n---\n"},
		{"unclosed quote", "---\nname: demo\ndescription: \"open\nallowed-tools: Read\n---\n"},
		{"no closing line", "---\nname: demo\ndescription: a\n\nbody\n"},
		{"closing line with a tail", "---\nname: demo\ndescription: a\n---x\nbody\n---\n"},
		{"dots", "---\nname: demo\ndescription: a\n...\nbody\n---\n"},
		{"blank line first", "\n---\nname: demo\ndescription: a\n---\n"},
		{"bom", "\ufeff---\nname: demo\ndescription: a\n---\n"},
		{"no-break space", "---\u00a0\nname: demo\ndescription: a\n---\n"},
		{"indented dashes", " ---\nname: demo\ndescription: a\n---\n"},
		{"no header", "# demo\n"},
		{"too large", goodHeader + strings.Repeat("x", maxSkillBytes)},
		{"only dashes", "---"},
		{"empty header", "---\n---\n"},
		{"not utf-8", "---\nname: demo\ndescription: \xff\n---\n"},
		{"other name", "---\nname: Demo\ndescription: a\n---\n"},
		{"duplicate key", "---\nname: demo\ndescription: a\ndescription: b\n---\n"},
		{"case twins", "---\nname: demo\ndescription: a\nallowed-tools: Read\nAllowed-Tools: Bash\n---\n"},
		{"allowed_tools", "---\nname: demo\ndescription: a\nallowed_tools: Read\n---\n"},
		{"allowedTools", "---\nname: demo\ndescription: a\nallowedTools: Read\n---\n"},
		{"tools", "---\nname: demo\ndescription: a\ntools: Read\n---\n"},
		{"allow-tools", "---\nname: demo\ndescription: a\nallow-tools: Read\n---\n"},
		{"null tools", "---\nname: demo\ndescription: a\nallowed-tools:\n---\n"},
		{"wrong case", "---\nname: demo\nDescription: a\n---\n"},
		{"unknown key", "---\nname: demo\ndescription: a\nmodel: big\nlicence: MIT\n---\n"},
		{"wrong types", "---\nname: demo\ndescription: a\nlicense: []\nmetadata: x\n---\n"},
		{"umlaut before the place", "---\nname: demo\ndescription: ü̈ber a: b\n---\n"},
	}
	var g golden
	for _, c := range cases {
		s, problems := ReadSkill(demo(map[string]string{"SKILL.md": c.text}), ".", "demo", "skills")
		if (s == nil) != problems.HasErrors() {
			t.Errorf("%s: skill %v with problems %+v", c.name, s != nil, problems)
		}
		g.add(c.name, problems)
	}
	g.check(t, "header.golden")
}

func TestFilesThatSkillNames(t *testing.T) {
	body := goodHeader + `
Read [the notes](references/a.md#top), ` + "`references/a.md`, `references/schemas/`, `references`" + ` and
[this](https://example.org/x.md), [that](mailto:a@example.org), [below](#below), [root](/etc/passwd).
Placeholders: ` + "`references/<name>.md`, `assets/schema_*.json`, `scripts/{a,b}.sh`, `build/…`, `dist/.../x`" + `.
A bare ` + "`build/`" + ` names no file. A block does not either:

    scripts/never.sh

Missing: ` + "`build/run.sh --fast`, `./scripts/go.py`" + `, [gone](notes/gone%20away.md), ![picture](assets/p.png), [ref].
Outside: [secret](../other/SKILL.md).

[ref]: templates/t.txt
`
	var g golden
	_, problems := ReadSkill(demo(map[string]string{"SKILL.md": body}), ".", "demo", "skills")
	g.add("names", problems)
	g.check(t, "mention.golden")
}

func TestSkillFolderProblems(t *testing.T) {
	var g golden
	add := func(name string, fsys fstest.MapFS, skill string) {
		s, problems := ReadSkill(fsys, ".", skill, "skills")
		if (s == nil) != problems.HasErrors() {
			t.Errorf("%s: skill %v with problems %+v", name, s != nil, problems)
		}
		g.add(name, problems)
	}
	add("missing folder", demo(nil), "demos")
	add("bad name", demo(nil), "../demo")
	add("no SKILL.md", demo(map[string]string{"SKILL.md": ""}), "demo")
	add("skill.md", demo(map[string]string{"SKILL.md": "", "skill.md": goodHeader}), "demo")
	add("no provenance", demo(map[string]string{"_provenance.json": ""}), "demo")
	add("no verify and tools", demo(map[string]string{"_verify.json": "", "_required_tools.json": ""}), "demo")
	add("a file", fstest.MapFS{"demo": {Data: []byte("x")}}, "demo")
	g.check(t, "folder.golden")
}

func TestProvenanceProblems(t *testing.T) {
	cases := []struct{ name, old, new string }{
		{"unknown keys are fine", `"refs": [`, `"answer": 42, "refs": [`},
		{"no artifacts are fine", `"artifacts": {`, `"other": {`},
		{"drift", "ca978112", "00000000"},
		{"missing file", `"references/a.md"`, `"references/b.md"`},
		{"outside", `"references/a.md"`, `"../a.md"`},
		{"no digest", "ca978112", "CA978112"},
		{"case", `"artifacts"`, `"Artifacts"`},
		{"long s", `"refs"`, `"refſ"`},
		{"duplicate", `"refs": [`, `"refs": [], "refs": [`},
		{"case of an entry", `"schema": "[[sum]]"`, `"Schema": "[[sum]]"`},
		{"typo drops a schema", `"schema": "[[sum]]"`, `"shema": "[[sum]]"`},
		{"unknown kind", `"kind": "json"`, `"kind": "jsn"`},
		{"schema form", `"[[sum]]"`, `"sum"`},
		{"schema missing", `"[[sum]]"`, `"[[total]]"`},
		{"filename up", `"sum.json"`, `"../sum.json"`},
		{"filename absolute", `"sum.json"`, `"/sum.json"`},
		{"filename empty", `"sum.json"`, `""`},
		{"duplicate id", `"produces": [`, `"produces": [{"id": "sum", "kind": "text", "default_filename": "x"},`},
		{"bad id", `"id": "numbers"`, `"id": "num bers"`},
		{"producers", `["other"]`, `[1, "a"]`},
		{"revision", `"revision": 3`, `"revision": 3.5`},
		{"revision type", `"revision": 3`, `"revision": "3"`},
		{"cast bundle", `"refs": [`, `"cast_bundle_sha256": "x", "refs": [`},
		{"not json", `"refs": [`, `"refs": [,`},
		{"second document", "  }\n}\n", "  }\n}\n{}\n"},
		{"list", goodProv, "[]"},
	}
	var g golden
	for _, c := range cases {
		changes := map[string]string{"_provenance.json": replaced(t, goodProv, c.old, c.new), "_verify.json": ""}
		_, problems := ReadSkill(demo(changes), ".", "demo", "skills")
		g.add(c.name, problems)
	}
	g.check(t, "provenance.golden")
}

func TestVerifyAndToolProblems(t *testing.T) {
	cases := []struct{ name, file, text, old, new string }{
		{"unknown key", "_verify.json", goodVerify, `"args"`, `"argv"`},
		{"version", "_verify.json", goodVerify, `: 1,`, `: 2,`},
		{"direction", "_verify.json", goodVerify, `"output"`, `"outputs"`},
		{"undeclared", "_verify.json", goodVerify, `"artifact_id": "sum"`, `"artifact_id": "sun"`},
		{"schema missing", "_verify.json", goodVerify, `"[[sum]]"`, `"[[total]]"`},
		{"no tool", "_verify.json", goodVerify, `"validator_bin": "checker", `, ``},
		{"args", "_verify.json", goodVerify, `["check", "{artifact_path}"]`, `"check"`},
		{"unknown key of a tool", "_required_tools.json", goodTools, `"invoke"`, `"invocation"`},
		{"case of a tool", "_required_tools.json", goodTools, `"tool"`, `"Tool"`},
		{"reference", "_required_tools.json", goodTools, `references/a.md`, `references/b.md`},
		{"twice", "_required_tools.json", goodTools, `[{`, `[{"tool": "adder"}, {`},
		{"object", "_required_tools.json", goodTools, goodTools, `{}`},
		{"type", "_required_tools.json", goodTools, `"origin": "pypi"`, `"origin": 1`},
	}
	var g golden
	for _, c := range cases {
		_, problems := ReadSkill(demo(map[string]string{c.file: replaced(t, c.text, c.old, c.new)}), ".", "demo", "skills")
		g.add(c.name, problems)
	}
	g.check(t, "verify.golden")
}

func TestToolCheckIsNoError(t *testing.T) {
	tools := replaced(t, goodTools, "adder --help | grep -q sum", "adder --help > $HOME/x")
	s, problems := ReadSkill(demo(map[string]string{"_required_tools.json": tools}), ".", "demo", "skills")
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	if tool := s.Tools[0]; tool.Argv != nil || !strings.Contains(tool.Bad, "redirects") || tool.Check != "adder --help > $HOME/x" {
		t.Errorf("%+v", tool)
	}
}
