package record

import "strconv"

// Count is a whole number that may be unknown: decimal digits, or Unknown.
// The empty string says that there is nothing to count.
type Count string

// Unknown is the Count of what nobody measured.
const Unknown Count = "unknown"

// Known is the Count of n.
func Known(n int64) Count { return Count(strconv.FormatInt(n, 10)) }

// Value returns the number, and whether it is known.
func (c Count) Value() (int64, bool) {
	n, err := strconv.ParseInt(string(c), 10, 64)
	return n, err == nil
}

// Plus adds two counts; the sum with an unknown is unknown, as is one that
// does not fit 64 bits. The empty Count adds nothing.
func (c Count) Plus(d Count) Count {
	if c == "" {
		return d
	}
	if d == "" {
		return c
	}
	a, okA := c.Value()
	b, okB := d.Value()
	sum := a + b
	if !okA || !okB || (a > 0 && b > 0 && sum < 0) {
		return Unknown
	}
	return Known(sum)
}

// Usage is what an attempt, a node or a run spent. Wall is measured by the
// controller; Source says who counted the tokens and the cost, and the turns and
// tool calls are the worker's own words. Partial says that a worker was ended
// before its final event: it may have spent more than it had told until then.
type Usage struct {
	WallMillis   Count `json:"wall_millis"`
	Turns        Count `json:"turns"`
	ToolCalls    Count `json:"tool_calls"`
	InputTokens  Count `json:"input_tokens"`
	OutputTokens Count `json:"output_tokens"`
	CacheRead    Count `json:"cache_read_tokens"`
	CacheWrite   Count `json:"cache_write_tokens"`
	Tokens       Count `json:"tokens"` // all four together
	CostMicroUSD Count `json:"cost_micro_usd"`

	Source  string `json:"source,omitempty"` // SourceWorker, SourceBroker, or SourceMixed of a sum
	Partial bool   `json:"partial,omitempty"`
}

// NoUsage is the usage of what never started.
func NoUsage() Usage {
	return Usage{WallMillis: "0", Turns: "0", ToolCalls: "0", InputTokens: "0", OutputTokens: "0",
		CacheRead: "0", CacheWrite: "0", Tokens: "0", CostMicroUSD: "0"}
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		WallMillis:   u.WallMillis.Plus(v.WallMillis),
		Turns:        u.Turns.Plus(v.Turns),
		ToolCalls:    u.ToolCalls.Plus(v.ToolCalls),
		InputTokens:  u.InputTokens.Plus(v.InputTokens),
		OutputTokens: u.OutputTokens.Plus(v.OutputTokens),
		CacheRead:    u.CacheRead.Plus(v.CacheRead),
		CacheWrite:   u.CacheWrite.Plus(v.CacheWrite),
		Tokens:       u.Tokens.Plus(v.Tokens),
		CostMicroUSD: u.CostMicroUSD.Plus(v.CostMicroUSD),
		Source:       bothSources(u.Source, v.Source),
		Partial:      u.Partial || v.Partial,
	}
}

func bothSources(a, b string) string {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return SourceMixed
}
