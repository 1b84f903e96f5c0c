package scripted_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/harness"
	"foundry/harness/scripted"
	"foundry/plan"
)

var update = flag.Bool("update", false, "write the golden files")

const book = `{
  "version": 1,
  "nodes": {
    "summarize": [
      {"copy": {"from": "{recorded}/run/b.json", "to": "summary.json"}},
      {"copy": {"from": "{recorded}/a.md", "to": "notes.md"}},
      {"copy": {"from": "{recorded}/a.md", "to": "again.md"}},
      {"copy": {"from": "{in:source}/x", "to": "x"}},
      {"write": {"path": "t.txt", "content": "<{in:nobody}>"}}
    ],
    "other": [{"write": {"path": "x", "content": "text of another node"}}]
  },
  "iterations": {"advance": [[{"copy": {"from": "{recorded}/1", "to": "d"}}], [{"copy": {"from": "{recorded}/0", "to": "d"}}]]}
}`

func request(node, script string) harness.Request {
	return harness.Request{
		Node: node, Harness: stub, Skill: "summarize", NestedSkills: []string{"helper"}, Script: []byte(script),
		Inputs: []plan.NodeInput{{Artifact: "source", From: "input:source", Required: true, Kind: plan.KindDirectory}},
	}
}

func TestLowerGolden(t *testing.T) {
	low, err := scripted.Adapter{}.Lower(request("summarize", book))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(low, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "lowered.json")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != string(want) {
		t.Errorf("it differs; -update writes it\n%s", data)
	}
	if strings.Contains(string(data), "another node") {
		t.Error("steps of another node leaked")
	}
	if !slices.IsSorted(low.Process.Env) {
		t.Errorf("env is not sorted: %v", low.Process.Env)
	}
}

func TestRecordedOfIterations(t *testing.T) {
	low, err := scripted.Adapter{}.Lower(request("advance", book))
	if err != nil || strings.Join(low.Recorded, " ") != "0 1" {
		t.Errorf("%v, %v", low.Recorded, err)
	}
}

func TestLowerRefuses(t *testing.T) {
	with := func(change func(*harness.Request)) harness.Request {
		r := request("summarize", book)
		change(&r)
		return r
	}
	steps := func(s string) harness.Request { return request("n", `{"version":1,"nodes":{"n":[`+s+`]}}`) }
	for want, req := range map[string]harness.Request{
		`no version "2"`:                    with(func(r *harness.Request) { r.Harness.Version = "2" }),
		"test_stub = true":                  with(func(r *harness.Request) { r.Harness.TestStub = false }),
		"has no script":                     with(func(r *harness.Request) { r.Script = nil }),
		"did you mean summarize?":           with(func(r *harness.Request) { r.Node = "summarise" }),
		"no steps for the node far-away":    with(func(r *harness.Request) { r.Node = "far-away" }),
		"script refused":                    with(func(r *harness.Request) { r.Script = []byte("{") }),
		"uses {in:brief}":                   steps(`{"copy":{"from":"{in:brief}/x","to":"x"}}`),
		"uses {broker.token}":               steps(`{"stdout":{"text":"{broker.token}"}}`),
		"uses {skill:nobody}":               steps(`{"copy":{"from":"{skill:nobody}/x","to":"x"}}`),
		`"{recorded}/../x", which is no`:    steps(`{"copy":{"from":"{recorded}/../x","to":"x"}}`),
		`"{recorded}", which is no`:         steps(`{"copy":{"from":"{recorded}","to":"x"}}`),
		`"{recorded}x", which is no`:        steps(`{"copy":{"from":"{recorded}x","to":"x"}}`),
		`"{recorded}//etc/x", which is no`:  steps(`{"copy":{"from":"{recorded}//etc/x","to":"x"}}`),
		`"{recorded}/a/../..", which is no`: steps(`{"copy":{"from":"{recorded}/a/../..","to":"x"}}`),
	} {
		if _, err := (scripted.Adapter{}).Lower(req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	low, err := scripted.Adapter{}.Lower(steps(`{"copy":{"from":"{skill:helper}/x","to":"x"}},{"copy":{"from":"{skill}/x","to":"y"}}`))
	if err != nil || len(low.Recorded) != 0 {
		t.Errorf("%v, %v", low, err)
	}
}

// The script that was read before has no influence on the next one.
func TestLowerReadsEachScriptAfresh(t *testing.T) {
	one := request("n", `{"version":1,"nodes":{"n":[{"mkdir":{"path":"one"}}]}}`)
	two := request("n", `{"version":1,"nodes":{"n":[{"mkdir":{"path":"two"}}]}}`)
	for i, req := range []harness.Request{one, two, one, one, request("n", "{"), two} {
		low, err := scripted.Adapter{}.Lower(req)
		if broken := i == 4; (err != nil) != broken {
			t.Fatalf("%d: %v", i, err)
		} else if broken {
			continue
		}
		want := []string{"one", "two", "one", "one", "", "two"}[i]
		if !strings.Contains(low.Files[0].Content, want) {
			t.Errorf("%d: %s, want %s", i, low.Files[0].Content, want)
		}
	}
}

// BenchmarkLower lowers every node of a script with one entry for each: the
// time of a node must not grow with the number of nodes.
func BenchmarkLower(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		var s strings.Builder
		s.WriteString(`{"version":1,"nodes":{`)
		for i := range n {
			fmt.Fprintf(&s, `"n%d":[{"copy":{"from":"{recorded}/a","to":"a"}}],`, i)
		}
		s.WriteString(`"last":[]}}`)
		script := []byte(s.String())
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			req := request("", "")
			req.Script = script
			for i := 0; b.Loop(); i++ {
				req.Node = fmt.Sprintf("n%d", i%n)
				if _, err := (scripted.Adapter{}).Lower(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestDefault(t *testing.T) {
	low, err := scripted.Adapter{}.Lower(request("anything", `{"version":1,"default":{"steps":[{"mkdir":{"path":"d"}}]}}`))
	if err != nil || !strings.Contains(low.Files[0].Content, `"mkdir"`) {
		t.Errorf("%v, %v", low.Files, err)
	}
}

func TestNodes(t *testing.T) {
	got, err := scripted.Adapter{}.Nodes([]byte(book))
	if err != nil || strings.Join(got, " ") != "advance other summarize" {
		t.Errorf("%v, %v", got, err)
	}
	for script, want := range map[string]string{
		`{"version":1,"nodes":{"a":[],"a":[]}}`:                     "twice",
		`{"version":1,"nodes":{"a":[]},"iterations":{"a":[[]]}}`:    "both",
		`{"version":1,"iterations":{"a":[]}}`:                       "no list",
		`{"version":1,"Nodes":{}}`:                                  "unknown key",
		`{"version":2}`:                                             "version is 2",
		`{"version":1,"nodes":{"a":[{"sleep_ms":-1}]}}`:             "node a: steps/0",
		`{"version":1,"default":{"steps":[{"mkdir":{"path":""}}]}}`: "default: steps/0",
		strings.Repeat(" ", scripted.MaxScriptBytes+1):              "bytes, more than",
	} {
		if got, err := (scripted.Adapter{}).Nodes([]byte(script)); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%.60s: %v, %v, want %q", script, got, err, want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	caps, err := scripted.Adapter{}.Capabilities("1")
	if err != nil || !caps.TestStub || !caps.BuiltinImage || caps.NeedsProvider || len(caps.APIs)+len(caps.Tools)+len(caps.Thinking) > 0 {
		t.Errorf("%+v, %v", caps, err)
	}
	if _, err := (scripted.Adapter{}).Capabilities(""); err == nil {
		t.Error("no version is accepted")
	}
}

// Whatever the script says, lowering never panics, and what it accepts is
// pure and leads nowhere outside the recorded folder.
func FuzzLower(f *testing.F) {
	f.Add(book)
	f.Add(`{"version":1,"nodes":{"summarize":[{"copy":{"from":"{recorded}/../x","to":"x"}}]}}`)
	f.Fuzz(func(t *testing.T, script string) {
		low, err := scripted.Adapter{}.Lower(request("summarize", script))
		if err != nil {
			return
		}
		again, err := scripted.Adapter{}.Lower(request("summarize", script))
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(low)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			t.Fatalf("%s\n%s", a, b)
		}
		for _, p := range low.Recorded {
			if !filepath.IsLocal(p) {
				t.Fatalf("recorded path %q", p)
			}
		}
	})
}
