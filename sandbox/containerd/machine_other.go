//go:build !linux

package containerd

import (
	"context"
	"runtime"
)

// Inspect finds that containers need Linux.
func Inspect(context.Context, Options) Machine {
	return Machine{Facts: []Fact{{
		Name: "system", State: FactMissing, Detail: runtime.GOOS + "/" + runtime.GOARCH + ": containers need Linux",
		Fix: "use --sandbox local, or run on a Linux machine",
	}}}
}
