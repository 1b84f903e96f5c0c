package compile_test

import (
	"strings"
	"testing"

	"foundry/plan"
)

// What is not written is the least privilege, and what is written is in the
// plan, of the node that it is written for alone.
func TestSandboxIsWhatIsWritten(t *testing.T) {
	got := valid(t, two().compile(t, first))
	for _, n := range got.Nodes {
		s := n.Sandbox
		if s.Mode != plan.SandboxLocal || s.Network != plan.NetworkNone || s.AllowShell || s.AllowFetch || len(s.Credentials)+len(s.WorkerCredentials)+len(s.EgressHosts) != 0 {
			t.Errorf("%s: %+v", n.ID, s)
		}
	}
	got = valid(t, two().compile(t, agentBlocks+`
sandbox {
  memory = "1GiB"
  image  = "`+testImage+`"
}
phase "a" {
  inputs  = []
  harness = "real"
  sandbox {
    network            = "egress"
    egress_hosts       = ["two.example", "one.example:8443"]
    credentials        = ["LAB_KEY"]
    worker_credentials = ["OWN_KEY"]
    allow_fetch        = true
    pids               = 7
  }
  check "good" { argv = ["npx", "good", "{in:x}"] }
}
`))
	a, b, k := node(t, got, "a").Sandbox, node(t, got, "b").Sandbox, node(t, got, "a.good").Sandbox
	if a.Network != plan.NetworkEgress || strings.Join(a.EgressHosts, " ") != "one.example:8443 two.example" ||
		strings.Join(a.Credentials, " ") != "LAB_KEY" || strings.Join(a.WorkerCredentials, " ") != "OWN_KEY" || !a.AllowFetch || a.Resources.PIDs != 7 || a.Resources.MemoryBytes != 1<<30 {
		t.Errorf("a: %+v", a)
	}
	if b.Network != plan.NetworkNone || b.AllowFetch || len(b.Credentials)+len(b.WorkerCredentials)+len(b.EgressHosts) != 0 || b.Resources.PIDs != 256 || b.Resources.MemoryBytes != 1<<30 {
		t.Errorf("b: %+v", b)
	}
	// A check never has a network or a credential, whatever its phase has.
	if k.Network != plan.NetworkNone || len(k.Credentials)+len(k.WorkerCredentials)+len(k.EgressHosts) != 0 || k.Resources.PIDs != 7 {
		t.Errorf("a.good: %+v", k)
	}
}

func TestCheckOfItsOwnBudget(t *testing.T) {
	got := valid(t, one().compile(t, `phase "a" {
  inputs = []
  check "good" {
    argv     = ["good"]
    blocking = false
    budget { wall = "7s" }
  }
}`))
	n := node(t, got, "a.good")
	if n.Budget.WallSeconds != 7 || n.Budget.Turns != 0 || n.Budget.CostMicroUSD != 0 || n.Check.Blocking {
		t.Errorf("check: %+v %+v", n.Budget, n.Check)
	}
	if a := node(t, got, "a"); a.Budget.WallSeconds != 60 {
		t.Errorf("a: %+v", a.Budget)
	}
}

func TestKindsOfInputs(t *testing.T) {
	for file, want := range map[string]string{
		"q.json": plan.KindJSON, "q.yml": plan.KindYAML, "q.YAML": plan.KindYAML, "q.md": plan.KindMarkdown,
		"q.txt": plan.KindText, "q.bin": plan.KindFile, "q": plan.KindFile, "q.d/one": plan.KindDirectory,
	} {
		p := newPipe().phase("a", []string{"x"}, []string{"q"})
		p.put(file, "{}")
		name := strings.TrimSuffix(file, "/one")
		got := valid(t, p.compile(t, "input \"q\" { path = \""+name+"\" }\n"))
		if in := got.Inputs[0]; in.Kind != want || in.Kind != plan.KindDirectory && in.Filename != name {
			t.Errorf("%s: %+v, want %s", file, in, want)
		}
		if in := input(node(t, got, "a"), "q"); in.Kind != want {
			t.Errorf("%s is read as %s", file, in.Kind)
		}
	}
	p := newPipe().phase("a", []string{"x"}, []string{"q"})
	p.put("q.bin", "{}")
	if got := valid(t, p.compile(t, "input \"q\" {\n  path = \"q.bin\"\n  kind = \"json\"\n}\n")); got.Inputs[0].Kind != plan.KindJSON {
		t.Errorf("kind: %+v", got.Inputs[0])
	}
}

// Models are listed once each, sorted, whatever the order of the harnesses.
func TestModelsOfOneProvider(t *testing.T) {
	model := func(name, id string) string {
		return "harness \"" + name + "\" {\n  adapter  = \"agent\"\n  version  = \"1\"\n  provider = \"lab\"\n  model    = \"" + id + "\"\n}\n"
	}
	p := newPipe().phase("a", []string{"x"}, nil).phase("b", []string{"y"}, []string{"x"}).phase("c", []string{"z"}, []string{"y"}).phase("d", []string{"w"}, []string{"z"})
	got := valid(t, p.compile(t, agentBlocks+model("h1", "small")+model("h2", "large")+model("h3", "large")+`
sandbox { network = "provider" }
phase "a" {
  inputs  = []
  harness = "h1"
}
phase "b" { harness = "h2" }
phase "c" { harness = "h3" }
`))
	if len(got.Providers) != 1 || len(got.Providers[0].Models) != 2 || got.Providers[0].Models[0].ID != "large" || got.Providers[0].Models[1].ID != "small" {
		t.Errorf("providers: %+v", got.Providers)
	}
	// a: 1000 tokens of at most 2 micro-dollars each; b, c: of 9; d has no price,
	// so that its budget holds.
	if w := got.WorstCase; w.UncappedCostMicroUSD != 2000+9000+9000+100000 || w.CostMicroUSD != w.UncappedCostMicroUSD || w.UncappedTokens != 4000 {
		t.Errorf("worst case: %+v", w)
	}
}

// The worst case counts every round and every alternative, and never wraps.
func TestWorstCase(t *testing.T) {
	p, policy := wholePipe()
	got := valid(t, p.compile(t, policy))
	// summarize, 7 rounds of three, two alternatives, finish, summarize#2.
	if w, want := got.WorstCase, int64((1+7*3+2+1+1)*100000); w.UncappedCostMicroUSD != want || w.CostMicroUSD != want {
		t.Errorf("worst case: %+v, want %d", w, want)
	}
	p = newPipe()
	p.loop("l", []string{"d"}, nil)
	p.common = strings.NewReplacer(`"0.10"`, `"5000"`, `"10.00"`, `"1000000"`).Replace(p.common)
	got = valid(t, p.compile(t, "loop \"l\" {\n  inputs         = []\n  max_iterations = 10000\n  until          = iteration > 1\n}\n"))
	if w := got.WorstCase; w.UncappedCostMicroUSD != 50_000_000_000_000 || w.CostMicroUSD != 1_000_000_000_000 {
		t.Errorf("worst case: %+v", w)
	}
}
