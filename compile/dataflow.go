package compile

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// produced is one version of an artifact: who promoted it, and in what form.
type produced struct {
	from     string // node:ID, branch:ID or input:ID
	by       *step  // nil of an input
	output   plan.NodeOutput
	optional bool
}

// flow is what is known at one place of the walk.
type flow struct {
	latest  map[string]*produced
	partial map[string]string // artifact → why the branch that writes it is no sure producer
	body    bool              // within the body of a loop: what is due at its end may be missing
}

// consumed is one artifact that a step reads, with the place that says so.
type consumed struct {
	id     string
	schema string // name, bound by _verify.json or inherited
	at     diag.Range
	prov   *bundle.Consumed // nil when the policy's inputs say it
}

// bind derives the data flow: each consumer is bound to the nearest earlier
// producer, to an input, to nothing yet (carried), or declared not applicable.
// Anything else is an error.
func (c *compiler) bind() {
	f := &flow{latest: map[string]*produced{}, partial: map[string]string{}}
	c.checkArtifacts()
	for _, u := range c.order {
		for _, s := range u.steps {
			if s.skill != nil {
				c.declareOutputs(s)
			}
		}
		switch u.kind {
		case unitLoop:
			c.bindLoop(f, u)
		case unitBranch:
			c.bindBranch(f, u)
		default:
			for _, s := range u.steps {
				c.bindStep(f, s, nil)
				f.publish(s)
			}
		}
	}
}

func (f *flow) publish(s *step) {
	for _, o := range s.outputs {
		f.latest[o.Artifact] = &produced{from: "node:" + s.id, by: s, output: o, optional: o.Required == plan.Optional || f.body && o.Required == plan.RequiredAtEnd}
		delete(f.partial, o.Artifact)
	}
}

// checkArtifacts refuses artifact blocks and optional lists that name nothing.
func (c *compiler) checkArtifacts() {
	known := map[string]bool{}
	for _, s := range c.walk {
		if s.skill == nil {
			return // a skill is missing: what it would produce is unknown
		}
		for _, p := range s.skill.Produces {
			known[p.ID] = true
		}
		for _, q := range s.skill.Consumes {
			known[q.ID] = true
		}
	}
	if d := c.pol.Defaults; d != nil {
		for _, t := range d.Optional.Items {
			if !known[t.Value] {
				c.diags.Errorat(t.At, "Unknown artifact", "No skill of this pipeline produces or consumes `"+t.Value+"`. "+hint(t.Value, sortedKeys(known)))
			}
		}
	}
	for _, a := range c.pol.Artifacts {
		if !known[a.ID] {
			c.diags.Errorat(a.At, "Unknown artifact", "No skill of this pipeline produces or consumes `"+a.ID+"`. "+hint(a.ID, sortedKeys(known)))
		}
	}
}

// optionalEverywhere reports whether an artifact block makes id optional.
func (c *compiler) optionalEverywhere(id string) bool {
	return slices.ContainsFunc(c.pol.Artifacts, func(a *policy.Artifact) bool {
		return a.ID == id // the one word of its `required` is "optional"
	})
}

// declareOutputs joins the skill's outputs with the policy's overrides.
func (c *compiler) declareOutputs(s *step) {
	overrides := map[string]*policy.Output{}
	for _, p := range s.policies {
		for _, o := range p.Outputs {
			overrides[o.Artifact] = o
		}
	}
	var names []string
	for _, p := range s.skill.Produces {
		names = append(names, p.ID)
		o := plan.NodeOutput{Artifact: p.ID, Filename: p.Filename, Kind: p.Kind}
		if c.optionalEverywhere(p.ID) {
			o.Required = plan.Optional
		}
		schemaName, at := p.Schema, p.At
		if ov := overrides[p.ID]; ov != nil {
			if ov.Required.Set() {
				o.Required = ov.Required.Value
				if o.Required == plan.RequiredAtEnd && s.unit.kind != unitLoop {
					c.diags.Errorat(ov.Required.At, "Not in a loop", "`at_end` means the end of a loop, and `"+s.id+"` is in none.")
				}
			}
			if ov.Filename.Set() {
				o.Filename = ov.Filename.Value
				if !plan.ValidPath(o.Filename) {
					c.diags.Errorat(ov.Filename.At, "Invalid filename", quote(o.Filename)+" is no clean path below the output folder.")
				}
			}
			if ov.Kind.Set() {
				o.Kind = ov.Kind.Value
			}
			if ov.Schema.Set() {
				schemaName, at = ov.Schema.Value, ov.Schema.At
			}
			delete(overrides, p.ID)
		}
		if schemaName != "" {
			o.Schema = c.useSchema(s.skill, schemaName, at)
		}
		s.outputs = append(s.outputs, o)
	}
	for _, id := range sortedKeys(overrides) {
		c.diags.Errorat(overrides[id].At, "Unknown output", "The skill `"+s.name+"` does not produce `"+id+"`. "+hint(id, names))
	}
	c.checkFilenames(s)
}

// checkFilenames refuses two outputs of one step that a case-folding or
// normalising file system would make one file (plan.Validate has the same rule
// for hand-made plans, without a place).
func (c *compiler) checkFilenames(s *step) {
	seen := map[string]string{}
	for i, o := range s.outputs {
		key := foldName(o.Filename)
		if other, ok := seen[key]; ok {
			c.diags.Errorat(s.skill.Produces[i].At, "Outputs collide", fmt.Sprintf(
				"`%s` writes `%s` as %q and `%s` as %q: on some file systems they are one file. Give one of them another `filename` in an `output` block.",
				s.id, other, outputOf(s, other).Filename, o.Artifact, o.Filename))
		}
		seen[key] = o.Artifact
	}
}

func (c *compiler) oneOf(t policy.Text, name string, words ...string) {
	if !slices.Contains(words, t.Value) {
		c.diags.Errorat(t.At, "Unknown word", "`"+name+"` is "+quote(t.Value)+". "+hint(t.Value, words))
	}
}

// reads lists what a step consumes: what its skill declares, and what the
// policy's inputs add.
func (c *compiler) reads(s *step) []consumed {
	var out []consumed
	for i := range s.skill.Consumes {
		q := &s.skill.Consumes[i]
		r := consumed{id: q.ID, at: q.At, prov: q}
		out = append(out, r)
	}
	written := false
	for _, p := range s.policies {
		written = written || p.Inputs.Set()
		for _, t := range p.Inputs.Items {
			if slices.ContainsFunc(out, func(r consumed) bool { return r.id == t.Value }) {
				c.diags.Errorat(t.At, "Input named twice", "`"+s.id+"` reads `"+t.Value+"` already; remove it here.")
				continue
			}
			out = append(out, consumed{id: t.Value, at: t.At})
		}
	}
	if len(s.skill.Consumes) == 0 && !written {
		if c.found != nil {
			c.found.undeclared[s.id] = true
			return nil
		}
		c.diags.Errorat(s.at, "Inputs are not declared", fmt.Sprintf(
			"Phase %d: the skill `%s` declares nothing that it consumes, so only the policy can say what it gets. Write `inputs = [\"…\"]` in %s, or `inputs = []` for none.",
			s.number, s.name, blockFor(s)))
	}
	for i := range out {
		for _, v := range s.skill.Verify {
			if v.Direction == "input" && v.Artifact == out[i].id && c.toolBy(v.Tool) == plan.ToolSchema {
				out[i].schema = v.Schema
			}
		}
	}
	return out
}

// blockFor names the policy block that configures a step.
func blockFor(s *step) string {
	switch s.unit.kind {
	case unitBranch:
		return fmt.Sprintf("`branch %q { phase %q { … } }`", s.unit.id, s.name)
	case unitLoop:
		if len(s.unit.steps) == 1 {
			return fmt.Sprintf("`loop %q { … }`", s.unit.id)
		}
		return fmt.Sprintf("`loop %q { phase %q { … } }`", s.unit.id, s.id)
	}
	return fmt.Sprintf("`phase %q { … }`", s.id)
}

// bindStep binds everything that one step reads. carried gives, in a loop, the
// step of the body whose version is read from the second iteration on.
func (c *compiler) bindStep(f *flow, s *step, carried map[string]*step) {
	if s.skill == nil {
		return
	}
	na := map[string]policy.Text{}
	accepts := map[string]policy.Text{}
	for _, p := range s.policies {
		for _, t := range p.NotApplicable.Items {
			na[t.Value] = t
		}
		for _, t := range p.Optional.Items {
			accepts[t.Value] = t
		}
	}
	everywhere := map[string]bool{}
	if d := c.pol.Defaults; d != nil {
		for _, t := range d.Optional.Items {
			everywhere[t.Value] = true
		}
	}
	var names []string
	for _, r := range c.reads(s) {
		names = append(names, r.id)
		t, listed := na[r.id]
		delete(na, r.id)
		_, accepted := accepts[r.id]
		delete(accepts, r.id)
		in, ok := c.bindOne(f, s, r, carried[r.id], accepted || everywhere[r.id])
		switch {
		case listed && in.CarriedFrom != "":
			c.diags.Errorat(t.At, "Artifact is applicable", "`"+r.id+"` is listed as not applicable to `"+s.id+"`, but the loop carries it: `"+in.CarriedFrom+"` gives it from the second iteration on. Remove it from the list.")
		case listed && ok && in.From != plan.FromNone:
			c.diags.Errorat(t.At, "Artifact is applicable", "`"+r.id+"` is listed as not applicable to `"+s.id+"`, but "+describeFrom(in.From)+" gives it. Remove it from the list.")
		case listed:
			s.na = append(s.na, r.id)
		case ok:
			s.inputs = append(s.inputs, in)
		default:
			c.unbound(f, s, r)
		}
	}
	for _, id := range sortedKeys(na) {
		c.diags.Errorat(na[id].At, "Unknown artifact", "`"+s.id+"` does not consume `"+id+"`. "+hint(id, names))
	}
	for _, id := range sortedKeys(accepts) {
		c.diags.Errorat(accepts[id].At, "Unknown artifact", "`"+s.id+"` does not consume `"+id+"`. "+hint(id, names))
	}
	slices.Sort(s.na)
}

func describeFrom(from string) string {
	class, id, _ := strings.Cut(from, ":")
	if class == "node" {
		class = "phase"
	}
	return "the " + class + " `" + id + "`"
}

// bindOne finds the version that a step reads; ok is false if there is none.
func (c *compiler) bindOne(f *flow, s *step, r consumed, carrier *step, accepted bool) (plan.NodeInput, bool) {
	in := plan.NodeInput{Artifact: r.id, From: plan.FromNone, Required: true}
	own := r.prov != nil && slices.ContainsFunc(s.outputs, func(o plan.NodeOutput) bool { return o.Artifact == r.id })
	said := accepted || c.optionalEverywhere(r.id)
	accepted = said || own || carrier != nil
	var form plan.NodeOutput
	switch p := f.latest[r.id]; {
	case p != nil:
		in.From, form = p.from, p.output
		if p.optional {
			in.Required = false
			if !accepted {
				c.maybeMissing(s, r, p)
			}
		}
	case f.partial[r.id] != "":
		return in, false
	case c.inputs[r.id] != nil:
		i := c.inputs[r.id]
		i.used = true
		in.From, in.Kind, in.Path = "input:"+i.ID, i.Kind, i.Filename
	case carrier != nil:
		in.Required = false
		form = outputOf(carrier, r.id)
	case own:
		in.Required = false
		form = outputOf(s, r.id)
	default:
		return in, false
	}
	if carrier != nil {
		in.CarriedFrom = carrier.id
		next := outputOf(carrier, r.id)
		if in.From != plan.FromNone {
			c.carriedForm(s, r, cmp.Or(form.Kind, in.Kind), next.Kind)
		}
		// Later iterations read what the one before wrote, and nothing older.
		if in.Required && (next.Required == plan.Optional || next.Required == plan.RequiredAtEnd) {
			in.Required = false
			if !said {
				c.maybeMissing(s, r, &produced{by: carrier, output: next})
			}
		}
	}
	if form.Artifact != "" {
		in.Kind = form.Kind
		if form.Kind != plan.KindDirectory {
			in.Path = path.Base(form.Filename)
		}
	}
	if r.schema != "" {
		in.Schema = c.inputSchema(s, r, form)
	}
	return in, true
}

// carriedForm requires one form of what a step reads in the first iteration
// and in later ones.
func (c *compiler) carriedForm(s *step, r consumed, first, later string) {
	if first != later {
		c.diags.Errorat(r.at, "Carried in two forms", fmt.Sprintf(
			"`%s` reads `%s` as %s in the first iteration and as %s in later ones, which the loop itself writes. Override `kind` in an `output` block, or bring it in that form.", s.id, r.id, first, later))
	}
}

// inputSchema is the schema that a staged input is checked against: the one in
// the reader's own bundle, or, as not every bundle carries what its _verify.json
// names, the producer's of that name, or another skill's of the pipeline.
func (c *compiler) inputSchema(s *step, r consumed, form plan.NodeOutput) string {
	if _, own := bundle.Schemas(s.skill)[r.schema]; own {
		return c.useSchema(s.skill, r.schema, r.at)
	}
	if form.Schema == plan.BundleSchema+":"+r.schema {
		return form.Schema
	}
	for _, name := range sortedKeys(c.skills) {
		if other := c.skills[name]; other != nil {
			if _, has := bundle.Schemas(other)[r.schema]; has {
				return c.useSchema(other, r.schema, r.at)
			}
		}
	}
	return c.useSchema(s.skill, r.schema, r.at)
}

func outputOf(s *step, artifact string) plan.NodeOutput {
	for _, o := range s.outputs {
		if o.Artifact == artifact {
			return o
		}
	}
	return plan.NodeOutput{}
}

func (c *compiler) maybeMissing(s *step, r consumed, p *produced) {
	if c.found != nil {
		c.found.optional = append(c.found.optional, [2]string{s.id, r.id})
		return
	}
	c.diags.Errorat(r.at, "Input may be missing", fmt.Sprintf(
		"`%s` reads `%s`, and its producer `%s` may leave it out (`required = %q`). Accept that with `optional = [%q]` in %s, or make the output required.",
		s.id, r.id, p.by.id, p.output.Required, r.id, blockFor(s)))
}

// bindLoop binds the body of a loop: what a step reads and the body produces
// later, or the step itself, is carried from one iteration to the next.
func (c *compiler) bindLoop(f *flow, u *unit) {
	last := map[string]*step{} // the body's last producer of each artifact
	for _, s := range u.steps {
		for _, o := range s.outputs {
			last[o.Artifact] = s
		}
	}
	inner := &flow{latest: maps.Clone(f.latest), partial: f.partial, body: true}
	readInBody := map[string]bool{}
	earlier := map[string]bool{}
	carries := map[string]bool{}
	for _, s := range u.steps {
		if s.skill == nil {
			continue
		}
		carried := map[string]*step{}
		for _, r := range c.readIDs(s) {
			if last[r] == nil {
				continue
			}
			readInBody[r] = true
			if !earlier[r] {
				carried[r] = last[r]
				carries[r] = true
			}
		}
		c.bindStep(inner, s, carried)
		inner.publish(s)
		for _, o := range s.outputs {
			earlier[o.Artifact] = true
		}
	}
	for _, s := range u.steps {
		for i := range s.outputs {
			o := &s.outputs[i]
			if o.Required == "" && !readInBody[o.Artifact] {
				o.Required = plan.RequiredAtEnd
			}
		}
	}
	u.carries = sortedKeys(carries)
	for _, s := range u.steps {
		f.publish(s)
	}
}

// readIDs is the ids that a step reads, without diagnostics.
func (c *compiler) readIDs(s *step) []string {
	var ids []string
	for _, q := range s.skill.Consumes {
		ids = append(ids, q.ID)
	}
	for _, p := range s.policies {
		for _, t := range p.Inputs.Items {
			ids = append(ids, t.Value)
		}
	}
	return ids
}

// bindBranch binds each alternative to what was there before the branch, and
// publishes only what every way through it gives.
func (c *compiler) bindBranch(f *flow, u *unit) {
	count := map[string]int{}
	for _, s := range u.steps {
		c.bindStep(f, s, nil)
		for _, o := range s.outputs {
			count[o.Artifact]++
		}
	}
	u.artifacts = map[string]*produced{}
	for _, id := range sortedKeys(count) {
		lacking := slices.IndexFunc(u.steps, func(s *step) bool { return outputOf(s, id).Artifact == "" })
		if lacking >= 0 {
			f.partial[id] = fmt.Sprintf("the branch `%s` gives it only on some ways: its alternative `%s` does not produce it", u.id, u.steps[lacking].name)
			delete(f.latest, id)
			continue
		}
		first := outputOf(u.steps[0], id)
		p := &produced{from: "branch:" + u.id, by: u.steps[0], output: first}
		for _, s := range u.steps {
			o := outputOf(s, id)
			if o.Required == plan.Optional && !p.optional {
				p.optional, p.by, p.output = true, s, o
			}
			if o.Kind != first.Kind || path.Base(o.Filename) != path.Base(first.Filename) {
				c.diags.Errorat(u.at, "Alternatives differ in form", fmt.Sprintf(
					"`%s` is %s %q in `%s` and %s %q in `%s`; a consumer of the branch must find one form. Override `filename` or `kind` in an `output` block.",
					id, first.Kind, first.Filename, u.steps[0].name, o.Kind, o.Filename, s.name))
			}
		}
		u.artifacts[id] = p
		f.latest[id] = p
		delete(f.partial, id)
	}
	u.otherwise = c.otherwise(u)
}

// finishRequired gives every output that nothing decided its default.
func finishRequired(s *step) []plan.NodeOutput {
	out := slices.Clone(s.outputs)
	for i := range out {
		if out[i].Required == "" {
			out[i].Required = plan.RequiredAlways
		}
	}
	return out
}
