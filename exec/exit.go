package exec

import (
	"context"
	"errors"

	"foundry/exec/record"
)

// Exit codes.
const (
	ExitOK             = 0
	ExitFailed         = 1
	ExitRefused        = 2 // usage, or bytes that are not those of the plan
	ExitInfrastructure = 3
	ExitGrader         = 4
	ExitInterrupted    = 130
)

// Refusal is the error of Run for what is refused before anything starts.
// Nothing is left of such a run.
type Refusal struct{ Err error }

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns what was refused.
func (r *Refusal) Unwrap() error { return r.Err }

// ExitCode is the exit code for what Run returned.
func ExitCode(run *record.Run, err error) int {
	if err != nil {
		if _, ok := errors.AsType[*Refusal](err); ok {
			return ExitRefused
		}
		if errors.Is(err, context.Canceled) {
			return ExitInterrupted
		}
		return ExitInfrastructure
	}
	if run == nil {
		return ExitInfrastructure
	}
	switch run.Status {
	case record.StatusSucceeded:
		return ExitOK
	case record.StatusCancelled:
		return ExitInterrupted
	}
	if run.Failure == nil {
		return ExitInfrastructure
	}
	switch run.Failure.Class {
	case record.ClassSkill, record.ClassWorkflow:
		return ExitFailed
	case record.ClassGrader:
		return ExitGrader
	}
	return ExitInfrastructure
}
