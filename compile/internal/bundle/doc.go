// Package bundle reads what a pipeline is published as: skill folders, the
// assembly that orders them, and the schemas they bring. All bytes come from a
// file system that the caller gives; the package touches no operating system,
// clock, environment, network or process, and runs nothing that it reads.
//
// It imports plan, plan/document and diag, and nothing else of this module.
package bundle
