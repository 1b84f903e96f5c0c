package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The plans of the golden files are built here by hand. They are also what the
// tests of Validate break, one thing at a time.

func digestOf(text string) string { return Digest([]byte(text)) }

func bundleOf(id string, files ...string) Bundle {
	b := Bundle{ID: id}
	for _, f := range files {
		if dir, ok := strings.CutSuffix(f, "/"); ok {
			b.Files = append(b.Files, BundleFile{Path: dir, Mode: ModeDir})
			continue
		}
		b.Files = append(b.Files, BundleFile{Path: f, Mode: ModeRegular, Bytes: int64(len(f)), Digest: digestOf(f)})
	}
	b.Digest, _ = TreeDigest(b.Files)
	return b
}

func skillBundle(name string) Bundle {
	b := bundleOf("skill:"+name, "SKILL.md", "_provenance.json", "references/empty/", "scripts/run.py")
	b.Files[3].Mode = ModeExecutable
	b.Digest, _ = TreeDigest(b.Files)
	b.Mold = &Mold{Name: name, Revision: 3, Commit: "0f0e0d", ContentHash: "abc", ProvenanceDigest: digestOf(name)}
	return b
}

func lit(kind, value string) Expr { return Expr{Op: OpLiteral, Literal: &Literal{kind, value}} }
func out(name, field, pointer string) Expr {
	return Expr{Op: OpFact, Fact: &Fact{Source: FactOutput, Name: name, Field: field, Pointer: pointer}}
}
func check(name, field, pointer string) Expr {
	return Expr{Op: OpFact, Fact: &Fact{Source: FactCheck, Name: name, Field: field, Pointer: pointer}}
}
func op(name string, args ...Expr) Expr { return Expr{Op: name, Args: args} }

func agentBudget() NodeBudget {
	return NodeBudget{WallSeconds: 600, Turns: 60, ToolCalls: 200, Tokens: 400_000, CostMicroUSD: 3_000_000, OutputBytes: 64 << 20, OutputFiles: 64}
}

func standardMounts() []Mount {
	return []Mount{
		{Source: MountOutput, Destination: "/out", Mode: MountReadWrite, Bytes: 64 << 20},
		{Source: MountScratch, Destination: "/scratch", Mode: MountReadWrite, Bytes: 256 << 20},
		{Source: MountTmpfs, Destination: "/tmp", Mode: MountReadWrite, Bytes: 256 << 20},
	}
}

var sampleImage = "images.example/agents/pi@" + digestOf("image")

// agent is a whole node in a container; inputs are "artifact=from".
func agent(id string, phase int64, inputs []string, outputs ...string) Node {
	skill := id[strings.LastIndexByte(id, '/')+1:]
	skill, _, _ = strings.Cut(skill, "#")
	n := Node{
		ID: id, Kind: NodeAgent, Phase: phase, Skill: "skill:" + skill, Harness: "medium",
		Prompt: "Use the skill in {skill} and write to {out}.\nBraces as in {\"a\": {}} stay.",
		Process: Process{
			Argv: []string{"pi", "--mode", "rpc", "--session-dir", "{scratch}/sessions"},
			Env:  []string{"ANTHROPIC_API_KEY={broker.token}", "ANTHROPIC_BASE_URL={broker.url}", "HOME={scratch}", "PATH=/usr/local/bin:/usr/bin:/bin"},
			Cwd:  "{scratch}", User: "65534:65534",
		},
		Files: []File{{Path: "{scratch}/config/models.json", Content: "{\"url\": \"{broker.url}\"}\n"}},
		Sandbox: Sandbox{
			Mode: SandboxContainer, Image: sampleImage, Network: NetworkProvider, Credentials: []string{"ANTHROPIC_API_KEY"},
			Mounts:    append([]Mount{{Source: "skill:" + skill, Destination: "/skills/" + skill, Mode: MountReadOnly}}, standardMounts()...),
			Resources: Resources{MemoryBytes: 2 << 30, PIDs: 256, CPUMillis: 1000},
		},
		Budget: agentBudget(), SubmitAttempts: 1,
	}
	for _, in := range inputs {
		artifact, from, _ := strings.Cut(in, "=")
		addInput(&n, NodeInput{Artifact: artifact, From: from, Required: from != FromNone, Kind: KindJSON, Path: artifact + ".json"})
		if kind, id, _ := strings.Cut(from, ":"); kind == "node" || kind == "branch" {
			n.Needs = append(n.Needs, id)
		}
	}
	slices.Sort(n.Needs)
	n.Needs = slices.Compact(n.Needs)
	for _, o := range outputs {
		n.Outputs = append(n.Outputs, NodeOutput{Artifact: o, Filename: o + ".json", Kind: KindJSON, Required: RequiredAlways})
	}
	return n
}

func addInput(n *Node, in NodeInput) {
	n.Inputs = append(n.Inputs, in)
	if in.From != FromNone || in.CarriedFrom != "" {
		n.Sandbox.Mounts = append(n.Sandbox.Mounts, Mount{Source: "in:" + in.Artifact, Destination: "/in/" + in.Artifact, Mode: MountReadOnly})
	}
}

func checkNode(of, name, tool string, input NodeInput) Node {
	n := Node{
		ID: of + "." + name, Kind: NodeCheck, Phase: 1, Needs: []string{of},
		Check:          &Check{Name: name, Of: of, Tool: tool, Blocking: true},
		Process:        Process{Argv: []string{"planemo", "lint", "{in:" + input.Artifact + "}"}, Env: []string{"HOME={scratch}"}, Cwd: "{scratch}", User: "65534:65534"},
		Sandbox:        Sandbox{Mode: SandboxContainer, Image: ImageBuiltin, Network: NetworkNone, Mounts: standardMounts(), Resources: Resources{MemoryBytes: 1 << 30, PIDs: 64, CPUMillis: 1000}},
		Budget:         NodeBudget{WallSeconds: 60, OutputBytes: 1 << 20, OutputFiles: 1},
		SubmitAttempts: 1,
	}
	a := op(OpEq, check(name, "exit_code", ""), lit(TypeNumber, "0"))
	n.Check.Assert = &a
	addInput(&n, input)
	return n
}

// frame is a plan without nodes.
func frame(name string) *Plan {
	return &Plan{
		FormatVersion: FormatVersion, Mode: ModeTrace, Order: OrderAssembly,
		Pipeline: Pipeline{Name: name, SourceRevision: 4, Digest: digestOf(name)},
		Providers: []Provider{{
			Name: "anthropic", API: "anthropic-messages", BaseURL: "https://api.anthropic.example", Credential: "ANTHROPIC_API_KEY",
			Models: []Model{{ID: "model-1", MaxOutput: 32_000, Price: Price{Input: "3", Output: "15", CacheRead: "0.3", CacheWrite: "3.75"}}},
		}},
		Harnesses: []Harness{{Name: "medium", Adapter: "pi", Version: "0.84.4", Provider: "anthropic", Model: "model-1", Thinking: "medium", Tools: []string{"bash", "edit", "read", "write"}}},
		Budget:    RunBudget{WallSeconds: 7200, CostMicroUSD: 25_000_000, Tokens: 4_000_000, Unknown: UnknownFail},
		WorstCase: WorstCase{UncappedCostMicroUSD: 31_000_000, CostMicroUSD: 25_000_000, UncappedWallSeconds: 6000, WallSeconds: 6000, UncappedTokens: 4_000_000, Tokens: 4_000_000},
	}
}

// withBundles adds the bundles of every skill that a node names.
func withBundles(p *Plan, more ...Bundle) *Plan {
	p.Bundles = append(p.Bundles, more...)
	seen := map[string]bool{}
	for _, n := range p.Nodes {
		for _, id := range append([]string{n.Skill}, n.NestedSkills...) {
			if name, ok := strings.CutPrefix(id, "skill:"); ok && !seen[id] {
				seen[id] = true
				p.Bundles = append(p.Bundles, skillBundle(name))
			}
		}
	}
	slices.SortFunc(p.Bundles, func(a, b Bundle) int { return strings.Compare(a.ID, b.ID) })
	return p
}

func sourceInput(id string) (Input, Bundle) {
	return Input{ID: id, Bundle: "input:" + id, Kind: KindJSON, Filename: id + ".json"}, bundleOf("input:"+id, id+".json")
}

// minimal is the smallest plan: one local test stub.
func minimal() *Plan {
	p := frame("minimal")
	p.Providers = nil
	p.Harnesses = []Harness{{Name: "stub", Adapter: "scripted", Version: "1", TestStub: true}}
	n := agent("hello", 1, nil, "greeting")
	n.Harness, n.Prompt = "stub", ""
	n.Process = Process{Argv: []string{"{foundry}", "worker", "--test-stub"}, Cwd: "{scratch}"}
	n.Files = nil
	n.Sandbox.Mode, n.Sandbox.Image, n.Sandbox.Network, n.Sandbox.Credentials = SandboxLocal, "", NetworkNone, nil
	p.Nodes = []Node{n}
	return withBundles(p)
}

// everyOp is a predicate that holds every operator over the artifact doc and
// the check lint.
func everyOp() Expr {
	worker := Expr{Op: OpFact, Fact: &Fact{Source: FactWorker, Field: "status"}}
	iteration := Expr{Op: OpFact, Fact: &Fact{Source: FactIteration}}
	item := Expr{Op: OpItem, Pointer: "/st~1ate"}
	return op(OpAll,
		op(OpExists, out("doc", "exists", "")),
		op(OpAny, op(OpEq, worker, lit(TypeString, "settled")), op(OpNe, out("doc", "json", "/done"), lit(TypeNull, ""))),
		op(OpNot, op(OpLt, iteration, lit(TypeNumber, "-1.5"))),
		op(OpLe, out("doc", "bytes", ""), lit(TypeNumber, "9007199254740993")),
		op(OpGt, op(OpLength, out("doc", "json", "/steps")), lit(TypeNumber, "0")),
		op(OpGe, check("lint", "exit_code", ""), lit(TypeNumber, "0")),
		op(OpContains, check("lint", "stdout", ""), lit(TypeString, "ok <&> \u2028")),
		op(OpMatches, check("lint", "json", "/verdict"), lit(TypeString, "^(ok|fine)$")),
		op(OpEvery, out("doc", "json", "/steps"), op(OpEq, item, lit(TypeBool, "true"))),
		op(OpSome, out("doc", "yaml", ""), op(OpExists, Expr{Op: OpItem})),
	)
}

// full has every feature of a trace.
func full() *Plan {
	p := frame("full")
	p.Order = OrderDataflow
	p.Pipeline.Options, p.Pipeline.Scenario = []string{"checkpoint", "use-subagents"}, "small"
	in, inBundle := sourceInput("source")
	refs, refsBundle := sourceInput("refs")
	p.Inputs = []Input{refs, in}
	p.Harnesses = append(p.Harnesses, Harness{Name: "stub", Adapter: "scripted", Version: "1", TestStub: true})

	first := agent("summarize", 1, []string{"source=input:source"}, "summary")
	first.Outputs[0].Schema = "schema:summary"
	first.Outputs = append(first.Outputs, NodeOutput{Artifact: "notes", Filename: "docs/notes é.md", Kind: KindMarkdown, Required: Optional})
	first.NotApplicable = []string{"paper-brief"}
	first.NestedSkills = []string{"skill:helper"}
	first.Sandbox.Mounts = append(first.Sandbox.Mounts, Mount{Source: "skill:helper", Destination: "/skills/helper", Mode: MountReadOnly})
	first.Prompt += " Also {skill:helper} and {in:source}."
	first.RequireActivation, first.SubmitAttempts = true, 3

	// A loop over a body of three, with a check in it.
	draft := agent("draft", 2, []string{"summary=node:summarize"}, "doc")
	addInput(&draft, NodeInput{Artifact: "review", From: FromNone, CarriedFrom: "review", Kind: KindJSON, Path: "review.json"})
	refine := agent("refine", 3, []string{"doc=node:draft"}, "doc")
	refine.Sandbox.Network, refine.Sandbox.EgressHosts = NetworkEgress, []string{"*.files.example:443", "index.example"}
	refine.Sandbox.WorkerCredentials = []string{"FILES_TOKEN"}
	review := agent("review", 4, []string{"doc=node:refine"}, "review")
	review.Outputs = append(review.Outputs, NodeOutput{Artifact: "final", Filename: "final.json", Kind: KindJSON, Required: RequiredAtEnd})
	lint := checkNode("review", "lint", "planemo", NodeInput{Artifact: "doc", From: "node:refine", Required: true, Kind: KindJSON, Path: "doc.json", Schema: "schema:summary"})
	p.Loops = []Loop{{ID: "polish", Body: []string{"draft", "refine", "review", "review.lint"}, Until: everyOp(), MaxIterations: MaxIterations, Carries: []string{"doc", "review"}}}

	// A branch with a check of an alternative.
	byDraft := agent("test-data/derive", 5, []string{"final=node:review"}, "data")
	byDraft.Needs = []string{"polish"}
	find := agent("test-data/find", 5, []string{"final=node:review"}, "data")
	find.Needs = []string{"polish", "test-data/derive"}
	find.Harness = "stub"
	find.Process.Argv = []string{"{foundry}", "worker", "--test-stub", "--recorded", "{recorded}/find"}
	find.Sandbox.Mounts = append(find.Sandbox.Mounts, Mount{Source: "recorded:find", Destination: "/recorded", Mode: MountReadOnly})
	p.Branches = []Branch{{ID: "test-data", Pattern: "test-data-resolution", Alternatives: []string{"test-data/derive", "test-data/find"},
		Accept: op(OpGt, op(OpLength, out("data", "json", "/refs")), lit(TypeNumber, "0")), Otherwise: "input:refs", Artifacts: []string{"data"}}}

	again := agent("summarize#2", 6, []string{"data=branch:test-data", "summary=node:summarize"}, "report")
	again.Outputs[0].Kind, again.Outputs[0].Filename = KindDirectory, "report"
	host := checkNode("summarize#2", "size", "", NodeInput{Artifact: "report", From: "node:summarize#2", Required: true, Kind: KindDirectory})
	host.Sandbox.Mode, host.Sandbox.Image, host.Check.TrustedHost, host.Check.Blocking = SandboxLocal, "", true, false
	host.Process.Argv[0] = "bash"
	host.Sandbox.AllowShell = true
	judge := agent("judge", 7, []string{"report=node:summarize#2"})
	judge.Kind, judge.Skill = NodeJudge, ""
	judge.Inputs[0].Kind, judge.Inputs[0].Path = KindDirectory, ""
	judge.Sandbox.Mounts = judge.Sandbox.Mounts[1:]
	judge.Prompt = "Grade what is in {in:report}."
	judge.Process.Argv = []string{"npx", "pi"}
	judge.Sandbox.AllowFetch = true

	p.Nodes = []Node{first, draft, refine, review, lint, byDraft, find, again, host, judge}
	p.Probes = []Probe{{Tool: "planemo", Argv: []string{"planemo", "--version"}, Expect: "planemo", Image: sampleImage}}
	p.Tools = []Tool{{Name: "foundry", By: ToolSchema}, {Name: "gxwf", By: ToolUnavailable, Reason: "not published"}, {Name: "planemo", By: ToolImage, Image: sampleImage}}
	p.Guards = []Guard{{Set: "baseline", Digest: digestOf("guard"), Name: "no-open-network", Result: GuardPass}, {Digest: digestOf("own"), Name: "cheap", Result: GuardWarn}}
	p.Evaluation = &Evaluation{
		Require: "supported", Judge: "medium", Budget: RunBudget{WallSeconds: 600, CostMicroUSD: 1_000_000, Tokens: 100_000, Unknown: UnknownWarn},
		Properties: []Property{
			{Key: "summarize/valid", Kind: PropertyDeterministic, Digest: digestOf("valid"), Binding: "schema:summary"},
			{Key: "summarize/valid", Kind: PropertyJudged, Digest: digestOf("valid")},
		},
		Cases: []Case{{Key: "small", Fixture: "fixtures/small", Digest: digestOf("small")}},
	}
	return withBundles(p, inBundle, refsBundle, bundleOf("schema:summary", "summary.schema.json"), bundleOf("recorded:find", "find/data.json"), bundleOf("oracle:full", "eval.md"))
}

// blackBox is a plan whose parent runs the published package.
func blackBox() *Plan {
	p := frame("black-box")
	p.Mode = ModeBlackBox
	in, inBundle := sourceInput("source")
	p.Inputs = []Input{in}
	n := agent("pipeline-black-box", 0, []string{"source=input:source"}, "report")
	n.Kind, n.Skill = NodeParent, "package:black-box"
	n.Sandbox.Mounts[0] = Mount{Source: "package:black-box", Destination: "/skills/pipeline-black-box", Mode: MountReadOnly}
	n.Process.Env = append(n.Process.Env, "SUBAGENT_SOCKET={subagent.socket}", "SUBAGENT_TOKEN={subagent.token}")
	p.Nodes = []Node{n}
	var c Callable
	for _, name := range []string{"draft", "summarize"} {
		a := agent(name, 1, nil, "summary")
		c = Callable{Skill: a.Skill, Harness: a.Harness, MaxCalls: 5, Prompt: a.Prompt + " {in:source}", Process: a.Process, Files: a.Files, Outputs: a.Outputs, Sandbox: a.Sandbox, Budget: a.Budget}
		c.Sandbox.Mounts = append(c.Sandbox.Mounts, Mount{Source: "in:source", Destination: "/in/source", Mode: MountReadOnly})
		if p.Package == nil {
			p.Package = &Package{Bundle: "package:black-box"}
		}
		p.Package.Callable = append(p.Package.Callable, c)
	}
	return withBundles(p, inBundle, bundleOf("package:black-box", "SKILL.md", "_assembly.json"), skillBundle("draft"), skillBundle("summarize"))
}

// chain is a pipeline of n agents over 20 skills, each reading the one before.
func chain(n int) *Plan {
	p := frame(fmt.Sprintf("chain-%d", n))
	in, inBundle := sourceInput("source")
	p.Inputs = []Input{in}
	from := "source=input:source"
	for i := range n {
		id := fmt.Sprintf("skill-%02d", i%20)
		if i >= 20 {
			id += fmt.Sprintf("#%d", i/20+1)
		}
		artifact := fmt.Sprintf("artifact-%d", i+1)
		p.Nodes = append(p.Nodes, agent(id, int64(i+1), []string{from}, artifact))
		from = artifact + "=node:" + id
	}
	return withBundles(p, inBundle)
}

func samples() map[string]func() *Plan {
	return map[string]func() *Plan{"minimal": minimal, "full": full, "blackbox": blackBox, "pipeline12": func() *Plan { return chain(12) }}
}

func TestSamplesAreValid(t *testing.T) {
	for name, build := range samples() {
		for _, p := range Validate(build()) {
			t.Errorf("%s: %s", name, p)
		}
	}
}
