package policy

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostile: input that would overflow a stack, or take hours or all memory, gives one
// diagnostic. Every case of the first group ended the process, or took
// minutes, with hcl alone.
func TestHostile(t *testing.T) {
	rep := strings.Repeat
	list := "[" + rep("1,", 500) + "1]"
	double := func(form, first string, n int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "locals {\n a0 = %s\n", first)
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&b, " a%d = %s\n", i, strings.ReplaceAll(form, "X", fmt.Sprintf("local.a%d", i-1)))
		}
		b.WriteString("}\n")
		return b.String()
	}
	for _, c := range []struct{ name, src, want string }{
		{"parentheses", "x = " + rep("(", 70_000) + "1" + rep(")", 70_000), "Nested too deeply"},
		{"brackets", "x = " + rep("[", 70_000) + rep("]", 70_000), "Nested too deeply"},
		{"braces", "x = " + rep("{a=", 70_000) + "1" + rep("}", 70_000), "Nested too deeply"},
		{"templates", "x = " + rep(`"${`, 70_000) + "1" + rep(`}"`, 70_000), "Nested too deeply"},
		{"heredocs", "x = " + rep("<<A\n${", 10_000), "Nested too deeply"},
		{"calls", "x = " + rep("upper(", 70_000) + rep(")", 70_000), "Nested too deeply"},
		{"for", "x = " + rep("[for a in ", 70_000), "Nested too deeply"},
		{"unclosed blocks", rep("a {\n", 100_000), "Nested too deeply"},
		{"a million blocks", rep("a {\n", 1_000_000), "Policy too large"},
		{"not", "x = " + rep("!", 1_000_000) + "true", "Expression too long"},
		{"minus", "x = " + rep("-", 1_000_000) + "1", "Expression too long"},
		{"minus apart", "x = " + rep("- ", 900_000) + "1", "Expression too long"},
		{"plus", "x = 1" + rep("+1", 999_000), "Expression too long"},
		{"dots", "x = a" + rep(".b", 900_000), "Expression too long"},
		{"splats", "x = a" + rep("[*]", 300_000), "Expression too long"},
		{"indexes", "x = a" + rep("[0]", 300_000), "Expression too long"},
		{"conditionals", "x = " + rep("true ? 1 : ", 300_000) + "1", "Expression too long"},
		{"directives", "x = \"" + rep("%{if true}", 100_000) + "\"", "Expression too long"},
		{"operators within brackets", "x = " + rep("1"+rep("+1", 900)+"+(", 90), "Expression too long"},
		{"wrong closers", "x = " + rep("[(]", 1000), "Nested too deeply"},
		{"labels", rep("a ", 500_000) + "{}", ""},
		{"long line", "x = \"" + rep("a", 4<<20) + "\"", ""},
		{"16 MiB and a byte", rep("#", 16<<20+1), "File cannot be read"},
		{"16 MiB of signs", rep("(", 16<<20), "Policy too large"},
		{"number", "x = " + rep("9", 1_000_000), "Number too long"},
		{"exponent", "x = 1e100000000", "Number out of range"},
		{"fraction", "x = 1e-100000000", "Number out of range"},
		{"not UTF-8", "x = \"\xff\"", "Not UTF-8"},
		{"NUL", "x = \x00", ""},
		{"unknown words", rep("a {}\n", 300_000), "Too many errors"},
		{"locals in a row", double("X", "1", 100_000), ""},
		{"variables", func() string {
			var b strings.Builder
			for i := range 50_000 {
				fmt.Fprintf(&b, "variable \"v%d\" {\n type = string\n}\n", i)
			}
			return b.String()
		}(), "Too many errors"},

		{"squares", double("X * X", "7", 60), "Number out of range"},
		{"fractions", double("X / 7", "1", 90), "Number out of range"},
		{"strings", double(`"${X}${X}"`, `"0123456789"`, 60), "Evaluation too large"},
		{"formats", double(`format("%s%s", X, X)`, `"0123456789"`, 60), "Evaluation too large"},
		{"replacements", double(`replace(X, "0", X)`, `"0000000000"`, 60), "Evaluation too large"},
		{"joins", double(`join(",", [X, X])`, `"0123456789"`, 60), "Evaluation too large"},
		{"lists", double("concat(X, X)", "[1,2,3]", 60), "Evaluation too large"},
		{"nested lists", double("[X, X]", "1", 60) + "guard \"g\" {\n assert = true\n message = \"x\"\n}\nlocals {\n x = local.a60 == local.a59\n y = local.a60 == [local.a59, local.a59]\n}\n", "Evaluation too large"},
		{"for in for", "locals {\n l = " + list + "\n x = [for a in local.l : [for b in local.l : [for c in local.l : 1]]]\n}\n", "Evaluation too large"},
		{"for with no elements", "locals {\n l = " + list + "\n x = [for a in local.l : 1 if length([for b in local.l : 1 if length([for c in local.l : 1 if false]) == 1]) == 1]\n}\n", "Evaluation too large"},
		{"splat of splats", "locals {\n l = " + list + "\n x = [for a in local.l : [for b in local.l : local.l[*]]]\n}\n", "Evaluation too large"},
		{"long bodies", "locals {\n l = " + list + "\n x = [for a in local.l : [for b in local.l : [for c in [1,2,3] : 1" + rep("+1", 900) + "]]]\n}\n", "Evaluation too large"},
		{"hidden in an arm", "locals {\n l = " + list + "\n x = true ? 1 : length([for a in local.l : [for b in local.l : [for c in local.l : 1]]])\n}\n", "Evaluation too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			p, d := load(t, map[string]string{"p.hcl": c.src}, "p.hcl")
			took := time.Since(start)
			if took > 20*time.Second { // a bound that only a runaway breaks
				t.Errorf("took %v", took)
			}
			if c.want == "" {
				if c.name != "locals in a row" && !d.HasErrors() {
					t.Error("no error")
				}
				return
			}
			n := 0
			for _, x := range d {
				if x.Summary == c.want {
					n++
				}
			}
			if n != 1 {
				if len(d) > 5 {
					d = d[:5]
				}
				t.Errorf("%d of %q in\n%s", n, c.want, render(p, d))
			}
			t.Logf("%v", took.Round(time.Millisecond))
		})
	}
}

// TestScopeEval: what Scope.Eval gives is bounded too.
func TestScopeEval(t *testing.T) {
	src := "locals {\n a = [1]\n"
	for _, v := range "bcdefghijklmnopqrstuvwxyz" {
		src += fmt.Sprintf(" %c = [local.%c, local.%c]\n", v, v-1, v-1)
	}
	src += " n = null\n}\nvariable \"p\" {\n type = path\n default = \"x\"\n}\n"
	src = strings.Replace(src, " n = [local.m, local.m]\n", "", 1)
	src = strings.Replace(src, "[local.n, local.n]", "[local.m, local.m]", 1)
	for _, g := range []string{"local.z", "local.n", "[local.n]", "var.p", "{ a = [var.p] }", "nope", "1/0", "\"${HOME}\"", "1 + 1"} {
		src += fmt.Sprintf("guard \"g%d\" {\n assert = %s\n message = \"x\"\n}\n", strings.Count(src, "guard"), g)
	}
	p, d := load(t, map[string]string{"p.hcl": src}, "p.hcl")
	if len(d) > 0 {
		t.Fatal(render(p, d))
	}
	want := []string{"Evaluation too large", "Null value", "Null value", "Path outside a path", "Path outside a path", "Unknown name", "Division by zero", "Unknown name", ""}
	// The first one spends the account, so it comes last.
	for i := len(want) - 1; i >= 0; i-- {
		g := p.OwnGuards[i].Assert
		v, d := g.Scope.Eval(g.Syntax)
		got := ""
		if len(d) > 0 {
			got = d[0].Summary
		}
		if got != want[i] || len(d) > 1 || (got == "") != (v.IsWhollyKnown() && len(d) == 0) && got == "" {
			t.Errorf("%d: %q, want %q (%v)", i, got, want[i], d)
		}
		if got == "" {
			if n, _ := v.AsBigFloat().Int64(); n != 2 {
				t.Errorf("1 + 1 = %v", v)
			}
		}
	}
}

// TestDeadline: a compile's time bounds evaluation that its account would allow.
func TestDeadline(t *testing.T) {
	src := "locals {\n l = [" + strings.Repeat("1,", 900) + "1]\n x = [for a in local.l : [for b in local.l : 1" + strings.Repeat("+1", 3) + "]]\n}\n"
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, d := Load(ctx, "p.hcl", Options{Open: openMem(map[string]string{"p.hcl": src})})
	if len(d) != 1 || d[0].Summary != "Evaluation too large" || !strings.Contains(d[0].Detail, "cancelled") {
		t.Errorf("%v", d)
	}
}

// FuzzLoad: no input panics, fails without a word, or depends on the moment.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{"strict = true\n", "phase \"a\" {\n task = \"x ${var.x} $${y}\"\n}\n", "variable \"x\" {\n type = list(string)\n default = [\"a\"]\n}\n",
		"locals {\n a = { for k, v in { a = 1 } : k => v if v > 0 }\n b = [1][*]\n c = true ? local.a : local.a\n}\n", "include = [\"b.hcl\"]\n", "x = <<A\n${1}\nA\n",
		"provider \"p\" {\n api = \"a\"\n model \"m\" {\n price = { input = \"1\", output = \"2\" }\n max_output = 1\n }\n}\n",
		"loop \"l\" {\n until = true\n max_iterations = 1e1\n budget {\n wall = \"1h1s\"\n output = \"1KB\"\n cost_usd = \"0.5\"\n }\n}\n"} {
		f.Add(s, "1")
	}
	f.Fuzz(func(t *testing.T, src, v string) {
		files := map[string]string{"d/a.hcl": src, "d/b.hcl": "variable \"y\" {\n type = number\n}\n", "d/v.hcl": src}
		var first string
		for i := range 2 {
			p, d := Load(context.Background(), "d", Options{Open: openMem(files), Vars: []Assignment{{"y", v}}, VarFiles: []string{"d/v.hcl"}})
			d.Sort()
			text := render(p, d)
			if i == 0 {
				first = text
			} else if text != first {
				t.Fatalf("two compilations differ:\n%s\n%s", first, text)
			}
			for _, x := range d {
				if x.Summary == "" || x.Detail == "" || x.Summary == "Policy not understood" {
					t.Fatalf("%+v", x)
				}
			}
		}
	})
}

// TestMemory bounds what a file of the largest size may cost.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("lexes two million tokens")
	}
	src := strings.Repeat("a.", 990_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, d := load(t, map[string]string{"p.hcl": src}, "p.hcl")
	runtime.ReadMemStats(&after)
	if !d.HasErrors() {
		t.Error("no error")
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<30 {
		t.Errorf("%d MiB allocated", got>>20)
	}
}
