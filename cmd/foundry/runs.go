package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/exec/record"
	"foundry/plan"
)

// indexDir is where the run folders of this user are listed, one small file
// each. "" where there is no place for it: a run does not need it.
func indexDir() string {
	if dir := os.Getenv("FOUNDRY_STATE_DIR"); dir != "" {
		return filepath.Join(dir, "runs")
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "foundry", "runs")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "foundry", "runs")
	}
	return ""
}

// indexed is one entry of the index.
type indexed struct {
	Dir string `json:"dir"`
}

// remember lists a run folder. It is a help for people: where it cannot be
// written, the run goes on.
func remember(id, dir string) {
	index := indexDir()
	if index == "" || !plan.ValidID(id) || os.MkdirAll(index, 0o700) != nil {
		return
	}
	if data, err := json.Marshal(indexed{dir}); err == nil {
		_ = renameio.WriteFile(filepath.Join(index, id+".json"), append(data, '\n'), 0o600)
	}
}

func (a *app) runsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs of this user that are still there",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			runs, err := listRuns()
			if err != nil {
				return &exitError{exitInfrastructure, err}
			}
			if asJSON {
				return a.json(runs)
			}
			return view.Runs(a.stdout, runs)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return cmd
}

// listRuns reads the index, the newest run first. Entries whose folder is gone
// are forgotten.
func listRuns() ([]view.RunLine, error) {
	runs := []view.RunLine{}
	index := indexDir()
	entries, err := os.ReadDir(index)
	if os.IsNotExist(err) || index == "" {
		return runs, nil
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := filepath.Join(index, entry.Name())
		id, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var at indexed
		if json.Unmarshal(data, &at) != nil {
			continue
		}
		run, err := record.ReadRun(at.Dir)
		switch {
		case os.IsNotExist(err):
			os.Remove(name)
			continue
		case err != nil:
			runs = append(runs, view.RunLine{ID: id, Dir: at.Dir, Status: "unreadable"})
			continue
		case run.ID != id:
			continue // the folder holds another run now
		}
		line := view.RunLine{ID: id, Dir: at.Dir, Status: run.Status, Pipeline: run.Plan.Pipeline, Started: run.Started, Plan: run.Plan.Digest}
		if run.Failure != nil {
			line.Reason = run.Failure.Reason
		}
		runs = append(runs, line)
	}
	slices.SortFunc(runs, func(x, y view.RunLine) int { return strings.Compare(y.Started+y.ID, x.Started+x.ID) })
	return runs, nil
}

func (a *app) explainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain RUN [ID]",
		Short: "Show from the record why a loop went on, a branch was taken, a check passed",
		Long: "RUN is a run folder, or the id of one that `foundry runs` lists. ID is a step, a loop, a branch or a\n" +
			"check; without it every decision of the run is shown. Nothing but the record is read.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := runByName(args[0])
			if err != nil {
				return err
			}
			id := ""
			if len(args) > 1 {
				id = args[1]
			}
			story, err := view.Explain(dir, id)
			if err != nil {
				return usage("%s: %w", args[0], err)
			}
			if asJSON {
				return a.json(story)
			}
			return view.Story(a.stdout, story)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the decisions with their facts and evaluated trees as JSON")
	return cmd
}

// runByName is the folder of a run, by path or by id.
func runByName(name string) (string, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return name, nil
	}
	runs, err := listRuns()
	if err != nil {
		return "", &exitError{exitInfrastructure, err}
	}
	for _, r := range runs {
		if r.ID == name {
			return r.Dir, nil
		}
	}
	return "", usage("%s is no run folder, and no id that `foundry runs` lists", name)
}
