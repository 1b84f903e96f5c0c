package policy

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"foundry/compile/internal/diag"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// openMem opens folders of files in memory.
func openMem(files map[string]string) func(string) (fs.FS, error) {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return func(dir string) (fs.FS, error) { return fs.Sub(m, path.Clean(dir)) }
}

func load(t testing.TB, files map[string]string, name string, vars ...Assignment) (*Policy, diag.List) {
	t.Helper()
	p, d := Load(context.Background(), name, Options{Open: openMem(files), Vars: vars})
	d.Sort()
	return p, d
}

// render shows diagnostics with the line they are about.
func render(p *Policy, d diag.List) string {
	var b strings.Builder
	for _, x := range d {
		word := map[diag.Severity]string{diag.Error: "error", diag.Warning: "warning"}[x.Severity]
		at := x.Subject
		if at == (diag.Range{}) {
			fmt.Fprintf(&b, "%s: %s\n", word, x.Summary)
		} else {
			fmt.Fprintf(&b, "%s:%d:%d-%d:%d: %s: %s\n", at.File, at.Start.Line, at.Start.Column, at.End.Line, at.End.Column, word, x.Summary)
		}
		if src := p.Files[at.File]; src != nil && at.Start.Line > 0 {
			if lines := strings.Split(string(src), "\n"); at.Start.Line <= len(lines) {
				line := lines[at.Start.Line-1]
				if len(line) > 100 {
					line = line[:100] + "…"
				}
				fmt.Fprintf(&b, "    | %s\n", line)
			}
		}
		fmt.Fprintf(&b, "    %s\n", x.Detail)
	}
	return b.String()
}

// TestDiagnostics loads the archives in testdata/bad. The comment of an archive
// has a line "load NAME", and lines "var NAME=VALUE" and "varfile NAME"; the
// file "want" is what is said.
func TestDiagnostics(t *testing.T) {
	archives, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(archives) < 20 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, opts := archive(t, a)
			p, d := Load(context.Background(), file, opts)
			d.Sort()
			if !d.HasErrors() {
				t.Error("no error")
			}
			got := render(p, d)
			if *update {
				setWant(a, got)
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want(a), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func archive(t testing.TB, a *txtar.Archive) (file string, opts Options) {
	files := map[string]string{}
	for _, f := range a.Files {
		if f.Name != "want" {
			files[f.Name] = string(f.Data)
		}
	}
	file = "policy.hcl"
	for _, line := range strings.Split(string(a.Comment), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "load":
			file = rest
		case "var":
			n, v, _ := strings.Cut(rest, "=")
			opts.Vars = append(opts.Vars, Assignment{n, v})
		case "varfile":
			opts.VarFiles = append(opts.VarFiles, rest)
		case "", "#":
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	opts.Open = openMem(files)
	return file, opts
}

func want(a *txtar.Archive) string {
	for _, f := range a.Files {
		if f.Name == "want" {
			return string(f.Data)
		}
	}
	return ""
}

func setWant(a *txtar.Archive, text string) {
	for i := range a.Files {
		if a.Files[i].Name == "want" {
			a.Files[i].Data = []byte(text)
			return
		}
	}
	a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(text)})
}

// loadArchive loads a good archive.
func loadArchive(t testing.TB, name string) *Policy {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, opts := archive(t, a)
	p, d := Load(context.Background(), file, opts)
	if len(d) > 0 {
		t.Fatalf("diagnostics:\n%s", render(p, d))
	}
	return p
}

// ignorePlaces compares policies without places and syntax.
var ignorePlaces = cmp.Options{
	cmpopts.IgnoreTypes(diag.Range{}),
	cmpopts.IgnoreFields(Policy{}, "Files"),
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b Expr) bool { return (a.Syntax == nil) == (b.Syntax == nil) }),
}

// TestSketch reads the whole language as the sketch has it, and more.
func TestSketch(t *testing.T) {
	p := loadArchive(t, "testdata/good/sketch.txtar")
	for _, c := range []struct{ what, got, want any }{
		{"assembly", p.Assembly.Value, "../corpus/skills/pipeline-cwl-to-galaxy/_assembly.json"},
		{"skills", p.Skills.Value, "../corpus/skills"},
		{"properties", p.Evaluation.Properties.Items[0].Value, "../corpus/evals/skills/*/eval.md"},
		{"input beside the file", p.Inputs[0].Path.Value, "work/inputs/word-count"},
		{"script beside the included file", p.Harnesses[1].Script.Value, "work/team/replay/salmon.json"},
		{"order of harnesses", p.Harnesses[0].Name + p.Harnesses[1].Name, "judgereplay"},
		{"price", p.Providers[0].Models[0].CacheRead.Value, "0.3"},
		{"memory", p.Sandbox.MemoryBytes.Value, int64(2 << 30)},
		{"cpu", p.Sandbox.CPUMillis.Value, int64(500)},
		{"wall", p.Budget.WallSeconds.Value, int64(7200)},
		{"cost", p.Budget.CostMicroUSD.Value, int64(25_000_000)},
		{"node's wall", p.Defaults.Budget.WallSeconds.Value, int64(600)},
		{"node's output", p.Defaults.Budget.OutputBytes.Value, int64(64 << 20)},
		{"guards", len(p.Guards.Items), 2},
		{"loop of its own phase", p.Loops[0].Self.Task.Value, "Advance one step.\n"},
		{"loop's check", p.Loops[0].Checks[0].Argv.Items[2].Value, "--json"},
		{"max", p.Loops[0].MaxIterations.Value, int64(40)},
		{"body", len(p.Loops[1].Phases.Items), 3},
		{"nodes of a body", p.Loops[1].Body[0].Name, "validate-cwl#2"},
		{"inputs that are none", p.Phases[1].Inputs.Set() && len(p.Phases[1].Inputs.Items) == 0, true},
		{"inputs that are not written", p.Phases[0].Inputs.Set(), false},
		{"output", p.Phases[0].Outputs[0].Required.Value, "optional"},
		{"task", p.Phases[1].Task.Value, "Keep ${HOME}, %{if}, $(date), {{x}} and {in:cwl-source}; tries: 3."},
		{"branch", p.Branches[0].Otherwise.Syntax != nil && p.Branches[0].Phases[0].Name == "find-test-data", true},
		{"judge", p.Evaluation.JudgeBudget.CostMicroUSD.Value, int64(2_000_001)},
		{"scenario", p.Scenarios[0].Inputs[0].Path.Value, "work/inputs/other"},
		{"variables", fmt.Sprintln(len(p.Variables), p.Variables[0].Name, p.Variables[0].Type), "3 corpus path\n"},
		{"own guard", p.OwnGuards[0].Severity.Value, "warning"},
		{"tools", p.Tools[1].Unavailable.Value, "needs a Galaxy; release lane only"},
		{"strict", p.Strict, true},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.what, diff)
		}
	}
	v, d := p.Loops[0].Until.Scope.Eval(p.OwnGuards[0].Assert.Syntax)
	if d.HasErrors() || v.False() {
		t.Errorf("Scope.Eval: %v %v", v, d)
	}
}

// TestSourceOnlyChanges: order of blocks and split of files cannot be seen.
func TestSourceOnlyChanges(t *testing.T) {
	blocks := []string{
		`variable "n" {` + "\n type = number\n default = 2\n}\n",
		"locals {\n a = local.b * 2\n}\n", "locals {\n b = var.n * 15\n}\n",
		"phase \"b\" {\n task = \"x ${local.a}\"\n}\n", "phase \"a\" {\n submit_attempts = var.n\n}\n",
		"budget {\n tokens = local.a\n}\n",
		"loop \"l\" {\n until = iteration >= 3\n max_iterations = local.a\n}\n",
		"harness \"h\" {\n adapter = \"pi\"\n}\n", "harness \"g\" {\n adapter = \"pi\"\n}\n",
		"guards = [\"baseline\"]\n", "order = \"dataflow\"\n",
	}
	first, d := load(t, map[string]string{"p/a.hcl": strings.Join(blocks, "")}, "p")
	if len(d) > 0 {
		t.Fatalf("%s", render(first, d))
	}
	if first.Budget.Tokens.Value != 60 || first.Loops[0].MaxIterations.Value != 60 {
		t.Fatalf("values: %v %v", first.Budget.Tokens, first.Loops[0].MaxIterations)
	}
	for range 50 {
		rand.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		files := map[string]string{}
		for _, b := range blocks {
			files[fmt.Sprintf("p/%d.hcl", rand.IntN(4))] += b
		}
		p, d := load(t, files, "p")
		if len(d) > 0 {
			t.Fatalf("%s", render(p, d))
		}
		if diff := cmp.Diff(first, p, ignorePlaces, cmpopts.IgnoreUnexported(Scope{})); diff != "" {
			t.Fatalf("%s", diff)
		}
	}
}

// TestSameBytes is field case A2: one bad policy of several files, 200 times.
func TestSameBytes(t *testing.T) {
	a, err := txtar.ParseFile("testdata/bad/many-files.txtar")
	if err != nil {
		t.Fatal(err)
	}
	file, opts := archive(t, a)
	open := opts.Open
	opts.Open = func(dir string) (fs.FS, error) {
		f, err := open(dir)
		return shuffled{f}, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for i := range 200 {
		runtime.GOMAXPROCS([]int{1, 16}[i%2])
		p, d := Load(context.Background(), file, opts)
		d.Sort()
		if diff := cmp.Diff(want(a), render(p, d)); diff != "" {
			t.Fatalf("compilation %d: %s", i, diff)
		}
	}
}

// shuffled lists folders in another order each time.
type shuffled struct{ fs.FS }

func (s shuffled) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(s.FS, name)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list, err
}

// TestLineEndings: neither CRLF nor a byte order mark changes a value.
func TestLineEndings(t *testing.T) {
	src := "phase \"a\" {\n  task = <<EOT\none\ntwo\nEOT\n}\n"
	plain, d := load(t, map[string]string{"p.hcl": src}, "p.hcl")
	if len(d) > 0 {
		t.Fatal(d)
	}
	dos, d := load(t, map[string]string{"p.hcl": "\uFEFF" + strings.ReplaceAll(src, "\n", "\r\n")}, "p.hcl")
	if len(d) > 0 {
		t.Fatal(d)
	}
	if plain.Phases[0].Task != dos.Phases[0].Task || plain.Phases[0].Task.Value != "one\ntwo\n" {
		t.Errorf("%q and %q", plain.Phases[0].Task.Value, dos.Phases[0].Task.Value)
	}
}

// TestLocate finds files and folders as they are named.
func TestLocate(t *testing.T) {
	files := map[string]string{"a/p.hcl": "strict = true\n", "a/q.hcl": "order = \"dataflow\"\n", "a/.hidden.hcl": "oops", "a/sub/r.hcl": "oops", "a/README.md": "oops"}
	for _, c := range []struct {
		name  string
		files string
	}{
		{"a/p.hcl", "a/p.hcl"}, {"./a/p.hcl", "a/p.hcl"}, {"a", "a/p.hcl a/q.hcl"}, {"a/", "a/p.hcl a/q.hcl"},
	} {
		p, d := load(t, files, c.name)
		if len(d) > 0 {
			t.Errorf("%s: %s", c.name, render(p, d))
		}
		if got := strings.Join(sortedKeys(p.Files), " "); got != c.files {
			t.Errorf("%s read %s", c.name, got)
		}
	}
	// From within the folder itself.
	p, d := load(t, map[string]string{"p.hcl": "strict = true\n"}, ".")
	if len(d) > 0 || !p.Strict {
		t.Errorf("%v", d)
	}
	for _, name := range []string{"b", "a/x.hcl", "a/README.md", "a/p.hcl.json", ""} {
		if _, d := load(t, files, name); !d.HasErrors() {
			t.Errorf("%q was loaded", name)
		}
	}
}

// TestCancelled: a compile whose time is over is no policy.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	_, d := Load(ctx, "p.hcl", Options{Open: openMem(map[string]string{"p.hcl": "strict = true\n"})})
	if !d.HasErrors() {
		t.Error("no error")
	}
}
