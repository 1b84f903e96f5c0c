package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/plan"
	"foundry/sandbox"
)

// resume goes on with the run in RunDir. Until everything is verified nothing
// in the folder is changed.
func (e *engine) resume(ctx context.Context) (*record.Run, error) {
	folder, events, err := record.Open(e.opts.RunDir)
	if err != nil {
		return nil, &Refusal{err}
	}
	defer folder.Close()
	e.folder = folder
	if err := e.sameRun(events); err != nil {
		return nil, &Refusal{err}
	}
	if err := e.preflight(); err != nil {
		return nil, &Refusal{err}
	}
	if len(events) > 0 {
		if err := e.verify(ctx, events); err != nil {
			return nil, err
		}
	}
	if err := e.reclaim(ctx, events); err != nil {
		return nil, err
	}
	if err := e.sweep(); err != nil {
		return nil, err
	}
	if err := e.take(ctx); err != nil {
		return nil, err
	}
	if len(events) == 0 { // it was ended before its first event
		return e.run, e.start(ctx)
	}
	for _, ev := range events {
		if err := e.apply(ev); err != nil {
			return nil, &Refusal{fmt.Errorf("exec: the journal of %s cannot be replayed, at event %d: %w", e.opts.RunDir, ev.Seq, err)}
		}
	}
	if last := events[len(events)-1]; last.Type == record.EventRunFinished && last.Status == record.StatusSucceeded {
		e.cleanUp()
		return e.run, e.folder.WriteRun(e.run) // there is nothing left to do
	}
	e.queue = nil
	e.before = e.spentWall(events)
	e.begun = time.Now()
	return e.run, e.loop(ctx, record.Event{Type: record.EventRunResumed, Parallelism: int64(max(1, e.opts.Parallelism)), KeepGoing: e.opts.KeepGoing})
}

// sameRun refuses a folder that holds the run of another plan.
func (e *engine) sameRun(events []record.Event) error {
	want := plan.Digest(e.opts.PlanBytes)
	if data, err := os.ReadFile(e.folder.Path(record.PlanFile)); err == nil && len(events) > 0 && !bytes.Equal(data, e.opts.PlanBytes) {
		return fmt.Errorf("exec: the run in %s is of the plan %s, not of %s: a run goes on with its own plan alone", e.opts.RunDir, plan.Digest(data), want)
	}
	if len(events) == 0 {
		return nil
	}
	program, err := digestFile(e.opts.Executable)
	if err != nil {
		return err
	}
	first := events[0]
	switch {
	case first.Type != record.EventRunStarted:
		return fmt.Errorf("exec: the journal of %s does not start with %s: it was changed", e.opts.RunDir, record.EventRunStarted)
	case first.Plan != want:
		return fmt.Errorf("exec: the run in %s is of the plan %s, not of %s: a run goes on with its own plan alone", e.opts.RunDir, first.Plan, want)
	case first.Program != program:
		// It compiled nothing of the run, but it is what checks, stages and, in the
		// builtin image, works: another build of it may come to something else.
		return fmt.Errorf("exec: the run in %s was begun by the program %s, and this one is %s: go on with that build, or start a new run", e.opts.RunDir, first.Program, program)
	case e.opts.Through != "" && e.opts.Through != first.Through:
		return fmt.Errorf("exec: the run in %s goes through %q, not through %q: start a new run", e.opts.RunDir, first.Through, e.opts.Through)
	}
	e.opts.Through = first.Through
	return nil
}

// verify reads what finished nodes promoted, and what checks said: bytes that
// are not those of the record are refused.
func (e *engine) verify(ctx context.Context, events []record.Event) error {
	store, err := sandbox.OpenStoreReadOnly(e.folder.Path(record.StoreDir))
	if err != nil {
		return &Refusal{err}
	}
	seen := map[string]bool{}
	check := func(node, what, digest string) error {
		if digest == "" || seen[digest] {
			return nil
		}
		seen[digest] = true
		r, err := store.Open(digest)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			return &Refusal{fmt.Errorf("exec: node %s finished, but its %s is not what it was: %w", node, what, err)}
		}
		return nil
	}
	for _, ev := range events {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ev.Check != nil {
			if err := check(ev.Node, "output to people", ev.Check.Stdout); err != nil {
				return err
			}
		}
		for _, a := range ev.Outputs {
			if err := check(ev.Node, "artifact "+a.Artifact, a.Digest); err != nil {
				return err
			}
			art, err := attempt.ArtifactOf(store, a)
			if err != nil {
				return &Refusal{fmt.Errorf("exec: node %s: artifact %s: %w", ev.Node, a.Artifact, err)}
			}
			for _, f := range art.Tree {
				if err := check(ev.Node, "artifact "+a.Artifact+", file "+f.Path, f.Digest); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// reclaim ends what the killed controller's workers left alive: they might
// write while their successors read.
func (e *engine) reclaim(ctx context.Context, events []record.Event) error {
	if len(events) == 0 {
		return nil
	}
	for _, mode := range slices.Sorted(maps.Keys(e.opts.Runtimes)) {
		if r, ok := e.opts.Runtimes[mode].(sandbox.Reclaimer); ok {
			if err := r.Reclaim(ctx, events[0].Run); err != nil {
				return fmt.Errorf("exec: what the killed controller left alive could not be ended: %w", err)
			}
		}
	}
	return nil
}

// sweep removes what a killed controller was writing.
func (e *engine) sweep() error {
	err := attempt.SweepWork(e.folder)
	for _, pattern := range []string{filepath.Join(record.StoreDir, ".put-*"), record.RunFile + ".new"} {
		names, _ := filepath.Glob(filepath.Join(globQuote(e.folder.Dir), pattern))
		for _, n := range names {
			err = errors.Join(err, os.Remove(n))
		}
	}
	return err
}

// globQuote makes a path match itself alone.
func globQuote(path string) string {
	var b bytes.Buffer
	for i := range len(path) {
		if bytes.IndexByte([]byte(`*?[\`), path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// spentWall is how long the run has worked. The journal ends before the last
// controller did: what was under way then took at most what it had reserved,
// and at most until now.
func (e *engine) spentWall(events []record.Event) time.Duration {
	spent := events[len(events)-1].ElapsedMS
	under := map[string]record.Event{}
	for _, ev := range events {
		switch ev.Type {
		case record.EventNodeStarted:
			under[ev.Node] = ev
		case record.EventNodeFinished:
			delete(under, ev.Node)
		case record.EventRunResumed:
			clear(under)
		}
	}
	now := e.opts.Now()
	for _, ev := range under {
		if ev.Reserved == nil {
			continue
		}
		took := ev.Reserved.WallSeconds * 1000
		if at, err := time.Parse(time.RFC3339Nano, ev.Time); err == nil && !now.Before(at) {
			took = min(took, now.Sub(at).Milliseconds())
		}
		spent = max(spent, ev.ElapsedMS+took)
	}
	return time.Duration(spent) * time.Millisecond
}
