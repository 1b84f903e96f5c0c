// Package exec walks a plan.
//
// Walk is the whole of the decisions: a pure reducer over the journal's
// events, without a clock and without I/O. Run is the engine around it: it
// executes the commands, journals what happened, and feeds it back. So a
// recorded journal replays to the same decisions.
//
// Checks. A check is a process over read-only inputs; its exit code, the first
// mebibyte of its output and the JSON in it are facts, and its assert decides.
// Whoever reads what a step made waits for the blocking checks of the step. A
// blocking check that does not hold fails its step: check_failed, class skill.
// One that cannot be run to its end is check_error, class grader, and so is
// the predicate_error of an assert over an answer that is none. A check whose
// tool the policy waives is unsupported: it does not run, is never green, and
// keeps nobody waiting. What is not blocking is recorded and no more.
//
// Loops. An iteration runs the whole body, node after node, each in a fresh
// attempt. A carried input is that of the iteration before. The predicate sees
// what this iteration recorded. When it holds, outputs that are required at_end
// must be there. What stands behind the loop reads the last iteration.
//
// Branches. An alternative that fails in the class skill, or whose outputs are
// not accepted, gives way to the next one; every other failure stops the
// branch. The declared input (user-supplied) comes last.
//
// Budgets. Before a node starts, the smaller of its own budget and of what the
// run has left, less what others hold, is reserved in the journal: it bounds
// the attempt, and of a killed controller it counts as spent (of the wall, at
// most the time since). With nothing left a node is not started. A node waits
// where only reservations of others are in its way.
//
// Resume. The journal is replayed, and the record is a fold over it. Nothing
// that succeeded runs again, no decision is reversed, and what was under way or
// stopped the run runs as a new attempt; a step that a check disproved runs
// again with its checks. Finished nodes' artifacts are read and compared with
// their digests first; until that is done nothing in the folder changes. The
// journal is written with one call for each line and without fsync: a run
// outlives its killed controller, not a power cut.
//
// It imports plan, predicates, sandbox, harness, exec/attempt and exec/record;
// never compile, hcl or cty, never exec/grade or exec/subagent, and no adapter
// and no runtime: both come as values.
package exec
