package main

import (
	"bytes"
	"io"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/plan"
)

func (a *app) graphCommand() *cobra.Command {
	var f compileFlags
	var out, format string
	cmd := &cobra.Command{
		Use:   "graph POLICY|PLAN|DIR",
		Short: "Draw a plan: steps, loops, branches, and the artifacts between them",
		Long: "Draw a plan: steps, loops, branches, and the artifacts between them. --format html is one page that\n" +
			"needs no network, with the prompt, mounts, network, tools and budget of each step; mermaid is text that\n" +
			"a pull request shows as a picture.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			draw := view.GraphMermaid
			switch format {
			case "mermaid":
			case "html":
				draw = nil
			default:
				return usage("--format %q is unknown: it is mermaid or html", format)
			}
			s, err := a.load(args[0], &f, nil)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if draw != nil {
				err = draw(&b, s.plan)
			} else {
				err = view.GraphHTML(&b, s.plan, plan.Digest(s.encoded))
			}
			if err != nil {
				return err
			}
			return a.output(out, &b)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&format, "format", "mermaid", "`FORM` of the picture: mermaid or html")
	cmd.Flags().StringVarP(&out, "out", "o", "", "write it to `FILE`, not to standard output")
	return cmd
}

// output writes a result where -o says, or to standard output.
func (a *app) output(out string, b *bytes.Buffer) error {
	if out == "" {
		_, err := io.Copy(a.stdout, b)
		return err
	}
	if err := renameio.WriteFile(out, b.Bytes(), 0o644); err != nil {
		return &exitError{exitInfrastructure, err}
	}
	return nil
}
