//go:build !linux

package containerd

import (
	"context"
	"runtime"

	"foundry/plan"
	"foundry/sandbox"
)

// Runtime is not available on this system.
type Runtime struct{}

// Main does nothing on this system.
func Main() (handled bool) { return false }

// New fails: containers need Linux.
func New(context.Context, Options) (*Runtime, error) {
	return nil, unavailable()
}

// Mode is plan.SandboxContainer.
func (*Runtime) Mode() string { return plan.SandboxContainer }

// Prepare fails: containers need Linux.
func (*Runtime) Prepare(context.Context, sandbox.Task) (sandbox.Sandbox, error) {
	return nil, unavailable()
}

// Settle does nothing.
func (*Runtime) Settle(context.Context) error { return nil }

// Close does nothing.
func (*Runtime) Close() error { return nil }

func unavailable() error {
	return &Unavailable{
		Need: "they need Linux, and this is " + runtime.GOOS,
		Fix:  "use --sandbox local, or run on a Linux machine",
	}
}
