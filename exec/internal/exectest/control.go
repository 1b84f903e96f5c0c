package exectest

import (
	"slices"
	"strings"

	"foundry/plan"
)

// Check adds a check of a step, a loop or an alternative that runs argv. It
// asserts exit code 0 unless change says otherwise.
func (b *Builder) Check(of, name string, argv []string, inputs []plan.NodeInput, change func(*plan.Node)) *plan.Node {
	exit := Eq(CheckFact(name, "exit_code", ""), Number("0"))
	n := plan.Node{
		ID: of + "." + name, Kind: plan.NodeCheck, Phase: 1, Needs: []string{of}, SubmitAttempts: 1,
		Check:   &plan.Check{Name: name, Of: of, Blocking: true, TrustedHost: true, Assert: &exit},
		Process: plan.Process{Argv: argv, Env: []string{"HOME={scratch}", "PATH=/usr/bin:/bin"}, Cwd: "{scratch}", User: "65534:65534"},
		Inputs:  inputs,
		Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Network: plan.NetworkNone,
			Resources: plan.Resources{MemoryBytes: 1 << 30, PIDs: 64, CPUMillis: 1000}},
		Budget: plan.NodeBudget{WallSeconds: 60, OutputBytes: 1 << 20, OutputFiles: 16},
	}
	n.Sandbox.Mounts = []plan.Mount{
		{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: 1 << 20},
		{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: 1 << 20},
	}
	for _, in := range inputs {
		n.Sandbox.Mounts = append(n.Sandbox.Mounts, plan.Mount{Source: "in:" + in.Artifact, Destination: "/in/" + in.Artifact, Mode: plan.MountReadOnly})
	}
	slices.SortFunc(n.Sandbox.Mounts, func(x, y plan.Mount) int { return strings.Compare(x.Destination, y.Destination) })
	if change != nil {
		change(&n)
	}
	b.Plan.Nodes = append(b.Plan.Nodes, n)
	return &b.Plan.Nodes[len(b.Plan.Nodes)-1]
}

// JSONOut is a JSON output ID.json of an artifact ID.
func JSONOut(id, required string) plan.NodeOutput {
	return plan.NodeOutput{Artifact: id, Filename: id + ".json", Kind: plan.KindJSON, Required: required}
}

// JSONIn is a required JSON input.
func JSONIn(id, from string) plan.NodeInput {
	return plan.NodeInput{Artifact: id, From: from, Required: true, Kind: plan.KindJSON, Path: id + ".json"}
}

// Op, Eq and the others make predicates.
func Op(op string, args ...plan.Expr) plan.Expr { return plan.Expr{Op: op, Args: args} }

// Eq is a == b.
func Eq(a, b plan.Expr) plan.Expr { return Op(plan.OpEq, a, b) }

// Number is a number.
func Number(n string) plan.Expr {
	return plan.Expr{Op: plan.OpLiteral, Literal: &plan.Literal{Type: plan.TypeNumber, Value: n}}
}

// Bool is true or false.
func Bool(b string) plan.Expr {
	return plan.Expr{Op: plan.OpLiteral, Literal: &plan.Literal{Type: plan.TypeBool, Value: b}}
}

// Text is a string.
func Text(s string) plan.Expr {
	return plan.Expr{Op: plan.OpLiteral, Literal: &plan.Literal{Type: plan.TypeString, Value: s}}
}

// OutputFact is a fact of an artifact.
func OutputFact(name, field, pointer string) plan.Expr {
	return plan.Expr{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactOutput, Name: name, Field: field, Pointer: pointer}}
}

// CheckFact is a fact of a check.
func CheckFact(name, field, pointer string) plan.Expr {
	return plan.Expr{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactCheck, Name: name, Field: field, Pointer: pointer}}
}

// Iteration is the number of the iteration.
func Iteration() plan.Expr {
	return plan.Expr{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactIteration}}
}
