// Package view renders what the program says to people: diagnostics, the
// preview of a plan, and the progress and outcome of a run. It computes
// nothing that a decision depends on.
package view
