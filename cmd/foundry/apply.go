package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/closure"
	"foundry/cmd/foundry/internal/view"
	"foundry/exec"
	"foundry/exec/record"

	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/containerd"
	"foundry/sandbox/local"
)

// applyFlags are the flags of apply that are no compile inputs.
type applyFlags struct {
	yes         bool
	roots       []string
	through     string
	runDir      string
	containerd  string
	programs    []string
	authStores  []string
	resume      string
	parallelism int
	keepGoing   bool
	trials      int
	progress    string

	logins map[string]string // files by label, of authStores
}

func (a *app) applyCommand() *cobra.Command {
	var f compileFlags
	var af applyFlags
	cmd := &cobra.Command{
		Use:   "apply POLICY|PLAN|DIR",
		Short: "Run a plan, and nothing else",
		Long: "Run a plan: compiled from a policy in one go, read from a closure, or from a plan file whose bytes\n" +
			"--root names. Each step runs in a sandbox of its own; only declared, validated artifacts cross.\n" +
			"--resume RUN goes on with a run that was cancelled, killed or failed; it needs no other argument.",
		Args: func(cmd *cobra.Command, args []string) error {
			if af.resume != "" && len(args) == 0 {
				return nil
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return a.apply(cmd.Context(), name, &f, &af)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&af.yes, "yes", false, "do not ask")
	fl.StringArrayVar(&af.roots, "root", nil, "`NAME=DIR` with the bytes of a bundle of a plan file, or of a class of them (repeatable)")
	fl.StringArrayVar(&af.programs, "program", nil, "`NAME=PATH` of a local agent's program; default: found on PATH (repeatable)")
	fl.StringArrayVar(&af.authStores, "auth-store", nil, "`LABEL=FILE` of a local agent's own login, lent to it for the run (repeatable)")
	fl.StringVar(&af.through, "through", "", "stop after the step, loop or branch `ID`")
	fl.StringVar(&af.runDir, "run-dir", "", "new or empty `DIR` for the record; default: a fresh private folder")
	fl.StringVar(&af.resume, "resume", "", "go on with the run in the folder `RUN`")
	fl.IntVar(&af.parallelism, "parallelism", 1, "`N` steps may run side by side, where their needs allow it")
	fl.BoolVar(&af.keepGoing, "keep-going", false, "run what does not need a step that failed")
	fl.IntVar(&af.trials, "trials", 1, "`N` independent runs, and how many of them succeeded")
	fl.StringVar(&af.progress, "progress", "auto", "`FORM` of the progress on standard error: auto, plain, json or none")
	fl.StringVar(&af.containerd, "containerd", os.Getenv("CONTAINERD_ADDRESS"), "`ADDRESS` of a system containerd; default: an embedded one")
	return cmd
}

// check refuses flags that do not go together.
func (af *applyFlags) check() error {
	switch {
	case af.parallelism < 1 || af.parallelism > 1024:
		return usage("--parallelism is %d; it is a number from 1 to 1024", af.parallelism)
	case af.trials < 1 || af.trials > 10000:
		return usage("--trials is %d; it is a number from 1 to 10000", af.trials)
	case af.resume != "" && (af.runDir != "" || len(af.roots) > 0 || af.trials > 1):
		return usage("--resume names the run folder, which holds its plan and its bytes: leave out --run-dir, --root and --trials")
	}
	switch af.progress {
	case "auto", "plain", "json", "none":
		return nil
	}
	return usage("--progress %q is unknown: it is auto, plain, json or none", af.progress)
}

func (a *app) apply(ctx context.Context, name string, f *compileFlags, af *applyFlags) error {
	if err := af.check(); err != nil {
		return err
	}
	defer surviveReaders()()
	s, err := a.toRun(name, f, af)
	if err != nil {
		return err
	}
	if s.policy == "" && f.used() {
		return usage("a plan is run as it was compiled: variables and overrides are inputs of a compilation and change nothing of it; leave them out, or apply the policy")
	}
	if err := a.confirm(s, af); err != nil {
		return err
	}
	programs, err := localPrograms(ctx, s.plan, af.programs)
	if err != nil {
		return err
	}
	if af.logins, err = lentLogins(s.plan, af.authStores); err != nil {
		return err
	}
	runtimes, err := openRuntimes(ctx, s.plan, af, programs)
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	defer func() {
		for _, r := range runtimes {
			if err := r.Close(); err != nil {
				fmt.Fprintf(a.stderr, "foundry: %s\n", view.SafeLines(err.Error()))
			}
		}
	}()
	if af.trials > 1 {
		return a.trials(ctx, s, af, runtimes)
	}
	dir := af.runDir
	if af.resume != "" {
		dir = af.resume
	}
	run, dir, err := a.runOnce(ctx, s, af, runtimes, dir)
	if err != nil {
		return err
	}
	told := view.Outcome(a.stdout, run, dir)
	if code := exec.ExitCode(run, nil); code != exitOK {
		return &exitError{code: code} // also where nobody is there to be told
	}
	if told != nil {
		return &exitError{exitInfrastructure, told}
	}
	return nil
}

// surviveReaders keeps a program whose output nobody reads any more alive: the
// write fails, and no signal ends the process beside its workers. Those are
// started with the signal as it was.
func surviveReaders() (restore func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() { signal.Stop(ignored) }
}

// toRun finds the plan and its bytes.
func (a *app) toRun(name string, f *compileFlags, af *applyFlags) (*source, error) {
	if af.resume != "" && name == "" {
		return resumed(af.resume)
	}
	roots := []closure.Root{}
	for _, r := range af.roots {
		root, err := closure.ParseRoot(r)
		if err != nil {
			return nil, usage("%w", err)
		}
		roots = append(roots, root)
	}
	return a.load(name, f, roots)
}

// resumed is the plan of a run folder, with the bytes in its own store.
func resumed(dir string) (*source, error) {
	name := filepath.Join(dir, record.PlanFile)
	encoded, err := closure.ReadPlanFile(name)
	if err != nil {
		return nil, usage("%s is no run: %w", dir, err)
	}
	p, err := plan.Decode(encoded)
	if err != nil {
		return nil, usage("%s: %w", name, err)
	}
	blobs, err := sandbox.OpenStoreReadOnly(filepath.Join(dir, record.StoreDir))
	if err != nil {
		return nil, usage("%s is no run: %w", dir, err)
	}
	return checked(name, &source{plan: p, encoded: encoded, blobs: blobs})
}

// runOnce executes the plan into one run folder and tells its progress.
func (a *app) runOnce(ctx context.Context, s *source, af *applyFlags, runtimes map[string]sandbox.Runtime, dir string) (*record.Run, string, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, "", &exitError{exitInfrastructure, err}
	}
	runDir, err := runFolder(dir)
	if err != nil {
		return nil, "", &exitError{exitInfrastructure, err}
	}
	progress := view.NewProgress(a.stderr, s.plan, a.progressForm(af.progress))
	defer progress.Close()
	indexed := false
	run, err := exec.Run(ctx, exec.Options{
		Plan: s.plan, PlanBytes: s.encoded, Blobs: s.blobs, RunDir: runDir, Runtimes: runtimes, Adapters: adapters(),
		Through: af.through, Resume: af.resume != "", Parallelism: af.parallelism, KeepGoing: af.keepGoing, Probes: true,
		Credential: credential, Logins: af.logins, Executable: executable, Version: version, Now: time.Now, Nonce: nonce,
		Observe: func(e record.Event) {
			if !indexed && e.Type == record.EventRunStarted {
				indexed = true
				remember(e.Run, runDir)
			}
			progress.Event(e)
		},
		ObserveWorker: progress.Worker,
	})
	if err != nil {
		if dir == "" {
			os.Remove(runDir) // only if nothing used it
		}
		return nil, runDir, &exitError{exec.ExitCode(run, err), err}
	}
	return run, runDir, nil
}

// progressForm is what the user asked for, or what standard error can show.
func (a *app) progressForm(word string) view.ProgressForm {
	switch word {
	case "json":
		return view.ProgressJSON
	case "none":
		return view.ProgressNone
	case "auto":
		if f, ok := a.stderr.(*os.File); ok && isTerminal(f) && os.Getenv("TERM") != "dumb" {
			return view.ProgressLive
		}
	}
	return view.ProgressPlain
}

// isTerminal takes every character device for a terminal but the one that
// services and CI give a program in place of one.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// used reports whether a flag that is a compile input was given.
func (f *compileFlags) used() bool {
	o := f.override
	return len(f.vars)+len(f.varFiles)+len(f.credentials)+len(f.harness) > 0 || f.scenario != "" ||
		o.Sandbox+o.Image+o.Network+o.Provider+o.Model+o.Thinking != ""
}

// confirm shows the plan and asks, unless the user said yes.
func (a *app) confirm(s *source, af *applyFlags) error {
	if af.yes {
		return nil
	}
	if stdin, ok := a.stdin.(*os.File); !ok || !isTerminal(stdin) {
		return usage("standard input is no terminal to ask on: review the plan, then apply it with --yes")
	}
	if err := view.Preview(a.stdout, s.plan, plan.Digest(s.encoded), false); err != nil {
		return err
	}
	if af.trials > 1 {
		fmt.Fprintf(a.stdout, "%s\n", view.TrialsCost(s.plan, af.trials))
	}
	fmt.Fprint(a.stdout, "\nRun this plan? Only \"yes\" runs it: ")
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "yes" {
		return &exitError{exitNo, errors.New("not run")}
	}
	return nil
}

// runFolder is where the record goes.
func runFolder(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.MkdirTemp("", runPrefix)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// openRuntimes opens the runtimes that the plan's modes need.
func openRuntimes(ctx context.Context, p *plan.Plan, af *applyFlags, programs []sandbox.ProgramFile) (map[string]sandbox.Runtime, error) {
	out := map[string]sandbox.Runtime{}
	needs := func(mode string) bool {
		return slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Sandbox.Mode == mode })
	}
	if needs(plan.SandboxLocal) {
		r := local.New(programs...)
		out[r.Mode()] = r
	}
	if needs(plan.SandboxContainer) {
		r, err := containerd.New(ctx, containerd.Options{Address: af.containerd, Base: containerBase()})
		if err != nil {
			return nil, err
		}
		out[r.Mode()] = r
	}
	return out, nil
}

// containerBase is the private root of the embedded container daemon. It holds
// images and snapshots only, so it is shared by all runs of this user.
func containerBase() string {
	if dir := os.Getenv("FOUNDRY_STATE_DIR"); dir != "" {
		return dir
	}
	return "/var/lib/foundry"
}

func nonce() string {
	var b [6]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// verifyBlobs reads every blob that a plan names.
func verifyBlobs(s *source) error {
	for _, d := range closure.Digests(s.plan) {
		r, err := s.blobs.Open(d)
		if err != nil {
			return err
		}
		err = drain(r)
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
