package compile_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"foundry/compile"
	"foundry/plan"
)

// randomPipe draws a small pipeline and a policy for it: phases, loops over
// one or several, branches, optional outputs, lists of what does not apply.
// Careful ones read mostly what is there; much of the others is wrong.
func randomPipe(t *rapid.T) (*pipe, string) {
	ids := []string{"a", "b", "c", "d", "e"}
	careful := rapid.IntRange(0, 3).Draw(t, "careful") > 0
	var there []string // artifacts that something gave so far, roughly
	rarely := func(label string) bool {
		return !careful && rapid.IntRange(0, 3).Draw(t, label) == 0 || rapid.IntRange(0, 15).Draw(t, label) == 0
	}
	some := func(label string, most int) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, most, rapid.ID).Draw(t, label)
	}
	words := func(list []string) string {
		quoted := make([]string, len(list))
		for i, s := range list {
			quoted[i] = fmt.Sprintf("%q", s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	p := newPipe()
	var policy strings.Builder
	if rapid.Bool().Draw(t, "dataflow") {
		policy.WriteString("order = \"dataflow\"\n")
	}
	reads := func(label string) []string {
		if !careful {
			return some(label, 2)
		}
		if len(there) == 0 {
			return nil
		}
		return rapid.SliceOfNDistinct(rapid.SampledFrom(there), 0, 2, rapid.ID).Draw(t, label)
	}
	for _, id := range some("inputs", 3) {
		there = append(there, id)
		p.put(id+".json", "{}")
		fmt.Fprintf(&policy, "input %q { path = %q }\n", id, id+".json")
	}
	if id := rapid.SampledFrom(append(ids, "", "", "")).Draw(t, "artifact"); id != "" {
		fmt.Fprintf(&policy, "artifact %q { required = \"optional\" }\n", id)
	}
	body := func(name string, produces, consumes []string, loop bool) string {
		var b strings.Builder
		if len(consumes) == 0 {
			fmt.Fprintf(&b, "  inputs = %s\n", words(reads("inputs of "+name)))
		} else if rarely("lists") {
			fmt.Fprintf(&b, "  not_applicable = %s\n", words(some("na", 2)))
		}
		if careful && len(consumes) > 0 || rapid.Bool().Draw(t, "accepts") {
			fmt.Fprintf(&b, "  optional = %s\n", words(consumes))
		}
		if len(produces) > 0 && rapid.IntRange(0, 2).Draw(t, "changes") == 0 {
			required := []string{"always", "optional"}
			if loop {
				required = append(required, "at_end")
			}
			fmt.Fprintf(&b, "  output %q { required = %q }\n", produces[0], rapid.SampledFrom(required).Draw(t, "required"))
		}
		if len(produces) > 0 && rapid.IntRange(0, 2).Draw(t, "checks") == 0 {
			checked := produces[0]
			if rarely("checked") {
				checked = rapid.SampledFrom(ids).Draw(t, "any")
			}
			fmt.Fprintf(&b, "  check \"good\" {\n    argv = [\"good\", \"{in:%s}\"]\n    blocking = %t\n  }\n",
				checked, rapid.Bool().Draw(t, "blocking"))
		}
		return b.String()
	}
	skill := func(name string) ([]string, []string) {
		produces, consumes := some(name+" produces", 2), reads(name+" consumes")
		if careful && len(produces) == 0 {
			produces = []string{"f"}
		}
		if rapid.IntRange(0, 4).Draw(t, "carries") == 0 && len(consumes) < 2 {
			consumes = sorted(append(consumes, produces...))
		}
		p.skill(name, produces, consumes)
		there = sorted(append(there, produces...))
		return produces, consumes
	}
	n := rapid.IntRange(1, 5).Draw(t, "units")
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0: // a loop of one
			produces, consumes := skill(name)
			p.loop(name, produces, consumes)
			fmt.Fprintf(&policy, "loop %q {\n  max_iterations = 3\n  until = iteration >= 2\n%s}\n", name, body(name, produces, consumes, true))
		case 1: // a loop of two
			fmt.Fprintf(&policy, "loop %q {\n  phases = [%q, %q]\n  max_iterations = 3\n  until = iteration >= 2\n", name, name+"x", name+"y")
			for _, part := range []string{name + "x", name + "y"} {
				produces, consumes := skill(part)
				p.loop(part, produces, consumes)
				fmt.Fprintf(&policy, "  phase %q {\n%s  }\n", part, body(part, produces, consumes, true))
			}
			policy.WriteString("}\n")
		case 2: // a branch
			otherwise := ""
			if rarely("otherwise") {
				otherwise = "  otherwise = input." + rapid.SampledFrom(ids).Draw(t, "fallback") + "\n"
			}
			fmt.Fprintf(&policy, "branch %q {\n  accept = worker.status == \"settled\"\n%s", name, otherwise)
			before := there
			for _, part := range []string{name + "x", name + "y"} {
				there = before
				produces, consumes := skill(part)
				fmt.Fprintf(&policy, "  phase %q {\n%s  }\n", part, body(part, produces, consumes, false))
			}
			there = before
			p.branch(name, name+"x", name+"y")
			policy.WriteString("}\n")
		default:
			produces, consumes := skill(name)
			p.phase(name, produces, consumes)
			fmt.Fprintf(&policy, "phase %q {\n%s}\n", name, body(name, produces, consumes, false))
		}
	}
	return p, policy.String()
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// TestRandomPipelines: a pipeline compiles to a plan that holds, or is refused
// with an error that has a place; twice the same.
func TestRandomPipelines(t *testing.T) {
	compiled := 0
	rapid.Check(t, func(rt *rapid.T) {
		p, policy := randomPipe(rt)
		res, again := p.compile(t, policy), p.compile(t, policy)
		if !bytes.Equal(res.Encoded, again.Encoded) || show(res.Diagnostics) != show(again.Diagnostics) {
			rt.Fatalf("two compilations differ:\n%s\n%s", show(res.Diagnostics), show(again.Diagnostics))
		}
		if (res.Plan == nil) != hasError(res.Diagnostics) {
			rt.Fatalf("a plan beside errors, or neither:\n%s", show(res.Diagnostics))
		}
		for _, d := range res.Diagnostics {
			if d.Subject.Start.Line == 0 || d.Detail == "" {
				rt.Fatalf("no place, or nothing said:\n%s", show(res.Diagnostics))
			}
			if strings.HasPrefix(d.Detail, "nodes[") || strings.HasPrefix(d.Detail, "loops[") || strings.HasPrefix(d.Detail, "branches[") {
				rt.Fatalf("only the finished plan was refused:\n%s\n%s", show(res.Diagnostics), policy)
			}
		}
		if res.Plan != nil {
			compiled++
			if problems := plan.Validate(res.Plan); len(problems) > 0 {
				rt.Fatalf("%v", problems)
			}
			flows(rt, res.Plan)
		}
	})
	t.Logf("%d compiled", compiled)
	if compiled == 0 {
		t.Error("nothing that was drawn compiled")
	}
}

// flows walks the plan as an executor does, along the worst way: every output
// that may be missing is missing, and one alternative of a branch ran. What a
// node requires must have been given.
func flows(t *rapid.T, p *plan.Plan) {
	loopOf, branchOf := map[string]*plan.Loop{}, map[string]*plan.Branch{}
	for i := range p.Loops {
		for _, id := range p.Loops[i].Body {
			loopOf[id] = &p.Loops[i]
		}
	}
	for i := range p.Branches {
		for _, id := range p.Branches[i].Alternatives {
			branchOf[id] = &p.Branches[i]
		}
	}
	outputs := map[[2]string]string{} // node and artifact → required
	index := map[string]int{}
	for i, n := range p.Nodes {
		index[n.ID] = i
		for _, o := range n.Outputs {
			outputs[[2]string{n.ID, o.Artifact}] = o.Required
		}
	}
	for i, n := range p.Nodes {
		for _, in := range n.Inputs {
			class, id, _ := strings.Cut(in.From, ":")
			sure := false
			switch class {
			case "input":
				sure = true
			case "node":
				required, ok := outputs[[2]string{id, in.Artifact}]
				if !ok || index[id] >= i {
					t.Fatalf("%s reads %s of %s, which does not write it before", n.ID, in.Artifact, id)
				}
				if b := branchOf[id]; b != nil && n.Check == nil {
					t.Fatalf("%s reads of the alternative %s, which may not have run", n.ID, id)
				}
				sameLoop := loopOf[id] != nil && loopOf[id] == loopOf[n.ID]
				sure = required == plan.RequiredAlways || required == plan.RequiredAtEnd && !sameLoop
			case "branch":
				sure = true
				for _, b := range p.Branches {
					if b.ID != id {
						continue
					}
					for _, a := range b.Alternatives {
						if index[a] >= i {
							t.Fatalf("%s reads of the branch %s, which comes later", n.ID, id)
						}
						sure = sure && outputs[[2]string{a, in.Artifact}] == plan.RequiredAlways
					}
				}
			default:
				if in.Required {
					t.Fatalf("%s requires %s, which nothing gives", n.ID, in.Artifact)
				}
			}
			if in.Required && !sure {
				t.Fatalf("%s requires %s of %s, which may be missing", n.ID, in.Artifact, in.From)
			}
			if next := outputs[[2]string{in.CarriedFrom, in.Artifact}]; in.CarriedFrom != "" && in.Required && next != plan.RequiredAlways {
				t.Fatalf("%s requires %s of the iteration before, where it is due %s", n.ID, in.Artifact, next)
			}
			if in.CarriedFrom != "" && (loopOf[in.CarriedFrom] == nil || loopOf[in.CarriedFrom] != loopOf[n.ID] || outputs[[2]string{in.CarriedFrom, in.Artifact}] == "") {
				t.Fatalf("%s carries %s from %s, which is not in its loop or does not write it", n.ID, in.Artifact, in.CarriedFrom)
			}
		}
	}
	carried := map[[2]string]bool{}
	for _, n := range p.Nodes {
		for _, in := range n.Inputs {
			if in.CarriedFrom != "" {
				carried[[2]string{loopOf[n.ID].ID, in.Artifact}] = true
			}
		}
	}
	for _, l := range p.Loops {
		for _, id := range l.Carries {
			if !carried[[2]string{l.ID, id}] {
				t.Fatalf("the loop %s carries %s, and nothing in it reads that", l.ID, id)
			}
		}
	}
}

// FuzzCompile: no policy makes the compiler panic, hang or differ from itself.
func FuzzCompile(f *testing.F) {
	base, policy := wholePipe()
	base.compile(f, policy)
	f.Add(common + policy)
	for _, c := range brokenPipelines() {
		f.Add(c.pipe.common + c.policy)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := rebased(base.files, "policy")
		p := &pipe{files: files}
		p.put("main.hcl", text)
		opts := compile.Options{Open: openMap(files), Adapters: adaptersWithAgent()}
		res := compile.Compile(context.Background(), "policy/main.hcl", opts)
		if (res.Plan == nil) != hasError(res.Diagnostics) {
			t.Fatal(show(res.Diagnostics))
		}
		if res.Plan != nil {
			valid(t, res)
		}
		if again := compile.Compile(context.Background(), "policy/main.hcl", opts); !bytes.Equal(again.Encoded, res.Encoded) {
			t.Fatal("two compilations differ")
		}
	})
}
