// Package plan is the intermediate representation between the compiler and
// the executor: the types of plan.json, their canonical encoding, the rules a
// plan must satisfy, and its identity.
//
// A plan is data. Nothing in this package reads a clock, the environment, the
// network or a file, and it imports no other package of this module, so every
// room may depend on it.
package plan
