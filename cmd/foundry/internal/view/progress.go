package view

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
)

// ProgressForm is how a run tells how far it is.
type ProgressForm int

// Forms of progress.
const (
	ProgressPlain ProgressForm = iota // one line for each event
	ProgressLive                      // the same, and a status line that is rewritten
	ProgressJSON                      // the journal's events, one JSON object a line
	ProgressNone
)

// Progress tells how far a run is. Its methods may be called from several
// goroutines.
type Progress struct {
	mu      sync.Mutex
	w       io.Writer
	p       *plan.Plan
	form    ProgressForm
	started time.Time
	running map[string]int64 // node → iteration
	done    int
	spent   record.Usage
	turns   map[string]int64 // of running nodes, as their workers say
	drawn   bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

// NewProgress makes a progress that writes to w; Close it.
func NewProgress(w io.Writer, p *plan.Plan, form ProgressForm) *Progress {
	g := &Progress{w: w, p: p, form: form, started: time.Now(), running: map[string]int64{}, turns: map[string]int64{}, stop: make(chan struct{}), spent: record.NoUsage()}
	if form == ProgressLive {
		g.stopped.Go(func() {
			tick := time.NewTicker(250 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-g.stop:
					return
				case <-tick.C:
					g.mu.Lock()
					g.draw()
					g.mu.Unlock()
				}
			}
		})
	}
	return g
}

// Close removes the status line.
func (g *Progress) Close() {
	close(g.stop)
	g.stopped.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clear()
}

// Event tells an event of the journal.
func (g *Progress) Event(e record.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.follow(e)
	switch g.form {
	case ProgressNone:
		return
	case ProgressJSON:
		if data, err := json.Marshal(e); err == nil {
			g.w.Write(append(data, '\n'))
		}
		return
	}
	g.clear()
	at := fmt.Sprintf("[%6.1fs] ", float64(e.ElapsedMS)/1000)
	switch e.Type {
	case record.EventRunStarted:
		fmt.Fprintf(g.w, "%srun %s of %s, %s\n", at, e.Run, Safe(g.p.Pipeline.Name), count(len(g.p.Nodes), "step"))
	case record.EventRunResumed:
		fmt.Fprintf(g.w, "%sgoing on\n", at)
	case record.EventNodeStarted:
		fmt.Fprintf(g.w, "%s%s started%s\n", at, Safe(e.Node), iteration(e))
	case record.EventNodeFinished:
		fmt.Fprintf(g.w, "%s%s %s%s%s\n", at, Safe(e.Node), e.Status, iteration(e), failure(e.Failure))
	case record.EventProbed:
		fmt.Fprintf(g.w, "%sprobe of %s %s\n", at, Safe(e.Probe.Tool), e.Probe.Status)
	case record.EventDecided:
		fmt.Fprintf(g.w, "%s%s%s: %s %s\n", at, Safe(e.Decision.Of), iteration(e), e.Decision.Kind, Safe(e.Decision.Line))
	case record.EventCancel:
		fmt.Fprintf(g.w, "%scancelled: stopping the workers\n", at)
	}
	g.draw()
}

// follow keeps what the status line shows.
func (g *Progress) follow(e record.Event) {
	switch e.Type {
	case record.EventNodeStarted:
		g.running[e.Node] = max(e.Iteration, 1)
	case record.EventNodeFinished:
		delete(g.running, e.Node)
		delete(g.turns, e.Node)
		g.done++
		if e.Usage != nil {
			g.spent = g.spent.Plus(*e.Usage)
		}
	}
}

// Worker follows what a worker says of itself: shown, never believed.
func (g *Progress) Worker(node string, e contract.Event) {
	if e.Type != contract.Turn {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns[node] = max(g.turns[node], e.Turn)
}

func (g *Progress) clear() {
	if g.drawn {
		io.WriteString(g.w, "\r\x1b[K")
		g.drawn = false
	}
}

// draw writes the status line: what runs, for how long, and what was spent of
// the budget.
func (g *Progress) draw() {
	if g.form != ProgressLive || len(g.running) == 0 {
		return
	}
	g.clear()
	var nodes []string
	for n, i := range g.running {
		s := n
		if i > 1 {
			s += fmt.Sprintf(" (iteration %d)", i)
		}
		if t := g.turns[n]; t > 0 {
			s += fmt.Sprintf(" turn %d", t)
		}
		nodes = append(nodes, s)
	}
	slices.Sort(nodes)
	line := fmt.Sprintf("%s  %s done  %s%s", Seconds(int64(time.Since(g.started).Seconds())), count(g.done, "step"), strings.Join(nodes, ", "), g.budget())
	if r := []rune(Safe(line)); len(r) > 110 {
		line = string(r[:109]) + "…"
	} else {
		line = string(r)
	}
	io.WriteString(g.w, line)
	g.drawn = true
}

func (g *Progress) budget() string {
	s := ""
	if n, ok := g.spent.Tokens.Value(); ok {
		s += fmt.Sprintf("  %s of %s tokens", Count(n), Count(g.p.Budget.Tokens))
	}
	if n, ok := g.spent.CostMicroUSD.Value(); ok {
		s += fmt.Sprintf("  %s of %s", Dollars(n), Dollars(g.p.Budget.CostMicroUSD))
	}
	return s
}

func iteration(e record.Event) string {
	if e.Iteration > 1 {
		return fmt.Sprintf(", iteration %d", e.Iteration)
	}
	return ""
}

func failure(f *record.Failure) string {
	if f == nil {
		return ""
	}
	return ": " + Safe(f.Reason)
}
