package compile_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"foundry/compile"
	"foundry/plan"
)

// E10: text for a shell or the worker reaches the prompt as it is.
func TestLiteralTextReachesThePrompt(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{`"Go to $${HOME}."`, "Go to ${HOME}."},
		{`"Say %%{if} and %%{endif}."`, "Say %{if} and %{endif}."},
		{`"Fill {{x}} and {y} and {in }."`, "Fill {{x}} and {y} and {in }."},
		{`"Run $(date) and $HOME and 100%."`, "Run $(date) and $HOME and 100%."},
		{"<<EOT\nGo to $${HOME}.\n  Run $(date).\nEOT", "Go to ${HOME}.\n  Run $(date)."},
	} {
		got := valid(t, one().compile(t, "phase \"a\" {\n  inputs = []\n  task   = "+c.written+"\n}\n"))
		if prompt := node(t, got, "a").Prompt; !strings.Contains(prompt, c.want) {
			t.Errorf("%s: the prompt lacks %q:\n%s", c.written, c.want, prompt)
		}
	}
	d := one().refused(t, "phase \"a\" {\n  inputs = []\n  task   = \"Go to ${HOME}.\"\n}\n", "Unknown name", "write $${HOME}")
	if d.Subject.File != "policy/main.hcl" || d.Subject.Start.Line != 29 {
		t.Errorf("place: %+v", d.Subject)
	}
}

// E10: what the assembly and the skills say is data, and nothing evaluates it.
func TestAssemblyIsNotInterpolated(t *testing.T) {
	p := one()
	p.options = append(p.options, func(o *compile.Options) {
		f := p.files["policy/skills/pipeline-test/_assembly.json"]
		f.Data = bytes.Replace(f.Data, []byte(`"options":[]`), []byte(`"options":["${HOME}"]`), 1)
	})
	res := p.compile(t, first)
	if res.Plan != nil || !strings.Contains(show(res.Diagnostics), "${HOME}") {
		t.Errorf("an option named ${HOME}:\n%s", show(res.Diagnostics))
	}
	q := one()
	q.tools = `[{"tool":"gx","origin":"npm","package":"gx","invoke":"gx","invoke_fallback":"gx","availability_check":"gx '${HOME}' '%{if}' '{{x}}'","docs_url":"x","source":"referenced"}]`
	if got := valid(t, q.compile(t, first)); strings.Join(got.Probes[0].Argv, "|") != "gx|${HOME}|%{if}|{{x}}" {
		t.Errorf("probe: %q", got.Probes[0].Argv)
	}
	q.tools = strings.Replace(q.tools, "'${HOME}'", "${HOME}", 1)
	q.refused(t, first, "Availability check is no probe", "probe \"gx\"")
}

// E12: two readers of one assembly must not see two values.
func TestAssemblyKeys(t *testing.T) {
	phase := func(extra string) string {
		return `{"phase":1,"kind":"mold","skill":"a","cast_present":true,"loop":false` + extra + `}`
	}
	for _, c := range []struct{ name, phase, pipeline, want string }{
		{"duplicate key", phase(`,"skill":"b"`), "", "skill"},
		{"wrong case", phase(`,"Skill":"b"`), "", `"Skill"`},
		{"a long s", phase(`,"\u017fkill":"b"`), "", "kill"},
		{"unknown key", phase(`,"skil":"b"`), "", `"skil"`},
		{"phases twice", phase(""), `"phases":[],`, "phases"},
		{"phases in another case", phase(""), `"Phases":[],`, `"Phases"`},
	} {
		p := newPipe()
		p.skill("a", []string{"x"}, nil)
		p.skill("b", []string{"x"}, nil)
		p.phases = []string{c.phase}
		p.options = append(p.options, func(o *compile.Options) {
			f := p.files["policy/skills/pipeline-test/_assembly.json"]
			f.Data = bytes.Replace(f.Data, []byte("{"), []byte("{"+c.pipeline), 1)
		})
		res := p.compile(t, first)
		text := show(res.Diagnostics)
		if res.Plan != nil || !strings.Contains(text, "error: ") || !strings.Contains(text, "_assembly.json:") || !strings.Contains(text, c.want) {
			t.Errorf("%s: compiled, or not said with its place:\n%s", c.name, text)
		}
	}
}

// E2 and E3: a limit is exact, or it is an error; it is never unlimited.
func TestLimitsAreExact(t *testing.T) {
	run := func(tokens string) (*compile.Result, *pipe) {
		p := one()
		p.common = strings.Replace(p.common, "tokens   = 1000000", "tokens   = "+tokens, 1)
		return p.compile(t, first), p
	}
	for written, want := range map[string]int64{
		"999999999999": 999999999999, "1e3": 1000, "1000.0": 1000, "900719925 * 1000 + 993": 900719925993, "1": 1,
	} {
		res, _ := run(written)
		if got := valid(t, res); got.Budget.Tokens != want || got.WorstCase.Tokens != min(want, got.WorstCase.UncappedTokens) {
			t.Errorf("tokens = %s became %d of %+v, want %d", written, got.Budget.Tokens, got.WorstCase, want)
		}
	}
	for _, written := range []string{
		"0", "-1", "0.5", "1 / 0", "-1 / 0", "0 / 0", "1 % 0", "1e100000000", "9007199254740993", "9223372036854775807", "9223372036854775808", "pow(10, 400)", "null", "\"1\"", "true", "1e-400",
	} {
		if res, _ := run(written); res.Plan != nil || !hasError(res.Diagnostics) {
			t.Errorf("tokens = %s compiled to %+v", written, res.Plan.Budget)
		} else if at := res.Diagnostics[0].Subject; at.File != "policy/main.hcl" || at.Start.Line == 0 {
			t.Errorf("tokens = %s: no place:\n%s", written, show(res.Diagnostics))
		}
	}
	// Where a number is a literal and no limit, all of it stays.
	p, policy := loopWith(`output.doc.json.n == 9007199254740993`)
	if got := valid(t, p.compile(t, policy)); got.Loops[0].Until.Args[1].Literal.Value != "9007199254740993" {
		t.Errorf("until: %+v", got.Loops[0].Until)
	}
}

// packed gives the files below a folder after a way through tar. keep says
// what the packer keeps.
func packed(t *testing.T, files fstest.MapFS, folder string, keepExec, keepFolders bool) fstest.MapFS {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := fs.WalkDir(files, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			if entries, err := fs.ReadDir(files, name); err != nil || len(entries) > 0 || !keepFolders {
				return err
			}
			return w.WriteHeader(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755})
		}
		mode := int64(info.Mode().Perm())
		if !keepExec {
			mode &^= 0o111
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: info.Size()}); err != nil {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for name, f := range files {
		if name != folder && !strings.HasPrefix(name, folder+"/") {
			out[name] = f
		}
	}
	r := tar.NewReader(&buf)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f := &fstest.MapFile{Data: data, Mode: fs.FileMode(h.Mode)}
		if h.Typeflag == tar.TypeDir {
			f.Mode |= fs.ModeDir
		}
		out[strings.TrimSuffix(h.Name, "/")] = f
	}
}

// F8: packing and unpacking a skill leaves its digest as it is, unless
// something is lost on the way.
func TestPackedSkill(t *testing.T) {
	p := one()
	p.put("skills/a/build/run.sh", "#!/bin/sh\n")
	p.files["policy/skills/a/build/run.sh"].Mode = 0o755
	p.files["policy/skills/a/empty"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	digest := func(files fstest.MapFS) string {
		q := *p
		q.files = files
		for _, b := range valid(t, q.compile(t, first)).Bundles {
			if b.ID == "skill:a" {
				return b.Digest
			}
		}
		t.Fatal("no bundle")
		return ""
	}
	before := digest(p.files)
	for _, c := range []struct{ exec, folders bool }{{true, true}, {false, true}, {true, false}, {false, false}} {
		after := digest(packed(t, p.files, "policy/skills/a", c.exec, c.folders))
		if same := after == before; same != (c.exec && c.folders) {
			t.Errorf("exec bits kept: %t, empty folders kept: %t: the digest is the same: %t", c.exec, c.folders, same)
		}
	}
}

// rebased moves a map of files from policy/ to another folder.
func rebased(files fstest.MapFS, folder string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, f := range files {
		out[folder+strings.TrimPrefix(name, "policy")] = f
	}
	return out
}

// openMap opens folders of a map of files.
func openMap(files fstest.MapFS) func(string) (fs.FS, error) {
	return func(dir string) (fs.FS, error) {
		if _, err := fs.Stat(files, dir); err != nil {
			return nil, err
		}
		return fs.Sub(files, dir)
	}
}

// A4: neither the folder nor the shape of the source is in the plan.
func TestSourceShapeIsNotInThePlan(t *testing.T) {
	p, policy := wholePipe()
	want := p.compile(t, policy)
	valid(t, want)
	compileAt := func(files fstest.MapFS, name string) *compile.Result {
		return compile.Compile(context.Background(), name, compile.Options{Open: openMap(files), Adapters: adaptersWithAgent()})
	}
	same := func(what string, res *compile.Result) {
		t.Helper()
		if res.Plan == nil {
			t.Errorf("%s:\n%s", what, show(res.Diagnostics))
		} else if !bytes.Equal(res.Encoded, want.Encoded) || res.Digest != want.Digest {
			t.Errorf("%s: %s", what, difference(string(want.Encoded), string(res.Encoded)))
		}
	}
	for _, folder := range []string{"elsewhere", "a/b/c", "w\u00f6rk dir/x y"} {
		same("folder "+folder, compileAt(rebased(p.files, folder), folder+"/main.hcl"))
	}

	text := string(p.files["policy/main.hcl"].Data)
	change := func(what, main string, more map[string]string) {
		t.Helper()
		files := rebased(p.files, "policy")
		files["policy/main.hcl"] = &fstest.MapFile{Data: []byte(main)}
		for name, text := range more {
			files["policy/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		same(what, compileAt(files, "policy/main.hcl"))
	}
	change("comments", "# one\n"+strings.ReplaceAll(text, "\n}\n", "\n} // two\n/* three */\n"), nil)
	change("30 for 30.0", strings.Replace(text, "turns      = 10\n", "turns      = 10.0\n", 1), nil)
	change("another unit", strings.Replace(text, `wall     = "1h"`, `wall     = "60m"`, 1), nil)
	change("more decimals", strings.Replace(text, `cost_usd = "10.00"`, `cost_usd = "10"`, 1), nil)
	change("a local", strings.Replace(text, "max_iterations = 7", "max_iterations = local.n - 1", 1)+"locals {\n  n = 8\n}\n", nil)

	blocks := topBlocks(text)
	if len(blocks) < 10 {
		t.Fatalf("%d blocks", len(blocks))
	}
	turned := ""
	for i := range blocks {
		turned += blocks[len(blocks)-1-i]
	}
	change("blocks turned round", turned, nil)

	main, more := "include = [", map[string]string{}
	for i, b := range blocks {
		name := fmt.Sprintf("part%02d.hcl", i)
		more[name] = b
		main += fmt.Sprintf("%q, ", name)
	}
	change("a file for each block", main+"]\n", more)

	files := rebased(p.files, "policy")
	delete(files, "policy/main.hcl")
	for i, b := range blocks {
		// A folder's paths are relative to the file, which stands one deeper.
		b = strings.NewReplacer(`"skills`, `"../skills`, `"script.json"`, `"../script.json"`, `path = "`, `path = "../`).Replace(b)
		files[fmt.Sprintf("policy/parts/part%02d.hcl", i)] = &fstest.MapFile{Data: []byte(b)}
	}
	same("a folder of files", compileAt(files, "policy/parts"))
}

// topBlocks cuts a policy at the ends of its top-level blocks.
func topBlocks(text string) []string {
	var blocks []string
	block := ""
	for _, line := range strings.SplitAfter(text, "\n") {
		block += line
		if strings.HasPrefix(line, "}") || !strings.HasPrefix(line, " ") && !strings.HasSuffix(strings.TrimSpace(line), "{") && strings.Contains(line, "}") {
			blocks = append(blocks, block)
			block = ""
		}
	}
	return append(blocks, block)
}

// A shuffled map of files and several runs in one process give one plan.
func TestManyCompilationsGiveOnePlan(t *testing.T) {
	p, policy := wholePipe()
	want := p.compile(t, policy)
	for range 20 {
		if res := p.compile(t, policy); !bytes.Equal(res.Encoded, want.Encoded) || show(res.Diagnostics) != show(want.Diagnostics) {
			t.Fatal(difference(string(want.Encoded), string(res.Encoded)))
		}
	}
	if strings.Contains(string(want.Encoded), "policy/") {
		t.Error("the plan holds a host path")
	}
	if plan.Digest(want.Encoded) != want.Digest {
		t.Error("the digest is not that of the bytes")
	}
}
