package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func (v *validator) toolList() {
	for i := range v.p.Tools {
		t := &v.p.Tools[i]
		where := at("tools", i, t.Name)
		v.name(t.Name, where, ".name")
		v.word(t.By, toolWays, where, ".by")
		if (t.By == ToolImage) != (t.Image != "") {
			v.add("misplaced image", "a tool by image names its image, and no other does", where, ".image")
		} else if t.Image != "" {
			v.image(t.Image, where, ".image")
		}
		if t.By == ToolUnavailable && strings.TrimSpace(t.Reason) == "" {
			v.add("no reason", "a waived tool says why", where, ".reason")
		}
		v.text(t.Reason, where, ".reason")
	}
	for i := range v.p.Probes {
		pr := &v.p.Probes[i]
		where := at("probes", i, pr.Tool)
		v.name(pr.Tool, where, ".tool")
		v.argv(pr.Argv, false, false, where, ".argv")
		for a, arg := range pr.Argv {
			if len(TokensIn(arg)) > 0 {
				v.add("misplaced token", "a probe has no skill, inputs or outputs", where, ".argv[", strconv.Itoa(a), "]")
			}
		}
		v.text(pr.Expect, where, ".expect")
		if pr.Image != "" {
			v.image(pr.Image, where, ".image")
		}
		if i > 0 && cmp.Or(cmp.Compare(v.p.Probes[i-1].Tool, pr.Tool), slices.Compare(v.p.Probes[i-1].Argv, pr.Argv), cmp.Compare(v.p.Probes[i-1].Image, pr.Image)) >= 0 {
			v.add("not sorted", "probes are sorted by tool, argv and image, without doubles", where)
		}
	}
}

func (v *validator) guardList() {
	seen := map[[2]string]bool{}
	for i := range v.p.Guards {
		g := &v.p.Guards[i]
		where := at("guards", i, g.Name)
		v.name(g.Name, where, ".name")
		if g.Set != "" {
			v.name(g.Set, where, ".set")
		}
		v.digest(g.Digest, where, ".digest")
		v.word(g.Result, verdicts, where, ".result")
		if key := [2]string{g.Set, g.Name}; seen[key] {
			v.add("id used twice", "this guard is listed before", where)
		} else {
			seen[key] = true
		}
	}
}

func (v *validator) evaluation() {
	e := v.p.Evaluation
	if e == nil {
		return
	}
	v.word(e.Require, requires, "evaluation.require")
	if e.Judge != "" {
		if v.harnesses[e.Judge] == nil {
			v.add("dangling reference", "there is no harness "+quote(e.Judge), "evaluation.judge")
		}
		v.runBudget("evaluation.budget", e.Budget)
	} else if e.Budget != (RunBudget{}) {
		v.add("misplaced budget", "without a judge nothing is spent on grading: the numbers are 0", "evaluation.budget")
	}
	seen := map[[2]string]bool{}
	for i := range e.Properties {
		p := &e.Properties[i]
		where := "evaluation.properties[" + strconv.Itoa(i) + "]"
		v.evaluationKey(seen, p.Key, p.Kind, where)
		v.word(p.Kind, properties, where, ".kind")
		v.digest(p.Digest, where, ".digest")
		v.text(p.Binding, where, ".binding")
	}
	seen = map[[2]string]bool{}
	for i := range e.Cases {
		c := &e.Cases[i]
		where := "evaluation.cases[" + strconv.Itoa(i) + "]"
		v.evaluationKey(seen, c.Key, "", where)
		v.text(c.Fixture, where, ".fixture")
		v.digest(c.Digest, where, ".digest")
	}
}

// evaluationKey: a property that is graded in two ways stands twice.
func (v *validator) evaluationKey(seen map[[2]string]bool, key, kind, where string) {
	if key == "" {
		v.add("invalid name", "a key is not empty", where, ".key")
	}
	v.text(key, where, ".key")
	if seen[[2]string{key, kind}] {
		v.add("id used twice", quote(key)+" stands in the list before", where, ".key")
	}
	seen[[2]string{key, kind}] = true
}
