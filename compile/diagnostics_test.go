package compile_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/compile"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file of testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if it should, run go test with -update and review the change.\n%s", file, difference(string(want), got))
	}
}

// difference shows the first line that differs, with some around it.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	from := max(0, i-6)
	return "want:\n" + strings.Join(w[from:min(len(w), i+8)], "\n") + "\ngot:\n" + strings.Join(g[from:min(len(g), i+8)], "\n")
}

// one is a pipeline of one phase, a, that writes x.
func one() *pipe { return newPipe().phase("a", []string{"x"}, nil) }

// two adds a phase b that reads x and writes y.
func two() *pipe { return one().phase("b", []string{"y"}, []string{"x"}) }

// fork is a, then the branch pick of b1 and b2, then c.
func fork(chain ...string) *pipe {
	p := one()
	p.skill("b1", []string{"both"}, []string{"x"})
	p.skill("b2", []string{"both"}, []string{"x"})
	if len(chain) == 0 {
		chain = []string{"b1", "b2"}
	}
	return p.branch("pick", chain...).phase("c", []string{"z"}, []string{"both"})
}

// rounds is a, a loop phase l that reads x and carries d, a loop phase m, and z.
func rounds() *pipe {
	return one().loop("l", []string{"d"}, []string{"x", "d"}).loop("m", []string{"e"}, []string{"d"}).phase("z", []string{"end"}, []string{"e"})
}

func with(p *pipe, change func(*pipe)) *pipe {
	change(p)
	return p
}

func (p *pipe) over(o compile.Override) *pipe {
	p.options = append(p.options, overriding(o))
	return p
}

// broken is one small pipeline, and the policy that is wrong about it.
type broken struct {
	name   string
	pipe   *pipe
	policy string
}

// TestDiagnostics keeps the exact text and place of what the compiler says.
func TestDiagnostics(t *testing.T) {
	var all strings.Builder
	for _, c := range brokenPipelines() {
		res := c.pipe.compile(t, c.policy)
		if again := c.pipe.compile(t, c.policy); show(again.Diagnostics) != show(res.Diagnostics) {
			t.Errorf("%s: two compilations say different things", c.name)
		}
		if (res.Plan == nil) != hasError(res.Diagnostics) {
			t.Errorf("%s: a plan stands beside errors, or nothing beside none", c.name)
		}
		text := strings.ReplaceAll(show(res.Diagnostics), "policy/main.hcl:", "main.hcl:")
		if text == "" {
			t.Errorf("%s: nothing is said", c.name)
		}
		all.WriteString("-- " + c.name + " --\n" + text)
	}
	golden(t, "diagnostics.golden", all.String())
}

func hasError(ds []compile.Diagnostic) bool {
	for _, d := range ds {
		if d.Severity == compile.Error {
			return true
		}
	}
	return false
}
