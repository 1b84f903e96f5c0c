package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"foundry/cmd/foundry/internal/view"
	"foundry/exec"
	"foundry/plan"
	"foundry/sandbox"
)

// trials runs the plan several times, each run with a folder of its own below
// one, and says how many succeeded. Of the exit codes 1 outranks 4, and 4
// outranks 3.
func (a *app) trials(ctx context.Context, s *source, af *applyFlags, runtimes map[string]sandbox.Runtime) error {
	base, err := runFolder(af.runDir)
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	if entries, err := os.ReadDir(base); err == nil && len(entries) > 0 {
		return usage("%s exists and is not empty: name a new folder", base)
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return &exitError{exitInfrastructure, err}
	}
	tally := view.NewTally(s.plan)
	if af.progress != "json" { // whose lines are read by programs
		fmt.Fprintln(a.stderr, view.TrialsCost(s.plan, af.trials))
	}
	worst := exitOK
	for i := range af.trials {
		if ctx.Err() != nil {
			worst = exitInterrupted
			break
		}
		if af.progress != "json" && af.progress != "none" {
			fmt.Fprintf(a.stderr, "trial %d of %d\n", i+1, af.trials)
		}
		dir := filepath.Join(base, fmt.Sprintf("trial-%04d", i+1))
		run, _, err := a.runOnce(ctx, s, af, runtimes, dir)
		if err != nil {
			return err
		}
		tally.Add(run)
		worst = outranks(worst, exec.ExitCode(run, nil))
	}
	data, err := plan.EncodeCanonical(tally.Result())
	if err == nil {
		err = os.WriteFile(filepath.Join(base, "trials.json"), data, 0o600)
	}
	if err == nil {
		err = tally.Write(a.stdout, base)
	}
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	if worst != exitOK {
		return &exitError{code: worst}
	}
	return nil
}

// outranks is the worse of two exit codes.
func outranks(a, b int) int {
	rank := map[int]int{exitOK: 0, exitInfrastructure: 1, exitGrader: 2, exitNo: 3, exitUsage: 4, exitInterrupted: 5}
	if rank[b] > rank[a] {
		return b
	}
	return a
}
