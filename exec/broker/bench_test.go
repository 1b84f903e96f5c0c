package broker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// quick is a provider on this machine. It streams as many chunks as it is asked
// for tokens, and each tells when it was sent.
func quick(tb testing.TB) string {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		req, no := parseRequest(data)
		if err != nil || no != nil {
			tb.Errorf("%v %v", err, no)
			return
		}
		if !req.stream {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":1}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flusher := http.NewResponseController(w)
		io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n")
		for range req.maxTokens {
			fmt.Fprintf(w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word\"},\"sent\":%d}\n\n", time.Since(epoch).Nanoseconds())
			_ = flusher.Flush()
			time.Sleep(200 * time.Microsecond) // no model is quicker
		}
		fmt.Fprintf(w, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":%d}}\n\n", req.maxTokens)
		io.WriteString(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	}))
	tb.Cleanup(s.Close)
	return s.URL
}

var epoch = time.Now()

// route is a way to the provider: directly, or by the broker's socket.
type route struct {
	client *http.Client
	url    string
	token  string
}

// routes are both ways, to the same server.
func routes(tb testing.TB) map[string]route {
	tb.Helper()
	base := quick(tb)
	x := newLab(tb, "", base, Limits{1 << 50, 1 << 50})
	return map[string]route{
		"direct": {&http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(base, "http://"))
		}}}, base, canary},
		"broker": {x.http, "http://broker", x.e.Token()},
	}
}

// ask sends one request and gives how late each chunk came.
func (r route) ask(tb testing.TB, body string) (late []time.Duration) {
	req, err := http.NewRequest("POST", r.url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("X-Api-Key", r.token)
	resp, err := r.client.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		tb.Fatalf("status %d", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		_, sent, ok := strings.Cut(lines.Text(), `"sent":`)
		if !ok {
			continue
		}
		at, err := strconv.ParseInt(strings.TrimSuffix(sent, "}"), 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		late = append(late, time.Since(epoch)-time.Duration(at))
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return late
}

// request measures one without a stream, as large as an agent's are.
func (r route) request(tb testing.TB) time.Duration {
	begun := time.Now()
	r.ask(tb, body(1000, false, `,"system":"`+strings.Repeat("You write what you are asked to write. ", 500)+`"`))
	return time.Since(begun)
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// added measures both ways in turns and gives their medians.
func added(tb testing.TB, both map[string]route, rounds int) (direct, by map[string]time.Duration) {
	took := map[string]map[string][]time.Duration{"direct": {}, "broker": {}}
	for range rounds {
		for name, r := range both {
			took[name]["request"] = append(took[name]["request"], r.request(tb))
			took[name]["chunk"] = append(took[name]["chunk"], r.ask(tb, body(20, true, ""))...)
		}
	}
	direct, by = map[string]time.Duration{}, map[string]time.Duration{}
	for what := range took["direct"] {
		direct[what], by[what] = median(took["direct"][what]), median(took["broker"][what])
	}
	return direct, by
}

// BenchmarkAdded prints the medians of a request and of a chunk, directly and by
// the broker, and what the broker adds. A request in it is both, with 20 chunks.
func BenchmarkAdded(b *testing.B) {
	both := routes(b)
	added(b, both, 20) // connections are made, and so are files
	b.ResetTimer()
	direct, by := added(b, both, max(b.N, 20))
	for what := range direct {
		b.ReportMetric(float64(direct[what].Microseconds()), "direct-µs/"+what)
		b.ReportMetric(float64(by[what].Microseconds()), "broker-µs/"+what)
		b.ReportMetric(float64((by[what] - direct[what]).Microseconds()), "added-µs/"+what)
		b.ReportMetric(float64(by[what])/float64(direct[what]), "ratio/"+what)
	}
}

// A thousand requests leave nothing behind in memory.
func TestMemoryIsFlat(t *testing.T) {
	r := routes(t)["broker"]
	heap := func() int64 {
		r.client.CloseIdleConnections()
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	large := `,"system":"` + strings.Repeat("0123456789abcdef", 4096) + `"` // 64 KiB
	asks := func(n int) {
		for i := range n {
			r.ask(t, body(2, i%2 == 0, large))
		}
	}
	asks(100)
	before := heap()
	asks(1000)
	after := heap()
	t.Logf("%d bytes after 100 requests, %d after 1,000 more", before, after)
	// Each of them has 64 KiB: one in a hundred that is kept would be seen.
	if grown := after - before; grown > 512<<10 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}
