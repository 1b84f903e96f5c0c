// Package build makes worker images: a Debian base, Node, an agent from npm, and
// what a user adds, each from a lock file that names every package with its
// hash. It starts the programs of the machine that can do that (mmdebstrap, apt,
// npm) and writes the layers itself, so that the same packages give the same
// digest.
//
// It imports sandbox and sandbox/image of this module and no runtime.
package build
