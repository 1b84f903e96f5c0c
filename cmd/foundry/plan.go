package main

import (
	"fmt"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/plan"
)

func (a *app) planCommand() *cobra.Command {
	var f compileFlags
	var out string
	var asJSON, prompts bool
	cmd := &cobra.Command{
		Use:   "plan POLICY",
		Short: "Compile a policy and show what would happen",
		Long: "Compile a policy, a file or a folder of *.hcl, and show what would happen: phases, data flow, loops,\n" +
			"branches, mounts, network, credentials by name, budgets and the worst case. Nothing is run.\n" +
			"-o FILE.json writes the plan; -o DIR writes a closure, the plan with every byte that it names.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			res, err := a.compile(args[0], &f)
			if err != nil {
				return err
			}
			if out != "" {
				if err := a.write(&source{plan: res.Plan, encoded: res.Encoded, raw: res.Blobs}, out); err != nil {
					return err
				}
				fmt.Fprintf(a.stderr, "Wrote %s\n", view.Safe(out))
			}
			return a.present(res.Plan, res.Encoded, asJSON, prompts)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "write the plan to `FILE.json`, or its closure to a new folder")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan itself, byte for byte")
	cmd.Flags().BoolVar(&prompts, "prompts", false, "show the exact text that each worker gets")
	return cmd
}

// present prints a plan, as itself or for people.
func (a *app) present(p *plan.Plan, encoded []byte, asJSON, prompts bool) error {
	if asJSON {
		_, err := a.stdout.Write(encoded)
		return err
	}
	return view.Preview(a.stdout, p, plan.Digest(encoded), prompts)
}

func writePlan(name string, encoded []byte) error { return renameio.WriteFile(name, encoded, 0o644) }

func (a *app) showCommand() *cobra.Command {
	var asJSON, prompts bool
	cmd := &cobra.Command{
		Use:   "show PLAN|DIR",
		Short: "Show a plan file or a closure as plan does",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.load(args[0], &compileFlags{}, nil)
			if err != nil {
				return err
			}
			if s.policy != "" {
				return usage("%s is a policy: see `foundry plan`", args[0])
			}
			return a.present(s.plan, s.encoded, asJSON, prompts)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan itself, byte for byte")
	cmd.Flags().BoolVar(&prompts, "prompts", false, "show the exact text that each worker gets")
	return cmd
}

func (a *app) validateCommand() *cobra.Command {
	var f compileFlags
	cmd := &cobra.Command{
		Use:   "validate POLICY|PLAN|DIR",
		Short: "Say whether a policy compiles, or a plan or closure is whole",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.load(args[0], &f, nil)
			if err != nil {
				return err
			}
			if s.policy == "" && s.blobs != nil {
				if err := verifyBlobs(s); err != nil {
					return usage("%s: %w", args[0], err)
				}
			}
			fmt.Fprintf(a.stdout, "%s is valid: %s, %s\n", view.Safe(args[0]), s.plan.Pipeline.Name, plan.Digest(s.encoded))
			return nil
		},
	}
	f.add(cmd)
	return cmd
}
