package sandbox

// ProgramFile is a program of this machine that stands for the first word of a
// local agent's argv. It is found once, on the user's own PATH: the plan's PATH
// is the same on every machine, and an agent may be installed anywhere.
type ProgramFile struct {
	Name    string `json:"name"`    // the word in the plan's argv
	Path    string `json:"path"`    // without links
	Digest  string `json:"digest"`  // sha256 of its bytes
	Version string `json:"version"` // in its own words; "" if it was not asked
	// Interpreter is what a script's first line names through env, and is found
	// as the program was; "" for any other program.
	Interpreter       string `json:"interpreter,omitempty"`
	InterpreterDigest string `json:"interpreter_digest,omitempty"`
}

// HarnessMismatch is the error of an agent's program that is not what the plan
// takes it for. Nothing was started.
type HarnessMismatch struct {
	Program string
	Problem string
	Fix     string
}

func (e *HarnessMismatch) Error() string {
	return "sandbox: the program " + e.Program + " " + e.Problem + "; " + e.Fix
}
