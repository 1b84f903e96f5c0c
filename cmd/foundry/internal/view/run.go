package view

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"foundry/exec/record"
)

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
	writeControl(&b, run)
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
	if run.PlaysScript {
		b.WriteString("A scripted provider played answers: no model worked, so this says nothing of the skills.\n")
	}
	if !run.Isolated {
		b.WriteString("The local sandbox is no security boundary.\n")
	}
	fmt.Fprintf(&b, "Record: %s\n", filepath.Join(dir, "run.json"))
	_, err := io.WriteString(w, SafeLines(b.String()))
	return err
}

// writeControl tells how loops and branches ended.
func writeControl(b *strings.Builder, run *record.Run) {
	for _, l := range run.Loops {
		if l.Iterations == 0 {
			continue
		}
		fmt.Fprintf(b, "%-10s loop %s after %s of at most %d\n", l.Status, l.ID, count(int(l.Iterations), "iteration"), l.MaxIterations)
		if l.Decided != "" {
			fmt.Fprintf(b, "             %s\n", l.Decided)
		}
		if l.Failure != nil {
			writeFailure(b, l.Failure)
		}
	}
	for _, br := range run.Branches {
		if len(br.Tried) == 0 && br.Accepted == "" {
			continue
		}
		fmt.Fprintf(b, "%-10s branch %s", br.Status, br.ID)
		if br.Accepted != "" {
			fmt.Fprintf(b, " with %s", br.Accepted)
		}
		b.WriteByte('\n')
		for _, t := range br.Tried {
			fmt.Fprintf(b, "             %s: %s\n", t.Node, t.Why)
		}
		if br.Failure != nil {
			writeFailure(b, br.Failure)
		}
	}
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
