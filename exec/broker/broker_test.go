package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"foundry/plan"
)

const canary = "sk-ant-CANARY-0123456789abcdef"

// lab is a broker with one provider and one endpoint.
type lab struct {
	t    testing.TB
	dir  string
	b    *Broker
	e    *Endpoint
	http *http.Client
}

func provider(script bool, base string) plan.Provider {
	p := plan.Provider{Name: "lab", API: API, BaseURL: base, Credential: "LAB_KEY", Models: []plan.Model{{
		ID: "m", MaxOutput: 64000, Price: plan.Price{Input: "3", Output: "15", CacheRead: "0.3", CacheWrite: "3.75"}}}}
	if script {
		p.BaseURL, p.Script = "", "script:lab"
	}
	return p
}

func newLab(t testing.TB, script, base string, l Limits) *lab {
	t.Helper()
	x := &lab{t: t, dir: t.TempDir()}
	var err error
	x.b, err = Open(Config{Journal: filepath.Join(x.dir, "journal"), Providers: []plan.Provider{provider(script != "", base)},
		Credential: func(name string) (string, error) { return canary, nil },
		Script:     func(string) ([]byte, error) { return []byte(script), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.b.Close(); err != nil {
			t.Error(err)
		}
	})
	x.e, err = x.b.Endpoint(EndpointOptions{Attempt: "n0-1-1", Provider: "lab", Model: "m", Node: "a", Iteration: 1,
		Transcripts: filepath.Join(x.dir, "transcripts"), TCP: true})
	if err != nil {
		t.Fatal(err)
	}
	x.e.Arm(l, "ACTIVATED")
	x.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", x.e.Socket())
	}}, Timeout: 20 * time.Second}
	t.Cleanup(x.http.CloseIdleConnections)
	return x
}

// ask sends one request over the socket.
func (x *lab) ask(body string) (int, string, error) {
	req, err := http.NewRequest("POST", "http://broker/v1/messages?beta=true", strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", x.e.Token())
	resp, err := x.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func body(maxTokens int, stream bool, more string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"stream":%v,"messages":[{"role":"user","content":[{"type":"text","text":"say it, ACTIVATED"}]}]%s}`, maxTokens, stream, more)
}

const plenty = 10_000_000

// Streamed or not, the provider's usage is what counts, and its answer comes
// whole.
func TestSettlesByTheProvidersUsage(t *testing.T) {
	const script = `{"version":1,"default":[{"text":"Hello.","tools":[{"name":"write","input":{"path":"/out/x"}}],"usage":{"input":100,"output":20,"cache_read":1000,"cache_write":10},"repeat":2}]}`
	for _, stream := range []bool{true, false} {
		x := newLab(t, script, "", Limits{plenty, plenty})
		for range 2 {
			status, text, err := x.ask(body(1000, stream, ""))
			if err != nil || status != 200 || !strings.Contains(text, "Hello.") || !strings.Contains(text, `tool_use`) {
				t.Fatalf("%d %s %v", status, text, err)
			}
		}
		status, text, _ := x.ask(body(1000, stream, ""))
		if status != 400 || !strings.Contains(text, "no reply for this request") {
			t.Errorf("beyond the script: %d %s", status, text)
		}
		r := x.e.Close()
		// 2 × (100 × 3 + 20 × 15 + 1000 × 0.3 + 10 × 3.75 = 937.5), each rounded up
		if s := r.Spend; s.Input != 200 || s.Output != 40 || s.CacheRead != 2000 || s.CacheWrite != 20 || s.CostMicroUSD != 2*938 || s.UnsettledTokens != 0 {
			t.Errorf("stream %v: %+v", stream, s)
		}
		if r.Requests != 3 || r.Forwarded != 3 || r.Exceeded != nil || r.Evidence == nil || r.Evidence.Request != 1 || len(r.Evidence.SHA256) != 71 {
			t.Errorf("%+v", r)
		}
		if r.Failure == nil || r.Failure.Kind != Refused || r.Failure.Status != 400 {
			t.Errorf("%+v", r.Failure)
		}
		if x.b.Spent("n0-1-1") != r.Spend {
			t.Error("the broker tells another spend")
		}
	}
}

func TestRefusals(t *testing.T) {
	x := newLab(t, `{"version":1,"default":[{"text":"x","repeat":100}]}`, "", Limits{plenty, plenty})
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"no JSON":        {"{", 400, "no JSON object"},
		"a list":         {"[]", 400, "no JSON object"},
		"no model":       {`{"max_tokens":1}`, 400, "names no model"},
		"another model":  {`{"model":"M","max_tokens":1}`, 404, "is not the plan's"},
		"no bound":       {`{"model":"m"}`, 400, "max_tokens"},
		"bound of 0":     {`{"model":"m","max_tokens":0}`, 400, "max_tokens"},
		"stream":         {`{"model":"m","max_tokens":1,"stream":1}`, 400, "stream"},
		"mcp":            {`{"model":"m","max_tokens":1,"mcp_servers":[]}`, 400, "mcp_servers"},
		"container":      {`{"model":"m","max_tokens":1,"container":"x"}`, 400, "container"},
		"server tool":    {`{"model":"m","max_tokens":1,"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, 400, "carried out by the provider"},
		"tier":           {`{"model":"m","max_tokens":1,"service_tier":"priority"}`, 400, "service tier"},
		"client tool":    {`{"model":"m","max_tokens":1,"tools":[{"name":"write"},{"type":"bash_20250124","name":"bash"}]}`, 200, `"x"`},
		"twice the same": {`{"model":"M","model":"m","max_tokens":1}`, 200, `"x"`},
	} {
		if status, text, err := x.ask(c.body); err != nil || status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s %v", name, status, text, err)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"no token":     func(r *http.Request) { r.Header.Del("X-Api-Key") },
		"another":      func(r *http.Request) { r.Header.Set("X-Api-Key", strings.Repeat("0", 64)) },
		"another path": func(r *http.Request) { r.URL.Path = "/v1/models" },
		"a way out":    func(r *http.Request) { r.URL.Path = "/v1/messages/../files" },
		"a read":       func(r *http.Request) { r.Method = "GET" },
	} {
		req, err := http.NewRequest("POST", "http://broker/v1/messages", strings.NewReader(body(1, false, "")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", x.e.Token())
		change(req)
		resp, err := x.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 401 && resp.StatusCode != 404 && resp.StatusCode != 301 && resp.StatusCode != 307 {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	other, err := x.b.Endpoint(EndpointOptions{Attempt: "n1-1-1", Provider: "lab", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	x.e = other // its socket, and not armed
	if status, text, err := x.ask(body(1, false, "")); err != nil || status != 403 || !strings.Contains(text, "has not begun") {
		t.Errorf("before Arm: %d %s %v", status, text, err)
	}
	if _, err := x.b.Endpoint(EndpointOptions{Attempt: "n1-1-1", Provider: "lab", Model: "m"}); err == nil {
		t.Error("a second endpoint of one attempt")
	}
	for _, o := range []EndpointOptions{{Attempt: "x", Provider: "none", Model: "m"}, {Attempt: "x", Provider: "lab", Model: "none"}} {
		if _, err := x.b.Endpoint(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// upstream is a real server that notes what it got.
func upstream(t *testing.T, answer func(w http.ResponseWriter, got map[string]any, r *http.Request)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got map[string]any
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		answer(w, got, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func whole(usage string) string {
	return `{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"max_tokens","usage":` + usage + `}`
}

// What would pass the budget is bounded before it is forwarded; a smaller claim
// of the worker's changes nothing; and then nothing goes on.
func TestClampsAndRefuses(t *testing.T) {
	var bounds []float64
	var keys []string
	base := upstream(t, func(w http.ResponseWriter, got map[string]any, r *http.Request) {
		bounds, keys = append(bounds, got["max_tokens"].(float64)), append(keys, r.Header.Get("X-Api-Key"))
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, whole(fmt.Sprintf(`{"input_tokens":50,"output_tokens":%d}`, int(got["max_tokens"].(float64)))))
	})
	x := newLab(t, "", base, Limits{1000, plenty})
	size := len(body(5000, false, ""))
	status, _, err := x.ask(body(5000, false, ""))
	if err != nil || status != 200 || int(bounds[0]) != 1000-size {
		t.Fatalf("%d %v, bounds %v, the body has %d bytes", status, err, bounds, size)
	}
	status, text, err := x.ask(body(5000, false, ""))
	if err != nil || status != 403 || !strings.Contains(text, "permission_error") || !strings.Contains(text, "budget is exhausted") {
		t.Errorf("%d %s %v", status, text, err)
	}
	r := x.e.Close()
	if r.Exceeded == nil || r.Exceeded.Dimension != DimTokens || r.Exceeded.Limit != 1000 || r.Clamped != 1 || r.Forwarded != 1 || len(bounds) != 1 {
		t.Errorf("%+v, exceeded %+v", r, r.Exceeded)
	}
	if keys[0] != canary {
		t.Errorf("the provider got the key %q", keys[0])
	}
}

func TestClampsByCost(t *testing.T) {
	var bound float64
	base := upstream(t, func(w http.ResponseWriter, got map[string]any, r *http.Request) {
		bound = got["max_tokens"].(float64)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, whole(`{"input_tokens":10,"output_tokens":3}`))
	})
	x := newLab(t, "", base, Limits{plenty, 3000})
	size := int64(len(body(5000, false, "")))
	if status, _, err := x.ask(body(5000, false, "")); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	if want := (3000 - (size*375+99)/100) / 15; int64(bound) != want { // input at the price of a cache write, 3.75
		t.Errorf("bound %v, want %d", bound, want)
	}
	r := x.e.Close()
	if r.Exceeded == nil || r.Exceeded.Dimension != DimCost || r.Exceeded.Observed != 75 {
		t.Errorf("%+v", r.Exceeded)
	}
}

// A provider that streams more than it was asked for is cut; what the attempt
// spent beyond its budget is at most one bounded answer.
func TestCuts(t *testing.T) {
	x := newLab(t, `{"version":1,"default":[{"text":"0123456789abcdef","times":2000,"chunk":64,"usage":{"input":10,"output":8000}}]}`, "", Limits{1000, plenty})
	size := int64(len(body(5000, true, "")))
	status, text, err := x.ask(body(5000, true, ""))
	if err == nil || status != 200 && status != 0 {
		t.Errorf("an answer that was cut looks whole: %d, %d bytes, %v", status, len(text), err)
	}
	r := x.e.Close()
	limit := 1000 - size
	if r.Cut != 1 || r.Exceeded == nil || r.Exceeded.Dimension != DimTokens || !strings.Contains(r.Exceeded.How, "was cut") {
		t.Fatalf("%+v, %+v", r, r.Exceeded)
	}
	if over := r.Spend.Tokens() - 1000; over <= 0 || over > limit {
		t.Errorf("%d tokens beyond the budget, one answer has %d", over, limit)
	}
	if int64(len(text)) > limit*bytesPerToken*8 {
		t.Errorf("%d bytes came through", len(text))
	}
}

func TestThinkingStaysBelowTheBound(t *testing.T) {
	var got map[string]any
	base := upstream(t, func(w http.ResponseWriter, g map[string]any, r *http.Request) {
		got = g
		io.WriteString(w, whole(`{"input_tokens":1,"output_tokens":1}`))
	})
	for limit, want := range map[int64]any{100_000: 8000.0, 3000: nil, 400: "none"} {
		x := newLab(t, "", base, Limits{limit, plenty})
		request := body(20000, false, `,"thinking":{"type":"enabled","budget_tokens":8000}`)
		if status, text, err := x.ask(request); err != nil || status != 200 {
			t.Fatal(status, text, err)
		}
		thinking, _ := got["thinking"].(map[string]any)
		switch {
		case want == "none" && thinking != nil,
			want == nil && thinking["budget_tokens"] != got["max_tokens"].(float64)-1,
			want == 8000.0 && thinking["budget_tokens"] != want:
			t.Errorf("limit %d: %v of %v", limit, thinking, got["max_tokens"])
		}
	}
}

// What the provider does to a request has a kind.
func TestFailuresOfTheProvider(t *testing.T) {
	for name, c := range map[string]struct {
		reply  string
		kind   string
		status int
		broken bool
	}{
		"401": {`{"status":401,"body":"bad key"}`, Refused, 401, false}, "402": {`{"status":402}`, Refused, 402, false},
		"403": {`{"status":403}`, Refused, 403, false}, "404": {`{"status":404}`, Refused, 404, false},
		"429": {`{"status":429,"headers":{"retry-after":"1"}}`, Unreachable, 429, false}, "529": {`{"status":529}`, Unreachable, 529, false},
		"500": {`{"status":500}`, Unreachable, 500, false}, "redirect": {`{"status":307,"headers":{"location":"http://127.0.0.1:1/"}}`, Refused, 307, false},
		"drop before": {`{"drop":"before"}`, Unreachable, 0, true}, "drop in the middle": {`{"text":"abc","drop":"middle"}`, Unreachable, 0, true},
	} {
		x := newLab(t, `{"version":1,"default":[`+c.reply+`]}`, "", Limits{plenty, plenty})
		status, text, err := x.ask(body(100, true, ""))
		if (err != nil) != c.broken || !c.broken && c.status != 307 && status != c.status {
			t.Errorf("%s: %d %s %v", name, status, text, err)
		}
		r := x.e.Close()
		if r.Failure == nil || r.Failure.Kind != c.kind || r.Failure.Status != c.status {
			t.Errorf("%s: %+v", name, r.Failure)
		}
		if c.status != 0 && r.Spend.Tokens() != 0 {
			t.Errorf("%s: an error cost %+v", name, r.Spend)
		}
		if c.broken && r.Spend.UnsettledTokens == 0 {
			t.Errorf("%s: what was reserved does not count", name)
		}
	}
}

// An answer without a usage counts as what was reserved; unknown is never 0.
func TestNoUsageStaysReserved(t *testing.T) {
	x := newLab(t, `{"version":1,"default":[{"text":"abc","no_usage":true}]}`, "", Limits{plenty, plenty})
	if status, _, err := x.ask(body(100, true, "")); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	if s := x.e.Close().Spend; s.UnsettledTokens != int64(len(body(100, true, "")))+100 || s.UnsettledCost == 0 {
		t.Errorf("%+v", s)
	}
}

// D20: a key that the provider repeats reaches neither the worker nor a file.
func TestKeyIsRedacted(t *testing.T) {
	x := newLab(t, `{"version":1,"default":[{"status":401,"body":"no","echo_credential":true},{"text":"the key: `+canary+`","chunk":500}]}`, "", Limits{plenty, plenty})
	for range 2 {
		_, text, err := x.ask(body(100, true, ""))
		if err != nil || strings.Contains(text, canary) {
			t.Errorf("%s %v", text, err)
		}
	}
	x.e.Close()
	n := 0
	err := filepath.WalkDir(x.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		data, err := os.ReadFile(p)
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s holds the key", p)
		}
		if info, _ := d.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", p, info.Mode())
		}
		return err
	})
	if err != nil || n != 5 { // the journal, two requests, two answers
		t.Errorf("%d files, %v", n, err)
	}
}

// Close cuts what is under way, and leaves no socket.
func TestCloseCuts(t *testing.T) {
	x := newLab(t, `{"version":1,"default":[{"text":"abc","hang":true}]}`, "", Limits{plenty, plenty})
	done := make(chan error, 1)
	go func() {
		_, _, err := x.ask(body(100, true, ""))
		done <- err
	}()
	for x.b.Spent("n0-1-1").UnsettledTokens == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	begun := time.Now()
	r := x.e.Close()
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := <-done; err == nil {
		t.Error("the answer looks whole")
	}
	if r.Spend.UnsettledTokens == 0 || r.Failure != nil {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(x.e.Socket()); !os.IsNotExist(err) {
		t.Errorf("the socket is there: %v", err)
	}
}

// What was held for an answer that broke off may leave too little for the next
// request: the report says that it is that, and not what was used.
func TestHeldIsTold(t *testing.T) {
	x := newLab(t, `{"version":1,"default":[{"text":"abc","drop":"middle"},{"text":"abc"}]}`, "", Limits{1000, plenty})
	if _, _, err := x.ask(body(5000, true, "")); err == nil {
		t.Fatal("the answer looks whole")
	}
	status, text, err := x.ask(body(5000, true, ""))
	if err != nil || status != 403 || !strings.Contains(text, "1000 of them held for answers whose usage never came") {
		t.Errorf("%d %s %v", status, text, err)
	}
	r := x.e.Close()
	if r.Exceeded == nil || !r.Exceeded.Held || r.Exceeded.Dimension != DimTokens || r.Failure == nil || r.Failure.Kind != Unreachable {
		t.Errorf("%+v, %+v", r.Exceeded, r.Failure)
	}
	// What was used up is no provider's fault.
	x = newLab(t, `{"version":1,"default":[{"text":"abc","usage":{"input":930,"output":40}},{"text":"abc"}]}`, "", Limits{1000, plenty})
	for range 2 {
		if _, _, err := x.ask(body(50, true, "")); err != nil {
			t.Fatal(err)
		}
	}
	if r := x.e.Close(); r.Exceeded == nil || r.Exceeded.Held || r.Spend.UnsettledTokens != 0 {
		t.Errorf("%+v, %+v", r.Exceeded, r.Spend)
	}
}

// A request that nobody was there to take costs nothing; an answer that cannot
// be read may have cost all that was held for it.
func TestWhatCostsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens there now
	x := newLab(t, "", "http://"+l.Addr().String(), Limits{plenty, plenty})
	if _, _, err := x.ask(body(100, true, "")); err == nil {
		t.Error("somebody answered")
	}
	if r := x.e.Close(); r.Spend.Tokens() != 0 || r.Spend.Cost() != 0 || r.Failure == nil || r.Failure.Kind != Unreachable {
		t.Errorf("%+v, %+v", r.Spend, r.Failure)
	}
	x = newLab(t, `{"version":1,"default":[{"text":"abc","malformed":true,"no_usage":true}]}`, "", Limits{plenty, plenty})
	_, _, _ = x.ask(body(100, true, "")) // as much of it as there is
	if r := x.e.Close(); r.Spend.UnsettledTokens == 0 || r.Failure == nil || r.Failure.Status != 200 {
		t.Errorf("%+v, %+v", r.Spend, r.Failure)
	}
}
