package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/exec/record"
)

// piExample is a copy of examples/pi. Each change is a pair of texts: the first
// must stand in the policy, and gives way to the second.
func piExample(t *testing.T, changes ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pi")
	copyTree(t, filepath.Join(repository(t), "examples", "pi"), dir)
	name := filepath.Join(dir, "pi.hcl")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%q does not stand in the policy", changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	write(t, name, []byte(text))
	return name
}

// piScript is a file with what the provider answers to the first phase, or to
// each where a default is given.
func piScript(t *testing.T, replies string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script.json")
	write(t, name, []byte(`{"version": 1, "default": `+replies+`}`))
	return name
}

// lives changes the example to a provider at an address of this machine.
func lives(address string) []string {
	return []string{
		"script = var.script # in place of base_url and credential", `base_url = "` + address + `"` + "\n  credential = \"PILOT_KEY\"",
		`network = "provider" # the broker, and nothing else`, `network = "provider"` + "\n  credentials = [\"PILOT_KEY\"]",
	}
}

// messages is a provider in this process: it gets the request as it went on.
func messages(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, maxTokens int64, body []byte)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var raw json.RawMessage
		var asked struct {
			MaxTokens int64 `json:"max_tokens"`
		}
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(raw, &asked); err != nil {
			t.Error(err)
		}
		if key := r.Header.Get("X-Api-Key"); key != canary {
			t.Errorf("the provider got the key %q", key)
		}
		answer(w, r, asked.MaxTokens, raw)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// event is one of a stream of the Messages API.
func event(w http.ResponseWriter, kind, fields string) error {
	_, err := fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, fields)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	return err
}

// begin starts an answer of one text.
func begin(w http.ResponseWriter, input int64) error {
	w.Header().Set("Content-Type", "text/event-stream")
	if err := event(w, "message_start", fmt.Sprintf(`,"message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-5","content":[],"stop_reason":null,"usage":{"input_tokens":%d,"output_tokens":1}}`, input)); err != nil {
		return err
	}
	return event(w, "content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
}

func delta(w http.ResponseWriter, text string) error {
	return event(w, "content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, text))
}

// end finishes it.
func end(w http.ResponseWriter, stop string, output int64) error {
	if err := event(w, "content_block_stop", `,"index":0`); err != nil {
		return err
	}
	if err := event(w, "message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q},"usage":{"output_tokens":%d}`, stop, output)); err != nil {
		return err
	}
	return event(w, "message_stop", "")
}

// TestPiExample runs the example as it stands, with nothing but Pi: locally, and
// in a container where this machine runs them.
func TestPiExample(t *testing.T) {
	for _, version := range pilotVersions {
		for _, container := range []bool{false, true} {
			t.Run(version+"/"+map[bool]string{false: "local", true: "container"}[container], func(t *testing.T) {
				p := newPilot(t, version, container)
				dir := filepath.Join(t.TempDir(), "run")
				out := p.must(p.args("--run-dir", dir, filepath.Join(repository(t), "examples", "pi"))...)
				if !strings.Contains(out, "A scripted provider played answers") {
					t.Errorf("it does not say that no model worked:\n%s", out)
				}
				provenTwice(t, dir, readAttempt(t, dir, "list-decisions", 1, 1), "decisions")
				provenTwice(t, dir, readAttempt(t, dir, "write-brief", 1, 1), "brief")
				if r, err := record.ReadRun(dir); err != nil || r.Isolated != container || !r.PlaysScript {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
	}
}

// TestProviderScriptPage runs the example of docs/provider-script.md as it
// stands there.
func TestProviderScriptPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository(t), "docs", "provider-script.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	script, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	name := filepath.Join(t.TempDir(), "script.json")
	write(t, name, []byte(script))
	p := newPilot(t, "1.6.0", false)
	dir := filepath.Join(t.TempDir(), "run")
	p.must(p.args("--var", "script="+name, "--run-dir", dir, filepath.Join(repository(t), "examples", "pi"))...)
	first := readAttempt(t, dir, "list-decisions", 1, 1)
	provenTwice(t, dir, first, "decisions")
	provenTwice(t, dir, readAttempt(t, dir, "write-brief", 1, 1), "brief")
	// What the page says of its example.
	if b := first.Broker; b.Forwarded != 4 || b.OutputTokens != 600 || b.CacheRead != 2000 || b.Provider != "" {
		t.Errorf("%+v", b)
	}
}
