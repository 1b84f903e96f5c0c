// Package containerd runs tasks in containers, directly on containerd through
// its client, each with the OCI spec of sandbox.Spec. The daemon is the
// system's, or one of this program's own: a re-executed child with a private
// root that needs only root and runc.
//
// Where the daemon is ours, the containers of a runtime share one shim and, for
// each image, one read-only root; a closed container is removed from the daemon
// behind its caller's back. Limits are read back from the kernel before an
// attempt runs, everything of it is killed by its cgroup, and what died half way
// is found by the owner that all things name.
//
// A program that uses it must call Main first thing: the daemon and the shim of
// each container are this same program.
//
// It imports sandbox, sandbox/image and plan, and is imported by cmd/foundry
// alone. Linux only; elsewhere New says so.
package containerd
