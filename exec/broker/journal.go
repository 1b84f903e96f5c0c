package broker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Spend is what an attempt has spent, by the provider's own usage.
type Spend struct {
	Input, Output, CacheRead, CacheWrite int64 // tokens
	CostMicroUSD                         int64
	// What was reserved for answers whose usage never came. It counts as spent.
	UnsettledTokens, UnsettledCost int64
}

// Tokens is all tokens that count.
func (s Spend) Tokens() int64 {
	return sum(s.Input, s.Output, s.CacheRead, s.CacheWrite, s.UnsettledTokens)
}

// Cost is all of the cost that counts, in millionths of a US dollar.
func (s Spend) Cost() int64 { return sum(s.CostMicroUSD, s.UnsettledCost) }

// most is where figures end: no budget is so large, and two of them still add.
const most = 1 << 61

// sum of what is not below 0.
func sum(figures ...int64) int64 {
	total := int64(0)
	for _, n := range figures {
		total += min(n, most-total)
	}
	return total
}

// entry is a line of the journal: a reservation, or its settlement.
type entry struct {
	Attempt string `json:"attempt"`
	Request int64  `json:"request"`
	Settled bool   `json:"settled,omitempty"`
	Tokens  int64  `json:"tokens,omitempty"` // reserved
	Cost    int64  `json:"cost_micro_usd"`   // reserved, or spent
	Usage   *usage `json:"usage,omitempty"`  // of a settlement
}

// journal is appended to before a request goes on and after its answer came. It
// survives the death of this process, not that of the machine.
type journal struct {
	f *os.File
}

// openJournal reads what earlier brokers of the run wrote. A last line without
// its end is what a killed one was writing: it is cut off.
func openJournal(path string) (*journal, map[string]*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	attempts, size, err := replay(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("broker: the journal %s: %w", path, err), f.Close())
	}
	return &journal{f: f}, attempts, nil
}

func replay(r io.Reader) (map[string]*ledger, int64, error) {
	attempts := map[string]*ledger{}
	var size int64
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return attempts, size, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		if min(e.Tokens, e.Cost) < 0 || e.Usage != nil && !e.Usage.sane() {
			return nil, 0, fmt.Errorf("line %d: it has a figure that nothing can come to", n)
		}
		l := attempts[e.Attempt]
		if l == nil {
			l = newLedger()
			attempts[e.Attempt] = l
		}
		if e.Settled {
			l.settle(e)
		} else {
			l.reserved[e.Request] = reservation{e.Tokens, e.Cost}
		}
		size += int64(len(line))
	}
}

// write appends an entry, as one write.
func (j *journal) write(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = j.f.Write(append(line, '\n'))
	return err
}

// reservation is the most that an answer under way can come to.
type reservation struct{ tokens, cost int64 }

// ledger is the account of one attempt.
type ledger struct {
	spent    Spend // without what is unsettled
	reserved map[int64]reservation
}

func newLedger() *ledger { return &ledger{reserved: map[int64]reservation{}} }

// unused reports whether no request ever went on.
func (l *ledger) unused() bool { return len(l.reserved) == 0 && l.spent == Spend{} }

// settle replaces a reservation by what was spent. Without a usage it stays.
func (l *ledger) settle(e entry) {
	if e.Usage == nil {
		return
	}
	delete(l.reserved, e.Request)
	l.spent.Input = sum(l.spent.Input, e.Usage.Input)
	l.spent.Output = sum(l.spent.Output, e.Usage.Output)
	l.spent.CacheRead = sum(l.spent.CacheRead, e.Usage.CacheRead)
	l.spent.CacheWrite = sum(l.spent.CacheWrite, e.Usage.CacheWrite)
	l.spent.CostMicroUSD = sum(l.spent.CostMicroUSD, e.Cost)
}

// total counts what is reserved as spent.
func (l *ledger) total() Spend {
	s := l.spent
	for _, r := range l.reserved {
		s.UnsettledTokens = sum(s.UnsettledTokens, r.tokens)
		s.UnsettledCost = sum(s.UnsettledCost, r.cost)
	}
	return s
}
