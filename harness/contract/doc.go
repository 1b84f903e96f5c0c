// Package contract is the runner contract, protocol version 2: what a worker
// is told on its standard input and what it says on its standard output, one
// JSON object a line. It also holds the script that a test stub works off.
//
// It imports the standard library alone: it is linked into the program that
// runs inside a sandbox.
package contract
