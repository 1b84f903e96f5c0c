// Package attempt executes one node once: verify, stage, run, kill, freeze,
// validate, promote, record.
//
// The worker's words decide nothing alone. An attempt succeeds when the
// stream had its final event, the process did not fail, everything of the
// attempt was shown to be dead, and every required output is valid on its
// frozen bytes. Then all outputs are promoted into the store; of a failed
// attempt none is, and what it left is kept frozen under rejected/.
//
// Why it failed is the first of these that holds:
//
//  1. cancelled
//  2. what this program or the runtime could not do (runtime_error, disk_full …)
//  3. that for which the controller ended it: a limit (budget_exceeded,
//     resource_exceeded:stdout), or harness_mismatch: another version or model
//     started
//  4. memory: the kernel killed something, even where the worker went on
//  5. no_final_event
//  6. worker_error: the stream broke the contract
//  7. worker_error: the final event says errored or aborted
//  8. worker_error: exit code other than 0 (not when the controller ended a
//     process that stayed after its final event)
//  9. activation_unproven, where the node requires the proof
//  10. the outputs: missing_artifact, invalid_artifact, budget_exceeded:output_…
//
// Where the kernel counted refused forks, or a full output folder, and the
// attempt ended by 5 to 8 or at its wall clock, that resource is the reason.
//
// So an error event before a final "settled" is no failure, a final "errored"
// with exit code 0 is one, and so is exit code 1 after "settled".
//
// A check is a process without a worker: its exit code and what it wrote to
// standard output are its result, whatever they are, and the controller judges
// them. A check that cannot be run to its end (no such program, ended by a
// signal) is check_error; one that passes its own limits keeps that reason, in
// the class grader: the check is at fault, not the skill.
//
// The package knows no adapter by name. It imports plan, sandbox, harness and
// exec/record (and the broker, once there is one); never compile.
package attempt
