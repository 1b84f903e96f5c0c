// Package harnesstest is the conformance suite of the runner contract. An
// adapter's test calls Run with functions that start its agent (and, for real
// agents, a provider); the suite drives the agent through the adapter's own
// session and looks at what it says.
//
// It imports harness and harness/contract; the programs it drives come from
// the caller.
package harnesstest
