package main

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/plan/diff"
)

func (a *app) diffCommand() *cobra.Command {
	var f compileFlags
	var format, out, exitOn string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what differs between two plans, and what of it widens what may be done",
		Long: "Say what differs between two plans, by steps and not by lines, and whether each change widens what may be\n" +
			"done, spent or accepted, narrows it, or does neither. A and B are each a policy, a plan file, a closure, or\n" +
			"REV:PATH: one of these in a commit of the git repository around the current folder, PATH from its top.\n" +
			"The exit code is 0 when nothing differs, 1 when something does, 2 when that cannot be said.",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if exitOn != "" && exitOn != string(diff.Widens) {
				return usage("--exit-on %q is unknown: it is widens", exitOn)
			}
			if err := knownDiffFormat(format); err != nil {
				return err
			}
			// Both are tried, so that all that is wrong is told at once.
			before, errBefore := a.side(args[0], &f)
			after, errAfter := a.side(args[1], &f)
			if errBefore != nil || errAfter != nil {
				return worse(errBefore, errAfter)
			}
			r, err := diff.Plans(before.compared(), after.compared())
			if err != nil {
				return usage("%w", err)
			}
			var b bytes.Buffer
			if err := showDiff(&b, format, r, before, after); err != nil {
				return err
			}
			if err := a.output(out, &b); err != nil {
				return err
			}
			if len(r.Changes) == 0 || exitOn != "" && r.Count(diff.Widens) == 0 {
				return nil
			}
			return &exitError{code: exitNo}
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&format, "format", "text", "`FORM` of the result: text, markdown, json or sarif")
	cmd.Flags().StringVarP(&out, "out", "o", "", "write it to `FILE`, not to standard output")
	cmd.Flags().StringVar(&exitOn, "exit-on", "", "`CLASS` of change that makes the exit code 1, without it any: widens")
	return cmd
}

func knownDiffFormat(format string) error {
	switch format {
	case "text", "markdown", "json", "sarif":
		return nil
	}
	return usage("--format %q is unknown: it is text, markdown, json or sarif", format)
}

func showDiff(b *bytes.Buffer, format string, r *diff.Report, before, after *source) error {
	switch format {
	case "markdown":
		b.WriteString(view.DiffMarkdown(r, before.plan, after.plan, view.MaxMarkdown))
		return nil
	case "json":
		return view.DiffJSON(b, r)
	case "sarif":
		if after.result == nil {
			return view.DiffSARIF(b, r, version, nil)
		}
		return view.DiffSARIF(b, r, version, after.result)
	}
	return view.DiffText(b, r)
}

// worse is the outcome of two loads of which one failed or both did: what was
// not told yet is told.
func worse(errs ...error) error {
	var told *exitError
	var open []error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if e, ok := errors.AsType[*exitError](err); ok && e.err == nil {
			if told = e; e.code == exitNo { // which would mean that the two differ
				told = &exitError{code: exitUsage}
			}
			continue
		}
		open = append(open, err)
	}
	switch {
	case len(open) == 0:
		return told
	case len(open) == 1:
		return open[0]
	}
	return &exitError{exitUsage, errors.Join(open...)}
}
