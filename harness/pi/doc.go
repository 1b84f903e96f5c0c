// Package pi is the adapter for the Pi coding agent in its RPC mode: lines of
// JSON on standard input and output. It knows exactly the versions that it was
// tried with.
//
// Pi starts with nothing of its own: no session, context file, extension,
// template, theme, ambient skill or configuration of the host, and a fresh
// folder for its configuration. What it ignores silently, such as a skill that is
// not there or a level of thinking that the model does not have, is asked for
// before the prompt is sent.
//
// The package does no I/O of the operating system. It imports plan, harness and
// harness/contract alone of this module.
package pi
