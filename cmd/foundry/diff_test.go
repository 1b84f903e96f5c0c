package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/plan"
	"foundry/plan/spend"
)

// TestDiffExitCodes: any change is told, whichever phase it is in; what cannot
// be compared is told apart from what differs; nothing of the environment is in
// any form of the result (A7).
func TestDiffExitCodes(t *testing.T) {
	t.Setenv("VENDOR_KEY", "canary-of-the-environment")
	dir := t.TempDir()
	sample, err := os.ReadFile(filepath.Join(repository(t), "plan", "testdata", "pipeline12.plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	honest, err := plan.Decode(sample)
	if err != nil {
		t.Fatal(err)
	}
	honest.WorstCase = spend.WorstCase(honest) // the sample of the format has another
	base, err := plan.Encode(honest)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, edit func(p *plan.Plan)) string {
		p, err := plan.Decode(base)
		if err != nil {
			t.Fatal(err)
		}
		edit(p)
		data, err := plan.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		return put(t, dir, name, data)
	}
	same := put(t, dir, "same.json", base)
	first := write("first.json", func(p *plan.Plan) { p.Nodes[0].Budget.Turns++ })
	last := write("last.json", func(p *plan.Plan) { p.Nodes[11].Budget.Turns-- })
	order := write("order.json", func(p *plan.Plan) { p.Pipeline.SourceRevision++ })
	invalid := write("invalid.json", func(p *plan.Plan) { p.Nodes[0].Budget.Turns = -1 })
	text := string(base)
	twice := put(t, dir, "twice.json", []byte(strings.Replace(text, `"turns": 60`, `"turns": 60, "turns": 99`, 1)))
	folded := put(t, dir, "folded.json", []byte(strings.Replace(text, `"turns": 60`, `"turns": 60, "turn`+"\u017f"+`": 99`, 1)))
	unknown := put(t, dir, "unknown.json", []byte(strings.Replace(text, `"turns": 60`, `"turns": 60, "toruns": 99`, 1)))
	cut := put(t, dir, "cut.json", base[:len(base)/2])

	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{same, same}, exitOK},
		{[]string{same, first}, exitNo},
		{[]string{first, same}, exitNo},
		{[]string{same, last}, exitNo},
		{[]string{same, order}, exitNo},
		{[]string{"--exit-on", "widens", same, first}, exitNo},
		{[]string{"--exit-on", "widens", first, same}, exitOK},
		{[]string{"--exit-on", "widens", same, last}, exitOK},
		{[]string{"--exit-on", "widens", same, order}, exitOK},
		{[]string{"--exit-on", "widens", last, first}, exitNo},
		{[]string{"--exit-on", "", same, first}, exitNo},
		{[]string{"--exit-on", "Widens", same, same}, exitUsage},
		{[]string{"--format", "markdwon", same, same}, exitUsage},
		{[]string{"--format", "", same, same}, exitUsage},
		{[]string{same, filepath.Join(dir, "missing.json")}, exitUsage},
		{[]string{filepath.Join(dir, "missing.json"), first}, exitUsage},
		{[]string{invalid, invalid}, exitUsage},
		{[]string{twice, same}, exitUsage},
		{[]string{same, folded}, exitUsage},
		{[]string{unknown, unknown}, exitUsage},
		{[]string{cut, cut}, exitUsage},
		{[]string{same}, exitUsage},
		{[]string{same, same, same}, exitUsage},
		{[]string{"", same}, exitUsage},
		{[]string{":" + same, same}, exitUsage},
		{[]string{"HEAD:", same}, exitUsage},
	} {
		for _, format := range []string{"text", "markdown", "json", "sarif"} {
			var out, told bytes.Buffer
			code := run(context.Background(), append([]string{"diff", "--format", format}, c.args...), nil, &out, &told)
			if code != c.code {
				t.Errorf("%v as %s: exit code %d, want %d\n%s", c.args, format, code, c.code, told.String())
			}
			if (code == exitUsage) != (told.Len() > 0) || code == exitUsage && out.Len() > 0 {
				t.Errorf("%v as %s: %q and %q", c.args, format, out.String(), told.String())
			}
			if strings.Contains(out.String()+told.String(), "canary") {
				t.Errorf("%v as %s: the environment is in the result", c.args, format)
			}
		}
	}
}

func put(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}
