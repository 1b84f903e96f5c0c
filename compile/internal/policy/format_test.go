package policy

import (
	"bytes"
	"strings"
	"testing"

	"foundry/compile/internal/diag"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"space alone", " \n\t\n", ""},
		{"columns", "a=1\nlong   =  2\n", "a    = 1\nlong = 2\n"},
		{"blocks", "phase  \"x\"  {\ntask=\"t\"\n    budget {\n wall=\"1m\"\n}\n}", "phase \"x\" {\n  task = \"t\"\n  budget {\n    wall = \"1m\"\n  }\n}\n"},
		{"line ends and mark", "\uFEFFa=1\r\nb=2\r\n", "a = 1\nb = 2\n"},
		{"comments", "a=1# one\n// two\n/* three\n   four */\nbb=2   # five", "a = 1 # one\n// two\n/* three\n   four */\nbb = 2 # five\n"},
		{"heredoc", "a{\ntask=<<-END\n      one\n   two\n  END\n}\n", "a {\n  task = <<-END\n      one\n   two\n  END\n}\n"},
		{"text stays", "a=\"  ${  var.x  }  $${ y }  \"", "a = \"  ${var.x}  $${ y }  \"\n"},
		{"empty lines at the end", "a = 1\n\n\n", "a = 1\n"},
		{"names with dashes", "until=check.next-step.json.draft==false&&!output.a-b.exists", "until = check.next-step.json.draft == false && !output.a-b.exists\n"},
	} {
		got, ds := Format("p.hcl", []byte(c.in))
		if string(got) != c.want || len(ds) > 0 {
			t.Errorf("%s: %q, want %q; %+v", c.name, got, c.want, ds)
		}
	}
}

func TestFormatErrors(t *testing.T) {
	for in, want := range map[string]string{
		"a = \nb = 1":             "p.hcl:1",
		"phase \"x\" {":           "p.hcl:1",
		"a = 1\nb = \"${\"":       "p.hcl:2",
		"a = 1\n#\r\r\n":          "p.hcl:2",
		"a = \"\xff\"":            "p.hcl:1",
		"a = 1\nb = <<E\ntext":    "p.hcl:3",
		strings.Repeat("a{", 200): "p.hcl:1",
	} {
		out, ds := Format("p.hcl", []byte(in))
		if out != nil || !ds.HasErrors() {
			t.Errorf("%.40q gives %q and %+v", in, out, ds)
			continue
		}
		if got := ds[0].Subject.File + ":" + string(rune('0'+ds[0].Subject.Start.Line)); got != want {
			t.Errorf("%.40q: at %s, want %s: %s", in, got, want, ds[0].Summary)
		}
	}
}

// FuzzFormat: what can be read can be laid out; twice is as once, and the file
// says the same as before.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{"", "a=1", "a{\n b=[1,\n2]#x\n}", "t=<<-E\n  x${1+1}\n E\n", "x = {a=1,b=2}\r\ny=[for k,v in x:v if k!=\"a\"]", "a=1/*c*/\n//d\n#e", "\uFEFFp \"q\" {}\n", "u=!a&&-1<2?b:c...", "a = [\n# c\n]\n b=\"%%{x}$${y}\"", "l={\n\"k\"=1#c\nzz:2\n}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		out, ds := Format("p.hcl", src)
		if out == nil {
			if !ds.HasErrors() {
				t.Fatalf("%q was not laid out, and nothing says why", src)
			}
			return
		}
		twice, ds := Format("p.hcl", out)
		if !bytes.Equal(twice, out) {
			t.Fatalf("%q\nonce:  %q\ntwice: %q %+v", src, out, twice, ds)
		}
		if !sameTokens(normalise(src), out) {
			t.Fatalf("%q became %q", src, out)
		}
		var a, b diag.List
		words := 0
		x, _ := parse("p.hcl", normalise(src), &words, &a)
		y, _ := parse("p.hcl", out, &words, &b)
		if len(x.Attributes) != len(y.Attributes) || len(x.Blocks) != len(y.Blocks) {
			t.Fatalf("%q is read otherwise than %q", src, out)
		}
	})
}
