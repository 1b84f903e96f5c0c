package bundle

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"foundry/compile/internal/diag"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares the problems of many cases, by name, with one file.
type golden struct{ b strings.Builder }

func (g *golden) add(name string, problems diag.List) {
	fmt.Fprintf(&g.b, "== %s\n", name)
	if len(problems) == 0 {
		g.b.WriteString("none\n")
	}
	for _, p := range problems {
		severity := "error"
		if p.Severity == diag.Warning {
			severity = "warning"
		}
		place := p.Subject.File
		if p.Subject.Start.Line > 0 {
			place += fmt.Sprintf(":%d:%d(%d)", p.Subject.Start.Line, p.Subject.Start.Column, p.Subject.Start.Byte)
		}
		fmt.Fprintf(&g.b, "%s: %s: %s\n  %s\n", severity, place, p.Summary, p.Detail)
	}
}

func (g *golden) check(t *testing.T, file string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(g.b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), g.b.String()); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// A small well-formed skill.
const (
	goodHeader = "---\nname: demo\ndescription: Sums numbers up.\n---\n"
	goodProv   = `{
  "provenance_schema_version": 4,
  "mold": {"name": "demo", "path": "molds/demo.md", "revision": 3, "content_hash": "aa", "commit": "bb"},
  "refs": [
    {"kind": "note", "dst": "references/a.md", "dst_hash": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}
  ],
  "artifacts": {
    "produces": [{"id": "sum", "kind": "json", "default_filename": "sum.json", "schema": "[[sum]]", "description": "the sum"}],
    "consumes": [{"id": "numbers", "description": "the numbers", "producers": ["other"], "inherited_schema": "[[numbers]]"}]
  }
}
`
	goodVerify = `{"verify_schema_version": 1, "entries": [
  {"artifact_id": "sum", "direction": "output", "kind": "json", "default_filename": "sum.json", "schema": "[[sum]]", "validator_bin": "checker", "args": ["check", "{artifact_path}"]}
]}
`
	goodTools = `[{"tool": "adder", "origin": "pypi", "package": "adder", "invoke": "adder", "availability_check": "adder --help | grep -q sum", "reference": "references/a.md"}]
`
)

// demo is the well-formed skill with some files replaced; "" removes one.
func demo(changes map[string]string) fstest.MapFS {
	files := map[string]string{
		"SKILL.md": goodHeader, "_provenance.json": goodProv, "_verify.json": goodVerify, "_required_tools.json": goodTools,
		"references/a.md": "a", "references/schemas/sum.schema.json": `{"type": "object"}`,
	}
	for name, text := range changes {
		files[name] = text
	}
	fsys := fstest.MapFS{}
	for name, text := range files {
		if text != "" {
			fsys["demo/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return fsys
}

// replaced returns text with old replaced by new, which must be there.
func replaced(t testing.TB, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q stands %d times in the fixture", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, new, 1)
}
