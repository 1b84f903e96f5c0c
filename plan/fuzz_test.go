package plan

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzDecode: no bytes make Decode or Validate panic, and what Decode accepts
// is exactly what Encode writes.
func FuzzDecode(f *testing.F) {
	for _, build := range samples() {
		data, err := Encode(build())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{\n  \"format_version\": 1\n}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			if p != nil {
				t.Error("an error came with a plan")
			}
			// A change of bytes seldom leaves them canonical. What they mean can be
			// written canonically, and then it must be accepted.
			loose := new(Plan)
			if json.Unmarshal(data, loose) != nil || len(data) > 1<<16 {
				return
			}
			loose.FormatVersion = FormatVersion
			if data, err = Encode(loose); err != nil {
				t.Fatal(err)
			}
			if p, err = Decode(data); err != nil {
				t.Fatalf("what was written is refused: %v", err)
			}
		}
		again, err := Encode(p)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("what was accepted is written differently (%v)", err)
		}
		if problems := Validate(p); len(problems) > MaxProblems+1 {
			t.Errorf("%d problems", len(problems))
		}
	})
}

// FuzzArgv: the lints never panic, and a program that starts another one is no
// way around them.
func FuzzArgv(f *testing.F) {
	f.Add("env", "-i", "sh")
	f.Add("uv", "--offline", "run")
	f.Add("", "=", "\xff/..")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		argv := []string{a, b, c}
		if direct := ShellReason(argv); direct != "" && ShellReason(append([]string{"nice"}, argv...)) == "" && ShellReason(argv[:1]) != "" && !isStringRunner(a) {
			t.Errorf("%q is a shell (%s), but not behind nice", argv, direct)
		}
		FetchReason(argv)
	})
}

func isStringRunner(s string) bool {
	for _, r := range stringRunners {
		if program(s) == r {
			return true
		}
	}
	return false
}
