package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/compile"
)

func (a *app) initCommand() *cobra.Command {
	var out, skills string
	cmd := &cobra.Command{
		Use:   "init ASSEMBLY",
		Short: "Print a policy to start from, with every decision marked that only a person can take",
		Long: "Print a commented policy for an _assembly.json, or write it to a new file. What the skills' data flow\n" +
			"shows is proposed; each decision that only a person can take stands as todo(\"…\"), which is an error until\n" +
			"the value is written in its place. `foundry validate` lists what is still open.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if skills == "" {
				skills = filepath.Join(filepath.Dir(args[0]), "..")
			}
			return a.start(args[0], skills, out)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "write it to the new `FILE`; its paths are then relative to it")
	cmd.Flags().StringVar(&skills, "skills", "", "`DIR` of the skill bundles; without it, the folder above the assembly's")
	return cmd
}

func (a *app) start(assembly, skills, out string) error {
	o := compile.StarterOptions{Open: openFolder, Adapters: adapters(), Assembly: filepath.ToSlash(assembly), Skills: filepath.ToSlash(skills)}
	var err error
	if o.AssemblyName, err = seenFrom(out, assembly); err != nil {
		return err
	}
	if o.SkillsName, err = seenFrom(out, skills); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, compileDeadline)
	defer cancel()
	s := compile.Start(ctx, o)
	if err := view.Diagnostics(a.stderr, s.Diagnostics, s.Sources); err != nil {
		return err
	}
	if s.Policy == nil {
		return &exitError{code: exitUsage}
	}
	where := "in it"
	if out == "" {
		if _, err := a.stdout.Write(s.Policy); err != nil {
			return &exitError{exitInfrastructure, err}
		}
	} else {
		if err := writeNew(out, s.Policy); err != nil {
			return err
		}
		where = "in " + view.Safe(out)
	}
	fmt.Fprintf(a.stderr, "%d decisions are open %s: write each value in the place of its todo\n", s.Open, where)
	return nil
}

// seenFrom is how a file names a path: relative to its own folder.
func seenFrom(file, name string) (string, error) {
	if filepath.IsAbs(name) {
		return filepath.ToSlash(filepath.Clean(name)), nil
	}
	from, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return "", &exitError{exitInfrastructure, err}
	}
	to, err := filepath.Abs(name)
	if err != nil {
		return "", &exitError{exitInfrastructure, err}
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return "", usage("%s cannot be named from the folder of %s: %w", name, file, err)
	}
	return filepath.ToSlash(rel), nil
}

// writeNew writes a file that must not be there yet.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usage("%s is there already and is not overwritten: name a new file", name)
	}
	if err != nil {
		return usage("%w", err)
	}
	_, err = bytes.NewReader(data).WriteTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return &exitError{exitInfrastructure, errors.Join(err, os.Remove(name))}
	}
	return nil
}
