package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"foundry/exec/record"
)

// otherEachRun are fields that are others in two runs of one plan. They are no
// difference between two agents.
var otherEachRun = regexp.MustCompile(`^(run\.json|attempt\.json) (/id|/started|/ended|/attempts/\d+/(started|ended)|/nodes/\d+/attempts/\d+/(started|ended)|/usage/wall_millis|.*/usage/wall_millis|/sandbox/measured/.*|/sandbox/mounts/\d+/destination)$`)

// switched are the fields of a record that another agent changes, in run.json and
// in attempt.json, and why. An index stands as *.
var switched = []string{
	// Who works, as the plan says it: another harness is another plan.
	"run.json /plan/digest",
	"run.json /test_stub",
	"run.json /nodes/*/harness/adapter",
	"run.json /nodes/*/harness/name",
	"run.json /nodes/*/harness/test_stub",
	"run.json /nodes/*/harness/thinking",
	"run.json /nodes/*/harness/version",
	"attempt.json /harness/adapter",
	"attempt.json /harness/name",
	"attempt.json /harness/test_stub",
	"attempt.json /harness/thinking",
	"attempt.json /harness/version",
	// Who worked, in its own words, and its program on this machine.
	"attempt.json /worker/name",
	"attempt.json /worker/version",
	"attempt.json /sandbox/agent/digest",
	"attempt.json /sandbox/agent/name",
	"attempt.json /sandbox/agent/path",
	"attempt.json /sandbox/agent/version",
	"attempt.json /stdout/bytes",
	// A stub activates nothing.
	"attempt.json /activation/request/number",
	"attempt.json /activation/request/sha256",
	"attempt.json /activation/requested",
	"attempt.json /activation/state",
	"attempt.json /activation/stream",
	"attempt.json /activation/text_sha256",
	// What was spent, and what the broker saw of it: a stub asks nobody.
	"run.json /usage/cost_micro_usd",
	"run.json /usage/input_tokens",
	"run.json /usage/output_tokens",
	"run.json /usage/tokens",
	"run.json /usage/tool_calls",
	"run.json /usage/turns",
	"run.json /nodes/*/usage/cost_micro_usd",
	"run.json /nodes/*/usage/input_tokens",
	"run.json /nodes/*/usage/output_tokens",
	"run.json /nodes/*/usage/tokens",
	"run.json /nodes/*/usage/tool_calls",
	"run.json /nodes/*/usage/turns",
	"attempt.json /usage/cost_micro_usd",
	"attempt.json /usage/input_tokens",
	"attempt.json /usage/output_tokens",
	"attempt.json /usage/tokens",
	"attempt.json /usage/tool_calls",
	"attempt.json /usage/turns",
	"attempt.json /broker/clamped",
	"attempt.json /broker/cost_micro_usd",
	"attempt.json /broker/forwarded",
	"attempt.json /broker/input_tokens",
	"attempt.json /broker/output_tokens",
	"attempt.json /broker/requests",
	"attempt.json /broker/worker_usage/cache_read_tokens",
	"attempt.json /broker/worker_usage/cache_write_tokens",
	"attempt.json /broker/worker_usage/cost_micro_usd",
	"attempt.json /broker/worker_usage/input_tokens",
	"attempt.json /broker/worker_usage/output_tokens",
	"attempt.json /broker/worker_usage/tokens",
	"attempt.json /broker/worker_usage/tool_calls",
	"attempt.json /broker/worker_usage/turns",
}

// TestSwitchedAgentChangesListedFields runs one policy with Pi and with the
// scripted adapter, which leave the same artifacts: nothing else of the record
// depends on who worked.
func TestSwitchedAgentChangesListedFields(t *testing.T) {
	p := newPilot(t, "1.6.0", false)
	stub := filepath.Join(t.TempDir(), "stub.json")
	played, err := os.ReadFile(filepath.Join(repository(t), "examples", "pi", "script.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, stub, stubOf(t, played))
	policy := piExample(t, "sandbox {\n", "harness \"replay\" {\n  adapter   = \"scripted\"\n  version   = \"1\"\n  test_stub = true\n  provider  = \"scripted\"\n  model     = \"claude-sonnet-5\"\n  script    = \""+stub+"\"\n}\n\nsandbox {\n")
	records := func(more ...string) map[string]string {
		dir := filepath.Join(t.TempDir(), "run")
		p.must(append(more, "--run-dir", dir, policy)...)
		out := map[string]string{}
		flatten(t, out, "run.json ", filepath.Join(dir, record.RunFile))
		for _, node := range []string{"list-decisions", "write-brief"} {
			flatten(t, out, "attempt.json ", filepath.Join(dir, filepath.FromSlash(record.AttemptFolder(node, 1, 1)), record.AttemptFile))
		}
		return out
	}
	pi := records(p.args()...)
	scripted := records("apply", "--yes", "--harness", "worker=replay")
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(merged(pi, scripted))) {
		if pi[name] != scripted[name] && !otherEachRun.MatchString(name) {
			found[regexp.MustCompile(`/\d+`).ReplaceAllString(name, "/*")] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(switched, name) {
			t.Errorf("%s differs, and is not listed", name)
		}
	}
	for _, name := range switched {
		if !found[name] {
			t.Errorf("%s is listed, and does not differ", name)
		}
	}
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// flatten gives each value of a JSON file by its pointer.
func flatten(t *testing.T, out map[string]string, prefix, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, item := range v {
				walk(at+"/"+k, item)
			}
		case []any:
			for i, item := range v {
				walk(fmt.Sprintf("%s/%d", at, i), item)
			}
		default:
			out[at] += fmt.Sprintf("%v\n", v)
		}
	}
	walk(prefix, doc)
}

// stubOf is a script of the scripted adapter that writes what a provider's
// script has written by the agent's tool.
func stubOf(t *testing.T, played []byte) []byte {
	t.Helper()
	var from struct {
		Nodes map[string][]struct {
			Tools []struct {
				Name  string            `json:"name"`
				Input map[string]string `json:"input"`
			} `json:"tools"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(played, &from); err != nil {
		t.Fatal(err)
	}
	nodes := map[string][]any{}
	for node, replies := range from.Nodes {
		for _, r := range replies {
			for _, c := range r.Tools {
				if c.Name == "write" {
					nodes[node] = append(nodes[node], map[string]any{"write": map[string]string{
						"path": strings.TrimPrefix(c.Input["path"], "{out}/"), "content": c.Input["content"]}})
				}
			}
		}
	}
	data, err := json.Marshal(map[string]any{"version": 1, "nodes": nodes})
	if err != nil || len(nodes) == 0 {
		t.Fatalf("%v in %s", err, played)
	}
	return data
}
