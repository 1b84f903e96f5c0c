// Package policy reads a policy, a file or a folder of HCL, into a [Policy]:
// includes merged, words checked, units converted, every expression evaluated
// that is no predicate and no guard. It knows nothing of assemblies and
// skills; the lowering does.
//
// It imports plan and compile/internal/diag of this module, hcl and cty; it
// must not import os, time, net, nor any package that runs a process: every
// byte comes through [Options.Open].
//
// # Paths
//
// A path in a policy (assembly, skills, an input's path, a harness' script
// and recorded, evaluation's properties) is relative to the folder of the
// file that writes it. A variable of the type path is relative to the folder
// of the file that gives its value: the policy file of its default, the
// variable file, or for --var the current folder. Either way the result is a
// clean slash path, joined with the folder as the user named it, so that it
// can be opened from the current folder. A value that came from a path
// variable carries a mark through templates, locals and functions; it is
// never joined a second time, must stand at the start of the text that it
// makes, and may be used in paths alone: a path of this machine in a prompt or an
// argv would make the plan depend on where it was compiled.
//
// # Bounds
//
// hcl's parser and evaluator recurse with their input and cty has numbers
// without end, so sizes are bounded before they are used: see the constants in
// source.go, prescan.go, scope.go and units.go. Evaluation is this package's own, over
// hcl's syntax tree: it is metered, strict about types, and has no function
// that could read a clock, a file or the environment.
package policy
