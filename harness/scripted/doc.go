// Package scripted is the adapter of test stubs: the worker is this program
// itself (foundry worker --test-stub), which works off a script. It shows what
// a pipeline does without an agent, a provider or a cost, and it is never
// evidence that a skill works: the policy must say test_stub = true, and every
// record says what ran.
//
// It imports plan, harness and harness/contract, and does no I/O.
package scripted
