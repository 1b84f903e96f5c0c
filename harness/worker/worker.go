package worker

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"foundry/harness/contract"
)

// Exit codes of the worker. A script's exit step may give any other.
const (
	ExitOK      = 0
	ExitFailed  = 1 // a step of the script failed, or the self-test did
	ExitRefused = 2 // wrong flags, or an input or script that is refused
)

// agents are the values of contract.Input.Agent that this worker can be.
var agents = []string{"scripted"}

// Main is `foundry worker`: it reads one contract.Input from stdin, works off
// the script and writes events to stdout. The selfTest function gives what
// --self-test reports; it comes from the caller, because this package knows no
// adapter. It returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, selfTest func() []contract.AdapterReport) int {
	refuse := func(err error) int {
		fmt.Fprintf(stderr, "worker: %v\n", err)
		return ExitRefused
	}
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	testStub := flags.Bool("test-stub", false, "be a test stub: work off --script instead of being an agent")
	scriptPath := flags.String("script", "", "the script `file`")
	out := flags.String("out", "", "the output `folder`")
	self := flags.Bool("self-test", false, "report every adapter and exit")
	if err := flags.Parse(args); err != nil {
		return ExitRefused
	}
	if flags.NArg() > 0 {
		return refuse(fmt.Errorf("it takes no argument, got %q", flags.Arg(0)))
	}
	if *self {
		return reportAdapters(stdout, stderr, selfTest)
	}
	if *scriptPath == "" || *out == "" {
		return refuse(errors.New("it needs --script and --out, or --self-test"))
	}
	if !*testStub {
		return refuse(errors.New("a script is a test stub: it needs --test-stub"))
	}
	lines := contract.NewLineReader(stdin, 0)
	in, err := readInput(lines)
	if err != nil {
		return refuse(err)
	}
	script, err := readScript(*scriptPath)
	if err != nil {
		return refuse(err)
	}
	r := runner{in: in, answers: lines, out: *out, stdout: stdout, stderr: stderr}
	return r.run(script.For(in.Iteration))
}

// readInput reads the first line and refuses what this worker is not.
func readInput(lines *contract.LineReader) (contract.Input, error) {
	line, err := lines.Next()
	if err != nil {
		return contract.Input{}, fmt.Errorf("no input on standard input: %w", err)
	}
	in, err := contract.DecodeInput(line)
	if err != nil {
		return contract.Input{}, err
	}
	known := false
	for _, a := range agents {
		known = known || a == in.Agent
	}
	if !known {
		return contract.Input{}, fmt.Errorf("unknown agent %q: this worker can be %q", in.Agent, agents)
	}
	if !in.TestStub {
		return contract.Input{}, errors.New("a script is a test stub: the input must say test_stub = true")
	}
	return in, nil
}

func readScript(path string) (contract.Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return contract.Script{}, err
	}
	return contract.DecodeScript(data)
}

// reportAdapters writes one JSON document.
func reportAdapters(stdout, stderr io.Writer, selfTest func() []contract.AdapterReport) int {
	adapters := []contract.AdapterReport{}
	if selfTest != nil {
		adapters = append(adapters, selfTest()...)
	}
	enc := json.NewEncoder(stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(struct {
		ProtocolVersion int                      `json:"protocol_version"`
		Adapters        []contract.AdapterReport `json:"adapters"`
	}{contract.ProtocolVersion, adapters}); err != nil {
		fmt.Fprintf(stderr, "worker: %v\n", err)
		return ExitFailed
	}
	for _, a := range adapters {
		if a.Error != "" {
			return ExitFailed
		}
	}
	return ExitOK
}
