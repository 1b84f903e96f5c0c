package contract

import (
	"errors"
	"math"
)

// Checker is the state machine over one worker's events: started first,
// exactly one finished, nothing after it. It also adds up the usage. The zero
// value is ready.
type Checker struct {
	started  *Event
	finished *Event
	usage    map[string]Usage
	totals   Totals
	cost     int64 // sum of the known costs
	unpriced int64 // messages without a cost
}

// Totals is the usage of all messages together. CostMicroUSD is nil when one
// message's cost is unknown, or when there was no message: unknown is never 0.
type Totals struct {
	Messages     int64
	Input        int64
	Output       int64
	CacheRead    int64
	CacheWrite   int64
	CostMicroUSD *int64
}

// Breaches of the contract.
var (
	errNotStarted    = errors.New("contract: an event stands before started")
	errStartedTwice  = errors.New("contract: a second started event")
	errFinishedTwice = errors.New("contract: a second finished event")
	errAfterFinished = errors.New("contract: an event stands after finished")
)

// Add takes the next valid event. An error says how it breaks the contract; the
// event then changes nothing, except that usage is always counted: what was
// spent is spent.
func (c *Checker) Add(ev Event) error {
	if ev.Type == UsageType && ev.Usage != nil {
		c.count(*ev.Usage)
	}
	switch {
	case c.finished != nil && ev.Type == Finished:
		return errFinishedTwice
	case c.finished != nil:
		return errAfterFinished
	case c.started != nil && ev.Type == Started:
		return errStartedTwice
	case c.started == nil && ev.Type != Started:
		return errNotStarted
	}
	switch ev.Type {
	case Started:
		c.started = &ev
	case Finished:
		c.finished = &ev
	}
	return nil
}

// Started is the started event, nil if there was none.
func (c *Checker) Started() *Event { return c.started }

// Finished is the finished event, nil if there was none.
func (c *Checker) Finished() *Event { return c.finished }

// Status is the status of the finished event, NoStatus if there was none.
func (c *Checker) Status() string {
	if c.finished == nil {
		return NoStatus
	}
	return c.finished.Status
}

// Usage is the sum over all messages; of events about one message the last
// one counts.
func (c *Checker) Usage() Totals {
	t := c.totals
	if t.Messages > 0 && c.unpriced == 0 {
		cost := c.cost
		t.CostMicroUSD = &cost
	}
	return t
}

func (c *Checker) count(u Usage) {
	if c.usage == nil {
		c.usage = map[string]Usage{}
	}
	if old, again := c.usage[u.Message]; again {
		c.apply(old, -1)
	}
	c.usage[u.Message] = u
	c.apply(u, 1)
}

func (c *Checker) apply(u Usage, sign int64) {
	t := &c.totals
	t.Messages += sign
	t.Input = addUp(t.Input, sign*u.Input)
	t.Output = addUp(t.Output, sign*u.Output)
	t.CacheRead = addUp(t.CacheRead, sign*u.CacheRead)
	t.CacheWrite = addUp(t.CacheWrite, sign*u.CacheWrite)
	if u.CostMicroUSD == nil {
		c.unpriced += sign
		return
	}
	c.cost = addUp(c.cost, sign*(*u.CostMicroUSD))
}

// addUp adds and stays at the largest number once it is reached: a total too
// large is better than one that wraps round.
func addUp(a, b int64) int64 {
	if a == math.MaxInt64 || b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
