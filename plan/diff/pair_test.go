package diff

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"foundry/plan"
)

// told are the changes in short.
func told(r *Report) []string {
	out := []string{}
	for _, c := range r.Changes {
		out = append(out, fmt.Sprintf("%s %s %s: %s → %s", c.Class, c.Kind, c.Path, c.Before, c.After))
	}
	return out
}

func expect(t *testing.T, r *Report, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, told(r)); d != "" {
		t.Error(d)
	}
}

// rename gives a step another id wherever it is named.
func rename(p *plan.Plan, from, to string) {
	is := func(s *string) {
		for _, form := range []string{"", "node:"} {
			if *s == form+from {
				*s = form + to
			}
		}
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		is(&n.ID)
		for k := range n.Needs {
			is(&n.Needs[k])
		}
		slices.Sort(n.Needs)
		for k := range n.Inputs {
			is(&n.Inputs[k].From)
			is(&n.Inputs[k].CarriedFrom)
		}
		if n.Check != nil && n.Check.Of == from {
			rename(p, n.ID, to+"."+n.Check.Name)
			n.Check.Of = to
		}
	}
	for i := range p.Loops {
		for k := range p.Loops[i].Body {
			is(&p.Loops[i].Body[k])
		}
	}
	for i := range p.Branches {
		for k := range p.Branches[i].Alternatives {
			is(&p.Branches[i].Alternatives[k])
		}
	}
}

func TestRenamedStepsAreTheSame(t *testing.T) {
	p := sample(t, "full")
	rename(p, "review", "inspect") // in a loop, with a check, carried and read by others
	rename(p, "test-data/derive", "summarize#3")
	expect(t, compare(t, sample(t, "full"), p),
		"neutral renamed nodes[inspect].id: review → inspect",
		"neutral renamed nodes[inspect.lint].id: review.lint → inspect.lint",
		"neutral renamed nodes[summarize#3].id: test-data/derive → summarize#3",
	)
}

func TestRenamedThingsAreTheSame(t *testing.T) {
	p := sample(t, "full")
	for i := range p.Harnesses {
		if p.Harnesses[i].Name == "medium" {
			p.Harnesses[i].Name = "usual"
		}
	}
	p.Providers[0].Name = "vendor"
	for i := range p.Harnesses {
		if p.Harnesses[i].Provider != "" {
			p.Harnesses[i].Provider = "vendor"
		}
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Harness == "medium" {
			n.Harness = "usual"
		}
		for k := range n.Needs {
			if n.Needs[k] == "polish" {
				n.Needs[k] = "refinement"
			}
		}
	}
	p.Evaluation.Judge = "usual"
	p.Loops[0].ID = "refinement"
	expect(t, compare(t, sample(t, "full"), p),
		"neutral renamed providers[vendor].name: anthropic → vendor",
		"neutral renamed harnesses[usual].name: medium → usual",
		"neutral renamed loops[refinement].id: polish → refinement",
	)
}

// TestAnotherSkillInItsPlace: a phase that another skill does, with the same
// artifacts, is that phase, and the skill is what changed.
func TestAnotherSkillInItsPlace(t *testing.T) {
	p := sample(t, "full")
	rename(p, "draft", "helper")
	for i := range p.Nodes {
		if p.Nodes[i].ID == "helper" {
			p.Nodes[i].Skill = "skill:helper"
		}
	}
	expect(t, compare(t, sample(t, "full"), p),
		"neutral renamed nodes[helper].id: draft → helper",
		"widens changed nodes[helper].skill: skill:draft → skill:helper",
	)
}

// TestOrder: what stands elsewhere is said to, once, and nothing is removed.
func TestOrder(t *testing.T) {
	p := sample(t, "full")
	slices.Reverse(p.Branches[0].Alternatives)
	p.Nodes[5], p.Nodes[6] = p.Nodes[6], p.Nodes[5]
	expect(t, compare(t, sample(t, "full"), p),
		"neutral reordered nodes[test-data/find]: after test-data/derive → after review.lint",
		"neutral reordered branches[test-data].alternatives: test-data/derive, test-data/find → test-data/find, test-data/derive",
	)

	// The last step of twelve runs first: it moved, and not the eleven others.
	last := sample(t, "pipeline12")
	n := len(last.Nodes)
	last.Nodes = append([]plan.Node{last.Nodes[n-1]}, last.Nodes[:n-1]...)
	for i := range last.Nodes {
		last.Nodes[i].Phase = int64(i + 1)
	}
	expect(t, compare(t, sample(t, "pipeline12"), last),
		"neutral changed nodes[*].phase: 12 → 1 of skill-11, the first of 12 steps",
		"neutral reordered nodes[skill-11]: after skill-10 → first",
	)
}

// TestInsertedStep: one step more renames and renumbers the others, and that is
// one line.
func TestInsertedStep(t *testing.T) {
	p := sample(t, "pipeline12")
	extra := p.Nodes[3]
	extra.ID, extra.Skill, extra.Outputs = "between", "skill:skill-09", nil
	extra.Needs = []string{p.Nodes[3].ID}
	p.Nodes = slices.Insert(p.Nodes, 4, extra)
	for i := range p.Nodes {
		p.Nodes[i].Phase = int64(i + 1)
	}
	p.Nodes[5].Needs = []string{"between"}
	r := compare(t, sample(t, "pipeline12"), p)
	if len(r.Changes) == 0 || r.Changes[0].Path != "nodes[between]" || r.Changes[0].Kind != Added || r.Changes[0].Text == nil ||
		!strings.Contains(r.Changes[0].After, "network provider; credentials ANTHROPIC_API_KEY") {
		t.Fatalf("%+v", r.Changes)
	}
	r.Changes = r.Changes[1:]
	expect(t, r,
		"neutral changed nodes[*].phase: 5 → 6 of skill-04, the first of 8 steps",
		"narrows added nodes[skill-04].needs:  → between",
		"neutral removed nodes[skill-04].needs: skill-03 → ",
	)
}

// TestWaitsThroughABranch: only its first alternative is sure to have run.
func TestWaitsThroughABranch(t *testing.T) {
	for id, want := range map[string]string{
		"draft": "neutral removed nodes[summarize#2].needs: draft → ",
		"extra": "widens removed nodes[summarize#2].needs: extra → ",
	} {
		a, b := sample(t, "full"), sample(t, "full")
		for i, p := range []*plan.Plan{a, b} {
			extra := p.Nodes[0]
			extra.ID, extra.Needs = "extra", nil
			p.Nodes = append([]plan.Node{extra}, p.Nodes...)
			for k := range p.Nodes {
				switch n := &p.Nodes[k]; n.ID {
				case "test-data/find": // the second alternative
					n.Needs = []string{"extra", "polish"}
				case "summarize#2":
					n.Needs = []string{"test-data"}
					if i == 0 {
						n.Needs = []string{id, "test-data"}
					}
				}
			}
		}
		expect(t, compare(t, a, b), want)
	}
}

func TestMovedFile(t *testing.T) {
	p := sample(t, "full")
	for i := range p.Bundles {
		if p.Bundles[i].ID == "skill:draft" {
			p.Bundles[i].Files[3].Path = "scripts/start.py"
		}
	}
	expect(t, compare(t, sample(t, "full"), p), "widens renamed bundles[skill:draft].files[scripts/start.py].path: scripts/run.py → scripts/start.py")
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(p *plan.Plan)
		want string
	}{
		"another version":  {func(p *plan.Plan) { p.FormatVersion++ }, "has format_version 2, this program compares 1"},
		"steps":            {func(p *plan.Plan) { rename(p, "draft", "step-1"); rename(p, "refine", "step-l") }, `two steps have names that look the same, "step-1" and "step-l"`},
		"artifacts":        {func(p *plan.Plan) { p.Inputs[0].ID, p.Inputs[1].ID = "map-O", "map-0" }, "two artifacts have"},
		"another alphabet": {func(p *plan.Plan) { p.Bundles[0].Files[0].Path = "SKILL.md"; add(&p.Bundles[0], "S\u041aILL.md") }, `"S\u041aILL.md"`},
		"models": {func(p *plan.Plan) {
			p.Providers[0].Models = append(p.Providers[0].Models, plan.Model{ID: "m\u03bfdel-1"})
		}, "two models of anthropic have"},
	} {
		p := sample(t, "full")
		c.edit(p)
		for _, sides := range [][2]*plan.Plan{{p, sample(t, "full")}, {sample(t, "full"), p}} {
			r, err := Plans(Side{Plan: sides[0]}, Side{Plan: sides[1]})
			if r != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := Plans(Side{}, Side{Plan: sample(t, "full")}); err == nil {
		t.Error("no plan is compared")
	}
	// What others name may be as much alike as digits and letters are.
	p := sample(t, "full")
	add(&p.Bundles[0], "references/1.md")
	add(&p.Bundles[0], "references/l.md")
	compare(t, p, p)
}

func add(b *plan.Bundle, path string) {
	b.Files = append(slices.Clone(b.Files), plan.BundleFile{Path: path, Mode: plan.ModeRegular, Digest: "sha256:" + path})
}

// blobs gives bytes by digest.
func blobs(texts map[string]string) func(string) (io.ReadCloser, error) {
	return func(digest string) (io.ReadCloser, error) {
		if s, ok := texts[digest]; ok {
			return io.NopCloser(strings.NewReader(s)), nil
		}
		return nil, errors.New("unknown")
	}
}

func TestTexts(t *testing.T) {
	long := strings.Repeat("a line\n", 30)
	for name, c := range map[string]struct {
		before, after string
		want          *Text
	}{
		"one line of many": {long + "old\n" + long, long + "new\n" + long, &Text{Lines: []string{
			"@@ -28,7 +28,7 @@", " a line", " a line", " a line", "-old", "+new", " a line", " a line", " a line"}}},
		"the end":      {"a\nb", "a\nb\n", &Text{Lines: []string{"@@ -1,2 +1,2 @@", " a", "-b (no line feed at the end)", "+b"}}},
		"from nothing": {"", "a\n", &Text{Lines: []string{"@@ -1,0 +1,1 @@", "+a"}}},
		"bytes":        {"a\x00", "b", &Text{Note: "no text"}},
		"too much":     {strings.Repeat("a", maxTextBytes+1), "b", &Text{Note: "too large to be compared by lines"}},
		"hidden":       {"a\n", "a\u202e\n", &Text{Lines: []string{"@@ -1,1 +1,1 @@", "-a", "+a\u202e"}}},
	} {
		a, b := sample(t, "full"), sample(t, "full")
		file := func(p *plan.Plan, s string) *plan.BundleFile {
			f := &p.Bundles[slices.IndexFunc(p.Bundles, func(b plan.Bundle) bool { return b.ID == "skill:draft" })].Files[0]
			f.Digest, f.Bytes = plan.Digest([]byte(s)), int64(len(s))
			return f
		}
		x, y := file(a, c.before), file(b, c.after)
		open := blobs(map[string]string{x.Digest: c.before, y.Digest: c.after})
		r, err := Plans(Side{Plan: a, Open: open}, Side{Plan: b, Open: open})
		if err != nil || len(r.Changes) != 1 {
			t.Fatalf("%s: %v, %+v", name, err, r)
		}
		if d := cmp.Diff(c.want, r.Changes[0].Text); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		// Without the bytes, and without those of one side, the digests say it.
		for want, sides := range map[string][2]Side{"only digests": {{Plan: a}, {Plan: b, Open: open}}, "cannot be read": {{Plan: a, Open: blobs(nil)}, {Plan: b, Open: blobs(nil)}}} {
			r, err := Plans(sides[0], sides[1])
			if err != nil || len(r.Changes) != 1 || r.Changes[0].Text == nil || name != "too much" && !strings.Contains(r.Changes[0].Text.Note, want) {
				t.Errorf("%s, %s: %v, %+v", name, want, err, r.Changes[0].Text)
			}
		}
	}
}

// TestTextsAreBounded: one text, and all of a report.
func TestTextsAreBounded(t *testing.T) {
	a, b := chain(t, 100), chain(t, 100)
	for i := range b.Nodes {
		b.Nodes[i].Prompt = strings.Repeat(fmt.Sprintf("line %d\n", i), maxTextLines+100) + strings.Repeat("x", 2*maxLineBytes)
	}
	r := compare(t, a, b)
	lines, left := 0, 0
	for _, c := range r.Changes {
		if len(c.Text.Lines) > maxTextLines {
			t.Errorf("%s has %d lines", c.Path, len(c.Text.Lines))
		}
		for _, l := range c.Text.Lines {
			if len(l) > maxLineBytes+2*len("…")+1 {
				t.Errorf("a line of %d bytes", len(l))
			}
		}
		lines += len(c.Text.Lines)
		left += c.Text.LeftOut
	}
	// Half of them reach the bound of the report; each of the rest is cut short.
	if lines != maxShownLines+50*minTextLines || left < 100*100 {
		t.Errorf("%d lines are shown, %d left out", lines, left)
	}
}

// TestLargeBundle: a bundle of many files is cut, and does not cost what stands
// behind it its lines.
func TestLargeBundle(t *testing.T) {
	a, b := sample(t, "full"), sample(t, "full")
	big := plan.Bundle{ID: "input:big"}
	text := strings.Repeat("a line of many\n", 1000)
	digest := plan.Digest([]byte(text))
	for i := range 200 {
		big.Files = append(big.Files, plan.BundleFile{Path: fmt.Sprintf("%03d.txt", i), Mode: plan.ModeRegular, Bytes: int64(len(text)), Digest: digest})
	}
	b.Bundles = append([]plan.Bundle{big}, b.Bundles...)
	b.Nodes[0].Prompt = "Do as the file says.\n"
	open := blobs(map[string]string{digest: text})
	r, err := Plans(Side{Plan: a, Open: open}, Side{Plan: b, Open: open})
	if err != nil || len(r.Changes) != 2 {
		t.Fatalf("%v: %+v", err, told(r))
	}
	if got := r.Changes[0].Text; len(got.Lines) > maxPartsLines+200 || len(got.Lines)+got.LeftOut < 200*1000 {
		t.Errorf("%d lines and %d left out", len(got.Lines), got.LeftOut)
	}
	if got := r.Changes[1].Text; len(got.Lines) < 3 || got.Lines[len(got.Lines)-1] != "+Do as the file says." {
		t.Errorf("%+v", got)
	}
}

// TestNothingHidesBehindACut: whatever is too long for one line is compared and
// shown by lines, to its end.
func TestNothingHidesBehindACut(t *testing.T) {
	long := strings.Repeat("x", 20*maxBrief)
	args := strings.Split(strings.Repeat("argument ", maxBrief), " ")
	for name, edit := range map[string]func(p *plan.Plan, end string){
		"a word":      func(p *plan.Plan, end string) { p.Providers[0].BaseURL = "https://example/" + long + end },
		"a list":      func(p *plan.Plan, end string) { p.Nodes[0].Process.Argv = append(slices.Clone(args), end) },
		"a set":       func(p *plan.Plan, end string) { p.Nodes[0].Process.Env = []string{"KEY=" + long + end} },
		"a prompt":    func(p *plan.Plan, end string) { p.Nodes[0].Prompt = long + end },
		"a file":      func(p *plan.Plan, end string) { p.Nodes[0].Files[0].Content = long + end },
		"a predicate": func(p *plan.Plan, end string) { p.Branches[0].Accept = exists(long + end) },
		"a tool":      func(p *plan.Plan, end string) { p.Tools[0].Reason = long + end },
		"a new node": func(p *plan.Plan, end string) {
			p.Nodes = append(p.Nodes, plan.Node{ID: "new", NotApplicable: append(slices.Clone(args), end)})
		},
		"a new probe": func(p *plan.Plan, end string) {
			p.Probes = append(p.Probes, plan.Probe{Tool: "new", Argv: append(slices.Clone(args), end)})
		},
		"a new prompt": func(p *plan.Plan, end string) { p.Nodes = append(p.Nodes, plan.Node{ID: "new", Prompt: long + end}) },
		"evaluation":   func(p *plan.Plan, end string) { p.Evaluation.Judge = end; p.Evaluation.Require = long },
	} {
		a, b := sample(t, "full"), sample(t, "full")
		if !strings.Contains(name, "new") {
			edit(a, "the-old-end")
		}
		if name == "evaluation" {
			a.Evaluation = nil
		}
		edit(b, "the-new-end")
		found := false
		for _, c := range compare(t, a, b).Changes {
			if len(c.Before) > 4*maxBrief+3 || len(c.After) > 4*maxBrief+3 {
				t.Errorf("%s: values of %d and %d bytes", name, len(c.Before), len(c.After))
			}
			if c.Text == nil {
				continue
			}
			for _, l := range c.Text.Lines {
				found = found || strings.HasPrefix(l, "+") && strings.Contains(l, "the-new-end")
				if len(l) > maxLineBytes+10 {
					t.Errorf("%s: a line of %d bytes", name, len(l))
				}
			}
		}
		if !found {
			t.Errorf("%s: its end is shown nowhere", name)
		}
	}
}
