// Package probe reports what a sandbox looks like from inside. It stands apart
// from the worker because it needs the network and other programs' packages,
// which take longer to initialize than the rest of the worker takes to run.
//
// It imports the standard library and harness/contract alone.
package probe
