// Package record is what a run leaves behind: the run folder and its files.
//
//	run.json                      the run, canonical, replaced atomically
//	events.jsonl                  the controller's journal, append only
//	spend.jsonl                   the broker's journal: what was reserved and settled
//	plan.json                     the plan's bytes
//	lock                          who works in the folder, or did last
//	store/                        content-addressed bytes: what the plan named and what was promoted
//	nodes/NODE/I-A/               attempt A of node NODE in iteration I:
//	    attempt.json spec.json stdout stderr trace.jsonl rejected/
//	    broker/                   what went to its provider and came back, bounded, without secrets
//	    (partial/ of an attempt whose controller was killed: no artifact)
//	artifacts/NODE/FILENAME       a read-only view of what was promoted last
//	work/                         gone when the run has ended
//
// NODE is FolderName of the node's id. Times stand in these files only, never
// in a plan and never in an artifact. A number that nobody measured is
// "unknown", never 0.
//
// The package imports plan alone of this module.
package record
