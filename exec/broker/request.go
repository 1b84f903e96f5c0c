package broker

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxRequestBytes bounds the body of a request: that of the Messages API.
const maxRequestBytes = 32 << 20

// minThinking is the least budget of thinking that the API takes.
const minThinking = 1024

// request is a request of the Messages API, as far as the broker looks at it.
// Fields keep their bytes; what is written twice stands once, the last one as
// the provider would read it.
type request struct {
	fields    map[string]json.RawMessage
	model     string
	maxTokens int64
	stream    bool
}

// refusal is a request that does not go on.
type refusal struct {
	status int
	kind   string // the API's word for it
	text   string
}

func bad(format string, args ...any) *refusal {
	return &refusal{400, "invalid_request_error", "foundry: " + fmt.Sprintf(format, args...)}
}

// refused are fields that let the provider spend or reach what the broker does
// not meter.
var refused = []string{"mcp_servers", "container"}

// clientTools begin the types of tools that the worker itself carries out.
var clientTools = []string{"bash_", "text_editor_", "computer_", "memory_"}

func parseRequest(body []byte) (*request, *refusal) {
	r := &request{}
	if err := json.Unmarshal(body, &r.fields); err != nil || r.fields == nil {
		return nil, bad("the body is no JSON object")
	}
	if err := json.Unmarshal(r.fields["model"], &r.model); err != nil {
		return nil, bad("the body names no model")
	}
	if err := json.Unmarshal(r.fields["max_tokens"], &r.maxTokens); err != nil || r.maxTokens < 1 {
		return nil, bad("max_tokens is no whole number above 0")
	}
	if raw, ok := r.fields["stream"]; ok {
		if err := json.Unmarshal(raw, &r.stream); err != nil {
			return nil, bad("stream is neither true nor false")
		}
	}
	for _, name := range refused {
		if _, ok := r.fields[name]; ok {
			return nil, bad("%s would reach and spend beyond what is metered", name)
		}
	}
	if raw, ok := r.fields["service_tier"]; ok && string(raw) != `"auto"` && string(raw) != `"standard_only"` {
		return nil, bad("the service tier %s has another price", raw)
	}
	return r, r.checkTools()
}

// checkTools refuses tools that the provider carries out.
func (r *request) checkTools() *refusal {
	raw, ok := r.fields["tools"]
	if !ok {
		return nil
	}
	var tools []struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &tools); err != nil {
		return bad("tools is no list of tools")
	}
	for _, t := range tools {
		client := t.Type == "" || t.Type == "custom"
		for _, prefix := range clientTools {
			client = client || strings.HasPrefix(t.Type, prefix)
		}
		if !client {
			return bad("the tool %q is carried out by the provider, beyond what is metered", t.Type)
		}
	}
	return nil
}

// clamp bounds the answer and returns the body to send.
func (r *request) clamp(maxTokens int64) ([]byte, error) {
	r.fields["max_tokens"] = json.RawMessage(fmt.Sprint(maxTokens))
	if err := r.clampThinking(maxTokens); err != nil {
		return nil, err
	}
	return json.Marshal(r.fields)
}

// clampThinking keeps the budget of thinking below the bound of the answer, as
// the API requires; where there is no room, there is no thinking.
func (r *request) clampThinking(maxTokens int64) error {
	raw, ok := r.fields["thinking"]
	if !ok {
		return nil
	}
	var thinking map[string]json.RawMessage
	if json.Unmarshal(raw, &thinking) != nil {
		return nil // the provider will say what is wrong with it
	}
	var budget int64
	if json.Unmarshal(thinking["budget_tokens"], &budget) != nil || budget < maxTokens {
		return nil
	}
	if maxTokens <= minThinking {
		delete(r.fields, "thinking")
		return nil
	}
	thinking["budget_tokens"] = json.RawMessage(fmt.Sprint(maxTokens - 1))
	encoded, err := json.Marshal(thinking)
	r.fields["thinking"] = encoded
	return err
}

// holds reports whether a text stands in what the user says in a request.
func (r *request) holds(text string) bool {
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if text == "" || json.Unmarshal(r.fields["messages"], &messages) != nil {
		return false
	}
	for _, m := range messages {
		if m.Role != "user" {
			continue
		}
		var whole string
		if json.Unmarshal(m.Content, &whole) == nil {
			if strings.Contains(whole, text) {
				return true
			}
			continue
		}
		var blocks []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			continue
		}
		for _, b := range blocks {
			if b.Type == "text" && strings.Contains(b.Text, text) {
				return true
			}
		}
	}
	return false
}
