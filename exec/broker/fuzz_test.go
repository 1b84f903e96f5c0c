package broker

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A request of any bytes is refused in the form of the API, or goes on with no
// more than its bound, and as nothing else than it was taken for.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{body(1000, true, ""), body(9, false, `,"thinking":{"type":"enabled","budget_tokens":8000}`),
		`{"model":"m","max_tokens":1,"tools":[{"type":"web_search_20250305"}]}`, `{"model":"m","max_tokens":1,"Max_Tokens":5,"max_tokens":7}`,
		`{"model":"m","max_tokens":1e3}`, `{"model":"m","max_tokens":1,"service_tier":"priority"}`, `[]`, `{`, `null`} {
		f.Add([]byte(s), int64(100))
	}
	f.Fuzz(func(t *testing.T, data []byte, bound int64) {
		r, no := parseRequest(data)
		if no != nil {
			if no.status != 400 || no.kind == "" || !strings.HasPrefix(no.text, "foundry: ") {
				t.Errorf("%+v", no)
			}
			return
		}
		model, stream := r.model, r.stream
		held := r.holds("ACTIVATED")
		bound = 1 + max(0, bound)%max(1, r.maxTokens)
		sent, err := r.clamp(bound)
		if err != nil {
			t.Fatal(err)
		}
		again, no := parseRequest(sent)
		if no != nil || again.maxTokens != bound || again.model != model || again.stream != stream || again.holds("ACTIVATED") != held {
			t.Fatalf("%s became %s: %+v", data, sent, no)
		}
		var thinking struct {
			Budget json.Number `json:"budget_tokens"`
		}
		if raw, ok := again.fields["thinking"]; ok && json.Unmarshal(raw, &thinking) == nil {
			if n, err := thinking.Budget.Int64(); err == nil && n >= bound {
				t.Errorf("it may think %d of %d tokens", n, bound)
			}
		}
	})
}

// Any answer, in whatever pieces it comes, goes on as it is up to where it is
// cut; what is settled is never below 0, and never more than can be counted.
func FuzzAnswer(f *testing.F) {
	stream := func(text string) []byte {
		var b bytes.Buffer
		m := newMessage(Reply{Text: text, Thinking: "hm", Tools: []Call{{"write", json.RawMessage(`{"a":1}`)}}}, "m", 0, 100)
		if err := m.stream(f.Context(), &b); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	f.Add(stream("hello"), int64(10), uint8(7), true)
	f.Add(stream(strings.Repeat("hello ", 500)), int64(10), uint8(200), true)
	f.Add([]byte(whole(`{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807}`)), int64(5), uint8(9), false)
	f.Add([]byte("data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":9223372036854775807,\"output_tokens\":5}}\n\n"), int64(5), uint8(9), true)
	f.Add([]byte("data: {\r\n\r\ndata\n:\n"), int64(1), uint8(1), true)
	f.Fuzz(func(t *testing.T, data []byte, limit int64, size uint8, streamed bool) {
		limit = 1 + max(0, limit)%(1<<40)
		a := &answer{limit: limit}
		var out bytes.Buffer
		err := copyAnswer(&out, func() {}, &pieces{data, int(size) + 1}, streamed, a)
		if !bytes.HasPrefix(data, out.Bytes()) || err == nil && out.Len() != len(data) {
			t.Fatalf("%q became %q", data, out.Bytes())
		}
		if err != nil && (err != errCut || !a.over) {
			t.Error(err)
		}
		if u := a.settlement(); u != nil {
			if min(u.Input, u.Output, u.CacheRead, u.CacheWrite) < 0 || u.tokens() < 0 {
				t.Errorf("%+v", u)
			}
			p, err := priceOf(provider(false, "").Models[0])
			if err != nil {
				t.Fatal(err)
			}
			if p.cost(*u) < 0 {
				t.Errorf("%+v costs %d", u, p.cost(*u))
			}
		}
	})
}

// pieces reads so many bytes at a time.
type pieces struct {
	left []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.left)
	p.left = p.left[n:]
	return n, nil
}

// A script of any bytes is refused, or its replies are answers.
func FuzzScript(f *testing.F) {
	for _, s := range []string{`{"version":1,"default":[{"text":"x","times":3,"chunk":2,"repeat":2},{"status":401,"echo_credential":true},{"drop":"middle"}]}`,
		`{"version":1,"nodes":{"a":[{"tools":[{"name":"write","input":{"path":"x"}}],"malformed":true}]},"iterations":{"b":[[{"no_usage":true}],[]]}}`,
		`{"version":1,"default":[{"text":"xx","times":9223372036854775807,"repeat":9223372036854775807}]}`, `{"version":2}`, `{}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeScript(data)
		if err != nil {
			return
		}
		p := s.player(EndpointOptions{Node: "a", Iteration: 1})
		for i, r := range p.replies {
			if i >= 4 || r.Hang || r.DelayMS > 0 || r.Times*len(r.Text) > 1<<16 {
				return // it takes its time
			}
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://script.invalid", strings.NewReader(body(10, i%2 == 0, "")))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := p.RoundTrip(req)
			if err != nil {
				if r.Drop != "before" {
					t.Fatalf("reply %d: %v", i, err)
				}
				continue
			}
			a := &answer{limit: 1 << 40}
			err = copyAnswer(io.Discard, func() {}, resp.Body, streamed(resp.Header), a)
			if err != nil && r.Drop != "middle" {
				t.Errorf("reply %d: %v", i, err)
			}
			if streamed(resp.Header) && a.broken != r.Malformed {
				t.Errorf("reply %d: broken %v", i, a.broken)
			}
		}
	})
}

// A journal of any bytes is refused, or read to the same account each time; what
// a killed broker was writing changes nothing of it.
func FuzzJournal(f *testing.F) {
	const two = `{"attempt":"a","request":1,"tokens":10,"cost_micro_usd":5}` + "\n" +
		`{"attempt":"a","request":1,"settled":true,"cost_micro_usd":3,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}}` + "\n"
	f.Add([]byte(two), []byte(`{"attempt":"a","req`))
	f.Add([]byte(`{"attempt":"a","request":1,"tokens":9223372036854775807}`+"\n"+`{"attempt":"a","request":2,"tokens":9223372036854775807}`+"\n"), []byte{})
	f.Add([]byte(`{"attempt":"a","request":1,"tokens":-5}`+"\n"), []byte{})
	f.Add([]byte("{}\n\n"), []byte("\n"))
	f.Fuzz(func(t *testing.T, data, torn []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		torn = bytes.ReplaceAll(torn, []byte("\n"), nil)
		if i := bytes.LastIndexByte(data, '\n'); i < len(data)-1 {
			data = data[:i+1]
		}
		spends := func(content []byte) (map[string]Spend, bool) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			j, attempts, err := openJournal(path)
			if err != nil {
				return nil, false
			}
			defer j.f.Close()
			out := map[string]Spend{}
			for name, l := range attempts {
				out[name] = l.total()
				if s := l.total(); s.Tokens() < 0 || s.Cost() < 0 {
					t.Errorf("%s spent %+v", name, s)
				}
			}
			return out, true
		}
		whole, ok := spends(data)
		again, okAgain := spends(append(bytes.Clone(data), torn...))
		if ok != okAgain || len(whole) != len(again) {
			t.Fatalf("%v and %v", whole, again)
		}
		for name, s := range whole {
			if again[name] != s {
				t.Errorf("%s spent %+v or %+v", name, s, again[name])
			}
		}
		if left, err := os.ReadFile(path); ok && (err != nil || !bytes.Equal(left, data)) {
			t.Errorf("%q is left, %v", left, err)
		}
	})
}
