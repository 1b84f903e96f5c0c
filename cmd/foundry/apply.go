package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/closure"
	"foundry/cmd/foundry/internal/view"
	"foundry/exec"

	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/containerd"
	"foundry/sandbox/local"
)

// applyFlags are the flags of apply that are no compile inputs.
type applyFlags struct {
	yes        bool
	roots      []string
	through    string
	runDir     string
	containerd string
}

func (a *app) applyCommand() *cobra.Command {
	var f compileFlags
	var af applyFlags
	cmd := &cobra.Command{
		Use:   "apply POLICY|PLAN|DIR",
		Short: "Run a plan, and nothing else",
		Long: "Run a plan: compiled from a policy in one go, read from a closure, or from a plan file whose bytes\n" +
			"--root names. Each step runs in a sandbox of its own; only declared, validated artifacts cross.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.apply(cmd.Context(), args[0], &f, &af)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&af.yes, "yes", false, "do not ask")
	fl.StringArrayVar(&af.roots, "root", nil, "`NAME=DIR` with the bytes of a bundle of a plan file, or of a class of them (repeatable)")
	fl.StringVar(&af.through, "through", "", "stop after the step `ID`")
	fl.StringVar(&af.runDir, "run-dir", "", "new or empty `DIR` for the record; default: a fresh private folder")
	fl.StringVar(&af.containerd, "containerd", os.Getenv("CONTAINERD_ADDRESS"), "`ADDRESS` of a system containerd; default: an embedded one")
	return cmd
}

func (a *app) apply(ctx context.Context, name string, f *compileFlags, af *applyFlags) error {
	roots := []closure.Root{}
	for _, r := range af.roots {
		root, err := closure.ParseRoot(r)
		if err != nil {
			return usage("%w", err)
		}
		roots = append(roots, root)
	}
	s, err := a.load(name, f, roots)
	if err != nil {
		return err
	}
	if s.policy == "" && f.used() {
		return usage("%s is a plan: variables and overrides are inputs of a compilation and change nothing of it; leave them out, or apply the policy", name)
	}
	if err := a.confirm(s, af.yes); err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	runDir, err := runFolder(af.runDir)
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	runtimes, err := openRuntimes(ctx, s.plan, af)
	if err != nil {
		removeEmpty(runDir, af.runDir)
		return &exitError{exitInfrastructure, err}
	}
	defer func() {
		for _, r := range runtimes {
			if err := r.Close(); err != nil {
				fmt.Fprintf(a.stderr, "foundry: %s\n", view.SafeLines(err.Error()))
			}
		}
	}()
	progress := view.NewProgress(a.stderr, s.plan)
	run, err := exec.Run(ctx, exec.Options{
		Plan: s.plan, PlanBytes: s.encoded, Blobs: s.blobs, RunDir: runDir, Runtimes: runtimes, Adapters: adapters(),
		Through: af.through, Executable: executable, Version: version, Observe: progress.Event, Now: time.Now, Nonce: nonce,
	})
	code := exec.ExitCode(run, err)
	if err != nil {
		removeEmpty(runDir, af.runDir)
		return &exitError{code, err}
	}
	if err := view.Outcome(a.stdout, run, runDir); err != nil {
		return &exitError{exitInfrastructure, err}
	}
	if code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// used reports whether a flag that is a compile input was given.
func (f *compileFlags) used() bool {
	o := f.override
	return len(f.vars)+len(f.varFiles)+len(f.credentials)+len(f.harness) > 0 || f.scenario != "" ||
		o.Sandbox+o.Image+o.Network+o.Provider+o.Model+o.Thinking != ""
}

// confirm shows the plan and asks, unless the user said yes.
func (a *app) confirm(s *source, yes bool) error {
	if yes {
		return nil
	}
	stdin, ok := a.stdin.(*os.File)
	if ok {
		info, err := stdin.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		return usage("standard input is no terminal to ask on: review the plan, then apply it with --yes")
	}
	if err := view.Preview(a.stdout, s.plan, plan.Digest(s.encoded), false); err != nil {
		return err
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
	dir, err := os.MkdirTemp("", "foundry-run-")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// removeEmpty takes back a folder that this program made and nothing used.
func removeEmpty(dir, asked string) {
	if asked == "" {
		os.Remove(dir)
	}
}

// openRuntimes opens the runtimes that the plan's modes need.
func openRuntimes(ctx context.Context, p *plan.Plan, af *applyFlags) (map[string]sandbox.Runtime, error) {
	out := map[string]sandbox.Runtime{}
	needs := func(mode string) bool {
		return slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Sandbox.Mode == mode })
	}
	if needs(plan.SandboxLocal) {
		r := local.New()
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
