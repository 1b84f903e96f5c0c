//go:build unix

package local

import "context"

// Stray is a process of an attempt whose controller is dead.
type Stray struct {
	PID     int
	Run     string
	Attempt string
	start   uint64 // in the kernel's count: tells it from a later process of the same number
}

// Strays lists what EndStrays would end, of all runs of this user.
func Strays() ([]Stray, error) { return strays("") }

// Reclaim ends what a controller that was killed has left of a run.
func (r *Runtime) Reclaim(ctx context.Context, run string) error {
	_, err := EndStrays(ctx, run)
	return err
}
