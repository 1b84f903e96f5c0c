package compile_test

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"foundry/compile"
)

// start makes a starter policy of the pipeline, and proves that it fails with
// exactly its open decisions and compiles once they are filled.
func (p *pipe) start(t testing.TB) string {
	t.Helper()
	p.compile(t, "") // writes the assembly
	st := compile.Start(context.Background(), compile.StarterOptions{
		Open: overlay(p.files), Adapters: adaptersWithAgent(), Assembly: "policy/skills/pipeline-test/_assembly.json", Skills: "policy/skills",
		AssemblyName: "skills/pipeline-test/_assembly.json", SkillsName: "skills",
	})
	if st.Policy == nil || len(st.Diagnostics) > 0 {
		t.Fatal(show(st.Diagnostics))
	}
	text := string(st.Policy)
	p.common = text
	res := p.compile(t, "")
	for _, d := range res.Diagnostics {
		if d.Summary != compile.SummaryOpen {
			t.Errorf("it also says: %+v", d)
		}
	}
	if len(res.Diagnostics) != st.Open || res.Plan != nil {
		t.Errorf("%d decisions are open, and it fails with %d", st.Open, len(res.Diagnostics))
	}
	p.common = filled(t, text)
	if res := p.compile(t, ""); res.Plan == nil {
		t.Errorf("filled, it does not compile:\n%s\n%s", show(res.Diagnostics), p.common)
	}
	return text
}

var open = regexp.MustCompile(`(?m)^(\s*)(\w+)(\s*)= todo\("(.*)"\)$`)

// filled takes each decision by its attribute's name.
func filled(t testing.TB, text string) string {
	t.Helper()
	return open.ReplaceAllStringFunc(strings.ReplaceAll(text, `model "todo"`, `model "m"`), func(l string) string {
		m := open.FindStringSubmatch(l)
		v := map[string]string{
			"path": `"in.json"`, "api": `"a"`, "base_url": `"https://example.invalid"`, "credential": `"KEY"`, "max_output": "1000", "model": `"m"`, "version": `"1"`,
			"price": `{ input = "1", output = "1", cache_read = "1", cache_write = "1" }`, "adapter": "\"scripted\"\ntest_stub = true\nscript = \"script.json\"",
			"tools": "[]", "network": `"none"`, "wall": `"1m"`, "cost_usd": `"1.00"`, "tokens": "1000", "turns": "10", "tool_calls": "10",
			"output": `"1MiB"`, "files": "10", "max_iterations": "3", "until": "iteration >= 2", "accept": `worker.status == "settled"`, "otherwise": `"fail"`,
			"argv": `["prog"]`, "inputs": "[]",
		}[m[2]]
		switch {
		case m[2] == "not_applicable":
			_, list, _ := strings.Cut(m[4], "not: ")
			v = `["` + strings.ReplaceAll(list, ", ", `", "`) + `"]`
		case m[2] == "tool":
			v = `"prog"`
		case m[2] == "image":
			v = `"registry.example/x@sha256:` + strings.Repeat("0", 64) + `"`
		case v == "":
			t.Fatalf("no value for %s", l)
		}
		return m[1] + m[2] + " = " + v
	})
}

func TestStartGaps(t *testing.T) {
	p := newPipe()
	p.put("in.json", "{}")
	p.phase("first", []string{"a", "cwl-note"}, []string{"elsewhere"})
	p.phase("second", []string{"b"}, []string{"a", "later", "cwl-note", "paper-note"})
	p.phase("third", []string{"later"}, []string{"a"})
	p.phase("ring-one", []string{"one"}, []string{"two"})
	p.phase("ring-two", []string{"two"}, []string{"one"})
	p.branch("choice", "left", "right")
	p.skill("left", []string{"made", "only-left"}, []string{"a"})
	p.skill("right", []string{"made"}, []string{"a", "only-left"})
	p.phase("user", []string{"used"}, []string{"made", "only-left"})
	text := p.start(t)
	for _, want := range []string{
		`input "elsewhere" {`, `input "later" {`, "It is produced only later, by `third`", `input "two" {`, "wait for each other in a ring",
		`not_applicable = ["paper-note"]`, "here it has cwl-note.", `otherwise = "fail"`,
		"gives it only on some ways", `not_applicable = todo("not every way gives what it reads; all that applies to it not: only-left")`,
	} {
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(text, "#", " ")), " "), want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}

func TestStartLoops(t *testing.T) {
	p := newPipe()
	p.put("in.json", "{}")
	p.phase("begin", []string{"draft"}, nil)
	p.loop("work", []string{"draft", "end"}, []string{"draft"})
	p.loop("look", nil, []string{"draft"})
	p.phase("between", []string{"x"}, []string{"draft"})
	p.loop("work", []string{"draft", "end"}, []string{"draft"})
	p.tools = `[{"tool":"prog","availability_check":"prog --version"}]`
	text := p.start(t)
	for _, want := range []string{`loop "repeat-work" {`, `phases         = ["work", "look"]`, `phase "look" {`, `check "proof" {`, `loop "repeat-work-2" {`, `phases         = ["work#2"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}

// Whatever a pipeline's skills read and write, its starter policy fails with
// exactly its open decisions and compiles once they are taken.
func TestStartAny(t *testing.T) {
	artifacts := []string{"cwl-note", "paper-note", "draft", "test-data", "cwl-data", "end"}
	rapid.Check(t, func(rt *rapid.T) {
		p := newPipe()
		p.put("in.json", "{}")
		if rapid.Bool().Draw(rt, "tools") {
			p.tools = `[{"tool":"prog","availability_check":"prog --version"}]`
		}
		n := rapid.IntRange(1, 7).Draw(rt, "phases")
		for i := range n {
			name := fmt.Sprintf("s%d", rapid.IntRange(0, 5).Draw(rt, "skill"))
			some := func(what string) []string {
				list := rapid.SliceOfNDistinct(rapid.SampledFrom(artifacts), 0, 3, rapid.ID[string]).Draw(rt, what)
				slices.Sort(list)
				return list
			}
			switch {
			case rapid.IntRange(0, 4).Draw(rt, "kind") == 0:
				chain := []string{fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i)}
				for _, c := range chain {
					p.skill(c, some("writes"), some("reads"))
				}
				if rapid.Bool().Draw(rt, "supplied") {
					chain = append(chain, "user-supplied")
				}
				p.branch(fmt.Sprintf("branch-%d", i), chain...)
			default:
				p.step(name, some("writes"), some("reads"), rapid.Bool().Draw(rt, "loop"))
			}
		}
		p.start(tb{t, rt})
	})
}

// tb lets a helper of tests fail a rapid check, which then shrinks.
type tb struct {
	testing.TB
	rt *rapid.T
}

func (b tb) Errorf(format string, args ...any) { b.rt.Errorf(format, args...) }
func (b tb) Fatal(args ...any)                 { b.rt.Fatal(args...) }
func (b tb) Fatalf(format string, args ...any) { b.rt.Fatalf(format, args...) }

// What an assembly and a path say is text, whatever HCL would make of it.
func TestStartHostileTexts(t *testing.T) {
	p := newPipe()
	p.put("in.json", "{}")
	p.phase("one", []string{"a"}, nil)
	p.tools = `[{"tool":"prog","availability_check":"echo ${HOME} %{if} $${x} \u202e; exit\n}\nphase \"x\" {}"}]`
	text := p.start(t)
	if !strings.Contains(text, `probe "prog" {`) || !strings.Contains(text, `${HOME} %{if} $${x}`) || strings.ContainsRune(text, '\u202e') || strings.Contains(text, "\nphase \"x\"") {
		t.Error(text)
	}
	const odd = `sk${HOME} %{if} "q" $${y}`
	var seen []string
	opened := func(dir string) (fs.FS, error) {
		seen = append(seen, dir)
		return overlay(p.files)(strings.ReplaceAll(dir, odd, "skills"))
	}
	st := compile.Start(context.Background(), compile.StarterOptions{
		Open: opened, Adapters: adaptersWithAgent(), Assembly: "policy/" + odd + "/pipeline-test/_assembly.json", Skills: "policy/" + odd,
		AssemblyName: odd + "/pipeline-test/_assembly.json", SkillsName: odd,
	})
	p.common = filled(t, string(st.Policy))
	p.put("main.hcl", p.common)
	seen = nil
	res := compile.Compile(context.Background(), "policy/main.hcl", compile.Options{Open: opened, Adapters: adaptersWithAgent()})
	if res.Plan == nil || !strings.Contains(fmt.Sprint(seen), "policy/"+odd) {
		t.Errorf("%s\n%s\nopened %q", show(res.Diagnostics), st.Policy, seen)
	}
}

// What cannot be read is an error, not a policy.
func TestStartErrors(t *testing.T) {
	p := newPipe()
	p.phase("one", []string{"a"}, nil)
	p.compile(t, "")
	delete(p.files, "policy/skills/one/SKILL.md")
	for _, assembly := range []string{"policy/skills/pipeline-test/_assembly.json", "policy/nowhere/_assembly.json"} {
		st := compile.Start(context.Background(), compile.StarterOptions{Open: overlay(p.files), Assembly: assembly, Skills: "policy/skills", AssemblyName: "a", SkillsName: "s"})
		if st.Policy != nil || len(st.Diagnostics) == 0 || st.Diagnostics[0].Severity != compile.Error {
			t.Errorf("%s: %s\n%s", assembly, show(st.Diagnostics), st.Policy)
		}
	}
}
