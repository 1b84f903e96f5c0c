package local

import "foundry/sandbox"

// Properties is what an attempt has here and what not, sorted by name. It is
// the same for each.
func Properties() []sandbox.Property { return properties() }
