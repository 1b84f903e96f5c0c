// Package early runs the worker while the program's packages are still being
// initialized. One binary is compiler, executor, container daemon and worker;
// what the others need takes five times as long to initialize as the worker
// takes to start (about 14 ms of 17 on one machine), and every step of a test
// stub would pay for it.
//
// Go initializes packages as soon as their imports are, in the order of their
// paths. So this package, which needs the standard library alone, comes before
// most of the others; were it last, only time would be lost.
//
// It imports harness/worker and nothing else of this module.
package early

import (
	"os"
	"slices"

	"foundry/harness/worker"
)

func init() {
	// The self-test reports the adapters, which only main knows; the relay starts
	// an agent that takes far longer than this program.
	if len(os.Args) < 2 || os.Args[1] != "worker" || len(os.Args) > 2 && os.Args[2] == "relay" || slices.Contains(os.Args, "--self-test") || slices.Contains(os.Args, "-self-test") {
		return
	}
	os.Exit(worker.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr, nil))
}
