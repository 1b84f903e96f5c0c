// Package early runs the worker while the program's packages are still being
// initialized. One binary is compiler, executor, container daemon and worker;
// what the others need takes twice as long to initialize as the worker takes to
// start and work (4 ms of 6.6 on one machine), and every step of a test stub
// would pay for it.
//
// Go initializes packages as soon as their imports are, and of those that could
// be next the one whose path comes first. So this package comes before whatever
// "github.com" and later paths hold, as long as nothing that it imports has such
// a path and work to do at its initialization: net, os/exec and path/filepath have.
// Were it last, only time would be lost.
//
// It imports harness/worker and nothing else of this module.
package early

import (
	"os"

	"foundry/harness/worker"
)

func init() {
	// The relay starts an agent that takes far longer than this program.
	if len(os.Args) < 2 || os.Args[1] != "worker" || len(os.Args) > 2 && os.Args[2] == "relay" {
		return
	}
	if code, done := worker.Early(os.Args[2:], os.Stdin, os.Stdout, os.Stderr); done {
		os.Exit(code)
	}
}
