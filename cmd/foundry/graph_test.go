package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/cmd/foundry/internal/view"
	"foundry/plan"
)

// pictured are the plans whose pictures are tested: the seven real pipelines
// where the corpus is, and always the quickstart.
func pictured(t *testing.T) map[string]*plan.Plan {
	t.Helper()
	out := map[string]*plan.Plan{}
	compiled := func(name, policy string, args ...string) {
		file := filepath.Join(t.TempDir(), "plan.json")
		var stdout, stderr bytes.Buffer
		args = append([]string{"plan", filepath.Join(repository(t), filepath.FromSlash(policy)), "-o", file}, args...)
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("%s: exit code %d:\n%s", policy, code, stderr.Bytes())
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if out[name], err = plan.Decode(data); err != nil {
			t.Fatal(err)
		}
	}
	compiled("quickstart", "examples/quickstart/quickstart.hcl")
	if dir := corpus(t); dir != "" {
		for _, name := range galaxyPipelines {
			compiled(name, "examples/galaxy/"+name+".hcl", "--var", "corpus="+dir)
		}
	}
	return out
}

var galaxyPipelines = []string{"cwl-to-galaxy", "interview-to-galaxy", "nextflow-to-cwl", "nextflow-to-galaxy", "paper-to-cwl", "paper-to-galaxy", "update-interview-to-galaxy"}

// hostilePlan is a plan with texts that try to leave their place.
func hostilePlan(p plan.Plan) *plan.Plan {
	const evil = "</pre></svg></title><script>document.title='owned'</script><img src=\"https://example.invalid/x\" onerror=\"document.title='owned'\">\u202e\u200b\x1b[31m\"'`\\{{.}}"
	p.Pipeline.Name = evil
	p.Nodes = slices.Clone(p.Nodes)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Prompt = evil + "\n" + evil
		n.Process.Argv = []string{evil, "javascript:alert(1)"}
		n.Outputs = slices.Clone(n.Outputs)
		for k := range n.Outputs {
			n.Outputs[k].Filename = evil
		}
	}
	return &p
}

// shown is what the page says of one item, read in the browser.
type shown struct {
	Detail, Label, Text string
	Outside             []string // texts that leave the card
}

const readItems = `return Array.from(document.querySelectorAll("a.node")).map(function (n) {
  var card = n.querySelector(".card").getBoundingClientRect();
  return {
    Detail: n.getAttribute("data-detail"), Label: n.getAttribute("aria-label"),
    Text: document.getElementById(n.getAttribute("data-detail")).textContent,
    Outside: Array.from(n.querySelectorAll("text")).filter(function (t) {
      var r = t.getBoundingClientRect();
      return r.right > card.right + 0.5 || r.left < card.left || r.bottom > card.bottom + 1 || r.top < card.top - 1;
    }).map(function (t) { return t.textContent; })
  };
})`

// TestGraphInBrowser looks at each page in a real browser, in both colour
// schemes, and uses it by keyboard and by mouse.
func TestGraphInBrowser(t *testing.T) {
	b := newBrowser(t)
	plans := pictured(t)
	plans["hostile"] = hostilePlan(*plans["quickstart"])
	names := make([]string, 0, len(plans))
	for name := range plans {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var page bytes.Buffer
		if err := view.GraphHTML(&page, plans[name], "sha256:"+strings.Repeat("0", 64)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "graph.html")
		if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, scheme := range []string{"light", "dark"} {
			t.Run(name+"/"+scheme, func(t *testing.T) {
				b.t = t
				lookAtGraph(b, plans[name], file, scheme)
			})
		}
		t.Run(name+"/without scripts", func(t *testing.T) {
			b.t = t
			readWithoutScripts(b, plans[name], file)
		})
	}
}

func lookAtGraph(b *browser, p *plan.Plan, file, scheme string) {
	t := b.t
	b.open(file, scheme)
	var items []shown
	b.run(readItems, &items)
	checkItems(t, p, items)
	var title string
	b.run(`return document.title`, &title)
	if title != view.Safe(p.Pipeline.Name) {
		t.Errorf("the title is %q", title)
	}
	tabThrough(b, items)
	openEach(b, items)
	var overlaps []string
	b.run(cardsOverlap, &overlaps)
	if len(overlaps) > 0 {
		t.Errorf("cards lie on each other: %q", overlaps)
	}
	var faint []string
	b.run(contrast, &faint)
	if len(faint) > 0 {
		t.Errorf("texts are hard to read: %q", faint)
	}
	var dark bool
	b.run(`return getComputedStyle(document.body).backgroundColor.match(/\d+/g).every(function (v) { return v < 90; })`, &dark)
	if dark != (scheme == "dark") {
		t.Errorf("the %s page is dark: %v", scheme, dark)
	}
	var resources int
	b.run(`return performance.getEntriesByType("resource").length`, &resources)
	if bad := b.complaints(); resources != 0 || len(bad) > 0 {
		t.Errorf("%d resources were loaded, and the browser says:\n%s", resources, strings.Join(bad, "\n"))
	}
}

// checkItems finds each part of the plan in the page, with its details.
func checkItems(t *testing.T, p *plan.Plan, items []shown) {
	t.Helper()
	if want := len(p.Inputs) + len(p.Nodes) + len(p.Loops) + len(p.Branches); len(items) != want {
		t.Errorf("%d items are shown, and the plan has %d", len(items), want)
	}
	find := func(label string, texts ...string) {
		t.Helper()
		i := slices.IndexFunc(items, func(s shown) bool { return s.Label == label })
		if i < 0 {
			t.Errorf("%q is not shown", label)
			return
		}
		for _, text := range texts {
			if !strings.Contains(items[i].Text, view.SafeLines(text)) {
				t.Errorf("the details of %q do not say %q", label, text)
			}
		}
		// The second node of the same label is looked at on its own.
		items = append(slices.Clone(items[:i]), items[i+1:]...)
	}
	for _, s := range items {
		if len(s.Outside) > 0 {
			t.Errorf("%s: texts leave the card: %q", s.Label, s.Outside)
		}
	}
	for _, in := range p.Inputs {
		find("input "+in.ID, in.Kind)
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		texts := []string{n.Prompt, view.Seconds(n.Budget.WallSeconds), n.Sandbox.Network}
		for _, m := range n.Sandbox.Mounts {
			texts = append(texts, m.Source, m.Destination)
		}
		texts = append(texts, n.Process.Argv...)
		if n.Check != nil {
			find("check "+n.Check.Name, texts...)
			continue
		}
		for _, h := range p.Harnesses {
			if h.Name == n.Harness {
				texts = append(texts, h.Adapter, h.Model, strings.Join(h.Tools, ", "))
			}
		}
		id := n.ID
		if _, name, ok := strings.Cut(id, "/"); ok {
			id = name
		}
		find(fmt.Sprintf("%d %s", n.Phase, id), append(texts, view.Dollars(n.Budget.CostMicroUSD))...)
	}
}

// tabThrough goes from item to item with the Tab key: the plan's order, each
// visible and marked.
func tabThrough(b *browser, items []shown) {
	b.t.Helper()
	b.run(`document.activeElement.blur(); window.scrollTo(0, 0)`, nil)
	for _, want := range items {
		b.press(keyTab)
		var at struct {
			Detail, Stroke string
			Visible        bool
		}
		b.run(`var n = document.activeElement, r = n.getBoundingClientRect();
return {Detail: n.getAttribute("data-detail") || n.tagName, Stroke: getComputedStyle(n.querySelector(".card") || n).strokeWidth,
  Visible: r.top < innerHeight && r.bottom > 0 && r.left >= 0}`, &at)
		if at.Detail != want.Detail || at.Stroke != "3px" || !at.Visible {
			b.t.Errorf("Tab leads to %+v, not to %s (%s)", at, want.Detail, want.Label)
			return
		}
	}
}

// openEach opens each item and closes it, by keyboard, and the first by mouse.
func openEach(b *browser, items []shown) {
	b.t.Helper()
	state := func(detail string) (open bool) {
		var at struct{ Display, Role, Focus, Expanded string }
		b.run(`var d = document.getElementById(arguments[0]);
return {Display: getComputedStyle(d).display, Role: d.getAttribute("role"), Focus: document.activeElement.id || document.activeElement.getAttribute("data-detail") || "",
  Expanded: document.querySelector('a[data-detail="' + arguments[0] + '"]').getAttribute("aria-expanded")}`, &at, detail)
		if at.Role != "dialog" || at.Focus != detail || (at.Display != "none") != (at.Expanded == "true") {
			b.t.Errorf("%s: %+v", detail, at)
		}
		return at.Display != "none"
	}
	for i, it := range items {
		b.run(`document.querySelector('a[data-detail="' + arguments[0] + '"]').focus()`, nil, it.Detail)
		if i > 0 { // the arrow keys move too
			b.run(`document.querySelector('a[data-detail="' + arguments[0] + '"]').focus()`, nil, items[i-1].Detail)
			b.press(keyDown)
		}
		key := keyEnter
		if i%2 == 1 {
			key = keySpace
		}
		if b.press(key); !state(it.Detail) {
			b.t.Errorf("%s does not open", it.Label)
		}
		if b.press(keyEscape); state(it.Detail) {
			b.t.Errorf("%s does not close", it.Label)
		}
	}
	first := items[0]
	if b.click(`a[data-detail="` + first.Detail + `"] .card`); !state(first.Detail) {
		b.t.Errorf("%s does not open by a click", first.Label)
	}
	if b.click("#" + first.Detail + " .close"); state(first.Detail) {
		b.t.Errorf("%s does not close by a click", first.Label)
	}
}

const cardsOverlap = `var all = Array.from(document.querySelectorAll("a.node .card")).map(function (c) { return c.getBoundingClientRect(); });
var out = [];
all.forEach(function (a, i) { all.slice(i + 1).forEach(function (b, k) {
  if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) { out.push(i + " " + (i + 1 + k)); }
}); });
return out`

// contrast lists texts whose contrast to what is behind them is below 4.5, the
// bound of WCAG AA.
const contrast = `function light(c) {
  var v = c.match(/[\d.]+/g).slice(0, 3).map(function (x) { x /= 255; return x <= 0.03928 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4); });
  return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
}
function fill(e) { return getComputedStyle(e).fill; }
var out = [];
function compare(what, a, b) {
  var x = light(a), y = light(b), r = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  if (r < 4.5) { out.push(what + " " + r.toFixed(2)); }
}
document.querySelectorAll("a.node").forEach(function (n) {
  n.querySelectorAll("text").forEach(function (t) {
    var behind = t.previousElementSibling && t.parentNode.classList.contains("mark") ? t.previousElementSibling : n.querySelector(".card");
    compare(t.textContent, fill(t), fill(behind));
  });
});
document.querySelectorAll("text.port").forEach(function (t) { compare(t.textContent, fill(t), getComputedStyle(t).stroke); });
document.querySelectorAll(".box").forEach(function (g) { compare(g.textContent, fill(g.querySelector("text")), fill(g.querySelector("rect"))); });
document.querySelectorAll("header *, .detail *").forEach(function (e) {
  if (e.children.length === 0 && e.textContent && !e.closest("svg")) {
    var behind = e;
    while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") { behind = behind.parentElement; }
    compare(e.textContent, getComputedStyle(e).color, getComputedStyle(behind || document.body).backgroundColor);
  }
});
return out.slice(0, 20)`

// readWithoutScripts sees every detail in the page itself.
func readWithoutScripts(b *browser, p *plan.Plan, file string) {
	b.devtools("Emulation.setScriptExecutionDisabled", map[string]bool{"value": true})
	defer b.devtools("Emulation.setScriptExecutionDisabled", map[string]bool{"value": false})
	b.open(file, "light")
	var texts []string
	b.run(`return Array.from(document.querySelectorAll(".detail")).filter(function (d) { return d.getBoundingClientRect().height > 0; }).map(function (d) { return d.innerText; })`, &texts)
	if want := len(p.Inputs) + len(p.Nodes) + len(p.Loops) + len(p.Branches); len(texts) != want {
		b.t.Errorf("%d details are there to read, and the plan has %d", len(texts), want)
	}
	for i := range p.Nodes {
		first, _, _ := strings.Cut(p.Nodes[i].Prompt, "\n")
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, view.Safe(first)) }) {
			b.t.Errorf("the prompt of %s is not there to read", p.Nodes[i].ID)
		}
	}
	b.complaints()
}
