// Package worker is what `foundry worker` runs inside a sandbox: the test stub
// that works off a script. What it does not need in most steps comes to it as
// functions, so that it starts before other packages are initialized: see early.
//
// It imports the standard library and harness/contract alone: the program that
// stands beside untrusted files must be small enough to read.
package worker
