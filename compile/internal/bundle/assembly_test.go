package bundle

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"foundry/compile/internal/diag"
	"foundry/plan"
)

const goodAssembly = `{
  "source_pipeline": "sums", "source_revision": 4, "harness_name": "pipeline-sums",
  "options": ["use-subagents", "checkpoint"],
  "required_tools": [{"tool": "adder", "package_version": "^1.0", "invoke": "${HOME}/adder", "availability_check": "adder --help"}],
  "phases": [
    {"phase": 1, "kind": "mold", "skill": "read-numbers", "cast_present": true, "loop": false},
    {"phase": 2, "kind": "mold", "skill": "add-step", "cast_present": true, "loop": true},
    {"phase": 3, "kind": "branch", "pattern": "data", "chain": ["find-data", "user-supplied"], "cast_present": [true, null]}
  ]
}
`

func TestReadAssembly(t *testing.T) {
	a, problems := ReadAssembly([]byte(goodAssembly), "x/_assembly.json")
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	want := &Assembly{
		Pipeline: "sums", SourceRevision: 4, Options: []string{"checkpoint", "use-subagents"},
		Tools:  []RequiredTool{{Tool: "adder", Argv: []string{"adder", "--help"}, Check: "adder --help"}},
		Digest: plan.Digest([]byte(goodAssembly)),
		Phases: []Phase{
			{Number: 1, Skill: "read-numbers"},
			{Number: 2, Skill: "add-step", Loop: true},
			{Number: 3, Pattern: "data", Chain: []string{"find-data", "user-supplied"}, Branch: true},
		},
	}
	if d := cmp.Diff(want, a, cmpopts.IgnoreTypes(diag.Range{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if at := a.Phases[2].At; at.File != "x/_assembly.json" || at.Start.Line != 8 || at.Start.Column != 5 {
		t.Errorf("phase 3 at %+v", at)
	}
}

func TestAssemblyProblems(t *testing.T) {
	cases := []struct{ name, old, new string }{
		{"unknown option", `"checkpoint"`, `"checkpoints"`},
		{"option twice", `"checkpoint"`, `"use-subagents"`},
		{"unknown key", `"harness_name"`, `"harness"`},
		{"wrong case", `"phases": [`, `"Phases": [`},
		{"duplicate", `"phases": [`, `"phases": [], "phases": [`},
		{"case twins", `"phases": [`, `"PHASES": [], "phases": [`},
		{"folded key", `"phase": 2`, `"phaſe": 2`},
		{"no pipeline", `"source_pipeline": "sums", `, ``},
		{"unknown key of a phase", `"loop": true`, `"loop": true, "max_iterations": 3`},
		{"missing loop", `, "loop": true`, ``},
		{"not cast", `"add-step", "cast_present": true`, `"add-step", "cast_present": false`},
		{"cast unknown", `"add-step", "cast_present": true`, `"add-step", "cast_present": null`},
		{"gap", `"phase": 2`, `"phase": 3`},
		{"from zero", `"phase": 1`, `"phase": 0`},
		{"fraction", `"phase": 2`, `"phase": 2.0`},
		{"kind", `"kind": "branch"`, `"kind": "brunch"`},
		{"mold's key in a branch", `"pattern": "data"`, `"pattern": "data", "loop": true`},
		{"user-supplied mold", `"add-step"`, `"user-supplied"`},
		{"bad skill name", `"add-step"`, `"../add-step"`},
		{"short cast", `[true, null]`, `[true]`},
		{"cast of user", `[true, null]`, `[true, true]`},
		{"null of a skill", `[true, null]`, `[null, null]`},
		{"alternative not cast", `[true, null]`, `[false, null]`},
		{"empty chain", `["find-data", "user-supplied"], "cast_present": [true, null]`, `[], "cast_present": []`},
		{"twice in a chain", `["find-data", "user-supplied"], "cast_present": [true, null]`, `["find-data", "find-data"], "cast_present": [true, true]`},
		{"not json", `"options": [`, `"options": [,`},
		{"list", goodAssembly, `[]`},
		{"empty", goodAssembly, ``},
		{"no phases", goodAssembly, `{"source_pipeline": "a", "source_revision": 1, "phases": []}`},
		{"deep", goodAssembly, strings.Repeat("[", 70_000)},
		{"tool", `"tool": "adder"`, `"tool": "ad der"`},
	}
	var g golden
	for _, c := range cases {
		a, problems := ReadAssembly([]byte(replaced(t, goodAssembly, c.old, c.new)), "a.json")
		if (a == nil) != problems.HasErrors() {
			t.Errorf("%s: assembly %v with problems %+v", c.name, a != nil, problems)
		}
		g.add(c.name, problems)
	}
	g.check(t, "assembly.golden")
}

// bigAssembly has n phases.
func bigAssembly(n int, newline string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"source_pipeline": "big", "source_revision": 1, "options": [], "required_tools": [], "phases": [`)
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `%s{"phase": %d, "kind": "mold", "skill": "s%d", "cast_present": true, "loop": false}`, newline, i+1, i%20)
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

func TestBigAssembly(t *testing.T) {
	for _, newline := range []string{"", "\n"} {
		a, problems := ReadAssembly(bigAssembly(10_000, newline), "big.json")
		if len(problems) > 0 || len(a.Phases) != 10_000 || a.Phases[9999].Number != 10_000 {
			t.Fatalf("newline %q: problems %+v", newline, problems)
		}
	}
}

func BenchmarkReadAssembly(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		data := bigAssembly(n, "\n")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if a, _ := ReadAssembly(data, "big.json"); a == nil {
					b.Fatal("refused")
				}
			}
		})
	}
}
