//go:build !linux

package containerd

import "context"

// Look finds nothing: containers need Linux.
func Look(context.Context, Options) (Left, error) { return Left{}, nil }

// Clean has nothing to remove: containers need Linux.
func Clean(context.Context, Options) (Swept, error) { return Swept{}, nil }

// Swept counts nothing on this system.
type Swept struct{ Containers, Shims, Snapshots, Leases, Mounts, Folders int }

// Total is 0.
func (s Swept) Total() int { return 0 }
