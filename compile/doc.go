// Package compile turns a policy, a pipeline assembly and the skill bundles it
// names into a plan, or into diagnostics that say what is missing.
//
// It is a pure function of the bytes it reads through Options.Open: no clock,
// no environment, no network, no process, no os package. It may import plan,
// predicates, harness, policies and compile/oracle, and never exec or sandbox.
package compile
