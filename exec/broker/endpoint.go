package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"foundry/exec/broker/redact"
)

// errCut ends an answer that has more than it may.
var errCut = errors.New("broker: the answer has more than its bound")

// silent keeps what clients do to a server out of people's terminal.
var silent = log.New(io.Discard, "", 0)

// Dimensions of what an attempt may spend.
const (
	DimTokens = "tokens"
	DimCost   = "cost"
)

// Kinds of failure of a provider.
const (
	Refused     = "refused"     // it answered, and will answer so again
	Unreachable = "unreachable" // it did not answer, or is overloaded
)

// Limits are what an attempt may spend; 0 is nothing.
type Limits struct{ Tokens, CostMicroUSD int64 }

// Exceeded is a budget that did not suffice.
type Exceeded struct {
	Dimension       string
	Limit, Observed int64 // Observed may be below Limit: what was left was too little to go on
	How             string
	// Held says that it would have sufficed but for what is held for answers whose
	// usage never came.
	Held bool
}

// Failure is what a provider did to the last request.
type Failure struct {
	Kind   string // Refused or Unreachable
	Status int    // of HTTP; 0: there was no answer
	Detail string // bounded, without secrets
}

// Evidence is a request in which the activation's text was seen.
type Evidence struct {
	Request int64  // its number, from 1
	SHA256  string // of its body, as it came
}

// Report is what an endpoint saw. Spend is by the provider's usage alone.
type Report struct {
	Requests  int64 // that came with the right token
	Forwarded int64
	Clamped   int64
	Cut       int64
	Spend     Spend
	Exceeded  *Exceeded
	Failure   *Failure  // of the last request that went on; nil: it was answered
	Evidence  *Evidence // nil: none held the text
}

// Endpoint is one attempt's way to its provider.
type Endpoint struct {
	b          *Broker
	o          EndpointOptions
	model      string
	price      price
	credential string
	secrets    *redact.Set
	base       *url.URL
	upstream   http.RoundTripper
	token      string
	socket     string
	url        string
	server     *http.Server
	serving    sync.WaitGroup
	requests   sync.WaitGroup
	cancel     context.CancelFunc
	once       sync.Once
	ending     chan struct{}

	mu     sync.Mutex
	armed  bool
	limits Limits
	watch  string
	ledger *ledger // also read under the broker's lock
	report Report
}

// Socket is the path of the unix socket.
func (e *Endpoint) Socket() string { return e.socket }

// URL is the address on the loopback interface, "" without TCP.
func (e *Endpoint) URL() string { return e.url }

// Token is what the worker shows; it is worth nothing after Close.
func (e *Endpoint) Token() string { return e.token }

// Arm lets requests through. The watched text is sought in what the user says.
func (e *Endpoint) Arm(l Limits, watch string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed, e.limits, e.watch = true, l, watch
}

// Close ends the endpoint: answers under way are cut and stay reserved, which
// counts as spent. It returns the report, every time.
func (e *Endpoint) Close() Report {
	e.once.Do(func() {
		close(e.ending)
		e.shut()
		e.requests.Wait()
		e.b.mu.Lock()
		delete(e.b.open, e)
		if e.ledger.unused() {
			// What was prepared ahead and never started may be prepared again.
			delete(e.b.attempts, e.o.Attempt)
		}
		e.b.mu.Unlock()
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.report
	r.Spend = e.total()
	return r
}

func (e *Endpoint) shut() {
	e.cancel()
	_ = e.server.Close() // the listeners are closed, whatever it says
	e.serving.Wait()
}

func (e *Endpoint) total() Spend {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	return e.ledger.total()
}

// ServeHTTP answers one request of the worker.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.requests.Add(1)
	defer e.requests.Done()
	token := r.Header.Get("X-Api-Key")
	if token == "" {
		token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(token), []byte(e.token)) != 1:
		(&refusal{401, "authentication_error", "foundry: this is not the token of the attempt"}).write(w)
		return
	case r.Method != http.MethodPost || r.URL.Path != "/v1/messages":
		(&refusal{404, "not_found_error", "foundry: the broker knows POST /v1/messages alone"}).write(w)
		return
	}
	e.mu.Lock()
	e.report.Requests++
	number, armed := e.report.Requests, e.armed
	e.mu.Unlock()
	if !armed {
		(&refusal{403, "permission_error", "foundry: the attempt has not begun"}).write(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		(&refusal{413, "request_too_large", fmt.Sprintf("foundry: a request has at most %d bytes", maxRequestBytes)}).write(w)
		return
	}
	if no := e.exchange(w, r, number, body); no != nil {
		no.write(w)
	}
}

// write answers in the form of the API, so that an agent takes it for what it
// is: what is forbidden is not tried again.
func (n *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(n.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": n.kind, "message": n.text}})
}

// exchange does all that a request needs; a refusal was not written yet.
func (e *Endpoint) exchange(w http.ResponseWriter, r *http.Request, number int64, body []byte) *refusal {
	req, no := parseRequest(body)
	if no != nil {
		return no
	}
	if req.model != e.model {
		return &refusal{404, "not_found_error", fmt.Sprintf("foundry: model: %s is not the plan's", req.model)}
	}
	e.witness(req, number, body)
	asked := min(req.maxTokens, e.price.maxOutput)
	bound, short, no := e.reserve(number, int64(len(body)), asked)
	if no != nil {
		return no
	}
	sent, err := req.clamp(bound)
	if err != nil {
		return bad("the request cannot be written again: %v", err)
	}
	kept := e.transcripts(number, sent)
	a := &answer{limit: bound}
	err = e.forward(w, r, kept, sent, a)
	_ = kept.Close() // see transcript
	e.settle(number, a, short, err)
	if err != nil {
		panic(http.ErrAbortHandler) // an answer that ends early must not look whole
	}
	return nil
}

// witness looks for the activation's text.
func (e *Endpoint) witness(req *request, number int64, body []byte) {
	e.mu.Lock()
	watch, seen := e.watch, e.report.Evidence != nil
	e.mu.Unlock()
	if seen || !req.holds(watch) {
		return
	}
	sum := sha256.Sum256(body)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.report.Evidence == nil {
		e.report.Evidence = &Evidence{Request: number, SHA256: "sha256:" + hex.EncodeToString(sum[:])}
	}
}

// reserve writes down what a request may come to and returns the bound of its
// answer in tokens, and the dimension that bounds it below what was asked for, ""
// where none does. No token has less than one byte, so the input has at most as
// many as the body has bytes.
func (e *Endpoint) reserve(number, input, asked int64) (bound int64, short string, _ *refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	spent := e.total()
	tokens := e.limits.Tokens - spent.Tokens() - input
	inputCost := e.price.inputBound(input)
	cost := e.limits.CostMicroUSD - spent.Cost() - inputCost
	affordable := e.price.affordable(cost)
	bound = min(asked, tokens, affordable)
	if cost < 0 {
		bound = 0
	}
	if bound < 1 {
		x := &Exceeded{Dimension: DimTokens, Limit: e.limits.Tokens, Observed: spent.Tokens()}
		held := spent.UnsettledTokens
		if tokens >= 1 {
			x = &Exceeded{Dimension: DimCost, Limit: e.limits.CostMicroUSD, Observed: spent.Cost()}
			held = spent.UnsettledCost
		}
		x.How = fmt.Sprintf("request %d, of %d bytes, was refused: %d of %d %s are spent", number, input, x.Observed, x.Limit, unit(x.Dimension))
		if held > 0 {
			x.How += fmt.Sprintf(", %d of them held for answers whose usage never came", held)
			x.Held = tokens+spent.UnsettledTokens >= 1 && e.price.affordable(cost+spent.UnsettledCost) >= 1
		}
		e.exceed(x)
		return 0, "", &refusal{403, "permission_error", "foundry: the budget is exhausted: " + x.How}
	}
	held := reservation{tokens: input + bound, cost: inputCost + e.price.cost(usage{Output: bound})}
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if err := e.b.journal.write(entry{Attempt: e.o.Attempt, Request: number, Tokens: held.tokens, Cost: held.cost}); err != nil {
		return 0, "", &refusal{500, "api_error", "foundry: the journal cannot be written: nothing is forwarded without it"}
	}
	e.ledger.reserved[number] = held
	e.report.Forwarded++
	switch {
	case bound == asked:
		return bound, "", nil
	case tokens <= affordable:
		short = DimTokens
	default:
		short = DimCost
	}
	e.report.Clamped++
	return bound, short, nil
}

func unit(dimension string) string {
	if dimension == DimCost {
		return "micro-USD"
	}
	return dimension
}

// exceed keeps the first.
func (e *Endpoint) exceed(x *Exceeded) {
	if e.report.Exceeded == nil {
		e.report.Exceeded = x
	}
}

// settle replaces the reservation by the provider's usage. short is the dimension
// that bounded the answer.
func (e *Endpoint) settle(number int64, a *answer, short string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := entry{Attempt: e.o.Attempt, Request: number, Settled: true, Usage: a.settlement()}
	if f := e.report.Failure; s.Usage == nil && (f != nil && f.Status >= 300 || unsent(err)) {
		s.Usage = &usage{} // an answer that is an error costs nothing, nor does a request that never left
	}
	if s.Usage != nil {
		s.Cost = e.price.cost(*s.Usage)
		e.b.mu.Lock()
		if e.b.journal.write(s) == nil {
			e.ledger.settle(s)
		}
		e.b.mu.Unlock()
	}
	spent := e.total()
	how := ""
	switch {
	case errors.Is(err, errCut):
		e.report.Cut++
		how = fmt.Sprintf("answer %d was cut: it has more than the %d tokens that it may have", number, a.limit)
	case short != "" && a.stop == "max_tokens":
		how = fmt.Sprintf("answer %d ended at the %d tokens that were left for it", number, a.limit)
	case a.over:
		how = fmt.Sprintf("answer %d has %d tokens, and may have %d", number, a.usage.Output, a.limit)
	}
	tokens := &Exceeded{Dimension: DimTokens, Limit: e.limits.Tokens, Observed: spent.Tokens(), How: how}
	cost := &Exceeded{Dimension: DimCost, Limit: e.limits.CostMicroUSD, Observed: spent.Cost(), How: how}
	switch {
	case how != "" && short == DimTokens:
		e.exceed(tokens)
	case how != "" && short == DimCost:
		e.exceed(cost)
	case spent.Tokens() > e.limits.Tokens:
		e.exceed(tokens)
	case spent.Cost() > e.limits.CostMicroUSD:
		e.exceed(cost)
	case how != "": // more than the model may have in one answer
		e.exceed(tokens)
	}
}

// unsent reports whether a request never left: nobody was there to take it.
func unsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// headers that go on to the provider, and those that come back.
var (
	toProvider = []string{"Anthropic-Version", "Anthropic-Beta", "Accept"}
	toWorker   = []string{"Content-Type", "Retry-After", "Request-Id", "X-Should-Retry"}
)

// forward sends the request and hands the answer on. kept is where it is kept.
func (e *Endpoint) forward(w http.ResponseWriter, r *http.Request, kept io.Writer, body []byte, a *answer) error {
	target := *e.base
	target.Path = strings.TrimSuffix(target.Path, "/") + "/v1/messages"
	if r.URL.Query().Get("beta") == "true" {
		target.RawQuery = "beta=true"
	}
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	for _, name := range toProvider {
		if v := r.Header.Values(name); len(v) > 0 {
			out.Header[name] = v
		}
	}
	out.Header.Set("Content-Type", "application/json")
	if e.credential != "" {
		out.Header.Set("X-Api-Key", e.credential)
	}
	resp, err := e.upstream.RoundTrip(out)
	if err != nil {
		e.fail(r.Context(), &Failure{Kind: Unreachable, Detail: e.text(err.Error())})
		return err // for the worker, too, the connection is lost
	}
	defer resp.Body.Close()
	for _, name := range toWorker {
		for _, v := range resp.Header.Values(name) {
			w.Header().Add(name, e.secrets.String(v))
		}
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		// Whatever it points to is not the plan's address.
		e.fail(r.Context(), &Failure{Kind: Refused, Status: resp.StatusCode, Detail: "a redirect, which is not followed"})
		(&refusal{502, "api_error", "foundry: the provider answered with a redirect"}).write(w)
		return nil
	}
	w.WriteHeader(resp.StatusCode)
	if resp.StatusCode != http.StatusOK {
		return e.refuse(w, r.Context(), resp, kept)
	}
	return e.answer(w, r.Context(), resp, kept, a)
}

// answer hands a good answer on.
func (e *Endpoint) answer(w http.ResponseWriter, ctx context.Context, resp *http.Response, kept io.Writer, a *answer) error {
	e.fail(ctx, nil)
	flusher := http.NewResponseController(w)
	clean := e.secrets.Writer(w)
	err := copyAnswer(io.MultiWriter(clean, kept), func() { _ = flusher.Flush() }, resp.Body, streamed(resp.Header), a)
	if a.broken { // also where the agent hung up on it
		e.fail(context.WithoutCancel(ctx), &Failure{Kind: Unreachable, Status: resp.StatusCode, Detail: "an event of the answer is no JSON"})
	}
	if err == nil {
		return clean.Close()
	}
	if !errors.Is(err, errCut) && !a.broken {
		e.fail(ctx, &Failure{Kind: Unreachable, Detail: "the answer broke off: " + e.text(err.Error())})
	}
	return err
}

// refuse hands an error of the provider's on, without what it may have repeated
// of the request's secrets.
func (e *Endpoint) refuse(w io.Writer, ctx context.Context, resp *http.Response, kept io.Writer) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	body = e.secrets.Bytes(body)
	kind := Refused
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode >= 500 {
		kind = Unreachable
	}
	e.fail(ctx, &Failure{Kind: kind, Status: resp.StatusCode, Detail: e.text(string(body))})
	_, _ = kept.Write(body) // see transcript
	if _, werr := w.Write(body); err == nil {
		err = werr
	}
	return err
}

// maxErrorBytes bounds an error of the provider's.
const maxErrorBytes = 1 << 20

// fail notes what the provider did to the last request; what the worker or the
// end of the attempt broke off is not the provider's doing.
func (e *Endpoint) fail(ctx context.Context, f *Failure) {
	if f != nil && ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.report.Failure = f
}

// text bounds what is told of a provider.
func (e *Endpoint) text(s string) string {
	s = strings.ToValidUTF8(e.secrets.String(s), "\uFFFD")
	const most = 500
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
