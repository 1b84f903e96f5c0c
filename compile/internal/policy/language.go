package policy

// Word is one word of the policy language, for documentation and its test.
type Word struct {
	Path     string // blocks from the outside in: "phase.check.argv"
	Block    bool
	Label    string // of a block: what its label is, "" without one
	Kind     string // of an attribute: what it takes
	Required bool
	Doc      string
}

// Words lists the whole language in the order of the table, each block before
// what it holds.
func Words() []Word {
	var out []Word
	var walk func(prefix string, s *blockSpec)
	walk = func(prefix string, s *blockSpec) {
		for _, a := range s.attrs {
			out = append(out, Word{Path: prefix + a.name, Kind: a.kind, Required: a.required, Doc: a.doc})
		}
		for _, b := range s.blocks {
			out = append(out, Word{Path: prefix + b.name, Block: true, Label: b.label.kind, Doc: b.doc})
			walk(prefix+b.name+".", b)
		}
	}
	walk("", policySpec)
	return out
}
