package view

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"foundry/exec/record"
)

// StoryOf is what the record says of one step, loop, branch or check, or of
// the whole run.
type StoryOf struct {
	Run      string    `json:"run"`
	Pipeline string    `json:"pipeline"`
	Status   string    `json:"status"`
	ID       string    `json:"id,omitempty"`
	Chapters []Chapter `json:"events"`
}

// Chapter is one event of it.
type Chapter struct {
	Seq       int64            `json:"seq"`
	Node      string           `json:"node"`
	Iteration int64            `json:"iteration,omitempty"`
	Attempt   int64            `json:"attempt,omitempty"`
	Status    string           `json:"status,omitempty"`
	Failure   *record.Failure  `json:"failure,omitempty"`
	Decision  *record.Decision `json:"decision,omitempty"`
}

// Explain tells what the record in a run folder says of an id, in the order in
// which it happened; "" is everything.
func Explain(dir, id string) (*StoryOf, error) {
	run, err := record.ReadRun(dir)
	if err != nil {
		return nil, err
	}
	var events []record.Event
	if id == "" {
		events, err = record.ReadEvents(filepath.Join(dir, record.EventsFile))
	} else {
		var x *record.Explanation
		if x, err = record.Explain(dir, id); err == nil {
			events = append(append(events, x.Attempts...), x.Decisions...)
			slices.SortFunc(events, func(a, b record.Event) int { return cmp.Compare(a.Seq, b.Seq) })
		}
	}
	if err != nil {
		return nil, err
	}
	s := &StoryOf{Run: run.ID, Pipeline: run.Plan.Pipeline, Status: run.Status, ID: id, Chapters: []Chapter{}}
	for _, e := range events {
		if e.Type == record.EventNodeFinished || e.Type == record.EventDecided {
			s.Chapters = append(s.Chapters, Chapter{Seq: e.Seq, Node: e.Node, Iteration: e.Iteration, Attempt: e.Attempt, Status: e.Status, Failure: e.Failure, Decision: e.Decision})
		}
	}
	return s, nil
}

// Story writes it for people.
func Story(w io.Writer, s *StoryOf) error {
	var b strings.Builder
	what := s.ID
	if what == "" {
		what = s.Pipeline
	}
	fmt.Fprintf(&b, "%s in run %s (%s)\n", what, s.Run, s.Status)
	if len(s.Chapters) == 0 {
		b.WriteString("\n  The record says nothing of it: it was not reached.\n")
	}
	for _, c := range s.Chapters {
		b.WriteByte('\n')
		at := c.Node
		if c.Iteration > 0 {
			at += fmt.Sprintf(", iteration %d", c.Iteration)
		}
		if c.Attempt > 1 {
			at += fmt.Sprintf(", attempt %d", c.Attempt)
		}
		if c.Decision != nil {
			writeDecision(&b, c, at)
		} else {
			fmt.Fprintf(&b, "  %s: %s\n", at, c.Status)
		}
		if f := c.Failure; f != nil {
			fmt.Fprintf(&b, "    %s (%s)\n", f.Reason, f.Class)
			for _, line := range strings.Split(f.Detail, "\n") {
				for _, l := range wrap(line, wrapColumns) {
					fmt.Fprintf(&b, "      %s\n", l)
				}
			}
		}
	}
	_, err := io.WriteString(w, SafeLines(b.String()))
	return err
}

func writeDecision(b *strings.Builder, c Chapter, at string) {
	d := c.Decision
	meaning := map[string]map[string]string{
		record.DecidedUntil:  {record.VerdictTrue: "the loop ends", record.VerdictFalse: "the loop goes on"},
		record.DecidedAccept: {record.VerdictTrue: "the alternative is accepted", record.VerdictFalse: "the alternative is not accepted"},
		record.DecidedAssert: {record.VerdictTrue: "the check passes", record.VerdictFalse: "the check fails"},
	}[d.Kind][d.Verdict]
	if meaning == "" {
		meaning = "it cannot be decided"
	}
	fmt.Fprintf(b, "  %s: %s of %s: %s\n", at, d.Kind, d.Of, meaning)
	fmt.Fprintf(b, "    because %s\n", d.Line)
	for _, f := range d.Facts {
		fmt.Fprintf(b, "    %s", f.Name)
		if f.Value != "" {
			fmt.Fprintf(b, " = %s", f.Value)
		}
		if f.From != "" {
			fmt.Fprintf(b, ", from %s", f.From)
		}
		if f.Digest != "" {
			fmt.Fprintf(b, ", %s", f.Digest)
		}
		if f.Note != "" {
			fmt.Fprintf(b, " (%s)", f.Note)
		}
		b.WriteByte('\n')
	}
}

// RunLine is one run of a list.
type RunLine struct {
	ID       string `json:"id"`
	Pipeline string `json:"pipeline"`
	Status   string `json:"status"`
	Reason   string `json:"reason,omitempty"`
	Started  string `json:"started"`
	Plan     string `json:"plan"`
	Dir      string `json:"dir"`
}

// Runs writes a list of runs.
func Runs(w io.Writer, runs []RunLine) error {
	var b strings.Builder
	for _, r := range runs {
		status := r.Status
		if r.Reason != "" {
			status += ": " + r.Reason
		}
		fmt.Fprintf(&b, "%-36s %-24s %s\n%-36s %s\n", r.ID, r.Pipeline, status, "", r.Dir)
	}
	if len(runs) == 0 {
		b.WriteString("No runs.\n")
	}
	_, err := io.WriteString(w, SafeLines(b.String()))
	return err
}
