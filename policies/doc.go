// Package policies holds the built-in sets of guards, as HCL files in the words
// of a policy's own guards.
//
// It imports nothing of this module: compile reads the files.
package policies

import "embed"

// Files are the sets: NAME.hcl is the set NAME.
//
//go:embed *.hcl
var Files embed.FS
