package policy

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"foundry/compile/internal/diag"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		parse func(string) (int64, string)
		in    string
		want  int64 // -1: refused
	}{
		{parseDuration, "90s", 90}, {parseDuration, "10m", 600}, {parseDuration, "2h", 7200}, {parseDuration, "1h30m5s", 5405},
		{parseDuration, "8760h", maxWall}, {parseDuration, "8760h1s", -1}, {parseDuration, "0s", -1}, {parseDuration, "1.5h", -1},
		{parseDuration, "30m1h", -1}, {parseDuration, "10", -1}, {parseDuration, "-1m", -1}, {parseDuration, "9999999999s", -1}, {parseDuration, "1m\n", -1},
		{parseSize, "64MiB", 64 << 20}, {parseSize, "500KB", 500_000}, {parseSize, "1B", 1}, {parseSize, "8388607TiB", 8388607 << 40},
		{parseSize, "8388608TiB", -1}, {parseSize, "0MiB", -1}, {parseSize, "64mib", -1}, {parseSize, "64", -1}, {parseSize, "1e3KB", -1}, {parseSize, "٣MB", -1},
		{parseMoney, "3.00", 3_000_000}, {parseMoney, "0", 0}, {parseMoney, "0.000001", 1}, {parseMoney, "999999999999.999999", 999999999999999999},
		{parseMoney, "0.0000001", -1}, {parseMoney, ".5", -1}, {parseMoney, "5.", -1}, {parseMoney, "+1", -1}, {parseMoney, "1000000000000", -1}, {parseMoney, "NaN", -1},
	} {
		got, problem := c.parse(c.in)
		if problem != "" {
			got = -1
		}
		if got != c.want {
			t.Errorf("%q = %d, want %d", c.in, got, c.want)
		}
	}
	for in, want := range map[string]string{"3.00": "3", "0.30": "0.3", "007.5": "7.5", "0": "0", "0.0": "0", "1,5": "", "-1": "", "1e3": ""} {
		if got, _ := parsePrice(in); got != want {
			t.Errorf("price %q = %q, want %q", in, got, want)
		}
	}
}

// TestMoneyIsExact: an amount written out and read again is the same amount.
func TestMoneyIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micro := rapid.Int64Range(0, 999_999_999_999_999_999).Draw(t, "micro")
		s := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
		if got, problem := parseMoney(s); got != micro || problem != "" {
			t.Fatalf("%s = %d %s", s, got, problem)
		}
	})
}

// TestIntegersAreExact: every int64 is itself as an attribute, a --var and
// within a template, whether written 30, 30.0 or 3e1 (field case E2).
func TestIntegersAreExact(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, n int64, form string) {
		src := fmt.Sprintf("variable \"n\" {\n type = number\n}\nbudget {\n tokens = %s\n}\ndefaults {\n budget {\n tokens = var.n\n turns = tonumber(\"${var.n}\")\n}\n}\n", form)
		p, d := Load(context.Background(), "p.hcl", Options{Open: openMem(map[string]string{"p.hcl": src}), Vars: []Assignment{{"n", form}}})
		if len(d) > 0 {
			t.Fatalf("%s: %v", form, d)
		}
		if p.Budget.Tokens.Value != n || p.Defaults.Budget.Tokens.Value != n || p.Defaults.Budget.Turns.Value != n {
			t.Fatalf("%s became %d, %d, %d", form, p.Budget.Tokens.Value, p.Defaults.Budget.Tokens.Value, p.Defaults.Budget.Turns.Value)
		}
	}
	for form, n := range map[string]int64{"30.0": 30, "3e1": 30, "9007199254740993": 9007199254740993, "9223372036854775807": 9223372036854775807, "1.5e1": 15} {
		check(t, n, form)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62).Draw(t, "n")
		check(t, n, fmt.Sprint(n))
	})
}

// TestConditional: an arm that is not taken may fail for what the condition
// guards against, not for what is always wrong.
func TestConditional(t *testing.T) {
	for expr, want := range map[string]string{
		"true ? 1 : [][0]":                    "",
		"length([]) > 0 ? [1][5] / 0 : 2":     "",
		"true ? 1 : 1 / 0":                    "",
		"true ? 1 : var.nope":                 "Unknown variable",
		"true ? 1 : nope()":                   "Unknown function",
		"false ? local.bad : 1":               "Division by zero", // a local is always evaluated
		"false && nope() ? 1 : 2":             "",                 // not reached
		"null == null ? 1 : 2":                "",
		"1 == null ? 1 : 2":                   "",
		"[1, \"a\"] == [1, \"a\"] ? 1 : \"\"": "Two types",
	} {
		p, d := load(t, map[string]string{"p.hcl": "locals {\n bad = 1 / 0\n x = " + expr + "\n}\n"}, "p.hcl")
		var got []string
		for _, x := range d {
			if !(x.Summary == "Division by zero" && x.Subject.Start.Line == 2 && want != "Division by zero") {
				got = append(got, x.Summary)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q\n%s", expr, got, want, render(p, d))
		}
	}
}

// TestFunctions evaluates each function of the closed set.
func TestFunctions(t *testing.T) {
	used := map[string]bool{}
	for expr, want := range map[string]string{
		`length("aé") + length([1, 2]) + length({ a = 1 })`:                      "5",
		`join(",", concat(["a"], [1, true]))`:                                    "a,1,true",
		`join(" ", keys(merge({ b = 1 }, { a = 2 })))`:                           "a b",
		`join(" ", values({ b = 1, a = 2 }))`:                                    "2 1",
		`contains(["a", "b"], "b") && contains("abc", "bc") && !contains([], 1)`: "true",
		`upper(lower("ABC"))`:                                                    "ABC",
		`join("|", split("/", "a/b/"))`:                                          "a|b|",
		`format("%s-%d%%", "x", 3)`:                                              "x-3%",
		`replace("a.b.c", ".", "__")`:                                            "a__b__c",
		`trimprefix(trimsuffix("a.b.c", ".c"), "a.")`:                            "b",
		`alltrue([]) && !anytrue([]) && anytrue([false, true])`:                  "true",
		`tostring(0.1 + 0.2)`:                                                    "0.3",
		`tonumber("1e2") % 7`:                                                    "2",
		`-7 % 3`:                                                                 "-1",
		`[for k, v in { a = 1, b = 2 } : "${k}${v}" if v > 1][0]`:                "b2",
		`join("", [{ a = 1 }, { a = 2 }][*].a)`:                                  "12",
		`{ for i, v in ["x", "y"] : v => i }.y`:                                  "1",
		`{ "a b" = 1 }["a b"]`:                                                   "1",
	} {
		for _, f := range Functions() {
			if strings.Contains(expr, f+"(") {
				used[f] = true
			}
		}
		p, d := load(t, map[string]string{"p.hcl": "phase \"a\" {\n task = \"${" + expr + "}.\"\n}\n"}, "p.hcl")
		if len(d) > 0 || p.Phases[0].Task.Value != want+"." {
			t.Errorf("%s = %q, want %q\n%s", expr, p.Phases[0].Task.Value, want, render(p, d))
		}
	}
	for _, f := range Functions() {
		if !used[f] {
			t.Errorf("%s was not tried", f)
		}
	}
}

// TestEvalWith gives a guard its plan, on an account of its own.
func TestEvalWith(t *testing.T) {
	src := "guard \"g\" {\n assert = alltrue([for n in plan.nodes : n.wall <= local.most])\n message = \"x\"\n}\nlocals {\n most = 1800\n}\n"
	p, d := load(t, map[string]string{"p.hcl": src}, "p.hcl")
	if len(d) > 0 {
		t.Fatal(render(p, d))
	}
	node := func(n int64) cty.Value { return cty.ObjectVal(map[string]cty.Value{"wall": cty.NumberIntVal(n)}) }
	g := p.OwnGuards[0].Assert
	for _, c := range []struct {
		last int64
		want bool
	}{{1800, true}, {1801, false}} {
		nodes := make([]cty.Value, 400_000) // two of these are more than one account
		for i := range nodes {
			nodes[i] = node(1)
		}
		nodes[0] = node(c.last)
		v, d := g.Scope.EvalWith(g.Syntax, map[string]cty.Value{"plan": cty.ObjectVal(map[string]cty.Value{"nodes": cty.TupleVal(nodes)})})
		if len(d) > 0 || v.True() != c.want {
			t.Errorf("%d: %v %v", c.last, v, d)
		}
	}
	if _, d := g.Scope.Eval(g.Syntax); len(d) != 1 || d[0].Summary != "Unknown name" {
		t.Errorf("plan stayed: %v", d)
	}
}

// TestWords keeps the language in one readable file; a change of it shows.
func TestWords(t *testing.T) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, w := range Words() {
		if seen[w.Path] || w.Doc == "" || !w.Block && w.Kind == "" {
			t.Errorf("%+v", w)
		}
		seen[w.Path] = true
		switch {
		case w.Block && w.Label != "":
			fmt.Fprintf(&b, "%s (block, labelled with %s): %s\n", w.Path, w.Label, w.Doc)
		case w.Block:
			fmt.Fprintf(&b, "%s (block): %s\n", w.Path, w.Doc)
		case w.Required:
			fmt.Fprintf(&b, "%s = %s, required: %s\n", w.Path, w.Kind, w.Doc)
		default:
			fmt.Fprintf(&b, "%s = %s: %s\n", w.Path, w.Kind, w.Doc)
		}
	}
	const golden = "testdata/words.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), b.String()); diff != "" {
		t.Errorf("-golden +table\n%s", diff)
	}
}

// TestRealFolders: with os.Root behind Open, as cmd has it, no link leads out,
// a pipe does not block, and a folder may be entered through a link (A4).
func TestRealFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("b c/ü/p.hcl", "include = [\"team/d.hcl\"]\nassembly = \"x/_assembly.json\"\n")
	write("b c/ü/team/d.hcl", "skills = \"skills\"\n")
	write("out/secret.hcl", "strict = true\n")
	write("bad/p.hcl", "include = [\"link.hcl\", \"pipe.hcl\"]\n")
	for from, to := range map[string]string{"entry": "b c/ü", "bad/link.hcl": "../out/secret.hcl"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "bad/pipe.hcl"), 0o644); err != nil {
		t.Fatal(err)
	}
	var roots []*os.Root
	defer func() {
		for _, r := range roots {
			r.Close()
		}
	}()
	open := func(name string) (fs.FS, error) {
		r, err := os.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		roots = append(roots, r)
		return r.FS(), nil
	}
	load := func(name string) (*Policy, diag.List) {
		p, d := Load(context.Background(), name, Options{Open: open})
		d.Sort()
		return p, d
	}
	t.Chdir(dir)
	for _, c := range []struct{ name, assembly, skills string }{
		{"b c/ü/p.hcl", "b c/ü/x/_assembly.json", "b c/ü/team/skills"},
		{"entry/p.hcl", "entry/x/_assembly.json", "entry/team/skills"},
		{"entry", "entry/x/_assembly.json", "entry/team/skills"},
	} {
		p, d := load(c.name)
		if len(d) > 0 || p.Assembly.Value != c.assembly || p.Skills.Value != c.skills {
			t.Errorf("%s: %q %q\n%s", c.name, p.Assembly.Value, p.Skills.Value, render(p, d))
		}
	}
	t.Chdir("entry")
	for _, name := range []string{"p.hcl", ".", "../ü"} {
		if p, d := load(name); len(d) > 0 || filepath.Base(p.Skills.Value) != "skills" {
			t.Errorf("%s: %s", name, render(p, d))
		}
	}
	p, d := load("../../bad/p.hcl") // entry is a link: .. is the folder of its target
	if p.Strict || len(d) != 2 || d[0].Summary != "File cannot be read" || !strings.Contains(d[1].Detail, "no regular file") {
		t.Errorf("links and pipes: %s", render(p, d))
	}
}
