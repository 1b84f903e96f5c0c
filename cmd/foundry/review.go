package main

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/closure"
	"foundry/cmd/foundry/internal/view"
	"foundry/plan"
	"foundry/plan/diff"
)

func (a *app) reviewCommand() *cobra.Command {
	var f compileFlags
	var out, exitOn string
	cmd := &cobra.Command{
		Use:   "review BASE HEAD",
		Short: "Write what a change does to a plan as one Markdown comment: what widens, the guards, the spend",
		Long: "Write what a change does to a plan as one Markdown comment of at most 65,535 characters: what differs and what\n" +
			"of it widens what may be done, which guards hold, and what may be spent, before and after. BASE and HEAD are\n" +
			"each a policy, a plan file, a closure, or REV:PATH, as for diff. A BASE that its commit does not have is said to\n" +
			"be new. Where a side does not compile, the comment says why.\n" +
			"The exit code is 0 when HEAD keeps its guards, 1 when it breaks one or when --exit-on says so, 2 when a side\n" +
			"cannot be read, compiled or compared.",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if exitOn != "" && exitOn != string(diff.Widens) {
				return usage("--exit-on %q is unknown: it is widens", exitOn)
			}
			before, isNew, errBefore := a.reviewed(args[0], &f, true)
			after, _, errAfter := a.reviewed(args[1], &f, false)
			if errBefore != nil || errAfter != nil {
				return worse(errBefore, errAfter)
			}
			rv := &view.Review{Before: before.side, After: after.side, New: isNew}
			if before.compared != nil && after.compared != nil {
				r, err := diff.Plans(*before.compared, *after.compared)
				if err != nil {
					rv.Trouble = err.Error()
				}
				rv.Report = r
			}
			b := bytes.NewBufferString(view.ReviewMarkdown(rv, view.MaxMarkdown))
			if err := a.output(out, b); err != nil {
				return err
			}
			return verdict(rv, exitOn)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "write it to `FILE`, not to standard output")
	cmd.Flags().StringVar(&exitOn, "exit-on", "", "`CLASS` of change that also makes the exit code 1: widens")
	return cmd
}

// reviewSide is one side of a review.
type reviewSide struct {
	side     *view.ReviewSide
	compared *diff.Side // nil where there is no plan
}

// reviewed loads a side. A policy that does not compile is no error: the review
// says what is wrong with it, and shows the plan where only its guards refuse
// it. What a commit does not have may be new.
func (a *app) reviewed(name string, f *compileFlags, mayBeNew bool) (_ *reviewSide, isNew bool, _ error) {
	s, err := a.side(name, f)
	if failed, ok := errors.AsType[*notCompiled](err); ok {
		res := failed.result
		side := &reviewSide{side: &view.ReviewSide{Plan: res.Refused, Diagnostics: res.Diagnostics, Sources: res.Sources}}
		if res.Refused != nil {
			encoded, err := plan.Encode(res.Refused)
			if err != nil {
				return nil, false, err
			}
			side.side.Digest = plan.Digest(encoded)
			side.compared = &diff.Side{Plan: res.Refused, Digest: side.side.Digest, Open: closure.Memory(res.Blobs).Open}
		}
		return side, false, nil
	}
	rev, _, ofCommit := strings.Cut(name, ":")
	if mayBeNew && ofCommit && rev != "" && errors.Is(err, fs.ErrNotExist) {
		return &reviewSide{}, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	compared := s.compared()
	side := &reviewSide{side: &view.ReviewSide{Plan: s.plan, Digest: compared.Digest}, compared: &compared}
	if s.result != nil {
		side.side.Diagnostics, side.side.Sources = s.result.Diagnostics, s.result.Sources
	}
	return side, false, nil
}

// verdict is the outcome of a review whose comment was written.
func verdict(rv *view.Review, exitOn string) error {
	switch {
	case rv.After.Plan == nil, !rv.New && rv.Before.Plan == nil:
		return &exitError{code: exitUsage}
	case rv.Trouble != "":
		return usage("%s", rv.Trouble)
	case len(rv.After.Broken()) > 0:
		return &exitError{code: exitNo}
	case exitOn != "" && (rv.New || rv.Report.Count(diff.Widens) > 0):
		return &exitError{code: exitNo}
	}
	return nil
}
