package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	_ "foundry/harness/worker/early" // the worker, before everything else is initialized
	"foundry/sandbox/containerd"
)

// version of this program, without a build date: the same source is the same
// version.
const version = "0.1.0"

// Exit codes, from the design.
const (
	exitOK             = 0
	exitNo             = 1
	exitUsage          = 2
	exitInfrastructure = 3
	exitGrader         = 4
	exitInterrupted    = 130
)

func main() {
	// The same binary is the embedded container daemon and its shim.
	if containerd.Main() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exitError is an outcome that has been told to the user already, or an error
// with its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage is an error of the command line, the policy or a plan.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	if len(args) > 0 && args[0] == "worker" {
		return a.worker(args[1:])
	}
	root := a.root()
	root.SetArgs(terraformFlags(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitUsage
	if e, ok := errors.AsType[*exitError](err); ok {
		if code, err = e.code, e.err; err == nil {
			return code
		}
	}
	fmt.Fprintf(stderr, "foundry: %s\n", view.SafeLines(err.Error()))
	return code
}

// app is what the commands share.
type app struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "foundry",
		Short:         "Compile pipelines of agent skills into reviewable plans, and run exactly those",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(a.planCommand(), a.showCommand(), a.graphCommand(), a.diffCommand(), a.spendCommand(), a.reviewCommand(), a.fmtCommand(), a.initCommand(), a.validateCommand(), a.applyCommand(), a.explainCommand(), a.runsCommand(), a.imageCommand(), a.doctorCommand(), a.cleanCommand())
	return root
}

// terraformFlags accepts Terraform's spelling of three flags: -var, -var-file and -check.
func terraformFlags(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		for _, name := range []string{"-var", "-var-file", "-check"} {
			if arg == name || strings.HasPrefix(arg, name+"=") {
				arg = "-" + arg
				break
			}
		}
		out = append(out, arg)
	}
	return out
}
