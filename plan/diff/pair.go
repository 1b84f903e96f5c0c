package diff

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"

	"foundry/plan"
)

// Lists whose entries may be renamed: only references to them change with it.
const (
	inputList    = "Plan.inputs"
	bundleList   = "Plan.bundles"
	providerList = "Plan.providers"
	harnessList  = "Plan.harnesses"
	nodeList     = "Plan.nodes"
	loopList     = "Plan.loops"
	branchList   = "Plan.branches"
)

// rename pairs what is missing after the change with what is new in it, before
// anything is called removed. Each list may lean on the ones before it.
func (d *differ) rename() {
	d.renamed = map[string]map[string]string{}
	a, b := d.before.Plan, d.after.Plan
	pairUp(d, bundleList, a.Bundles, b.Bundles, func(x *plan.Bundle) string { return x.ID },
		func(x *plan.Bundle, _ bool) string {
			class, _, _ := strings.Cut(x.ID, ":")
			return class + " " + x.Digest
		})
	pairUp(d, inputList, a.Inputs, b.Inputs, func(x *plan.Input) string { return x.ID },
		func(x *plan.Input, before bool) string {
			c := *x
			c.ID = ""
			if before {
				c.Bundle = d.nowCalled(bundleList, c.Bundle)
			}
			return encoding(&c)
		})
	pairUp(d, providerList, a.Providers, b.Providers, func(x *plan.Provider) string { return x.Name },
		func(x *plan.Provider, before bool) string {
			c := *x
			c.Name = ""
			if before {
				c.Script = d.nowCalled(bundleList, c.Script)
			}
			return encoding(&c)
		})
	pairUp(d, harnessList, a.Harnesses, b.Harnesses, func(x *plan.Harness) string { return x.Name },
		func(x *plan.Harness, before bool) string {
			c := *x
			c.Name = ""
			if before {
				c.Provider = d.nowCalled(providerList, c.Provider)
			}
			return encoding(&c)
		})
	nodeID := func(x *plan.Node) string { return x.ID }
	for _, likeness := range []func(*plan.Node, bool) string{d.sameWork, d.sameSkill, d.samePlace} {
		pairUp(d, nodeList, a.Nodes, b.Nodes, nodeID, likeness)
	}
	pairUp(d, loopList, a.Loops, b.Loops, func(x *plan.Loop) string { return x.ID },
		func(x *plan.Loop, before bool) string { return d.members(x.Body, before) })
	pairUp(d, branchList, a.Branches, b.Branches, func(x *plan.Branch) string { return x.ID },
		func(x *plan.Branch, before bool) string { return d.members(x.Alternatives, before) })
	pairUp(d, nodeList, a.Nodes, b.Nodes, nodeID, d.sameCheck)
}

// nowCalled is the id after the change of an entry of a list.
func (d *differ) nowCalled(list, id string) string {
	if now, ok := d.renamed[list][id]; ok {
		return now
	}
	return id
}

// pairUp pairs entries of ids that only one side has by their likeness, in
// order; "" is like nothing.
func pairUp[T any](d *differ, list string, before, after []T, id func(*T) string, likeness func(x *T, before bool) string) {
	had, has := make(map[string]bool, len(before)), make(map[string]bool, len(after))
	for i := range before {
		had[d.nowCalled(list, id(&before[i]))] = true
	}
	for i := range after {
		has[id(&after[i])] = true
	}
	gone := map[string][]string{}
	for i := range before {
		x := &before[i]
		if name := d.nowCalled(list, id(x)); !has[name] {
			if k := likeness(x, true); k != "" {
				gone[k] = append(gone[k], id(x))
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	for i := range after {
		x := &after[i]
		if had[id(x)] {
			continue
		}
		had[id(x)] = true // of two with one id, the first
		k := likeness(x, false)
		if old := gone[k]; k != "" && len(old) > 0 {
			gone[k] = old[1:]
			if d.renamed[list] == nil {
				d.renamed[list] = map[string]string{}
			}
			d.renamed[list][old[0]] = id(x)
		}
	}
}

func encoding(v any) string {
	data, err := plan.EncodeCanonical(v)
	if err != nil {
		return "" // no valid UTF-8: like nothing
	}
	return string(data)
}

// sameWork: a worker that does the same with the same skill.
func (d *differ) sameWork(n *plan.Node, before bool) string {
	s := d.sameSkill(n, before)
	if s == "" {
		return ""
	}
	return s + "\x00" + n.Prompt
}

// sameSkill: a worker of the same skill and outputs.
func (d *differ) sameSkill(n *plan.Node, before bool) string {
	if n.Check != nil || n.Skill == "" {
		return ""
	}
	skill := n.Skill
	if before {
		skill = d.nowCalled(bundleList, skill)
	}
	return n.Kind + "\x00" + skill + "\x00" + artifacts(n)
}

// samePlace: another worker in the same phase that gives the same artifacts.
func (d *differ) samePlace(n *plan.Node, _ bool) string {
	if n.Check != nil || len(n.Outputs) == 0 {
		return ""
	}
	return n.Kind + "\x00" + strconv.FormatInt(n.Phase, 10) + "\x00" + artifacts(n)
}

// sameCheck: the check of that name of what was renamed, or of another step.
func (d *differ) sameCheck(n *plan.Node, before bool) string {
	if n.Check == nil {
		return ""
	}
	of := n.Check.Of
	if before {
		of = d.nowCalledStep(of)
	}
	return of + "\x00" + n.Check.Name
}

func artifacts(n *plan.Node) string {
	var b strings.Builder
	for i := range n.Outputs {
		b.WriteString(n.Outputs[i].Artifact)
		b.WriteByte(0)
	}
	return b.String()
}

func (d *differ) members(ids []string, before bool) string {
	var b strings.Builder
	for _, id := range ids {
		if before {
			id = d.nowCalled(nodeList, id)
		}
		b.WriteString(id)
		b.WriteByte(0)
	}
	return b.String()
}

// nowCalledStep is the id after the change of a node, a loop or a branch.
func (d *differ) nowCalledStep(id string) string {
	for _, l := range []string{nodeList, loopList, branchList} {
		if now, ok := d.renamed[l][id]; ok {
			return now
		}
	}
	return id
}

// references says what the texts of a field name.
var references = map[string]string{
	"Input.bundle": bundleList, "Provider.script": bundleList, "Package.bundle": bundleList, "Mount.source": bundleList,
	"Node.skill": bundleList, "Node.nested_skills": bundleList, "Callable.skill": bundleList,
	"NodeInput.schema": bundleList, "NodeOutput.schema": bundleList,
	"Harness.provider": providerList,
	"Node.harness":     harnessList, "Callable.harness": harnessList, "Evaluation.judge": harnessList,
	"NodeInput.carried_from": nodeList, "Loop.body": nodeList, "Branch.alternatives": nodeList,
	"Node.needs": anyStep, "Check.of": anyStep, "NodeInput.from": anyClass, "Branch.otherwise": anyClass,
}

const (
	anyStep  = "step"  // a node, a loop or a branch
	anyClass = "class" // node:ID, loop:ID, branch:ID, input:ID
)

var listOf = map[string]string{"node": nodeList, "loop": loopList, "branch": branchList, "input": inputList}

// translate is a text of the plan before the change with the ids after it.
func (p *place) translate(s string) string {
	if len(p.renamed) == 0 {
		return s
	}
	switch list := references[p.row.Field]; list {
	case "":
		return s
	case anyStep:
		return p.nowCalledStep(s)
	case anyClass:
		class, id, _ := strings.Cut(s, ":")
		if l := listOf[class]; l != "" {
			return class + ":" + p.nowCalled(l, id)
		}
		return s
	default:
		return p.nowCalled(list, s)
	}
}

// reference is a field that names another entry, which may be renamed.
func reference(v verdict) rule {
	return rule{[]Case{v.when(whenChanges)}, func(p *place, a, b reflect.Value) {
		if before := p.translate(a.String()); before != b.String() {
			p.say(whenChanges, Changed, cmp.Or(before, "none"), cmp.Or(b.String(), "none"))
		}
	}}
}

// movedFiles pairs files of a bundle that have the same bytes under another
// path: index after → index before.
func (p *place) movedFiles(a, b reflect.Value, at map[string]int, after []string) map[int]int {
	if p.row.Field != "Bundle.files" {
		return nil
	}
	kept := make(map[string]bool, len(after))
	for _, k := range after {
		kept[k] = true
	}
	gone := map[string][]int{}
	for i := range a.Len() {
		if f := a.Index(i).Addr().Interface().(*plan.BundleFile); !kept[f.Path] && f.Digest != "" {
			gone[f.Digest] = append(gone[f.Digest], i)
		}
	}
	moved := map[int]int{}
	for j, k := range after {
		if _, ok := at[k]; ok {
			continue
		}
		f := b.Index(j).Addr().Interface().(*plan.BundleFile)
		if old := gone[f.Digest]; len(old) > 0 {
			gone[f.Digest] = old[1:]
			moved[j] = old[0]
		}
	}
	return moved
}
