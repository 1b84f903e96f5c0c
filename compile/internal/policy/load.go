package policy

import (
	"cmp"
	"context"
	"io/fs"
	"slices"

	"foundry/compile/internal/diag"
)

// Options are what a policy is loaded with beside its path.
type Options struct {
	// Open gives a folder, named relative to the current one or absolutely; it
	// must keep every name beneath that folder.
	Open func(dir string) (fs.FS, error)
	// Vars give variables their values, before VarFiles; of one name the last counts.
	Vars []Assignment
	// VarFiles are files of lines NAME = literal; of one name the last counts.
	VarFiles []string
}

// Assignment is one --var NAME=VALUE.
type Assignment struct{ Name, Value string }

// Load reads a policy: a file or a folder of *.hcl files (not those
// that start with a dot), with what they include. The policy is never nil and always has its Files, so that
// diagnostics can show their lines; it is complete when the list has no errors. Its named
// blocks are sorted by name, so that neither the order nor the files in which
// they were written can be seen. A cancelled ctx ends evaluation with an
// error.
func Load(ctx context.Context, path string, opts Options) (*Policy, diag.List) {
	var d diag.List
	p := &Policy{Files: map[string][]byte{}}
	dir, fsys, names, ld := locate(path, opts.Open)
	if d = append(d, ld...); fsys == nil || len(names) == 0 {
		return p, d
	}
	r := &reader{fsys: fsys, dir: dir, files: p.Files, diags: &d, done: map[string]bool{}}
	for _, n := range names {
		r.load(n, diag.Range{})
	}
	s := &Scope{ctx: ctx, vars: map[string]variable{}, locals: map[string]*local{}, partial: d.HasErrors(), reports: &d}
	e := &eval{Scope: s, d: &d}
	v := &variables{eval: e, policy: p, opts: opts, words: &r.words, byName: map[string]*declaration{}}
	v.declare(r.sources)
	v.assign()
	v.settle()
	dec := &decoder{ev: e, diags: &d, top: map[string]diag.Range{}}
	for _, src := range r.sources {
		dec.dir, dec.broken, dec.todos = src.dir, src.broken, mayBeOpen(p.Files[src.name])
		dec.body(policySpec, p, src.body, diag.Range{File: src.name}, where(policySpec), dec.top)
	}
	v.evaluateLocals()
	if err := ctx.Err(); err != nil && !d.HasErrors() {
		d.Errorat(diag.Range{File: path}, "Compilation ended", "The time for compiling is over, or it was cancelled.")
	}
	if (dec.failed || s.spent) && !d.HasErrors() {
		d.Errorat(diag.Range{File: path}, "Policy not understood", "A part of the policy could not be read, and nothing said why. Please report this.")
	}
	p.sort()
	return p, d
}

// sort makes the order in which named blocks were written invisible.
func (p *Policy) sort() {
	by(p.Variables, func(v Variable) string { return v.Name })
	by(p.Inputs, func(i *Input) string { return i.Name })
	by(p.Providers, func(v *Provider) string { return v.Name })
	for _, v := range p.Providers {
		by(v.Models, func(m *Model) string { return m.ID })
	}
	by(p.Harnesses, func(h *Harness) string { return h.Name })
	by(p.Phases, func(h *Phase) string { return h.Name })
	by(p.Loops, func(l *Loop) string { return l.Name })
	by(p.Branches, func(b *Branch) string { return b.Name })
	by(p.Tools, func(t *Tool) string { return t.Name })
	by(p.Probes, func(b *Probe) string { return b.Tool })
	by(p.Artifacts, func(a *Artifact) string { return a.ID })
	by(p.Scenarios, func(s *Scenario) string { return s.Name })
	for _, s := range p.Scenarios {
		by(s.Inputs, func(i *Input) string { return i.Name })
	}
	by(p.OwnGuards, func(g *Guard) string { return g.Name })
	for _, l := range p.Loops {
		by(l.Checks, func(c *Check) string { return c.Name })
		by(l.Body, func(h *Phase) string { return h.Name })
		if l.Self != nil {
			l.Self.sort()
		}
		eachPhase(l.Body)
	}
	for _, b := range p.Branches {
		by(b.Checks, func(c *Check) string { return c.Name })
		by(b.Phases, func(h *Phase) string { return h.Name })
		eachPhase(b.Phases)
	}
	eachPhase(p.Phases)
}

func eachPhase(phases []*Phase) {
	for _, p := range phases {
		p.sort()
	}
}

func (p *Phase) sort() {
	by(p.Outputs, func(o *Output) string { return o.Artifact })
	by(p.Checks, func(c *Check) string { return c.Name })
}

func by[T any](list []T, name func(T) string) {
	if len(list) > 1 {
		slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	}
}
