package attempt

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"sync"

	"foundry/exec/record"
	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
)

// MaxStdout is how many bytes a process may write to its standard output, and
// to its standard error, before it is ended: 256 MiB each. Agents repeat a message with every delta, so honest
// streams of tens of megabytes are seen.
const MaxStdout = 256 << 20

// stream drives one session over a worker's standard output and watches the
// budgets as the events arrive.
type stream struct {
	session harness.Session
	stdin   *stdin
	trace   io.Writer
	observe func(contract.Event)
	budget  plan.NodeBudget
	want    plan.Harness
	model   *plan.Model           // nil: nobody prices
	stop    func(*record.Failure) // the first failure ends the attempt
	submit  func() []string       // what is wrong with what the worker left

	finished chan struct{} // closed at the final event
	once     sync.Once
	done     chan struct{} // closed when the stream has ended; the fields below are read after it

	check    contract.Checker
	breach   string
	turns    int64
	calls    map[string]bool
	submits  int64
	traceErr error
	skipped  int64
	mismatch *record.Failure
	exceeded *record.Failure
}

func (s *stream) run(r io.Reader) {
	defer close(s.done)
	s.stdin.push(s.session.Begin())
	s.closeInput()
	lines := contract.NewLineReader(r, 0)
	for {
		line, err := lines.Next()
		if err != nil {
			break
		}
		events, reply := s.session.Line(line)
		s.take(events, reply)
		s.verify()
	}
	s.skipped = lines.Skipped()
	for _, ev := range s.session.End() {
		s.event(ev)
	}
	s.stdin.close()
}

// take works off what a line came to. What is submitted is judged and answered,
// where the session waits for that.
func (s *stream) take(events []contract.Event, reply []byte) {
	submitted := false
	for _, ev := range events {
		submitted = submitted || ev.Type == contract.Submitted
		s.event(ev)
	}
	s.stdin.push(reply)
	if re, ok := s.session.(harness.Resubmitter); ok && submitted {
		s.submits++
		s.take(re.Answer(s.submit()))
		return
	}
	s.closeInput()
}

// verify ends an attempt whose agent is not what the plan asks for.
func (s *stream) verify() {
	v, ok := s.session.(harness.Verifier)
	if !ok || s.mismatch != nil || v.Mismatch() == "" {
		return
	}
	s.mismatch = record.Fail(record.ReasonHarnessMismatch, text(fmt.Sprintf("harness %s: %s", s.want.Name, v.Mismatch())))
	s.mismatch.Source = record.SourceWorker
	s.stop(s.mismatch)
}

func (s *stream) closeInput() {
	if s.session.CloseInput() {
		s.stdin.close()
	}
}

func (s *stream) event(ev contract.Event) {
	if _, err := s.trace.Write(contract.Encode(ev)); err != nil && s.traceErr == nil {
		s.traceErr = err
	}
	if err := s.check.Add(ev); err != nil && s.breach == "" {
		s.breach = err.Error()
	}
	switch ev.Type {
	case contract.Started:
		s.identity(ev.Harness)
	case contract.Turn:
		s.turns = max(s.turns+1, ev.Turn)
		s.exceed(record.DimTurns, s.budget.Turns, s.turns)
	case contract.Tool:
		s.calls[ev.ToolCall] = true
		s.exceed(record.DimToolCalls, s.budget.ToolCalls, int64(len(s.calls)))
	case contract.UsageType:
		t := s.check.Usage()
		s.exceed(record.DimTokens, s.budget.Tokens, tokens(t))
		if n, ok := s.cost(t).Value(); ok {
			s.exceed(record.DimCost, s.budget.CostMicroUSD, n)
		}
	case contract.Finished:
		s.once.Do(func() { close(s.finished) })
	}
	if s.observe != nil {
		s.observe(ev)
	}
}

// identity compares who started with who was asked for. An adapter that does
// not know its version or model leaves it empty.
func (s *stream) identity(id *contract.Identity) {
	if id == nil || s.mismatch != nil {
		return
	}
	differs := func(what, want, got string) {
		if want != "" && got != "" && want != got && s.mismatch == nil {
			s.mismatch = record.Fail(record.ReasonHarnessMismatch,
				fmt.Sprintf("harness %s: the plan has %s %q, %q started", s.want.Name, what, want, text(got)))
			s.mismatch.Source = record.SourceWorker
			s.stop(s.mismatch)
		}
	}
	differs("version", s.want.Version, id.Version)
	differs("model", s.want.Model, id.Model)
}

func (s *stream) exceed(dimension string, limit, observed int64) {
	if observed <= limit || s.exceeded != nil {
		return
	}
	s.exceeded = record.Exceeded(record.ReasonBudgetExceeded, dimension, limit, observed, record.SourceWorker,
		fmt.Sprintf("the node may spend %d %s, its worker reported %d", limit, dimension, observed))
	s.stop(s.exceeded)
}

// usage is what the events add up to. Tokens are unknown until a usage event
// came: a worker that reports none may well have spent some.
func (s *stream) usage() record.Usage {
	u := record.Usage{
		Turns: record.Known(s.turns), ToolCalls: record.Known(int64(len(s.calls))),
		InputTokens: record.Unknown, OutputTokens: record.Unknown, CacheRead: record.Unknown,
		CacheWrite: record.Unknown, Tokens: record.Unknown, CostMicroUSD: record.Unknown,
		Source: record.SourceWorker, Partial: s.check.Finished() == nil,
	}
	t := s.check.Usage()
	if t.Messages > 0 {
		u.InputTokens, u.OutputTokens = record.Known(t.Input), record.Known(t.Output)
		u.CacheRead, u.CacheWrite = record.Known(t.CacheRead), record.Known(t.CacheWrite)
		u.Tokens = record.Known(tokens(t))
	}
	u.CostMicroUSD = s.cost(t)
	return u
}

// cost is what the worker says, else its tokens at the plan's price. A free
// model is priced 0; one without a price is unknown.
func (s *stream) cost(t contract.Totals) record.Count {
	if t.CostMicroUSD != nil {
		return record.Known(*t.CostMicroUSD)
	}
	if s.model == nil || t.Messages == 0 {
		return record.Unknown
	}
	p, sum := s.model.Price, new(big.Rat)
	for _, part := range []struct {
		tokens int64
		price  string
	}{{t.Input, p.Input}, {t.Output, p.Output}, {t.CacheRead, p.CacheRead}, {t.CacheWrite, p.CacheWrite}} {
		price, ok := new(big.Rat).SetString(part.price)
		if !ok {
			return record.Unknown
		}
		// USD for a million tokens is micro-USD for one.
		sum.Add(sum, price.Mul(price, new(big.Rat).SetInt64(part.tokens)))
	}
	up := new(big.Int).Add(sum.Num(), new(big.Int).Sub(sum.Denom(), big.NewInt(1)))
	if up.Div(up, sum.Denom()); !up.IsInt64() {
		return record.Unknown
	}
	return record.Known(up.Int64())
}

func (s *stream) worker() record.Worker {
	w := record.Worker{Status: s.check.Status(), Noise: s.session.Noise() + s.skipped, Violation: text(s.session.Violation())}
	if w.Violation == "" {
		w.Violation = text(s.breach)
	}
	if ev := s.check.Finished(); ev != nil {
		w.Message = text(ev.Message)
	}
	if ev := s.check.Started(); ev != nil && ev.Harness != nil {
		w.Name, w.Version, w.Model = text(ev.Harness.Name), text(ev.Harness.Version), text(ev.Harness.Model)
	}
	return w
}

func tokens(t contract.Totals) int64 {
	var sum int64
	for _, n := range []int64{t.Input, t.Output, t.CacheRead, t.CacheWrite} {
		if n > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}

// stdout hands a worker's output to the record and to the session, and ends
// the attempt when there is too much of it. It never fails and never blocks
// for longer than the session takes.
type stdout struct {
	kept io.Writer
	pipe *io.PipeWriter
	n    int64
	max  int64
	stop func(*record.Failure)
}

func (o *stdout) Write(p []byte) (int, error) {
	o.kept.Write(p) //nolint:errcheck // it never fails
	before := o.n
	o.n += int64(len(p))
	if o.n <= o.max {
		o.pipe.Write(p) //nolint:errcheck // closed: the attempt is over
		return len(p), nil
	}
	if before <= o.max {
		o.stop(tooMuch("standard output", o.max, o.n))
	}
	return len(p), nil
}

// stderr hands what a process says to people to the record, and ends the
// attempt when there is too much of it. It never fails.
type stderr struct {
	kept io.Writer
	n    int64
	max  int64
	stop func(*record.Failure)
}

func (e *stderr) Write(p []byte) (int, error) {
	e.kept.Write(p) //nolint:errcheck // it never fails
	before := e.n
	if e.n += int64(len(p)); e.n > e.max && before <= e.max {
		e.stop(tooMuch("standard error", e.max, e.n))
	}
	return len(p), nil
}

// tooMuch is the failure of a process that floods a stream.
func tooMuch(stream string, limit, written int64) *record.Failure {
	return record.Exceeded(record.ReasonResourceExceeded, record.DimStdout, limit, written, record.SourceController,
		fmt.Sprintf("a process may write %d bytes to %s", limit, stream))
}
