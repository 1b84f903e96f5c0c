package plan

import (
	"slices"
	"strconv"
	"strings"
)

// node checks one node by itself and its references; validate_flow.go checks
// its place among the others.
func (v *validator) node(i int) {
	n := &v.p.Nodes[i]
	where := at("nodes", i, n.ID)
	if !ValidNodeID(n.ID) {
		v.add("invalid name", quote(n.ID)+" is no node id: NAME, NAME#2, BRANCH/NAME, each perhaps with .CHECK", where, ".id")
	}
	v.word(n.Kind, nodeKinds, where, ".kind")
	v.within(n.Phase, 0, MaxNodes, where, ".phase")
	v.kindOf(n, where)
	if n.Skill != "" {
		v.bundle(n.Skill, []string{BundleSkill, BundlePackage}, where, ".skill")
	}
	v.sortedSet(n.NestedSkills, func(id string) bool { return id != n.Skill }, where, ".nested_skills")
	for k, id := range n.NestedSkills {
		v.bundle(id, []string{BundleSkill}, where, ".nested_skills[", strconv.Itoa(k), "]")
	}
	if n.Harness != "" && v.harnesses[n.Harness] == nil {
		v.add("dangling reference", "there is no harness "+quote(n.Harness), where, ".harness")
	}
	v.nodeInputs(i, n, where)
	v.outputs(n.Outputs, where, v.loopOf[i] >= 0)
	v.sortedSet(n.NotApplicable, ValidID, where, ".not_applicable")
	s := &step{
		where: where, kind: n.Kind, skill: n.Skill, nested: n.NestedSkills, harness: v.harnesses[n.Harness], prompt: n.Prompt,
		process: &n.Process, files: n.Files, inputs: n.Inputs, outputs: n.Outputs, sandbox: &n.Sandbox, budget: n.Budget,
	}
	v.step(s)
	for k, id := range n.NotApplicable {
		if s.ids[id] {
			v.add("contradiction", quote(id)+" is both an input and not applicable", where, ".not_applicable[", strconv.Itoa(k), "]")
		}
	}
}

// kindOf checks what the kind of a node asks for and forbids.
func (v *validator) kindOf(n *Node, where string) {
	worker := n.Kind != NodeCheck
	least := int64(1)
	if !worker {
		least = 0
		if n.Harness != "" || n.Prompt != "" || len(n.NestedSkills) > 0 || n.RequireActivation || n.SubmitAttempts > 1 {
			v.add("wrong kind of node", "a check runs no worker: it has no harness, prompt, nested skills, activation or further submission", where)
		}
	} else if n.Harness == "" {
		v.add("no harness", "a node of kind "+n.Kind+" names the harness of its worker", where, ".harness")
	}
	v.within(n.SubmitAttempts, least, MaxSubmitAttempts, where, ".submit_attempts")
	if (n.Check != nil) == worker {
		v.add("wrong kind of node", "a check says what it proves, and no other node does", where, ".check")
	}
	switch n.Kind {
	case NodeAgent:
		if n.Skill == "" || !strings.HasPrefix(n.Skill, BundleSkill+":") {
			v.add("no skill", "an agent runs a skill", where, ".skill")
		}
		if v.p.Mode == ModeBlackBox {
			v.add("wrong kind of node", "in a black-box plan the parent alone decides which skills run", where, ".kind")
		}
	case NodeParent:
		if v.p.Mode == ModeTrace {
			v.add("wrong kind of node", "a trace has no parent: the plan alone decides which skills run", where, ".kind")
		}
	}
	if n.Check != nil {
		v.check(n, where)
	}
}

func (v *validator) check(n *Node, where string) {
	c := n.Check
	v.name(c.Name, where, ".check.name")
	if c.Tool != "" && v.tools[c.Tool] == nil {
		v.add("dangling reference", "there is no tool "+quote(c.Tool), where, ".check.tool")
	}
	switch host := n.Sandbox.Mode == SandboxLocal; {
	case c.TrustedHost && !host:
		v.add("contradiction", "a check on the trusted host runs in no container", where, ".check.trusted_host")
	case host && !c.TrustedHost:
		v.add("not isolated", "a check that runs on this machine is one that the plan trusts with it", where, ".check.trusted_host")
	}
	_, node := v.nodes[c.Of]
	_, loop := v.loops[c.Of]
	_, branch := v.branches[c.Of]
	switch {
	case !node && !loop && !branch:
		v.add("dangling reference", "there is no node, loop or branch "+quote(c.Of), where, ".check.of")
	case c.Of == n.ID:
		v.add("dangling reference", "a check cannot belong to itself", where, ".check.of")
	case n.ID != c.Of+"."+c.Name:
		v.add("wrong id of a check", "it must be "+quote(c.Of+"."+c.Name)+": the id of what it belongs to, a dot and its name", where, ".id")
	}
	if c.Assert != nil {
		s := scope{what: "this check", outputs: map[string]bool{}, checks: map[string]bool{c.Name: true}}
		for i := range n.Inputs {
			s.outputs[n.Inputs[i].Artifact] = true
		}
		for i := range n.Outputs {
			s.outputs[n.Outputs[i].Artifact] = true
		}
		v.expr(where+".check.assert", c.Assert, s)
	}
}

func (v *validator) nodeInputs(i int, n *Node, where string) {
	artifacts, paths := newNames(), newNames()
	exact := map[string]bool{}
	for k := range n.Inputs {
		in := &n.Inputs[k]
		if fault := in.fault(v, i); fault != nil {
			for _, f := range fault {
				v.add(f.Summary, f.Detail, where, ".inputs[", strconv.Itoa(k), "]", f.Path)
			}
		}
		if clash := artifacts.take(in.Artifact, false); clash != "" {
			v.add("colliding names", "the input "+quote(in.Artifact)+clash, where, ".inputs[", strconv.Itoa(k), "].artifact")
		}
		// The same path twice is no collision: each input has a mount of its own.
		if in.Path != "" && !exact[in.Path] {
			exact[in.Path] = true
			if clash := paths.take(in.Path, false); clash != "" {
				v.add("colliding names", quote(in.Path)+clash, where, ".inputs[", strconv.Itoa(k), "].path")
			}
		}
	}
}

// fault lists what is wrong with one input of node i; paths are relative.
func (in *NodeInput) fault(v *validator, i int) []Problem {
	var out []Problem
	bad := func(path, summary, detail string) { out = append(out, Problem{path, summary, detail}) }
	if !ValidID(in.Artifact) {
		bad(".artifact", "invalid name", quote(in.Artifact)+" is no id of an artifact")
	}
	if !slices.Contains(kinds, in.Kind) {
		bad(".kind", "unknown word", quote(in.Kind)+" is none of "+strings.Join(kinds, ", "))
	}
	if in.Path == "" && in.Kind != KindDirectory {
		bad(".path", "invalid path", "only a folder may be mounted without a path")
	} else if fault := pathFault(in.Path); in.Path != "" && fault != "" {
		bad(".path", "invalid path", quote(in.Path)+": "+fault)
	}
	if in.Schema != "" && (v.bundles[in.Schema] == nil || !strings.HasPrefix(in.Schema, BundleSchema+":")) {
		bad(".schema", "dangling reference", "there is no schema "+quote(in.Schema))
	}
	if in.CarriedFrom != "" {
		k, ok := v.nodes[in.CarriedFrom]
		switch {
		case !ok:
			bad(".carried_from", "dangling reference", "there is no node "+quote(in.CarriedFrom))
		case v.loopOf[i] < 0 || v.loopOf[i] != v.loopOf[k]:
			bad(".carried_from", "dangling reference", quote(in.CarriedFrom)+" is in no loop with this node: only the body of a loop carries")
		case v.produced[production{k, in.Artifact}] == nil:
			bad(".carried_from", "dangling reference", quote(in.CarriedFrom)+" does not produce "+quote(in.Artifact))
		}
	}
	class, id, _ := strings.Cut(in.From, ":")
	switch {
	case in.From == FromNone:
		if in.Required {
			bad(".required", "contradiction", "nothing before this node produces the input, so it cannot be required")
		}
	case class == "input":
		if v.inputs[id] == nil {
			bad(".from", "dangling reference", "there is no input "+quote(id))
		}
	case class == "node":
		k, ok := v.nodes[id]
		if !ok {
			bad(".from", "dangling reference", "there is no node "+quote(id))
			break
		}
		made := v.produced[production{k, in.Artifact}]
		switch {
		case made == nil:
			bad(".from", "dangling reference", quote(id)+" does not produce "+quote(in.Artifact))
		case made.Required == Optional && in.Required:
			bad(".required", "contradiction", quote(id)+" may leave "+quote(in.Artifact)+" out, so it cannot be required here")
		}
		if v.branchOf[k] >= 0 && v.p.Nodes[i].Kind == NodeAgent {
			b := v.p.Branches[v.branchOf[k]].ID
			bad(".from", "reads an alternative", quote(id)+" may not be the one that is accepted: read branch:"+b)
		}
	case class == "branch":
		k, ok := v.branches[id]
		if !ok {
			bad(".from", "dangling reference", "there is no branch "+quote(id))
		} else if !v.given[production{k, in.Artifact}] {
			bad(".from", "dangling reference", "the branch "+id+" does not give "+quote(in.Artifact))
		}
	default:
		bad(".from", "dangling reference", quote(in.From)+" is neither input:ID, node:ID, branch:ID nor none")
	}
	return out
}

func (v *validator) outputs(outputs []NodeOutput, where string, looped bool) {
	artifacts, files := newNames(), newNames()
	for k := range outputs {
		o := &outputs[k]
		bad := func(key, summary, detail string) {
			v.add(summary, detail, where, ".outputs[", strconv.Itoa(k), "].", key)
		}
		if !ValidID(o.Artifact) {
			bad("artifact", "invalid name", quote(o.Artifact)+" is no id of an artifact")
		}
		if clash := artifacts.take(o.Artifact, false); clash != "" {
			bad("artifact", "colliding names", "the output "+quote(o.Artifact)+clash)
		}
		if fault := pathFault(o.Filename); fault != "" {
			bad("filename", "invalid path", quote(o.Filename)+": "+fault)
		} else if clash := files.take(o.Filename, false); clash != "" {
			bad("filename", "colliding names", quote(o.Filename)+clash)
		}
		if !slices.Contains(kinds, o.Kind) {
			bad("kind", "unknown word", quote(o.Kind)+" is none of "+strings.Join(kinds, ", "))
		}
		if !slices.Contains(required, o.Required) {
			bad("required", "unknown word", quote(o.Required)+" is none of "+strings.Join(required, ", "))
		} else if o.Required == RequiredAtEnd && !looped {
			bad("required", "contradiction", "at_end is for the body of a loop: use always or optional")
		}
		if o.Schema != "" && (v.bundles[o.Schema] == nil || !strings.HasPrefix(o.Schema, BundleSchema+":")) {
			bad("schema", "dangling reference", "there is no schema "+quote(o.Schema))
		}
	}
}

// packageOf checks what a black-box plan has and a trace has not.
func (v *validator) packageOf() {
	p := v.p
	if p.Mode == ModeTrace && p.Package != nil {
		v.add("misplaced package", "a trace has none: the plan alone decides which skills run", "package")
	}
	if p.Mode == ModeBlackBox {
		if p.Package == nil {
			v.add("no package", "a black-box plan names the package that its parent gets", "package")
		}
		if !slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Kind == NodeParent }) {
			v.add("no parent", "a black-box plan has a node of kind parent", "nodes")
		}
		if len(p.Loops) > 0 {
			v.add("misplaced loop", "a black-box plan has none: the parent walks", "loops")
		}
		if len(p.Branches) > 0 {
			v.add("misplaced branch", "a black-box plan has none: the parent walks", "branches")
		}
	}
	if p.Package == nil {
		return
	}
	v.bundle(p.Package.Bundle, []string{BundlePackage}, "package.bundle")
	for i := range p.Package.Callable {
		c := &p.Package.Callable[i]
		where := at("package.callable", i, c.Skill)
		if i > 0 && p.Package.Callable[i-1].Skill >= c.Skill {
			v.add("not sorted", "templates are sorted by skill, one for each", where, ".skill")
		}
		v.bundle(c.Skill, []string{BundleSkill}, where, ".skill")
		h := v.harnesses[c.Harness]
		if h == nil {
			v.add("dangling reference", "there is no harness "+quote(c.Harness), where, ".harness")
		}
		v.within(c.MaxCalls, 1, MaxCalls, where, ".max_calls")
		v.outputs(c.Outputs, where, false)
		v.step(&step{
			where: where, kind: NodeAgent, skill: c.Skill, harness: h, prompt: c.Prompt, process: &c.Process, files: c.Files,
			outputs: c.Outputs, sandbox: &c.Sandbox, budget: c.Budget, template: true,
		})
	}
}
