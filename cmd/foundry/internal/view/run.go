package view

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"foundry/exec/record"
	"foundry/plan"
)

// Progress writes one line for each event of a run.
type Progress struct {
	mu sync.Mutex
	w  io.Writer
	p  *plan.Plan
}

// NewProgress makes a progress that writes to w.
func NewProgress(w io.Writer, p *plan.Plan) *Progress { return &Progress{w: w, p: p} }

// Event writes what an event says to people; it may be called from several
// goroutines.
func (g *Progress) Event(e record.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := fmt.Sprintf("[%6.1fs] ", float64(e.ElapsedMS)/1000)
	switch e.Type {
	case record.EventRunStarted:
		fmt.Fprintf(g.w, "%srun %s of %s, %s\n", at, e.Run, Safe(g.p.Pipeline.Name), count(len(g.p.Nodes), "step"))
	case record.EventNodeStarted:
		fmt.Fprintf(g.w, "%s%s started%s\n", at, Safe(e.Node), iteration(e))
	case record.EventNodeFinished:
		fmt.Fprintf(g.w, "%s%s %s%s%s\n", at, Safe(e.Node), e.Status, iteration(e), failure(e.Failure))
	case record.EventCancel:
		fmt.Fprintf(g.w, "%scancelled: stopping the workers\n", at)
	}
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

// Outcome writes how a run ended: each step with its artifacts, and what
// failed, by whom and why. dir is the run folder.
func Outcome(w io.Writer, run *record.Run, dir string) error {
	var b strings.Builder
	for _, n := range run.Nodes {
		if n.Status == record.StatusNotReached {
			continue
		}
		fmt.Fprintf(&b, "%-10s %s\n", n.Status, n.ID)
		for _, o := range n.Outputs {
			fmt.Fprintf(&b, "             %s %s (%s)\n", o.Filename, o.Digest, Bytes(o.Bytes))
		}
		if f := n.Failure; f != nil {
			writeFailure(&b, f)
		}
	}
	if rest := unreached(run); rest > 0 {
		fmt.Fprintf(&b, "%s not reached\n", count(rest, "step"))
	}
	b.WriteByte('\n')
	if f := run.Failure; f != nil {
		fmt.Fprintf(&b, "Run %s %s: %s (%s)\n", run.ID, run.Status, f.Reason, f.Class)
	} else {
		fmt.Fprintf(&b, "Run %s %s\n", run.ID, run.Status)
	}
	if run.TestStub {
		b.WriteString("A test stub played scripts: no agent worked, so this says nothing of the skills.\n")
	}
	if !run.Isolated {
		b.WriteString("The local sandbox is no security boundary.\n")
	}
	fmt.Fprintf(&b, "Record: %s\n", filepath.Join(dir, "run.json"))
	_, err := io.WriteString(w, SafeLines(b.String()))
	return err
}

func unreached(run *record.Run) int {
	n := 0
	for _, node := range run.Nodes {
		if node.Status == record.StatusNotReached {
			n++
		}
	}
	return n
}

func writeFailure(b *strings.Builder, f *record.Failure) {
	fmt.Fprintf(b, "           %s (%s)\n", f.Reason, f.Class)
	for _, line := range strings.Split(strings.TrimRight(f.Detail, "\n"), "\n") {
		for _, l := range wrap(line, wrapColumns) {
			fmt.Fprintf(b, "             %s\n", l)
		}
	}
	if f.Limit != "" || f.Observed != "" {
		fmt.Fprintf(b, "             limit %s, observed %s, over by %s, measured by the %s\n", f.Limit, f.Observed, f.Overshoot, f.Source)
	}
}
