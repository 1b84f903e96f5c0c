//go:build !unix

package relay

import (
	"fmt"
	"io"
)

// ExitRefused is the exit code where there is no relay.
const ExitRefused = 2

// Main refuses: containers are Linux only.
func Main(args []string, stderr io.Writer) int {
	fmt.Fprintln(stderr, "worker relay: it runs in Linux containers alone")
	return ExitRefused
}
