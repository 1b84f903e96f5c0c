// Package local runs a task as a plain process of this user: fresh folders,
// staged copies, the plan's environment and nothing else, a session of its
// own. It keeps attempts apart from each other and is no security boundary:
// what it cannot enforce it reports as not_enforced.
//
// How an attempt is found when it must die: it leads a session and a process
// group, and its environment holds one variable of ours, MarkerVar, with a
// value that no other attempt has. When the process ends, by itself or by
// Kill, everything of its group, of its session, with its marker, or below one
// of those is killed until a look at all processes finds none. A descendant
// that leaves the session, clears its environment and outlives its parent is
// not found. On systems without /proc only the group is.
//
// Standard streams: Wait returns when what the process wrote has been handed
// on. It does not wait for a descendant that still holds stdout or stderr: the
// descendants are killed when the process ends, as in a container, and a pipe
// that is open all the same is read until it is empty and then closed. A
// reader given as Stdin that never returns keeps one goroutine until it does.
//
// It imports sandbox and plan.
package local
