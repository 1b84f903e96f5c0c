package containerd

import (
	"foundry/plan"
)

// Options choose the daemon.
type Options struct {
	// Address is the socket of a system daemon; "" starts the embedded one.
	Address string
	// Base is the private root of the embedded daemon: an absolute path, made
	// when absent. Processes that use one base at a time share its daemon.
	// With a system daemon it is not used.
	Base string
	// RuncPath is the OCI runtime, "" for runc on PATH.
	RuncPath string
}

// Unavailable is the error of a machine that cannot run containers as it is:
// Need says what is missing, Fix what to do about it.
type Unavailable struct {
	Need string
	Fix  string
	Err  error // the cause, may be nil
}

func (e *Unavailable) Error() string {
	s := "sandbox: containers are not available here: " + e.Need
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; " + e.Fix
}

func (e *Unavailable) Unwrap() error { return e.Err }

// SupportedNetworks are the networks of a plan that this runtime can give,
// sorted. Prepare refuses every other one.
func SupportedNetworks() []string { return []string{plan.NetworkNone, plan.NetworkProvider} }
