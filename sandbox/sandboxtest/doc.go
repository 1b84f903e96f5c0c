// Package sandboxtest is the conformance suite of sandbox.Runtime. Every
// runtime passes it: what one cannot give it must report as not_enforced, and
// the suite checks that it says so.
//
// The suite runs a worker that is part of the test binary itself: TestMain
// calls WorkerMain first.
//
// It imports sandbox and plan.
package sandboxtest
