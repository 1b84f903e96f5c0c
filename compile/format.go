package compile

import "foundry/compile/internal/policy"

// Format lays one policy file out, as `foundry fmt` does: only space between
// words changes, so that the plan stays the same byte for byte. It returns nil
// when the file has errors; name is what diagnostics call it.
func Format(name string, src []byte) ([]byte, []Diagnostic) {
	out, ds := policy.Format(name, src)
	ds.Sort()
	return out, ds
}
