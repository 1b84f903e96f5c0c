// Package sandbox turns a node of the plan into one isolated process: the
// Runtime interface that the local and the container runtime implement, the
// full OCI runtime spec as a pure function, and the staging and collecting of
// files on both sides of the border.
//
// It imports plan and nothing else of this module, and nothing of containerd:
// that is for sandbox/containerd and sandbox/image alone.
package sandbox
