package attempt

import (
	"context"
	"testing"
	"time"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// A real worker that spends and does not say how much fails, where a budget
// bounds it and the plan does not let it pass. Where it names no cost, the
// plan's price of its tokens is taken, rounded up.
func TestUnknownSpend(t *testing.T) {
	reports := func(w *exectest.Worker) {
		w.Events(contract.Event{Type: contract.UsageType, Usage: &contract.Usage{Message: "m", Input: 100, Output: 7, CacheRead: 10, CacheWrite: 1}})
	}
	price := &plan.Model{Price: plan.Price{Input: "3", Output: "15", CacheRead: "0.3", CacheWrite: "3.75"}}
	free := &plan.Model{Price: plan.Price{Input: "0", Output: "0", CacheRead: "0", CacheWrite: "0"}}
	for name, tt := range map[string]struct {
		more    func(*exectest.Worker)
		model   *plan.Model
		unknown string
		stub    bool
		budget  plan.NodeBudget
		reason  string
		cost    record.Count
	}{
		"priced":        {reports, price, plan.UnknownFail, false, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 1000}, "", "412"}, // 300 + 105 + 3 + 3.75
		"over by price": {reports, price, plan.UnknownFail, false, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 411}, "budget_exceeded:cost", "412"},
		"free":          {reports, free, plan.UnknownFail, false, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 1}, "", "0"},
		"no price":      {reports, nil, plan.UnknownFail, false, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 1000}, "budget_exceeded:cost", record.Unknown},
		"silent":        {nil, price, plan.UnknownFail, false, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 1000}, "budget_exceeded:tokens", record.Unknown},
		"silent, not said in the plan": {nil, price, "", false, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 1000},
			"budget_exceeded:tokens", record.Unknown},
		"warned": {nil, price, plan.UnknownWarn, false, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 1000}, "", record.Unknown},
		"stub":   {nil, nil, plan.UnknownFail, true, plan.NodeBudget{WallSeconds: 60, Turns: 1, Tokens: 1000, CostMicroUSD: 1000}, "", record.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, settle(tt.more))
			tt.budget.OutputBytes, tt.budget.OutputFiles = 1<<20, 16
			h := *l.job.Harness
			h.Provider, h.TestStub = "p", tt.stub
			l.job.Harness, l.job.Model, l.job.Unknown, l.job.Budget = &h, tt.model, tt.unknown, &tt.budget
			rec := l.run(context.Background())
			got := ""
			if rec.Failure != nil {
				got = rec.Failure.Reason
			}
			if got != tt.reason || rec.Usage.CostMicroUSD != tt.cost {
				t.Errorf("failure %+v, cost %s", rec.Failure, rec.Usage.CostMicroUSD)
			}
			if rec.Failure != nil && tt.cost == record.Unknown && rec.Failure.Observed != record.Unknown {
				t.Errorf("observed %s", rec.Failure.Observed)
			}
		})
	}
}

// D8: what a worker had reported before it was ended is kept, and marked: there
// may be more.
func TestUsageOfAKilledWorkerIsPartial(t *testing.T) {
	spent := func(w *exectest.Worker) {
		w.Events(contract.Event{Type: contract.UsageType, Usage: &contract.Usage{Message: "m", Input: 100, Output: 7}})
	}
	killed := newLab(t, func(w *exectest.Worker) sandbox.Exit {
		w.Events(exectest.Started())
		spent(w)
		<-w.Killed
		return sandbox.Exit{Code: 137, Signal: "SIGKILL"}
	})
	killed.job.Wall = time.Second
	if u := killed.run(context.Background()).Usage; u.Tokens != "107" || !u.Partial || u.Source != record.SourceWorker {
		t.Errorf("of a killed worker: %+v", u)
	}
	ended := newLab(t, settle(spent))
	if u := ended.run(context.Background()).Usage; u.Tokens != "107" || u.Partial {
		t.Errorf("of one that ended by itself: %+v", u)
	}
	if sum := (record.Usage{Source: record.SourceWorker, Partial: true}).Plus(record.Usage{Source: record.SourceBroker}); !sum.Partial || sum.Source != record.SourceMixed {
		t.Errorf("the sum is %+v", sum)
	}
}
