package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/plan"
	"foundry/plan/spend"
)

func (a *app) spendCommand() *cobra.Command {
	var f compileFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "spend POLICY|PLAN|DIR|REV:PATH",
		Short: "Say what a plan may spend at most, who may starve whom, and which bounds are never reached",
		Long: "Say what a plan may spend at most, to the micro-dollar: each phase with all its iterations and alternatives,\n" +
			"and the run. Then which phases may find too little of the run's budget left, and because of which others; and\n" +
			"which bounds another bound ends before they are reached. Nothing is run.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.side(args[0], &f)
			if err != nil {
				return err
			}
			r := spend.Of(s.plan)
			if asJSON {
				return view.SpendJSON(a.stdout, s.plan.Pipeline.Name, plan.Digest(s.encoded), r)
			}
			var b bytes.Buffer
			if err := view.SpendText(&b, s.plan.Pipeline.Name, r); err != nil {
				return err
			}
			_, err = a.stdout.Write(b.Bytes())
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it for a program, in micro-USD, seconds and tokens")
	return cmd
}

// honestSpend proves the worst case that a plan file claims.
func honestSpend(name string, p *plan.Plan) error {
	if want := spend.WorstCase(p); p.WorstCase != want {
		return usage("%s is no valid plan: its worst_case is not that of its steps: %s", name, differs(p.WorstCase, want))
	}
	return nil
}

func differs(got, want plan.WorstCase) string {
	for _, c := range []struct {
		key       string
		got, want int64
	}{
		{"uncapped_cost_micro_usd", got.UncappedCostMicroUSD, want.UncappedCostMicroUSD},
		{"cost_micro_usd", got.CostMicroUSD, want.CostMicroUSD},
		{"uncapped_wall_seconds", got.UncappedWallSeconds, want.UncappedWallSeconds},
		{"wall_seconds", got.WallSeconds, want.WallSeconds},
		{"uncapped_tokens", got.UncappedTokens, want.UncappedTokens},
		{"tokens", got.Tokens, want.Tokens},
	} {
		if c.got != c.want {
			return fmt.Sprintf("%s is %d, and they come to %d", c.key, c.got, c.want)
		}
	}
	return ""
}
