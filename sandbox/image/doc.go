// Package image makes container images without a registry. Builtin makes one
// in memory from a running executable.
//
// It imports neither sandbox nor any other package of this module, and starts
// no process.
package image
