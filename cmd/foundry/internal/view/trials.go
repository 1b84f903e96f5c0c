package view

import (
	"fmt"
	"io"
	"math"
	"strings"

	"foundry/exec/record"
	"foundry/plan"
)

// Tally counts the outcomes of several runs of one plan.
type Tally struct {
	result Trials
	index  map[string]int
}

// Trials is the outcome of several runs.
type Trials struct {
	FormatVersion int     `json:"format_version"`
	Pipeline      string  `json:"pipeline"`
	Plan          string  `json:"plan,omitempty"`
	Runs          []Trial `json:"runs"`
	Rate          Rate    `json:"rate"`
	Nodes         []Rate  `json:"nodes"` // in the plan's order; of the runs that reached them
}

// Trial is one of them.
type Trial struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Class  string `json:"class,omitempty"`
}

// Rate is how often something succeeded. Of counts the trials that can speak:
// those that ended by infrastructure or were cancelled, those whose check could
// not be made, and checks whose tool the policy does without are counted apart.
// LowerPPM and UpperPPM are the bounds of the 95 % Wilson score interval in
// parts per million.
type Rate struct {
	ID             string `json:"id,omitempty"`
	Succeeded      int64  `json:"succeeded"`
	Of             int64  `json:"of"`
	Infrastructure int64  `json:"infrastructure"`
	Grader         int64  `json:"grader"`
	Unsupported    int64  `json:"unsupported"`
	NotReached     int64  `json:"not_reached"`
	LowerPPM       int64  `json:"lower_ppm"`
	UpperPPM       int64  `json:"upper_ppm"`
}

// NewTally starts counting runs of a plan.
func NewTally(p *plan.Plan) *Tally {
	t := &Tally{result: Trials{FormatVersion: 1, Pipeline: p.Pipeline.Name}, index: map[string]int{}}
	for i, n := range p.Nodes {
		t.index[n.ID] = i
		t.result.Nodes = append(t.result.Nodes, Rate{ID: n.ID})
	}
	return t
}

// Add counts a run.
func (t *Tally) Add(run *record.Run) {
	trial := Trial{ID: run.ID, Status: run.Status}
	if run.Failure != nil {
		trial.Reason, trial.Class = run.Failure.Reason, run.Failure.Class
	}
	t.result.Plan = run.Plan.Digest
	t.result.Runs = append(t.result.Runs, trial)
	t.result.Rate.add(run.Status, run.Failure)
	for _, n := range run.Nodes {
		if i, ok := t.index[n.ID]; ok {
			t.result.Nodes[i].add(n.Status, n.Failure)
		}
	}
}

func (r *Rate) add(status string, f *record.Failure) {
	switch {
	case status == record.StatusSucceeded:
		r.Succeeded++
		r.Of++
	case status == record.StatusNotReached || status == record.StatusSkipped:
		r.NotReached++
	case status == record.StatusCancelled || f != nil && (f.Class == record.ClassInfrastructure || f.Class == record.ClassCancelled):
		r.Infrastructure++
	case status == record.StatusUnsupported:
		r.Unsupported++
	case f != nil && f.Class == record.ClassGrader:
		r.Grader++
	default:
		r.Of++
	}
}

// Result is what was counted.
func (t *Tally) Result() Trials {
	t.result.Rate.LowerPPM, t.result.Rate.UpperPPM = wilson(t.result.Rate.Succeeded, t.result.Rate.Of)
	for i := range t.result.Nodes {
		n := &t.result.Nodes[i]
		n.LowerPPM, n.UpperPPM = wilson(n.Succeeded, n.Of)
	}
	return t.result
}

// wilson is the 95 % Wilson score interval of k successes in n trials, in parts
// per million (E. B. Wilson, 1927; z = 1.96). Of no trial nothing is known.
func wilson(k, n int64) (lower, upper int64) {
	if n == 0 {
		return 0, 1_000_000
	}
	const z = 1.96
	p, m := float64(k)/float64(n), float64(n)
	centre := p + z*z/(2*m)
	margin := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	scale := 1 + z*z/m
	clamp := func(x float64) int64 { return int64(math.Round(1e6 * min(max(x, 0), 1))) }
	return clamp((centre - margin) / scale), clamp((centre + margin) / scale)
}

// Write writes the rates for people.
func (t *Tally) Write(w io.Writer, dir string) error {
	r := t.Result()
	var b strings.Builder
	for _, n := range r.Nodes {
		if n.Of+n.Infrastructure+n.Grader+n.Unsupported == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s  %s\n", rate(n), n.ID)
	}
	fmt.Fprintf(&b, "\n%s  of %s succeeded\n", rate(r.Rate), count(len(r.Runs), "run"))
	fmt.Fprintf(&b, "Records: %s\n", dir)
	_, err := io.WriteString(w, SafeLines(b.String()))
	return err
}

// rate names its denominator, and what is not in it.
func rate(r Rate) string {
	s := fmt.Sprintf("%4d of %-4d %s to %s", r.Succeeded, r.Of, percent(r.LowerPPM), percent(r.UpperPPM))
	var apart []string
	for _, k := range []struct {
		n    int64
		what string
	}{{r.Infrastructure, "ended by infrastructure"}, {r.Grader, "could not be checked"}, {r.Unsupported, "unsupported"}} {
		if k.n > 0 {
			apart = append(apart, fmt.Sprintf("%d more %s", k.n, k.what))
		}
	}
	if len(apart) > 0 {
		s += "  (" + strings.Join(apart, ", ") + ")"
	}
	return s
}

func percent(ppm int64) string { return fmt.Sprintf("%5.1f %%", float64(ppm)/1e4) }

// TrialsCost is the worst case of several runs of a plan.
func TrialsCost(p *plan.Plan, n int) string {
	return fmt.Sprintf("%d trials: at most %s and %s tokens in all", n, Dollars(times(n, p.WorstCase.CostMicroUSD)), Count(times(n, p.WorstCase.Tokens)))
}

// times is n·x, or the largest number where that is more. Neither is negative.
func times(n int, x int64) int64 {
	if n > 0 && x > math.MaxInt64/int64(n) {
		return math.MaxInt64
	}
	return int64(n) * x
}
