// Package worker is what `foundry worker` runs inside a sandbox: the test stub
// that works off a script, and the probe that reports what the sandbox looks
// like from inside.
//
// It imports the standard library and harness/contract alone: the program that
// stands beside untrusted files must be small enough to read.
package worker
