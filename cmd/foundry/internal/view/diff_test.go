package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"foundry/compile"
	"foundry/plan"
	"foundry/plan/diff"
)

func goldenPlan(t testing.TB, name string) *plan.Plan {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "plan", "testdata", name+".plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// many is a plan of n steps in a chain.
func many(t testing.TB, n int) *plan.Plan {
	p := goldenPlan(t, "pipeline12")
	model := p.Nodes[1]
	p.Nodes = p.Nodes[:1]
	for i := 1; i < n; i++ {
		x := model
		x.ID, x.Phase, x.Needs = fmt.Sprintf("%s#%d", p.Nodes[0].ID, i+1), int64(i+1), []string{p.Nodes[i-1].ID}
		x.Inputs = nil
		p.Nodes = append(p.Nodes, x)
	}
	return p
}

func report(t testing.TB, a, b *plan.Plan) *diff.Report {
	t.Helper()
	r, err := diff.Plans(diff.Side{Plan: a, Digest: "sha256:a"}, diff.Side{Plan: b, Digest: "sha256:b"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMarkdownFits: whatever changed, the comment is not too long, what widens
// comes first, and what is left out is counted.
func TestMarkdownFits(t *testing.T) {
	a, b := many(t, 2000), many(t, 2000)
	for i := range b.Nodes {
		n := &b.Nodes[i]
		n.Budget.Turns += int64(i) + 1     // every step another one: widens
		n.Budget.ToolCalls -= int64(i % 7) // narrows
		n.Prompt += strings.Repeat("`````|<b>\u202e\x1b[31m\n", 50)
	}
	b.Nodes[1999].Sandbox.Network = plan.NetworkBridge
	r := report(t, a, b)
	for _, most := range []int{5_000, 10_000, MaxMarkdown} {
		start := time.Now()
		s := DiffMarkdown(r, a, b, most)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%d characters took %v", most, took)
		}
		if n := utf8.RuneCountInString(s); n > most || !utf8.ValidString(s) {
			t.Errorf("%d characters, more than %d", n, most)
		}
		if strings.ContainsAny(s, "\u202e\x1b") {
			t.Error("what cannot be seen is not escaped")
		}
		if !strings.Contains(s, "2000&#93;.sandbox.network</code> | <code>provider</code> | <code>bridge</code>") {
			t.Error("the one network that opened is hidden by thousands of other changes")
		}
		left := regexp.MustCompile(`\*\*(\d+) changes left out for length: (?:(\d+) widen)?(?:, )?(?:(\d+) narrows?)?`).FindStringSubmatch(s)
		if left == nil {
			t.Fatalf("nothing is said to be left out of %d:\n%s", most, s)
		}
		shown := 0
		for _, line := range strings.Split(s, "\n") {
			if !strings.HasPrefix(line, "| <code>") {
				continue
			}
			n := 1
			if m := regexp.MustCompile(` in (\d+) steps \(`).FindStringSubmatch(line); m != nil {
				n, _ = strconv.Atoi(m[1])
			}
			shown += n
		}
		if n, _ := strconv.Atoi(left[1]); n+shown != len(r.Changes) {
			t.Errorf("%s are left out and %d shown, of %d", left[1], shown, len(r.Changes))
		}
	}
}

// TestMarkdownWhole: nothing is left out of what fits.
func TestMarkdownWhole(t *testing.T) {
	a, b := goldenPlan(t, "full"), goldenPlan(t, "full")
	b.Nodes[0].Prompt += "\nOne more line.\n"
	b.Nodes[0].Sandbox.Mounts[0].Mode = plan.MountReadWrite
	b.Loops[0].MaxIterations--
	b.Branches[0].Alternatives = b.Branches[0].Alternatives[:1]
	b.Nodes = append(b.Nodes[:6:6], b.Nodes[7:]...)
	s := DiffMarkdown(report(t, a, b), a, b, MaxMarkdown)
	for _, want := range []string{
		"### Plan diff: 5 changes: 2 widen, 3 narrow\n",
		"| <code>nodes&#91;summarize&#93;.sandbox.mounts&#91;/skills/summarize&#93;.mode</code> | <code>ro</code> | <code>rw</code> | it may write there |",
		"```mermaid\nflowchart TD\n",
		`["removed: node test-data/find"]:::removed`,
		"+One more line.\n",
		"class n2 widens",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("it lacks %q:\n%s", want, s)
		}
	}
	if strings.Contains(s, "left out") {
		t.Errorf("something is left out:\n%s", s)
	}
	if same := DiffMarkdown(report(t, a, a), a, a, MaxMarkdown); same != "### Plan diff: no difference\n\n" {
		t.Errorf("%q", same)
	}
}

// TestChangedGraph: what changed and its neighbours, bounded.
func TestChangedGraph(t *testing.T) {
	a, b := many(t, 200), many(t, 200)
	b.Nodes[100].Budget.Turns++
	g := changedGraph(report(t, a, b), a, b, 40)
	if n := strings.Count(g, "skill-00#"); n != 3 || !strings.Contains(g, "skill-00#35;101") {
		t.Errorf("%d steps:\n%s", strings.Count(g, "<br>"), g)
	}
	for i := range b.Nodes {
		b.Nodes[i].Budget.Turns += 2
	}
	g = changedGraph(report(t, a, b), a, b, 40)
	if !strings.Contains(g, `more["160 more that changed"]`) || strings.Count(g, "turns") != 40 {
		t.Error(g)
	}
	b = many(t, 200)
	b.Budget.Tokens++
	if g := changedGraph(report(t, a, b), a, b, 40); g != "" {
		t.Errorf("no step changed:\n%s", g)
	}
}

type fakePlaces struct{ src string }

func (fakePlaces) Place(path string) compile.Range {
	if strings.HasSuffix(path, ".turns") {
		return compile.Range{File: "a b/é.hcl", Start: compile.Pos{Line: 2, Column: 2, Byte: 7}, End: compile.Pos{Line: 2, Column: 3, Byte: 9}}
	}
	return compile.Range{}
}

func (f fakePlaces) Source(string) []byte { return []byte(f.src) }

// TestSARIFIsSARIF: the form is the standard's, columns are its code points, and
// a change without a place has its path.
func TestSARIFIsSARIF(t *testing.T) {
	a, b := goldenPlan(t, "full"), goldenPlan(t, "full")
	b.Nodes[0].Budget.Turns++
	b.Nodes[0].Budget.Tokens--
	b.Nodes[0].Process.Argv[0] = "\u202e\x1b"
	var out bytes.Buffer
	// The place begins behind e and its accent, one sign of two code points.
	if err := DiffSARIF(&out, report(t, a, b), "1", fakePlaces{"abc\ne\u0301xyz\n"}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\u202e\x1b") {
		t.Error("what cannot be seen is not escaped")
	}
	r, err := sarif.FromBytes(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	run := r.Runs[0]
	levels := map[string]string{}
	for _, x := range run.Results {
		levels[*x.RuleID] = x.Level
	}
	if len(run.Results) != 3 || levels["NodeBudget.turns"] != "warning" || levels["NodeBudget.tokens"] != "note" {
		t.Errorf("%v", levels)
	}
	for _, x := range run.Results {
		at := x.Locations[0]
		if *at.LogicalLocations[0].FullyQualifiedName == "" || *run.Tool.Driver.Rules[x.RuleIndex].ID != *x.RuleID {
			t.Errorf("%+v", x)
		}
		if *x.RuleID != "NodeBudget.turns" {
			if at.PhysicalLocation != nil {
				t.Errorf("%s has a place", *x.RuleID)
			}
			continue
		}
		p := at.PhysicalLocation
		if *p.ArtifactLocation.URI != "a%20b/%C3%A9.hcl" || *p.Region.StartLine != 2 || *p.Region.StartColumn != 3 || *p.Region.EndColumn != 5 {
			got, _ := json.Marshal(p)
			t.Errorf("%s", got)
		}
	}
}

// TestJSONReadsBack: what is escaped for the eye is the same for a program.
func TestJSONReadsBack(t *testing.T) {
	a, b := goldenPlan(t, "full"), goldenPlan(t, "full")
	hostile := "\u202e\u200b\x1b\U000e0001 <&>\u2028é"
	b.Nodes[0].Process.Argv[0] = hostile
	b.Nodes[0].Prompt = hostile + "\n"
	var out bytes.Buffer
	if err := DiffJSON(&out, report(t, a, b)); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\u202e\u200b\x1b\U000e0001\u2028") {
		t.Errorf("what cannot be seen is not escaped: %q", out.String())
	}
	var back diffJSON
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Class != diff.Widens || back.Widens != 2 || len(back.Changes) != 2 || !strings.HasSuffix(back.Changes[0].Text.Lines[len(back.Changes[0].Text.Lines)-1], hostile) {
		t.Errorf("%+v", back)
	}
}

// TestMarkdownIsWhatItSays: a plan's texts make no row, link, picture, mention,
// fence or tag of their own, as a reader of Markdown sees it.
func TestMarkdownIsWhatItSays(t *testing.T) {
	hostile := "a|b\n| x | y |\n```\n</code></details><img src=x onerror=1> ![i](u) [l](u) @all <!-- *e* _e_ ~~e~~ \\| &#124; http://host WWW.host.example"
	a, b := goldenPlan(t, "full"), goldenPlan(t, "full")
	b.Providers[0].API = hostile
	b.Providers[0].BaseURL = hostile
	b.Nodes[0].Prompt = hostile
	b.Nodes[0].Outputs = append(b.Nodes[0].Outputs, plan.NodeOutput{Artifact: hostile})
	b.Nodes[0].Files[0].Content = "````\n~~~\n" + hostile
	b.Nodes[1].ID = hostile
	r := report(t, a, b)
	src := []byte(DiffMarkdown(r, a, b, MaxMarkdown))
	doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(src))
	rows, fences, summaries := 0, 0, 0
	err := ast.Walk(doc, func(n ast.Node, in bool) (ast.WalkStatus, error) {
		if !in {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *east.TableRow:
			rows++
			if n.ChildCount() != 4 {
				t.Errorf("a row of %d cells", n.ChildCount())
			}
		case *ast.FencedCodeBlock:
			fences++
		case *ast.Image, *ast.Link, *ast.AutoLink, *ast.Emphasis, *east.Strikethrough, *ast.List, *ast.Blockquote:
			t.Errorf("a %s", n.Kind())
		case *ast.RawHTML:
			if s := string(n.Segments.Value(src)); s != "<code>" && s != "</code>" {
				t.Errorf("the tag %q", s)
			}
		case *ast.HTMLBlock:
			s := string(n.Lines().Value(src))
			if !strings.HasPrefix(s, "<details><summary>") && s != "</details>\n" {
				t.Errorf("the HTML %q", s)
			}
			summaries += strings.Count(s, "<summary>")
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	groups := len(grouped(r))
	if rows != groups || fences != summaries || fences < 3 {
		t.Errorf("%d rows of %d changes, %d fences of %d texts\n%s", rows, groups, fences, summaries, src)
	}
}
