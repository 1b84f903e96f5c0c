package attempt

import (
	"errors"
	"fmt"
	"testing"

	"foundry/exec/record"
	"foundry/plan"
	"foundry/sandbox"
)

func TestExhausted(t *testing.T) {
	node := &plan.Node{Kind: plan.NodeAgent, Sandbox: plan.Sandbox{Resources: plan.Resources{PIDs: 64}}, Budget: plan.NodeBudget{OutputBytes: 1 << 20}}
	three, full, half, none := int64(3), int64(1<<20), int64(1<<19), int64(0)
	for _, c := range []struct {
		name, reason string
		m            sandbox.Measured
		kind, want   string
	}{
		{"forks refused", record.ReasonWorkerError, sandbox.Measured{PIDsRefused: &three}, plan.NodeAgent, "resource_exceeded:pids"},
		{"forks refused until the deadline", "budget_exceeded:wall", sandbox.Measured{PIDsRefused: &three}, plan.NodeAgent, "resource_exceeded:pids"},
		{"output full", record.ReasonNoFinalEvent, sandbox.Measured{OutputBytes: &full}, plan.NodeAgent, "resource_exceeded:disk"},
		{"output not full", record.ReasonWorkerError, sandbox.Measured{OutputBytes: &half, PIDsRefused: &none}, plan.NodeAgent, record.ReasonWorkerError},
		{"nothing is known", record.ReasonWorkerError, sandbox.Measured{}, plan.NodeAgent, record.ReasonWorkerError},
		{"another reason", record.ReasonInvalidArtifact, sandbox.Measured{PIDsRefused: &three}, plan.NodeAgent, record.ReasonInvalidArtifact},
		{"a check", record.ReasonWorkerError, sandbox.Measured{PIDsRefused: &three}, plan.NodeCheck, record.ReasonWorkerError},
	} {
		n := *node
		n.Kind = c.kind
		a := &attempt{job: &Job{Node: &n}}
		if got := a.exhausted(record.Fail(c.reason, "x"), c.m); got.Reason != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.Reason, c.want)
		}
		if got := a.exhausted(nil, c.m); got != nil {
			t.Errorf("%s: a success became %+v", c.name, got)
		}
	}
}

func TestHostFailureReasons(t *testing.T) {
	for err, want := range map[error]string{
		&sandbox.ImageMismatch{Image: "x"}:                            record.ReasonImageMismatch,
		fmt.Errorf("y: %w", &sandbox.LimitNotEnforced{Limit: "pids"}): record.ReasonLimitNotEnforced,
		errors.New("z"): record.ReasonRuntimeError,
	} {
		if got := HostFailure("preparing", err); got.Reason != want || got.Class != record.ClassInfrastructure {
			t.Errorf("%v: %+v, want %s", err, got, want)
		}
	}
}

func TestImageLabels(t *testing.T) {
	image := "x@sha256:" + fmt.Sprintf("%064d", 0)
	for _, c := range []struct {
		name string
		job  Job
		want string
	}{
		{"builtin", Job{Node: &plan.Node{Sandbox: plan.Sandbox{Image: plan.ImageBuiltin}}, Harness: &plan.Harness{Adapter: "a", Version: "1"}}, "map[]"},
		{"tool", Job{Node: &plan.Node{Check: &plan.Check{Tool: "gx"}, Sandbox: plan.Sandbox{Image: image}}}, "map[foundry.tool.gx:]"},
		{"agent", Job{Node: &plan.Node{Sandbox: plan.Sandbox{Image: image}}, Harness: &plan.Harness{Adapter: "a", Version: "1"}}, "map[foundry.harness.a:1 foundry.protocol:2]"},
		{"stub", Job{Node: &plan.Node{Sandbox: plan.Sandbox{Image: image}}, Harness: &plan.Harness{Adapter: "a", Version: "1", TestStub: true}}, "map[]"},
	} {
		if got := fmt.Sprint(imageLabels(&c.job)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
