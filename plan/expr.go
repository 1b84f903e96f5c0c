package plan

// Operators of the closed predicate set. A predicate is data: the executor
// evaluates it over recorded facts and never runs anything for it.
const (
	OpAll      = "all"      // and over Args
	OpAny      = "any"      // or over Args
	OpNot      = "not"      // 1 arg
	OpEq       = "eq"       // 2 args of one type
	OpNe       = "ne"       // 2 args of one type
	OpLt       = "lt"       // 2 numbers
	OpLe       = "le"       // 2 numbers
	OpGt       = "gt"       // 2 numbers
	OpGe       = "ge"       // 2 numbers
	OpContains = "contains" // a string in a string, or a value in an array: (haystack, needle)
	OpMatches  = "matches"  // a string and a literal RE2 pattern
	OpExists   = "exists"   // 1 fact: it is there (and not null)
	OpLength   = "length"   // of a string (code points), array or object: a number
	OpEvery    = "every"    // (array, predicate over item)
	OpSome     = "some"     // (array, predicate over item)
	OpFact     = "fact"     // a leaf: a recorded fact
	OpLiteral  = "literal"  // a leaf: a constant
	OpItem     = "item"     // a leaf: the element of the innermost every or some
)

// Expr is one node of a predicate.
type Expr struct {
	Op      string   `json:"op"`
	Args    []Expr   `json:"args,omitempty"`
	Fact    *Fact    `json:"fact,omitempty"`
	Literal *Literal `json:"literal,omitempty"`
	Pointer string   `json:"pointer,omitempty"` // of an item: JSON pointer into the element
}

// Sources of facts.
const (
	FactOutput    = "output"    // Field: exists bytes lines json yaml
	FactCheck     = "check"     // Field: exit_code json stdout
	FactIteration = "iteration" // the number of the iteration, from 1
	FactWorker    = "worker"    // Field: status
)

// Fact names one recorded fact; Pointer is a JSON pointer (RFC 6901) into the
// document of the fields json and yaml.
type Fact struct {
	Source  string `json:"source"`
	Name    string `json:"name,omitempty"`  // artifact id or check name
	Field   string `json:"field,omitempty"` // see the sources
	Pointer string `json:"pointer,omitempty"`
}

// Types of a literal.
const (
	TypeString = "string"
	TypeNumber = "number"
	TypeBool   = "bool"
	TypeNull   = "null"
)

// Literal is a constant. A number is a canonical decimal string and is
// compared exactly; a bool is "true" or "false"; null has the value "".
type Literal struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}
