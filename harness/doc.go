// Package harness is what the compiler and the executor know of agents: the
// Adapter interface. An adapter says what its agent can do, lowers a step to
// argv, environment, files and prompt, and reads the agent's event stream. It
// performs no operating-system I/O: the executor owns every process.
//
// It imports plan and harness/contract.
package harness
