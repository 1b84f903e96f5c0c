package compile_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/compile"
	"foundry/plan"
)

const testImage = "lab.example/agent@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// conforming is a policy that keeps to baseline and conformance.
const conforming = agentBlocks + `
sandbox {
  mode    = "container"
  image   = "` + testImage + `"
  network = "provider"
}
phase "a" {
  harness = "real"
  inputs  = []
  check "fine" {
    argv = ["check", "{out}/x.json"]
  }
}
guards = ["baseline", "conformance"]
`

// untrusted is a policy that keeps to untrusted-pull-request.
const untrusted = `
sandbox {
  mode    = "container"
}
phase "a" { inputs = [] }
guards = ["untrusted-pull-request"]
`

// breaking says for each built-in guard how a policy or, where the compiler
// already refuses such a policy, a plan breaks it.
var breaking = map[string]struct {
	policy   string
	from, to string           // in the policy
	edit     func(*plan.Plan) // or of the plan
}{
	"baseline/no-shell":                  {conforming, `["check",`, `["sh",`, nil},
	"baseline/no-fetch":                  {conforming, `["check",`, `["npx",`, nil},
	"baseline/image-by-digest":           {conforming, "", "", func(p *plan.Plan) { p.Nodes[0].Sandbox.Image = "lab.example/agent:1" }},
	"baseline/finite-budgets":            {conforming, "", "", func(p *plan.Plan) { p.Nodes[0].Budget.WallSeconds = 0 }},
	"baseline/no-bridge-with-credential": {conforming, `network = "provider"`, "network = \"bridge\"\n  credentials = [\"LAB_KEY\"]", nil},
	"baseline/no-host-checks":            {conforming, `argv = ["check", "{out}/x.json"]`, "argv = [\"check\", \"{out}/x.json\"]\n    trusted_host = true", nil},

	"conformance/container":           {conforming, `mode    = "container"`, `mode    = "local"`, nil},
	"conformance/real-image":          {conforming, "", "", func(p *plan.Plan) { p.Nodes[0].Sandbox.Image = plan.ImageBuiltin }},
	"conformance/activation-required": {conforming, `harness = "real"`, "harness = \"real\"\n  require_activation = false", nil},
	"conformance/one-submission":      {conforming, `harness = "real"`, "harness = \"real\"\n  submit_attempts = 3", nil},
	"conformance/assembly-order":      {conforming, `guards =`, "order  = \"dataflow\"\nguards =", nil},

	"untrusted-pull-request/no-credential": {untrusted, "", "", func(p *plan.Plan) { p.Nodes[0].Sandbox.Credentials = []string{"LAB_KEY"} }},
	"untrusted-pull-request/no-network":    {untrusted, `mode    = "container"`, "mode    = \"container\"\n  network = \"bridge\"", nil},
	"untrusted-pull-request/no-real-agent": {untrusted, "", "", func(p *plan.Plan) { p.Harnesses[0].TestStub = false }},
}

func guarded() *pipe { return newPipe().phase("a", []string{"x"}, nil) }

// Every guard of every built-in set is kept by one policy and broken by another.
func TestBuiltinGuards(t *testing.T) {
	broken := map[string]bool{}
	for _, policy := range []string{conforming, untrusted} {
		for _, g := range guarded().mustCompile(t, policy).Guards {
			if g.Result != plan.GuardPass || g.Set == "" {
				t.Errorf("%+v", g)
			}
			broken[g.Set+"/"+g.Name] = false
		}
	}
	for name, c := range breaking {
		set, guard, _ := strings.Cut(name, "/")
		if _, known := broken[name]; !known {
			t.Errorf("there is no guard %s", name)
		}
		broken[name] = true
		if c.edit != nil {
			p := guarded().mustCompile(t, c.policy)
			if err := compile.RecheckGuards(context.Background(), p); err != nil {
				t.Errorf("%s: before the change: %v", name, err)
			}
			c.edit(p)
			err := compile.RecheckGuards(context.Background(), p)
			if err == nil || !strings.Contains(err.Error(), guard+" of the set "+set) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !strings.Contains(c.policy, c.from) {
			t.Fatalf("%s: %q does not stand in the policy", name, c.from)
		}
		policy := strings.Replace(c.policy, c.from, c.to, 1)
		if strings.HasPrefix(guard, "no-shell") || guard == "no-fetch" {
			word := strings.TrimPrefix(guard, "no-")
			policy = strings.Replace(policy, `mode    = "container"`, "mode    = \"container\"\n  allow_"+word+" = true", 1)
		}
		res := guarded().compile(t, policy)
		said := false
		for _, d := range res.Diagnostics {
			said = said || d.Severity == compile.Error && d.Summary == "Guard broken" && strings.Contains(d.Detail, "`"+guard+"` of the set `"+set+"`") && d.Subject.Start.Line > 0
		}
		if !said || res.Plan != nil {
			t.Errorf("%s is not broken:\n%s", name, show(res.Diagnostics))
		}
	}
	for name, done := range broken {
		if !done {
			t.Errorf("nothing breaks %s", name)
		}
	}
}

// Each built-in guard has a page, and no page is of another.
func TestGuardPages(t *testing.T) {
	dir := filepath.Join("..", "docs", "guards")
	pages := map[string]bool{}
	for name := range breaking {
		page := strings.ReplaceAll(name, "/", ".") + ".md"
		pages[page] = true
		data, err := os.ReadFile(filepath.Join(dir, page))
		set, guard, _ := strings.Cut(name, "/")
		if err != nil || !strings.HasPrefix(string(data), "# "+guard+" ("+set+")\n") {
			t.Errorf("%s: %v", page, err)
		}
		rules, err := os.ReadFile(filepath.Join("..", "policies", set+".hcl"))
		_, shown, _ := strings.Cut(string(data), "```hcl\n")
		shown, _, _ = strings.Cut(shown, "```")
		if err != nil || shown == "" || !strings.Contains(string(rules), shown) {
			t.Errorf("%s does not show the rule as it is", page)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !pages[f.Name()] {
			t.Errorf("%s is the page of no guard", f.Name())
		}
	}
}

func own(assert string) string {
	return first + "guard \"mine\" {\n  assert  = " + assert + "\n  message = \"No.\"\n}\n"
}

// A guard that could not be red is an error.
func TestGuardsThatSayNothing(t *testing.T) {
	for name, c := range map[string]struct{ assert, summary, detail string }{
		"unknown key":         {`alltrue([for n in plan.nodes : n.budget.wal_seconds <= 1])`, "Unknown key", `Did you mean "wall_seconds"?`},
		"hidden unknown key":  {`alltrue([for n in plan.nodes : true || n.nothing])`, "Unknown key", `no key "nothing"`},
		"unknown key, no one": {`length([for b in plan.branches : b.name]) == 0`, "Unknown key", `no key "name"`},
		"in another arm":      {`plan.order == "assembly" ? true : plan.ordre == ""`, "Unknown key", `Did you mean "order"?`},
		"its own verdicts":    {`length(plan.guards) == 0`, "Unknown key", `no key "guards"`},
		"nothing kept":        {`alltrue([for n in plan.nodes : false if n.id == "nope"])`, "Guard looks at nothing", "misspelled"},
		"nothing there":       {`alltrue([for b in plan.branches : false])`, "Guard looks at nothing", "take the guard out"},
		"no plan":             {`true`, "Guard without the plan", "whatever the plan says"},
		"no bool":             {`plan.order`, "Not a bool", "this is a string"},
		"null":                {`plan.package`, "Not a bool", "this is null"},
		"unknown function":    {`always(plan.order)`, "Unknown function", "always"},
		"unknown name":        {`alltrue([for n in nodes : true])`, "Unknown name", "nodes"},
		"null inside":         {`plan.nodes[0].check.blocking`, "Not an element", "null"},
	} {
		t.Run(name, func(t *testing.T) { guarded().refused(t, own(c.assert), c.summary, c.detail) })
	}
	guarded().refused(t, first+"guards = []\n", "No set of guards", "nothing would be checked")
	guarded().refused(t, first+"guards = [\"base\"]\n", "Unknown set of guards", `baseline`)
	guarded().refused(t, own(`alltrue([for n in plan.nodes : n.id == "b"])`), "Guard broken", "`mine`: a. No.")
}

// A word that is no severity is none, and a bound that is not known is no bound
// (A10, A14).
func TestWordsAreClosed(t *testing.T) {
	for _, word := range []string{`"blok"`, `"Error"`, `""`, `null`, `"maybe"`} {
		res := guarded().compile(t, strings.Replace(own(`plan.order == "assembly"`), "message", "severity = "+word+"\n  message ", 1))
		if res.Plan != nil {
			t.Errorf("severity = %s compiles", word)
		}
	}
	for name, c := range map[string]struct{ value, decl string }{
		"unset": {"var.most", "variable \"most\" { type = string }\n"},
		"null":  {"null", ""},
		"empty": {`""`, ""},
		"text":  {`"much"`, ""},
		"zero":  {`"0"`, ""},
	} {
		p := guarded()
		p.common = strings.Replace(p.common, `cost_usd = "10.00"`, "cost_usd = "+c.value, 1)
		if res := p.compile(t, first+c.decl); res.Plan != nil {
			t.Errorf("%s: a cost that nobody knows compiles to %d", name, res.Plan.Budget.CostMicroUSD)
		}
	}
}

// A warning is in the plan, and the plan is there.
func TestGuardWarning(t *testing.T) {
	policy := strings.Replace(own(`plan.order == "dataflow"`), "message", "severity = \"warning\"\n  message ", 1)
	res := guarded().compile(t, policy)
	if res.Plan == nil || len(res.Plan.Guards) != 1 || res.Plan.Guards[0].Result != plan.GuardWarn || !strings.Contains(show(res.Diagnostics), "Guard broken") {
		t.Fatalf("%+v\n%s", res.Plan, show(res.Diagnostics))
	}
}

// Layout and comments do not change what a guard is; a value that it takes from
// elsewhere does.
func TestGuardDigest(t *testing.T) {
	digest := func(policy string) string { return guarded().mustCompile(t, policy).Guards[0].Digest }
	const assert = `length(plan.nodes) <= local.most`
	a := digest(own(assert) + "locals { most = 5 }\n")
	if b := digest(own("length( plan.nodes )<=local.most // enough") + "locals { most = 5 }\n"); a != b {
		t.Error("layout changes the digest")
	}
	if b := digest(own(assert) + "locals { most = 6 }\n"); a == b {
		t.Error("a local's value does not change the digest")
	}
}
