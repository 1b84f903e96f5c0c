// Package exec walks a plan.
//
// Walk is the whole of the decisions: a pure reducer over the journal's
// events, without a clock and without I/O. Run is the engine around it: it
// executes the commands, journals what happened, and feeds it back. So a
// recorded journal replays to the same decisions.
//
// It imports plan, predicates, sandbox, harness, exec/attempt and exec/record;
// never compile, hcl or cty, never exec/grade or exec/subagent, and no adapter
// and no runtime: both come as values.
package exec
