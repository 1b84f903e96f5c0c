package worker

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

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

// Late is what a worker needs of packages that it does not import itself. A nil
// function is never needed by its caller.
type Late struct {
	SelfTest func() []contract.AdapterReport      // what --self-test reports: this package knows no adapter
	Probe    func(contract.Probe) ([]byte, error) // what a probe step writes
}

// Main is `foundry worker`: it reads one contract.Input from stdin, works off
// the script and writes events to stdout. It returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, late Late) int {
	j, err := parse(args, stderr)
	if err != nil {
		return ExitRefused
	}
	return j.run(stdin, stdout, stderr, late)
}

// Early is Main where nothing of Late is needed. Where it is, and where the
// arguments are wrong, it has done nothing and returns false.
func Early(args []string, stdin io.Reader, stdout, stderr io.Writer) (int, bool) {
	j, err := parse(args, io.Discard)
	if err != nil || j.selfTest || j.probes() {
		return 0, false
	}
	return j.run(stdin, stdout, stderr, Late{}), true
}

// job is what the arguments ask for.
type job struct {
	selfTest bool
	script   contract.Script
	out      string
}

// parse says on stderr what is wrong.
func parse(args []string, stderr io.Writer) (*job, error) {
	refuse := func(err error) (*job, error) {
		fmt.Fprintf(stderr, "worker: %v\n", err)
		return nil, err
	}
	j := new(job)
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	testStub := flags.Bool("test-stub", false, "be a test stub: work off --script instead of being an agent")
	scriptPath := flags.String("script", "", "the script `file`")
	flags.StringVar(&j.out, "out", "", "the output `folder`")
	flags.BoolVar(&j.selfTest, "self-test", false, "report every adapter and exit")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return refuse(fmt.Errorf("it takes no argument, got %q", flags.Arg(0)))
	}
	if j.selfTest {
		return j, nil
	}
	if *scriptPath == "" || j.out == "" {
		return refuse(errors.New("it needs --script and --out, or --self-test"))
	}
	if !*testStub {
		return refuse(errors.New("a script is a test stub: it needs --test-stub"))
	}
	data, err := os.ReadFile(*scriptPath)
	if err != nil {
		return refuse(err)
	}
	if j.script, err = contract.DecodeScript(data); err != nil {
		return refuse(err)
	}
	return j, nil
}

// probes reports whether some step of the script is a probe.
func (j *job) probes() bool {
	probe := func(s contract.Step) bool { return s.Probe != nil }
	return slices.ContainsFunc(j.script.Steps, probe) ||
		slices.ContainsFunc(j.script.Iterations, func(steps []contract.Step) bool { return slices.ContainsFunc(steps, probe) })
}

func (j *job) run(stdin io.Reader, stdout, stderr io.Writer, late Late) int {
	if j.selfTest {
		return reportAdapters(stdout, stderr, late.SelfTest)
	}
	lines := contract.NewLineReader(stdin, 0)
	in, err := readInput(lines)
	if err != nil {
		fmt.Fprintf(stderr, "worker: %v\n", err)
		return ExitRefused
	}
	r := runner{in: in, answers: lines, out: j.out, stdout: stdout, stderr: stderr, probe: late.Probe}
	return r.run(j.script.For(in.Iteration))
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
