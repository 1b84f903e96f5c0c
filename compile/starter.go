package compile

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/harness"
	"foundry/plan"
)

// SummaryOpen is the summary of the error that a decision of the policy is
// still to be taken: a todo("…") stands in its place.
const SummaryOpen = policy.SummaryOpen

// StarterOptions are what a starter policy is made from.
type StarterOptions struct {
	Open     func(dir string) (fs.FS, error) // see Options
	Adapters map[string]harness.Adapter      // those of this program, which it names
	Assembly string                          // path of _assembly.json, from the current folder
	Skills   string                          // path of the folder of skill bundles, likewise
	// How the policy names the two: relative to where it will stand.
	AssemblyName, SkillsName string
}

// Starter is a policy to start from. Policy is nil when a diagnostic is an
// error.
type Starter struct {
	Policy      []byte
	Open        int          // decisions that are to be taken: each fails a compilation with SummaryOpen
	Diagnostics []Diagnostic // sorted; a warning is something that the policy cannot settle
	Sources     map[string][]byte
}

// Start writes a policy for an assembly, with the lists that the data flow
// shows and an open decision in the place of everything that only a person can
// say. Once these are taken, the policy compiles.
func Start(ctx context.Context, o StarterOptions) *Starter {
	st := &starting{ctx: ctx, o: o, inputs: map[string]*openInput{}, na: map[string][]string{}, optional: map[string][]string{}, partial: map[string][]string{}}
	c := st.settle()
	c.diags.Sort()
	out := &Starter{Sources: c.sources}
	if st.broken {
		out.Diagnostics = c.diags
		return out
	}
	for _, d := range c.diags {
		d.Severity = Warning
		out.Diagnostics = append(out.Diagnostics, d)
	}
	w := &starterText{starting: st, c: c, b: &strings.Builder{}}
	text := w.write()
	formatted, ds := policy.Format("starter.hcl", []byte(text))
	if formatted == nil {
		out.Diagnostics = append(out.Diagnostics, ds...)
		return out
	}
	out.Policy, out.Open = formatted, w.open
	return out
}

// findings are what a compilation would call errors, and a starter policy
// makes decisions or proposals of.
type findings struct {
	gaps       []gap
	optional   [][2]string     // step and artifact that may be missing
	undeclared map[string]bool // steps whose skills do not say what they read
}

// starting is the search for what a starter policy says.
type starting struct {
	ctx      context.Context
	o        StarterOptions
	inputs   map[string]*openInput
	na       map[string][]string // step → artifacts
	optional map[string][]string
	partial  map[string][]string // step → why its list is a decision
	groups   []loopGroup
	broken   bool // the sources cannot be read
}

// openInput is an input whose file is to be named.
type openInput struct {
	gaps      []gap  // what it fills
	branch    string // whose fallback it is
	firstStep string // whose start it is
}

// loopGroup is a loop that is proposed: consecutive phases that the assembly
// marks.
type loopGroup struct {
	name   string
	phases []string
	at     diag.Range
}

// maxRounds bounds the search. Every round adds an input, a list's entry or
// nothing, and the first usually finds all.
const maxRounds = 100

// settle analyses the data flow until nothing is open in it any more.
func (st *starting) settle() *compiler {
	for range maxRounds {
		c := st.analyse()
		if st.broken || !st.learn(c) {
			return c
		}
	}
	return st.analyse()
}

// analyse binds the data flow with what is known so far.
func (st *starting) analyse() *compiler {
	c := newCompiler(st.ctx, st.o.Assembly, Options{Open: st.o.Open, Adapters: st.o.Adapters})
	at := diag.Range{File: st.o.Assembly}
	c.found = &findings{undeclared: map[string]bool{}}
	c.pol = &policy.Policy{Assembly: policy.Text{Value: path.Clean(st.o.Assembly), At: at}, Skills: policy.Text{Value: path.Clean(st.o.Skills), At: at}}
	if !c.readAssembly() {
		st.broken = true
		return c
	}
	st.groups = loopGroups(c.asm)
	for _, g := range st.groups {
		l := &policy.Loop{Name: g.name, At: g.at, MaxIterations: policy.Int{Value: 1, At: g.at}, Phases: policy.Names{At: g.at}}
		for _, p := range g.phases {
			l.Phases.Items = append(l.Phases.Items, policy.Text{Value: p, At: g.at})
		}
		c.pol.Loops = append(c.pol.Loops, l)
	}
	counts := map[string]int{}
	for i := range c.asm.Phases {
		if p := &c.asm.Phases[i]; p.Branch {
			c.pol.Branches = append(c.pol.Branches, &policy.Branch{Name: nextID(counts, p.Pattern), At: p.At})
		} else {
			nextID(counts, p.Skill)
		}
	}
	c.layout()
	c.readSkills()
	if st.broken = c.diags.HasErrors(); st.broken {
		return c
	}
	for id := range st.inputs {
		c.inputs[id] = &input{Input: plan.Input{ID: id, Kind: writtenAs(c, id)}}
	}
	for _, s := range c.walk {
		p := &policy.Phase{Name: s.id, At: s.at, NotApplicable: namesAt(st.na[s.id], s.at), Optional: namesAt(st.optional[s.id], s.at)}
		s.policies = append(s.policies, p)
	}
	c.bind()
	return c
}

func namesAt(ids []string, at diag.Range) policy.Names {
	n := policy.Names{At: at}
	for _, id := range ids {
		n.Items = append(n.Items, policy.Text{Value: id, At: at})
	}
	return n
}

// writtenAs is the form in which a pipeline writes an artifact, "" if it does not.
func writtenAs(c *compiler, id string) string {
	for _, s := range c.walk {
		for _, p := range s.skill.Produces {
			if p.ID == id {
				return p.Kind
			}
		}
	}
	return ""
}

// loopGroups proposes one loop for each row of phases that are marked.
func loopGroups(a *bundle.Assembly) []loopGroup {
	var out []loopGroup
	counts := map[string]int{}
	open := false
	for i := range a.Phases {
		p := &a.Phases[i]
		if p.Branch {
			nextID(counts, p.Pattern)
			open = false
			continue
		}
		id := nextID(counts, p.Skill)
		if !p.Loop {
			open = false
			continue
		}
		if !open {
			out = append(out, loopGroup{at: p.At})
		}
		open = true
		g := &out[len(out)-1]
		g.phases = append(g.phases, id)
	}
	for i := range out {
		g := &out[i]
		g.name = g.phases[0]
		if len(g.phases) > 1 || strings.Contains(g.name, "#") {
			g.name = strings.ReplaceAll("repeat-"+g.name, "#", "-")
		}
	}
	return out
}

// learn takes what an analysis found; false when that was nothing new.
func (st *starting) learn(c *compiler) bool {
	added := false
	for _, u := range c.order {
		if u.kind != unitBranch || !slices.Contains(u.asm.Chain, bundle.UserSupplied) || len(u.artifacts) != 1 {
			continue
		}
		for id := range u.artifacts {
			if in := st.input(id, &added); in.branch == "" {
				in.branch = u.id
			}
		}
	}
	if len(c.walk) > 0 && c.found.undeclared[c.walk[0].id] {
		name := st.freeName(c, "source")
		if in := st.input(name, &added); in.firstStep == "" {
			in.firstStep = c.walk[0].id
		}
	}
	for _, g := range c.found.gaps {
		switch {
		case g.partial:
			st.partial[g.step.id] = append(st.partial[g.step.id], g.why)
			add(st.na, g.step.id, g.artifact)
		case st.inputs[g.artifact] == nil && len(siblings(g.step, g.artifact)) > 0:
			add(st.na, g.step.id, g.artifact)
		default:
			in := st.input(g.artifact, &added)
			in.gaps = append(in.gaps, g)
			for id, list := range st.na { // it is applicable where there is an input
				st.na[id] = slices.DeleteFunc(list, func(a string) bool { return a == g.artifact })
			}
		}
		added = true
	}
	for _, o := range c.found.optional {
		added = true
		add(st.optional, o[0], o[1])
	}
	return added
}

func add(m map[string][]string, step, artifact string) {
	if !slices.Contains(m[step], artifact) {
		m[step] = append(m[step], artifact)
		slices.Sort(m[step])
	}
}

func (st *starting) input(id string, added *bool) *openInput {
	if st.inputs[id] == nil {
		st.inputs[id] = &openInput{}
		*added = true
	}
	return st.inputs[id]
}

// freeName is a name that no artifact of the pipeline has.
func (st *starting) freeName(c *compiler, name string) string {
	taken := map[string]bool{}
	for _, s := range c.walk {
		for _, p := range s.skill.Produces {
			taken[p.ID] = true
		}
		for _, q := range s.skill.Consumes {
			taken[q.ID] = true
		}
	}
	for taken[name] {
		name = "the-" + name
	}
	return name
}

// siblings are the other artifacts that a step's skill reads and that differ
// from this one in one word of their names: what the same skill gets from
// other sources, in other pipelines. A step reads what its pipeline has of them.
func siblings(s *step, artifact string) []string {
	var out []string
	words := strings.Split(artifact, "-")
	slices.Sort(words)
	for _, q := range s.skill.Consumes {
		other := strings.Split(q.ID, "-")
		slices.Sort(other)
		if q.ID != artifact && len(words) > 1 && len(other) == len(words) && differences(words, other) == 1 {
			out = append(out, q.ID)
		}
	}
	return out
}

// differences counts the words of one sorted list that the other lacks.
func differences(a, b []string) int {
	n, k := 0, 0
	for _, w := range a {
		for k < len(b) && b[k] < w {
			k++
		}
		if k < len(b) && b[k] == w {
			k++
		} else {
			n++
		}
	}
	return n
}
