// Package image makes and reads container images without a registry. Builtin
// makes one in memory from a running executable; Open reads one from disk: an
// OCI layout, an archive, or a folder that is a root file system.
//
// It imports plan and sandbox of this module and no runtime, and starts no
// process.
package image
