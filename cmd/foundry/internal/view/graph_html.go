package view

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"foundry/plan"
)

var (
	//go:embed graph.html
	graphBody string
	//go:embed graph.css
	graphStyle string
	//go:embed graph.js
	graphScript string

	graphTemplate = template.Must(template.New("graph").Parse(graphBody))
)

// graphPage is what the template shows; every text is Safe.
type graphPage struct {
	*picture
	Title, Digest, Summary string
	Tiles                  []shownTile
	Details                []shownDetail
	LoopShown, BranchShown bool
}

type shownTile struct {
	Name, Value string
	Warn        bool
}

// GraphHTML writes a plan as one page that is complete in itself: it asks no
// host for anything, and its policy lets it run its own style and script alone.
func GraphHTML(w io.Writer, p *plan.Plan, digest string) error {
	g := newGraph(p)
	page := graphPage{picture: g.layout(), Title: Safe(p.Pipeline.Name), Digest: digest, LoopShown: len(p.Loops) > 0, BranchShown: len(p.Branches) > 0}
	page.Summary = fmt.Sprintf("%s in %s order, source revision %d", count(len(p.Nodes), "step"), p.Order, p.Pipeline.SourceRevision)
	if p.Pipeline.Scenario != "" {
		page.Summary += ", scenario " + Safe(p.Pipeline.Scenario)
	}
	page.Tiles = tiles(p)
	bundles := map[string]*plan.Bundle{}
	for i := range p.Bundles {
		bundles[p.Bundles[i].ID] = &p.Bundles[i]
	}
	harnesses := map[string]plan.Harness{}
	for _, h := range p.Harnesses {
		harnesses[h.Name] = h
	}
	for _, it := range g.items {
		page.Details = append(page.Details, g.detail(it, bundles, harnesses))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>%s</style>
</head>
`, contentHash(graphStyle), contentHash(graphScript), template.HTMLEscapeString(page.Title), graphStyle)
	if err := graphTemplate.Execute(&b, page); err != nil {
		return err
	}
	fmt.Fprintf(&b, "<script>%s</script>\n</body>\n</html>\n", graphScript)
	_, err := w.Write(b.Bytes())
	return err
}

// contentHash is how a Content-Security-Policy names a text that it lets in.
func contentHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// tiles are what a reviewer asks first: the spend, and what may be reached.
func tiles(p *plan.Plan) []shownTile {
	w := p.WorstCase
	networks, credentials, hosts, sandboxes := map[string]bool{}, map[string]bool{}, 0, map[string]bool{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		networks[n.Sandbox.Network] = true
		sandboxes[n.Sandbox.Mode] = true
		for _, c := range slices.Concat(n.Sandbox.Credentials, n.Sandbox.WorkerCredentials) {
			credentials[c] = true
		}
		if n.Check != nil && n.Check.TrustedHost {
			hosts++
		}
	}
	out := []shownTile{
		{"may cost at most", Dollars(w.CostMicroUSD), false},
		{"if every step spent all", Dollars(w.UncappedCostMicroUSD), false},
		{"may take at most", Seconds(w.WallSeconds), false},
		{"tokens at most", Count(w.Tokens), false},
		{"sandbox", words(sandboxes), sandboxes[plan.SandboxLocal]},
		{"network", words(networks), len(networks) > 1 || !networks[plan.NetworkNone]},
		{"credentials", words(credentials), len(credentials) > 0},
	}
	if hosts > 0 {
		out = append(out, shownTile{"checks on the host", Count(int64(hosts)), true})
	}
	return out
}

// words lists a set.
func words(set map[string]bool) string {
	var out []string
	for w := range set {
		out = append(out, Safe(w))
	}
	if slices.Sort(out); len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
