package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/sandbox"
	"foundry/sandbox/containerd"
	"foundry/sandbox/local"
)

// runPrefix begins the name of a run folder that nobody named.
const runPrefix = "foundry-run-"

func (a *app) cleanCommand() *cobra.Command {
	var address string
	var dry, runs bool
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs left on this machine",
		Long: "Remove what runs that were killed left behind: containers with their processes, snapshots, leases,\n" +
			"mounts, cgroups, pipes, sockets, the state of container daemons, and processes of local steps. What is of a living run stays.\n" +
			"Runs clean up after themselves and their forerunners: this is for when there will be no next one.\n" +
			"So go the working folders of their steps, which may hold the link to a login that was lent.\n" +
			"Run folders stay, which `apply --resume` goes on from; --runs removes those in temporary folders\n" +
			"whose run was never finished and has no living controller.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(a.cleanContainers(cmd.Context(), containerd.Options{Address: address, Base: containerBase()}, dry),
				a.cleanProcesses(cmd.Context(), dry))
			// Last: nothing uses it any more.
			err = errors.Join(err, a.cleanWork(dry))
			if runs {
				err = errors.Join(err, a.cleanRuns(dry))
			}
			if err != nil {
				return &exitError{exitInfrastructure, err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "containerd", os.Getenv("CONTAINERD_ADDRESS"), "`ADDRESS` of a system containerd; default: the embedded one")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	cmd.Flags().BoolVar(&runs, "runs", false, "also remove temporary folders of runs that were never finished")
	return cmd
}

// cleanContainers cleans up after containers. Where none can ever have run,
// there is nothing to do.
func (a *app) cleanContainers(ctx context.Context, o containerd.Options, dry bool) error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(a.stderr, "foundry: only root has containers here: nothing of them was looked for")
		return nil
	}
	if dry {
		left, err := containerd.Look(ctx, o)
		if err != nil {
			return err
		}
		return view.Left(a.stdout, left)
	}
	swept, err := containerd.Clean(ctx, o)
	if errV := view.Swept(a.stdout, swept); err == nil {
		err = errV
	}
	return err
}

// cleanProcesses ends what local steps of killed runs left alive.
func (a *app) cleanProcesses(ctx context.Context, dry bool) error {
	word, find := "ended", func() ([]local.Stray, error) { return local.EndStrays(ctx, "") }
	if dry {
		word, find = "would end", local.Strays
	}
	found, err := find()
	for _, s := range found {
		fmt.Fprintf(a.stdout, "%s process %d of the run %s\n", word, s.PID, view.Safe(s.Run))
	}
	return err
}

// cleanWork removes the working folders of the runs that were killed, of those
// that `foundry runs` lists.
func (a *app) cleanWork(dry bool) error {
	runs, err := listRuns()
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range runs {
		work := filepath.Join(r.Dir, record.WorkDir)
		if _, err := os.Lstat(work); err != nil || r.Status != record.StatusRunning {
			continue
		}
		stale, err := staleRun(r.Dir)
		if stale == nil && err == nil {
			continue
		}
		word := "would remove"
		if err == nil && !dry {
			word, err = "removed", attempt.SweepWork(stale)
		}
		if stale != nil { // until then nobody resumes it
			err = errors.Join(err, stale.Close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", work, err))
			continue
		}
		fmt.Fprintf(a.stdout, "%s the working folder of the run %s\n", word, view.Safe(r.ID))
	}
	return errors.Join(errs...)
}

// cleanRuns removes temporary run folders without a finished run.
func (a *app) cleanRuns(dry bool) error {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), runPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	word := "removed"
	if dry {
		word = "would remove"
	}
	for _, dir := range found {
		stale, err := staleRun(dir)
		if stale == nil && err == nil {
			continue
		}
		if err == nil && !dry {
			err = errors.Join(attempt.SweepWork(stale), sandbox.RemoveTree(dir))
		}
		if stale != nil { // until then nobody resumes it
			err = errors.Join(err, stale.Close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			continue
		}
		fmt.Fprintf(a.stdout, "%s the run folder %s\n", word, view.Safe(dir))
	}
	return errors.Join(errs...)
}

// staleRun takes over a folder of this user's whose run was never finished and
// has no living controller; nil for any other.
func staleRun(dir string) (*record.Folder, error) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil, nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return nil, nil
	}
	run, err := record.ReadRun(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && run.Status != record.StatusRunning {
		return nil, nil // without a record it may be in the making
	}
	if err != nil {
		return nil, err
	}
	f, _, err := record.Open(dir) // takes the lock of its controller
	if errors.Is(err, record.ErrBusy) {
		return nil, nil
	}
	return f, err
}
