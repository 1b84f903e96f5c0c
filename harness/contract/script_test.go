package contract

import (
	"reflect"
	"strings"
	"testing"
)

const everyStep = `{"version":1,"steps":[
 {"write":{"path":"a/b.txt","content":"{out} {x \"{in:a}\" {\"k\":{}}","times":3}},
 {"copy":{"from":"{in:a}/x","to":"y"}},
 {"copy":{"from":"/etc/hostname","to":"/elsewhere"}},
 {"mkdir":{"path":"d"}},
 {"symlink":{"target":"../../x","path":"l"}},
 {"sleep_ms":0},
 {"emit":{"type":"usage","usage":{"message":"m","input":1,"output":2,"cache_read":0,"cache_write":0,"cost_micro_usd":9}}},
 {"stdout":{"text":"","times":2}},
 {"stderr":{"text":"e"}},
 {"finish":{"status":"aborted","message":"m"}},
 {"exit":{"code":255}},
 {"probe":{"to":"p.json","exists":["/x"],"writable":["/"],"programs":["sh"],"connect":["h:1"],"lookup":"h"}}]}`

func TestScriptRoundTrip(t *testing.T) {
	s, err := DecodeScript([]byte(everyStep))
	if err != nil {
		t.Fatal(err)
	}
	data, err := EncodeScript(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeScript(data)
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("%v\n%s", err, data)
	}
	// Tokens in the content of an artifact are hidden from the runtime; the one
	// in a path is not.
	for want, n := range map[string]int{"{out}": 0, `\u007bout} \u007bx`: 1, `\u007bin:a}`: 1, `{in:a}/x`: 1, `{\"k\":{}`: 1} {
		if strings.Count(string(data), want) != n {
			t.Errorf("%q is not %d times in\n%s", want, n, data)
		}
	}
}

func TestScriptRefused(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{``, "not JSON"},
		{`{}`, `lacks the key "version"`},
		{`{"version":2}`, "version is 2"},
		{`{"version":1,"Steps":[]}`, "unknown key"},
		{`{"version":1,"steps":[],"steps":[]}`, "twice"},
		{`{"version":1,"steps":[{}]}`, "exactly one key, this one has 0"},
		{`{"version":1,"steps":[{"sleep_ms":1,"exit":{"code":1}}]}`, "this one has 2"},
		{`{"version":1,"steps":[{"run":"sh"}]}`, `/steps/0 has the unknown key "run"`},
		{`{"version":1,"steps":[{"sleep_ms":-1}]}`, "steps/0: sleep_ms is -1"},
		{`{"version":1,"steps":[{"sleep_ms":86400001}]}`, "sleep_ms"},
		{`{"version":1,"steps":[{"exit":{"code":256}}]}`, "code is 256"},
		{`{"version":1,"steps":[{"exit":{}}]}`, `lacks the key "code"`},
		{`{"version":1,"steps":[{"write":{"path":"x"}}]}`, `lacks the key "content"`},
		{`{"version":1,"steps":[{"write":{"path":"","content":""}}]}`, "empty"},
		{`{"version":1,"steps":[{"write":{"path":"a/../../b","content":""}}]}`, "below the output folder"},
		{`{"version":1,"steps":[{"write":{"path":"./","content":""}}]}`, "below the output folder"},
		{`{"version":1,"steps":[{"write":{"path":"a","content":"","times":-1}}]}`, "times"},
		{`{"version":1,"steps":[{"write":{"path":"a\u0000","content":""}}]}`, "NUL"},
		{`{"version":1,"steps":[{"copy":{"from":"x","to":"y"}}]}`, "starts with a token"},
		{`{"version":1,"steps":[{"emit":{"type":"finished"}}]}`, "emit cannot write finished"},
		{`{"version":1,"steps":[{"emit":{"type":"turn"}}]}`, "counts from 1"},
		{`{"version":1,"steps":[{"emit":{"type":"x"}}]}`, "unknown type"},
		{`{"version":1,"steps":[{"finish":{"status":"won"}}]}`, "status"},
		{`{"version":1,"steps":[{"sleep_ms":1}],"iterations":[[]]}`, "both"},
		{`{"version":1,"iterations":[[],[{"mkdir":{"path":"../x"}}]]}`, "iterations/1/0"},
		{`{"version":1} x`, "follows"},
		{`{"version":1}{}`, "follows"},
	} {
		if _, err := DecodeScript([]byte(c.script)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.script, err, c.want)
		}
	}
}

func TestScriptFor(t *testing.T) {
	step := func(p string) []Step { return []Step{{Mkdir: &Mkdir{Path: p}}} }
	s := Script{Version: 1, Iterations: [][]Step{step("1"), step("2")}}
	for iteration, want := range map[int64]string{-1: "1", 0: "1", 1: "1", 2: "2", 3: "2", 10_000: "2"} {
		if got := s.For(iteration)[0].Mkdir.Path; got != want {
			t.Errorf("iteration %d: %s", iteration, got)
		}
	}
	if got := (Script{Steps: step("x")}).For(7); got[0].Mkdir.Path != "x" {
		t.Error(got)
	}
}

func FuzzDecodeScript(f *testing.F) {
	f.Add([]byte(everyStep))
	f.Add([]byte(`{"version":1,"iterations":[[],[{"sleep_ms":1}]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeScript(data)
		if err != nil {
			return
		}
		once, err := EncodeScript(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeScript(once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		twice, err := EncodeScript(again)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
	})
}
