package compile

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// unitKind says what stands at one place of the walk.
type unitKind int

const (
	unitPhase unitKind = iota
	unitLoop
	unitBranch
)

// unit is one place of the walk: a phase, a loop with its body, or a branch
// with its alternatives.
type unit struct {
	kind   unitKind
	id     string
	steps  []*step
	at     diag.Range // in the assembly
	loop   *policy.Loop
	branch *policy.Branch
	asm    *bundle.Phase // of a branch

	carries   []string
	artifacts map[string]*produced // of a branch: what consumers may read
	otherwise string
}

// step is one agent node before it is lowered.
type step struct {
	id       string
	name     string // the skill
	unit     *unit
	number   int64 // of the assembly's phase
	at       diag.Range
	skill    *bundle.Skill
	policies []*policy.Phase // what the policy says of it, the nearest first
	inputs   []plan.NodeInput
	outputs  []plan.NodeOutput
	na       []string
	checks   []*check
}

// readAssembly reads _assembly.json and reports whether there is one to go on
// with.
func (c *compiler) readAssembly() bool {
	if !c.pol.Assembly.Set() {
		c.diags.Errorat(c.policy, "No assembly", "The policy names no pipeline: write `assembly = \"…/_assembly.json\"`.")
	}
	if !c.pol.Skills.Set() {
		c.diags.Errorat(c.policy, "No skills folder", "The policy names no folder of skill bundles: write `skills = \"…/skills\"`.")
	}
	if !c.pol.Assembly.Set() {
		return false
	}
	name := c.pol.Assembly.Value
	data, ok := c.readFile(name, c.pol.Assembly.At, "Assembly cannot be read")
	if !ok {
		return false
	}
	c.sources[name] = data
	asm, ds := bundle.ReadAssembly(data, name)
	c.diags = append(c.diags, ds...)
	c.asm = asm
	return asm != nil && !ds.HasErrors()
}

// layout joins the assembly's phases with the policy's blocks.
func (c *compiler) layout() {
	counts := map[string]int{}
	for i := range c.asm.Phases {
		p := &c.asm.Phases[i]
		if p.Branch {
			c.order = append(c.order, c.layBranch(p, counts))
			continue
		}
		s := c.newStep(nextID(counts, p.Skill), p.Skill, p)
		c.order = append(c.order, &unit{kind: unitPhase, id: s.id, steps: []*step{s}, at: p.At})
		s.unit = c.order[len(c.order)-1]
	}
	c.layLoops()
	c.attachPhases()
}

func nextID(counts map[string]int, name string) string {
	counts[name]++
	if n := counts[name]; n > 1 {
		return name + "#" + strconv.Itoa(n)
	}
	return name
}

func (c *compiler) newStep(id, skill string, p *bundle.Phase) *step {
	s := &step{id: id, name: skill, number: p.Number, at: p.At}
	c.steps[id] = s
	c.walk = append(c.walk, s)
	return s
}

func (c *compiler) layBranch(p *bundle.Phase, counts map[string]int) *unit {
	u := &unit{kind: unitBranch, id: nextID(counts, p.Pattern), at: p.At, asm: p}
	c.units[u.id] = u
	if strings.Contains(u.id, "#") {
		c.diags.Errorat(p.At, "Name is taken", fmt.Sprintf("Phase %d is a branch `%s`, and an earlier phase has that name: a plan cannot hold two. Give the pattern another name in the assembly.", p.Number, p.Pattern))
	}
	for _, name := range p.Chain {
		if name == bundle.UserSupplied {
			continue
		}
		s := c.newStep(u.id+"/"+name, name, p)
		s.unit = u
		u.steps = append(u.steps, s)
	}
	for _, b := range c.pol.Branches {
		if b.Name == u.id {
			u.branch = b
		}
	}
	if u.branch == nil {
		c.diags.Errorat(p.At, "Branch without a decision", fmt.Sprintf(
			"Phase %d is the branch `%s`; only the policy can say when an alternative is accepted. Write `branch %q { accept = … }` with a predicate over its outputs, and `otherwise`, an input or \"fail\".",
			p.Number, u.id, u.id))
	}
	return u
}

// layLoops replaces the phases of each loop by one unit.
func (c *compiler) layLoops() {
	index := make(map[string]int, len(c.order))
	looped := map[string]bool{}
	for i, u := range c.order {
		index[u.id] = i
	}
	marks := map[string]bool{}
	for i := range c.asm.Phases {
		if p := &c.asm.Phases[i]; p.Loop {
			marks[c.order[i].id] = true
		}
	}
	type place struct{ first, last int }
	starts := map[int]*unit{}
	ends := map[int]place{}
	for _, l := range c.pol.Loops {
		names := l.Phases.Items
		if !l.Phases.Set() {
			names = []policy.Text{{Value: l.Name, At: l.At}}
		}
		u := &unit{kind: unitLoop, id: l.Name, loop: l, at: l.At}
		first, ok := c.loopBody(u, names, index, marks, looped)
		if strings.Contains(u.id, "#") {
			c.diags.Errorat(u.at, "Loop without a name", fmt.Sprintf("A plan cannot name a loop `%s`; give it a name of its own: `loop \"NAME\" { phases = [%q] … }`.", u.id, names[0].Value))
			ok = false
		}
		if i, taken := index[u.id]; taken && ok && (i < first || i >= first+len(names)) {
			c.diags.Errorat(u.at, "Name is taken", "`"+u.id+"` is also a phase or branch outside this loop; give the loop a name of its own.")
			ok = false
		}
		if !ok {
			continue
		}
		c.units[u.id] = u
		starts[first], ends[first] = u, place{first, first + len(names) - 1}
	}
	var order []*unit
	for i := 0; i < len(c.order); i++ {
		if u := starts[i]; u != nil {
			order = append(order, u)
			i = ends[i].last
			continue
		}
		u := c.order[i]
		order = append(order, u)
		if marks[u.id] && !looped[u.id] {
			block := fmt.Sprintf("`loop %q { until = …  max_iterations = … }`", u.id)
			if strings.Contains(u.id, "#") {
				block = fmt.Sprintf("`loop \"NAME\" { phases = [%q]  until = …  max_iterations = … }`", u.id)
			}
			c.diags.Errorat(u.at, "Loop without an end", fmt.Sprintf(
				"Phase %d (`%s`) is a loop, and nothing in the bundle says when it ends. Write %s, or name it in the `phases` of a loop over several.",
				u.steps[0].number, u.id, block))
		}
	}
	c.order = order
}

// loopBody resolves the phases of a loop and returns the index of the first.
func (c *compiler) loopBody(u *unit, names []policy.Text, index map[string]int, marks, looped map[string]bool) (int, bool) {
	first, ok := 0, true
	for k, n := range names {
		i, known := index[n.Value]
		switch {
		case !known || c.order[i].kind != unitPhase:
			c.diags.Errorat(n.At, "Unknown phase", "The assembly has no phase `"+n.Value+"`. "+hint(n.Value, c.phaseIDs()))
			ok = false
			continue
		case looped[n.Value]:
			c.diags.Errorat(n.At, "Phase in two loops", "`"+n.Value+"` is in another loop already; a phase belongs to one.")
			ok = false
			continue
		case !marks[n.Value]:
			c.diags.Errorat(n.At, "Not a loop", "The assembly does not mark `"+n.Value+"` as a loop (`\"loop\": true`), so the policy must not repeat it.")
			ok = false
			continue
		}
		if k == 0 {
			first = i
		} else if ok && i != first+k {
			c.diags.Errorat(n.At, "Loop body is not consecutive", "`"+n.Value+"` does not follow `"+names[k-1].Value+"` in the assembly; a body is consecutive phases in their order.")
			ok = false
		}
		looped[n.Value] = true
		s := c.order[i].steps[0]
		s.unit = u
		u.steps = append(u.steps, s)
	}
	return first, ok
}

func (c *compiler) phaseIDs() []string {
	var ids []string
	for _, s := range c.walk {
		if s.unit == nil || s.unit.kind != unitBranch {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// attachPhases gives each step what the policy says of it, and refuses blocks
// that mean nothing.
func (c *compiler) attachPhases() {
	for _, p := range c.pol.Phases {
		s := c.steps[p.Name]
		if s == nil || s.unit.kind == unitBranch {
			c.diags.Errorat(p.At, "Unknown phase", "The assembly has no phase `"+p.Name+"`. "+hint(p.Name, c.phaseIDs()))
			continue
		}
		s.policies = append(s.policies, p)
	}
	for _, l := range c.pol.Loops {
		u := c.units[l.Name]
		if u == nil {
			continue
		}
		c.attachInside(u, l.Body, func(s *step) string { return s.id })
		if l.Self == nil {
			continue
		}
		c.attach(u.steps[0], l.Self) // the language lets it stand in a loop of one phase only
	}
	for _, b := range c.pol.Branches {
		u := c.units[b.Name]
		if u == nil || u.kind != unitBranch {
			var ids []string
			for id, u := range c.units {
				if u.kind == unitBranch {
					ids = append(ids, id)
				}
			}
			c.diags.Errorat(b.At, "Unknown branch", "The assembly has no branch `"+b.Name+"`. "+hint(b.Name, ids))
			continue
		}
		c.attachInside(u, b.Phases, func(s *step) string { return s.name })
	}
}

func (c *compiler) attachInside(u *unit, phases []*policy.Phase, name func(*step) string) {
	for _, p := range phases {
		i := slices.IndexFunc(u.steps, func(s *step) bool { return name(s) == p.Name })
		if i < 0 {
			var names []string
			for _, s := range u.steps {
				names = append(names, name(s))
			}
			c.diags.Errorat(p.At, "Unknown phase", "`"+u.id+"` has no phase `"+p.Name+"`. "+hint(p.Name, names))
			continue
		}
		c.attach(u.steps[i], p)
	}
}

func (c *compiler) attach(s *step, p *policy.Phase) {
	if len(s.policies) > 0 {
		c.diags.Errorat(p.At, "Phase configured twice", "`"+s.id+"` has another block at "+where(s.policies[0].At)+"; write one.")
		return
	}
	s.policies = append(s.policies, p)
}

func where(r diag.Range) string { return fmt.Sprintf("%s:%d", r.File, r.Start.Line) }

// readSkills reads each skill of the walk once.
func (c *compiler) readSkills() {
	if !c.pol.Skills.Set() {
		return
	}
	for _, s := range c.walk {
		s.skill = c.skill(s.name, s.at)
		for _, p := range s.policies {
			for _, n := range p.NestedSkills.Items {
				c.skill(n.Value, n.At)
				if n.Value == s.name {
					c.diags.Errorat(n.At, "Skill nested in itself", "`"+s.id+"` runs the skill `"+s.name+"` already; remove it from `nested_skills`.")
				}
			}
		}
	}
}

// skill reads the bundle of one skill, nil if it cannot be read.
func (c *compiler) skill(name string, at diag.Range) *bundle.Skill {
	if s, ok := c.skills[name]; ok {
		return s
	}
	c.skills[name] = nil
	folder := c.pol.Skills.Value
	fsys, err := c.open(folder)
	if err != nil {
		c.diags.Errorat(c.pol.Skills.At, "Skills folder cannot be opened", fileError(folder, err))
		return nil
	}
	s, ds := bundle.ReadSkill(fsys, ".", name, folder)
	for i := range ds {
		if c.pol.Strict && ds[i].Summary == bundle.SummaryDrift {
			ds[i].Severity = diag.Error
		}
		// Folders have no place of their own: who asks for them has.
		if at := at; ds[i].Subject.Start.Line == 0 {
			ds[i].Detail += " The folder is `" + ds[i].Subject.File + "`."
			ds[i].Subject = at
		}
	}
	c.diags = append(c.diags, ds...)
	if s == nil {
		return nil
	}
	for p, data := range s.Data {
		switch p {
		case "SKILL.md", "_provenance.json", "_verify.json", "_required_tools.json":
			c.sources[path.Join(folder, name, p)] = data
		}
	}
	c.skills[name] = s
	return s
}
