package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// player stands for a provider: it is the upstream of one endpoint.
type player struct {
	replies []Reply
	expand  func(string) (string, error)

	mu   sync.Mutex
	next int
}

func (s *Script) player(o EndpointOptions) *player {
	return &player{replies: s.replies(o.Node, o.Iteration), expand: o.Expand}
}

// RoundTrip answers a request as the Messages API does.
func (p *player) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	number := p.next
	p.next++
	p.mu.Unlock()
	if number >= len(p.replies) {
		return reply(400, `{"type":"error","error":{"type":"invalid_request_error","message":"the script of the provider has no reply for this request"}}`, nil), nil
	}
	r := p.replies[number]
	if r, err = p.expanded(r); err != nil {
		return nil, err
	}
	switch {
	case r.Drop == "before":
		return nil, errors.New("the scripted provider drops the connection")
	case r.Status != 0:
		text := r.Body
		if r.Credential {
			text += " (the key was " + req.Header.Get("X-Api-Key") + ")"
		}
		if !json.Valid([]byte(text)) {
			quoted, _ := json.Marshal(text)
			text = `{"type":"error","error":{"type":"api_error","message":` + string(quoted) + `}}`
		}
		return reply(r.Status, text, r.Headers), nil
	}
	var asked struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	m := newMessage(r, asked.Model, number, len(body))
	if !asked.Stream {
		return reply(200, m.whole(), nil), nil
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(m.stream(req.Context(), pw)) }()
	resp := reply(200, "", nil)
	resp.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
	resp.Body = pr
	return resp, nil
}

// expanded puts the worker's paths in.
func (p *player) expanded(r Reply) (Reply, error) {
	if p.expand == nil {
		return r, nil
	}
	var err error
	if r.Text, err = p.expand(r.Text); err != nil {
		return r, err
	}
	tools := make([]Call, len(r.Tools))
	for i, c := range r.Tools {
		input, err := p.expand(string(c.Input))
		if err != nil {
			return r, err
		}
		tools[i] = Call{c.Name, json.RawMessage(input)}
	}
	r.Tools = tools
	return r, nil
}

func reply(status int, body string, headers map[string]string) *http.Response {
	resp := &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
	for name, value := range headers {
		resp.Header.Set(name, value)
	}
	return resp
}

// message is one answer of the model.
type message struct {
	r      Reply
	id     string
	model  string
	number int
	counts Counts
	stop   string
}

func newMessage(r Reply, model string, number, input int) *message {
	r.Text = strings.Repeat(r.Text, max(1, r.Times))
	m := &message{r: r, model: model, number: number, id: fmt.Sprintf("msg_%04d", number+1), stop: r.StopReason}
	if m.stop == "" {
		m.stop = "end_turn"
		if len(r.Tools) > 0 {
			m.stop = "tool_use"
		}
	}
	if r.Usage != nil {
		m.counts = *r.Usage
		return m
	}
	size := len(r.Text) + len(r.Thinking)
	for _, c := range r.Tools {
		size += len(c.Input)
	}
	m.counts = Counts{Input: int64(input/4 + 1), Output: int64(size/4 + 1)}
	return m
}

func (m *message) usage(output int64) map[string]any {
	return map[string]any{"input_tokens": m.counts.Input, "output_tokens": output,
		"cache_read_input_tokens": m.counts.CacheRead, "cache_creation_input_tokens": m.counts.CacheWrite}
}

func (m *message) head(content []any, stop any, output int64) map[string]any {
	return map[string]any{"id": m.id, "type": "message", "role": "assistant", "model": m.model,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "usage": m.usage(output)}
}

func (m *message) toolID(i int) string { return fmt.Sprintf("toolu_%04d_%d", m.number+1, i+1) }

// whole is the answer that is not streamed.
func (m *message) whole() string {
	content := []any{}
	if m.r.Thinking != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": m.r.Thinking, "signature": "script"})
	}
	if m.r.Text != "" {
		content = append(content, map[string]any{"type": "text", "text": m.r.Text})
	}
	for i, c := range m.r.Tools {
		content = append(content, map[string]any{"type": "tool_use", "id": m.toolID(i), "name": c.Name, "input": c.Input})
	}
	head := m.head(content, m.stop, m.counts.Output)
	if m.r.NoUsage {
		delete(head, "usage")
	}
	encoded, _ := json.Marshal(head) // maps of plain values
	return string(encoded)
}

// stream writes the events: the usage of the output comes at the end alone, as
// the real provider tells it.
func (m *message) stream(ctx context.Context, w io.Writer) error {
	s := &sse{ctx: ctx, w: w, delay: time.Duration(m.r.DelayMS) * time.Millisecond}
	s.event("message_start", map[string]any{"message": m.head([]any{}, nil, 1)})
	s.event("ping", map[string]any{})
	index := 0
	block := func(start, delta map[string]any, key, text string) {
		s.event("content_block_start", map[string]any{"index": index, "content_block": start})
		for _, part := range chunks(text, m.r.Chunk) {
			d := map[string]any{key: part}
			for k, v := range delta {
				d[k] = v
			}
			s.pause()
			s.event("content_block_delta", map[string]any{"index": index, "delta": d})
		}
		s.event("content_block_stop", map[string]any{"index": index})
		index++
	}
	if m.r.Thinking != "" {
		block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, map[string]any{"type": "thinking_delta"}, "thinking", m.r.Thinking)
	}
	if m.r.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta"}, "text", m.r.Text)
	}
	for i, c := range m.r.Tools {
		block(map[string]any{"type": "tool_use", "id": m.toolID(i), "name": c.Name, "input": map[string]any{}},
			map[string]any{"type": "input_json_delta"}, "partial_json", string(c.Input))
	}
	switch {
	case m.r.Malformed:
		s.raw("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":\n\n")
	case m.r.Drop == "middle":
		return errors.Join(s.err, io.ErrUnexpectedEOF)
	case m.r.Hang:
		<-ctx.Done()
		return ctx.Err()
	}
	end := map[string]any{"delta": map[string]any{"stop_reason": m.stop, "stop_sequence": nil}}
	if !m.r.NoUsage {
		end["usage"] = m.usage(m.counts.Output)
	}
	s.event("message_delta", end)
	s.event("message_stop", map[string]any{})
	return s.err
}

func chunks(text string, size int) []string {
	if size == 0 {
		size = 64
	}
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// sse writes server-sent events until one cannot be written.
type sse struct {
	ctx   context.Context
	w     io.Writer
	delay time.Duration
	err   error
}

func (s *sse) pause() {
	if s.delay == 0 || s.err != nil {
		return
	}
	select {
	case <-time.After(s.delay):
	case <-s.ctx.Done():
		s.err = s.ctx.Err()
	}
}

func (s *sse) event(kind string, fields map[string]any) {
	fields["type"] = kind
	data, err := json.Marshal(fields)
	if err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	s.raw("event: " + kind + "\ndata: " + string(data) + "\n\n")
}

func (s *sse) raw(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text)
	}
}
