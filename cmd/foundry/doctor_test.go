package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/cmd/foundry/internal/view"
	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/containerd"
	"foundry/sandbox/local"
)

// needy is a plan that needs what few machines have.
func needy() *plan.Plan {
	node := func(id string, change func(*plan.Node)) plan.Node {
		n := plan.Node{ID: id, Kind: plan.NodeAgent, Harness: "paid", Process: plan.Process{Argv: []string{"{foundry}"}},
			Sandbox: plan.Sandbox{Mode: plan.SandboxLocal, Network: plan.NetworkNone}}
		change(&n)
		return n
	}
	return &plan.Plan{
		Pipeline:  plan.Pipeline{Name: "needy"},
		Providers: []plan.Provider{{Name: "api", Credential: "FOUNDRY_TEST_KEY"}, {Name: "unused", Credential: "FOUNDRY_TEST_UNUSED"}},
		Harnesses: []plan.Harness{{Name: "paid", Adapter: "nobody", Provider: "api"}, {Name: "free", Adapter: "scripted", Version: "99"}},
		Nodes: []plan.Node{
			node("here", func(n *plan.Node) { n.Process.Argv[0] = "foundry-test-no-such-program" }),
			node("there", func(n *plan.Node) {
				n.Sandbox = plan.Sandbox{Mode: plan.SandboxContainer, Network: plan.NetworkBridge, Credentials: []string{"FOUNDRY_TEST_KEY"}, WorkerCredentials: []string{"FOUNDRY_TEST_INSIDE"}}
			}),
			node("check", func(n *plan.Node) { n.Harness, n.Sandbox.Credentials = "", []string{"FOUNDRY_TEST_KEY"} }),
		},
	}
}

func TestDiagnose(t *testing.T) {
	t.Setenv("FOUNDRY_TEST_KEY", "secret-value")
	t.Setenv("FOUNDRY_TEST_INSIDE", "")
	bad := containerd.Machine{Facts: []containerd.Fact{
		{Name: "root", State: containerd.FactOK},
		{Name: "runc", State: containerd.FactMissing, Detail: "not found on the PATH", Fix: "install it", Package: "runc"},
	}}
	d := diagnose(needy(), bad)
	want := []view.DoctorCredential{
		{Name: "FOUNDRY_TEST_INSIDE", For: []string{"harness paid"}},
		{Name: "FOUNDRY_TEST_KEY", Set: true, For: []string{"harness paid", "step check"}},
	}
	if len(d.Credentials) != 2 || d.Credentials[0].Name != want[0].Name || d.Credentials[0].Set || !d.Credentials[1].Set || !slices.Equal(d.Credentials[1].For, want[1].For) {
		t.Errorf("credentials %+v, not %+v", d.Credentials, want)
	}
	if !slices.Equal(d.Modes, []string{plan.SandboxContainer, plan.SandboxLocal}) {
		t.Errorf("sandboxes %v", d.Modes)
	}
	all := strings.Join(d.Problems, "\n")
	for _, problem := range []string{"containers: runc: not found", "FOUNDRY_TEST_INSIDE is not set", `adapter "nobody"`, "harness free: ", `network "bridge"`, "foundry-test-no-such-program"} {
		if strings.Count(all, problem) != 1 {
			t.Errorf("%q is not told once: %s", problem, all)
		}
	}
	if len(d.Problems) != 6 || strings.Contains(all, "secret-value") {
		t.Errorf("problems: %s", all)
	}
	if again := diagnose(needy(), bad); !slices.Equal(again.Problems, d.Problems) {
		t.Error("two diagnoses differ")
	}
	if good := diagnose(needy(), containerd.Machine{}); len(good.Problems) != 5 {
		t.Errorf("with containers: %v", good.Problems)
	}
}

// An output that does not fit into memory needs a file system on disk.
func TestDiagnoseDisk(t *testing.T) {
	p := &plan.Plan{Nodes: []plan.Node{{ID: "big", Process: plan.Process{Argv: []string{"x"}}, Budget: plan.NodeBudget{OutputBytes: 2 << 30},
		Sandbox: plan.Sandbox{Mode: plan.SandboxContainer, Network: plan.NetworkNone, Resources: plan.Resources{MemoryBytes: 1 << 30}}}}}
	m := containerd.Machine{Facts: []containerd.Fact{{Name: "mkfs.ext4", State: containerd.FactWarning, Detail: "not found"}}}
	if d := diagnose(p, m); len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "step big") || !strings.Contains(d.Problems[0], "mkfs.ext4: not found") {
		t.Errorf("%v", d.Problems)
	}
	m.Facts[0].State = containerd.FactOK
	if d := diagnose(p, m); len(d.Problems) != 0 {
		t.Errorf("with it: %v", d.Problems)
	}
	m.Facts[0].State, p.Nodes[0].Budget.OutputBytes = containerd.FactWarning, 1<<20
	if d := diagnose(p, m); len(d.Problems) != 0 {
		t.Errorf("of a small one: %v", d.Problems)
	}
}

// The words on a machine that lacks things, with a plan that lacks more.
func TestDoctorGolden(t *testing.T) {
	t.Setenv("FOUNDRY_TEST_KEY", "secret-value")
	t.Setenv("FOUNDRY_TEST_INSIDE", "")
	m := containerd.Machine{Facts: []containerd.Fact{
		{Name: "system", State: containerd.FactOK, Detail: "linux/amd64, kernel 6.1"},
		{Name: "root", State: containerd.FactMissing, Detail: "uid 1000", Fix: "run as root, or use --sandbox local"},
		{Name: "runc", State: containerd.FactMissing, Detail: "not found on the PATH", Fix: "install it", Package: "runc"},
		{Name: "mkfs.ext4", State: containerd.FactWarning, Detail: "not found", Fix: "install it", Package: "e2fsprogs"},
	}}
	// Without what others word, or build.
	lacking := needy()
	lacking.Harnesses, lacking.Nodes[1].Sandbox.Network = lacking.Harnesses[:1], plan.NetworkNone
	p := diagnose(lacking, m)
	p.Digest = "sha256:0"
	var got bytes.Buffer
	lines := []sandbox.Property{{Name: sandbox.PropWall, State: sandbox.Enforced, Detail: "x"}, {Name: sandbox.PropMemory, State: sandbox.NotEnforced}}
	for _, d := range []view.Doctor{
		{Machine: m.Facts, Install: toInstall(m.Facts), Properties: bothProperties(lines, nil), Plan: &p},
		{Containers: true, Properties: bothProperties(lines, lines), Plan: &view.DoctorPlan{Pipeline: "good\x1b[2J", Digest: "sha256:1", Modes: []string{"local"}, Runs: true}},
	} {
		if err := view.WriteDoctor(&got, d); err != nil {
			t.Fatal(err)
		}
	}
	golden := filepath.Join("testdata", "doctor.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got\n%s\nnot\n%s", got.Bytes(), want)
	}
	if strings.Contains(got.String(), "secret-value") || strings.Contains(got.String(), "\x1b") {
		t.Error("a value or a control character was printed")
	}
}

// Every property that a runtime reports is foretold for both.
func TestBothProperties(t *testing.T) {
	list := bothProperties(local.Properties(), nil)
	if len(list) != len(local.Properties()) || len(list) < 12 {
		t.Fatalf("%+v", list)
	}
	for _, p := range list {
		if p.Container != view.DoctorUnavailable || p.Local == "" {
			t.Errorf("%+v", p)
		}
	}
}
