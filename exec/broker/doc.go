// Package broker is the provider proxy of a run. It holds the credentials and
// the budgets: a worker has a socket and a token of its attempt, and neither.
//
// Before a request goes on, the broker writes down what its answer may cost at
// most, bounds the answer to what is left, and refuses when nothing is; while
// the answer streams it counts, and cuts; afterwards it settles by the
// provider's own usage. So an attempt spends at most one bounded answer beyond
// its budget, whatever the worker says. What was reserved and never settled
// counts as spent, also when the controller was killed in between.
//
// A provider with a script is answered by the broker itself, on the same way as
// a real one, so that a real agent can be run without an account.
//
// The package imports plan (and what lies below it) and broker/redact alone of
// this module.
package broker
