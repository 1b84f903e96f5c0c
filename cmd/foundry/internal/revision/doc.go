// Package revision reads a commit of a git repository as folders, without a
// working tree and without running git: nothing is checked out, no hook, filter
// or configuration of the repository has a part in it, and nothing outside the
// commit can be reached through it.
package revision
