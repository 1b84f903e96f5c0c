package bundle

import (
	"foundry/compile/internal/diag"
	"foundry/plan"
)

// Skill is one published skill bundle, read whole.
type Skill struct {
	Name        string
	Bundle      plan.Bundle       // id skill:NAME, with Mold and Files
	Data        map[string][]byte // path in the bundle → bytes
	Description string
	// HasArtifacts is false when _provenance.json has no artifacts at all.
	HasArtifacts bool
	Produces     []Produced
	Consumes     []Consumed
	Verify       []Verify
	Tools        []RequiredTool
	At           diag.Range // SKILL.md, for diagnostics about the skill as a whole
}

// Produced is an artifact that the skill declares to write.
type Produced struct {
	ID       string
	Kind     string // a plan.Kind…
	Filename string
	Schema   string // name of the schema, "" if none
	At       diag.Range
}

// Consumed is an artifact that the skill declares to read.
type Consumed struct {
	ID     string
	Schema string // inherited_schema's name, "" if none
	// Producers are who the provenance names as its sources, for the message
	// about an artifact nobody produces.
	Producers []string
	At        diag.Range
}

// Verify is one entry of _verify.json.
type Verify struct {
	Artifact  string
	Direction string // input | output
	Kind      string
	Filename  string
	Schema    string
	Tool      string   // validator_bin
	Args      []string // with {artifact_path}
	At        diag.Range
}

// RequiredTool is one entry of required_tools.
type RequiredTool struct {
	Tool   string
	Argv   []string // of the availability check, parsed
	Expect string   // the word grep looks for, "" if none
	Bad    string   // why the availability check is no probe, "" if it is one
	Check  string   // the attribute's text
	At     diag.Range
}

// Assembly is a decoded _assembly.json.
type Assembly struct {
	Pipeline       string
	SourceRevision int64
	Options        []string
	Tools          []RequiredTool
	Phases         []Phase
	Digest         string
	At             diag.Range
}

// Phase is one entry of phases.
type Phase struct {
	Number  int64
	Skill   string   // of a mold
	Loop    bool     // of a mold
	Pattern string   // of a branch
	Chain   []string // of a branch; UserSupplied may stand in it
	Branch  bool
	At      diag.Range
}

// UserSupplied is the chain member that is no skill.
const UserSupplied = "user-supplied"
