package bundle

import (
	"strings"
	"testing"
	"unicode/utf8"

	"foundry/compile/internal/diag"
	"foundry/plan"
)

// sound fails when a problem has no text, or a place outside its file.
func sound(t *testing.T, problems diag.List, sizes map[string]int) {
	t.Helper()
	for _, p := range problems {
		if p.Summary == "" || p.Detail == "" || p.Subject.File == "" || !utf8.ValidString(p.Detail) {
			t.Errorf("incomplete: %+v", p)
		}
		if size, ok := sizes[p.Subject.File]; ok && p.Subject.Start.Line > 0 && (p.Subject.Start.Byte < 0 || p.Subject.Start.Byte > size || p.Subject.Start.Column < 1) {
			t.Errorf("place outside of %d bytes: %+v", size, p)
		}
	}
}

func FuzzAssembly(f *testing.F) {
	f.Add([]byte(goodAssembly))
	f.Add([]byte(`{"phases":[{}],"phaſes":1}`))
	f.Add([]byte("[[[["))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, problems := ReadAssembly(data, "a.json")
		sound(t, problems, map[string]int{"a.json": len(data)})
		if (a == nil) != problems.HasErrors() {
			t.Fatalf("assembly %v with %+v", a != nil, problems)
		}
		if a == nil {
			return
		}
		for i, p := range a.Phases {
			if p.Number != int64(i+1) || p.Branch == plan.ValidID(p.Skill) || p.Branch != (len(p.Chain) > 0) {
				t.Errorf("phase %d: %+v", i, p)
			}
		}
		if again, _ := ReadAssembly(data, "a.json"); len(again.Phases) != len(a.Phases) || again.Digest != a.Digest {
			t.Error("two readings differ")
		}
	})
}

// fuzzSkill reads the demo skill with one file of data.
func fuzzSkill(t *testing.T, file string, data []byte) *Skill {
	t.Helper()
	fsys := demo(nil)
	fsys["demo/"+file].Data = data
	s, problems := ReadSkill(fsys, ".", "demo", "skills")
	sound(t, problems, map[string]int{"skills/demo/" + file: len(data)})
	if (s == nil) != problems.HasErrors() {
		t.Fatalf("skill %v with %+v", s != nil, problems)
	}
	_, again := ReadSkill(fsys, ".", "demo", "skills")
	if len(again) != len(problems) {
		t.Fatalf("%+v, then %+v", problems, again)
	}
	for i := range again {
		if again[i] != problems[i] {
			t.Fatalf("%+v, then %+v", problems[i], again[i])
		}
	}
	return s
}

func FuzzSkillFile(f *testing.F) {
	f.Add([]byte(goodHeader))
	f.Add([]byte("---\nname: demo\ndescription: a: b\n---\n`references/a.md` [x](y)\n"))
	f.Add([]byte("---\nname: demo\ndescription: \"a\nallowed-tools: b\n---\n"))
	f.Add([]byte("---\r\nname: demo\r\ndescription: |\r\n  a\r\n---\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := fuzzSkill(t, skillFile, data)
		if s == nil {
			return
		}
		if strings.TrimSpace(s.Description) == "" || !strings.HasPrefix(string(data), "---") {
			t.Errorf("accepted %q with the description %q", data, s.Description)
		}
	})
}

func FuzzProvenance(f *testing.F) {
	f.Add([]byte(goodProv))
	f.Add([]byte(`{"artifacts":{}}`))
	f.Add([]byte(`{"refs":[{"dst":"references/a.md","dst_hash":""}],"Mold":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := fuzzSkill(t, provenanceFile, data)
		if s == nil {
			return
		}
		for _, p := range s.Produces {
			if !plan.ValidID(p.ID) || !plan.ValidPath(p.Filename) || p.Kind == "" {
				t.Errorf("%+v", p)
			}
			if _, ok := Schemas(s)[p.Schema]; p.Schema != "" && !ok {
				t.Errorf("%+v has a schema that the bundle lacks", p)
			}
		}
	})
}

func FuzzCheck(f *testing.F) {
	for _, check := range []string{"adder --help | grep -q sum", "a 'b c' \"d\"", "a $(b)", "a && b", "((", "a | b <<X", "a 'x\ny'", "\\", "a # b"} {
		f.Add(check)
	}
	f.Fuzz(func(t *testing.T, check string) {
		argv, expect, bad := ParseCheck("adder", check)
		if bad != "" {
			if argv != nil || expect != "" {
				t.Errorf("%q: %q and %q although %s", check, argv, expect, bad)
			}
			return
		}
		if len(argv) == 0 || plan.ShellReason(argv) != "" || plan.FetchReason(argv) != "" {
			t.Errorf("%q: argv %q", check, argv)
		}
		// Each word stands in the text as it is, but for quotes.
		bare := strings.NewReplacer("'", "", `"`, "").Replace(check)
		for _, word := range append(argv, expect) {
			if !strings.Contains(bare, strings.NewReplacer("'", "", `"`, "").Replace(word)) {
				t.Errorf("%q: %q is not in it", check, word)
			}
		}
	})
}
