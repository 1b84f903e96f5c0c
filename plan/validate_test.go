package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// broken lists one change to a good plan and every problem that it makes, as
// "path: summary".
type broken struct {
	name   string
	base   func() *Plan
	change func(p *Plan)
	want   []string
}

func run(t *testing.T, cases []broken) {
	t.Helper()
	for _, c := range cases {
		p := c.base()
		c.change(p)
		var got []string
		for _, problem := range Validate(p) {
			got = append(got, problem.Path+": "+problem.Summary)
			if problem.Detail == "" {
				t.Errorf("%s: %s has no detail", c.name, problem)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

// The nodes of full, by name.
const (
	first = iota
	draft
	refine
	review
	lint
	derive
	find
	again
	size
	judge
)

func list(s ...string) []string { return s }

func TestValidateHead(t *testing.T) {
	run(t, []broken{
		{"version", full, func(p *Plan) { p.FormatVersion = 2 }, list("format_version: wrong format version")},
		{"mode", full, func(p *Plan) { p.Mode = "dream" }, list("mode: unknown word")},
		{"order", full, func(p *Plan) { p.Order = "" }, list("order: unknown word")},
		{"pipeline", full, func(p *Plan) {
			p.Pipeline = Pipeline{Name: "a/b", SourceRevision: -1, Options: list("b", "a"), Digest: "x", Scenario: "-"}
		},
			list("pipeline.digest: invalid digest", "pipeline.name: invalid name", "pipeline.options[1]: not sorted", "pipeline.scenario: invalid name", "pipeline.source_revision: number out of range")},
		{"no nodes", minimal, func(p *Plan) { p.Nodes = nil }, list("nodes: nothing to do")},
		{"input twice", full, func(p *Plan) { p.Inputs[1] = p.Inputs[0] },
			list("inputs[1](refs): id used twice", "nodes[0](summarize).inputs[0].from: dangling reference")},
		{"input without bundle", full, func(p *Plan) { p.Inputs[0].Bundle = "input:none" }, list("inputs[0](refs).bundle: dangling reference")},
		{"input of a skill", full, func(p *Plan) { p.Inputs[0].Bundle, p.Inputs[0].Filename = "skill:draft", "SKILL.md" }, list("inputs[0](refs).bundle: wrong class of bundle")},
		{"input without its file", full, func(p *Plan) { p.Inputs[0].Filename = "other.json" }, list("inputs[0](refs).filename: dangling reference")},
		{"inputs not sorted", full, func(p *Plan) { slices.Reverse(p.Inputs) }, list("inputs[1](refs): not sorted")},
		{"provider", full, func(p *Plan) {
			x := &p.Providers[0]
			x.BaseURL, x.Models[0].MaxOutput, x.Models[0].Price.Input, x.Models[0].Price.Output = "https://user:pw@host.example/", 0, "3.0", "-1"
		}, list("providers[0](anthropic).base_url: invalid address", "providers[0](anthropic).models[0].max_output_tokens: number out of range",
			"providers[0](anthropic).models[0].price_usd_per_million_tokens.input: invalid price", "providers[0](anthropic).models[0].price_usd_per_million_tokens.output: invalid price")},
		{"credential is no name", full, func(p *Plan) {
			p.Providers = append(p.Providers, Provider{Name: "z", API: "x", Credential: "sk-ant-123"})
		}, list("providers[1](z).credential: invalid name")},
		{"harness without provider", full, func(p *Plan) { p.Harnesses[0].Provider = "azure" }, list("harnesses[0](medium).provider: dangling reference")},
		{"unknown model", full, func(p *Plan) { p.Harnesses[0].Model = "model-2" }, list("harnesses[0](medium).model: dangling reference")},
		{"tools not sorted", full, func(p *Plan) { p.Harnesses[0].Tools = list("write", "read", "read") }, list("harnesses[0](medium).tools[1]: not sorted", "harnesses[0](medium).tools[2]: not sorted")},
		{"no version of a harness", full, func(p *Plan) { p.Harnesses[0].Version = "" }, list("harnesses[0](medium).version: no version")},
		{"budget", full, func(p *Plan) { p.Budget.WallSeconds, p.Budget.Tokens = 0, MaxRunTokens+1 }, list("budget.tokens: number out of range", "budget.wall_seconds: number out of range", "worst_case.wall_seconds: wrong worst case")},
		{"worst case over uncapped", full, func(p *Plan) { p.WorstCase.UncappedTokens-- }, list("worst_case.tokens: wrong worst case")},
		{"worst case over the cap", full, func(p *Plan) { p.WorstCase.CostMicroUSD++ }, list("worst_case.cost_micro_usd: wrong worst case")},
		{"worst case below 0", full, func(p *Plan) { p.WorstCase.WallSeconds = -1 }, list("worst_case.wall_seconds: number out of range")},
		{"tool by image", full, func(p *Plan) { p.Tools[2].Image = "planemo:latest" }, list("tools[2](planemo).image: invalid image")},
		{"tool without reason", full, func(p *Plan) { p.Tools[1].Reason = " " }, list("tools[1](gxwf).reason: no reason")},
		{"schema with image", full, func(p *Plan) { p.Tools[0].Image = sampleImage }, list("tools[0](foundry).image: misplaced image")},
		{"probe", full, func(p *Plan) { p.Probes[0].Argv = nil }, list("probes[0](planemo).argv: no program")},
		{"probe is a shell", full, func(p *Plan) { p.Probes[0].Argv = list("sh", "-c", "planemo | grep x") }, list("probes[0](planemo).argv: runs a shell")},
		{"probe with a token", full, func(p *Plan) { p.Probes[0].Argv = list("ls", "{out}") }, list("probes[0](planemo).argv[1]: misplaced token")},
		{"guard", full, func(p *Plan) { p.Guards[1] = p.Guards[0]; p.Guards[1].Result = "maybe" }, list("guards[1](no-open-network): id used twice", "guards[1](no-open-network).result: unknown word")},
		{"evaluation", full, func(p *Plan) {
			e := p.Evaluation
			e.Require, e.Judge, e.Properties[1].Kind, e.Cases[0].Digest = "most", "", PropertyDeterministic, ""
		}, list("evaluation.budget: misplaced budget", "evaluation.cases[0].digest: invalid digest", "evaluation.properties[1].key: id used twice", "evaluation.require: unknown word")},
		{"unknown judge", full, func(p *Plan) { p.Evaluation.Judge = "nobody" }, list("evaluation.judge: dangling reference")},
	})
}

// setBundle changes the files of a bundle and keeps its digest true.
func setBundle(p *Plan, id string, change func(b *Bundle)) {
	for i := range p.Bundles {
		if p.Bundles[i].ID == id {
			change(&p.Bundles[i])
			p.Bundles[i].Digest, _ = TreeDigest(p.Bundles[i].Files)
		}
	}
}

func TestValidateBundles(t *testing.T) {
	file := func(path string) BundleFile { return BundleFile{Path: path, Mode: ModeRegular, Digest: digestOf(path)} }
	oracle := func(paths ...string) func(p *Plan) {
		return func(p *Plan) {
			setBundle(p, "oracle:full", func(b *Bundle) {
				b.Files = nil
				for _, path := range paths {
					b.Files = append(b.Files, file(path))
				}
			})
		}
	}
	const where = "bundles[2](oracle:full)"
	run(t, []broken{
		{"class", full, func(p *Plan) { p.Bundles[2].ID = "magic:full" }, list("bundles[2](magic:full).id: unknown class of bundle")},
		{"digest by hand", full, func(p *Plan) { p.Bundles[2].Digest = digestOf("x") }, list(where + ".digest: wrong digest")},
		{"bytes by hand", full, func(p *Plan) { p.Bundles[2].Files[0].Bytes++ }, list(where + ".digest: wrong digest")},
		{"no digest", full, func(p *Plan) { p.Bundles[2].Digest = "" }, list(where + ".digest: invalid digest")},
		{"empty", full, oracle(), list(where + ".files: empty bundle")},
		{"not sorted", full, oracle("b", "a"), list(where + ".files[1].path: not sorted")},
		{"twice", full, oracle("a", "a"), list(where+".files[1].path: colliding names", where+".files[1].path: not sorted")},
		{"case", full, oracle("Report.md", "report.md"), list(where + ".files[1].path: colliding names")},
		{"case of a folder", full, oracle("Docs/a", "docs/b"), list(where + ".files[1].path: colliding names")},
		{"deep case of a folder", full, oracle("x/Docs/y/a", "x/docs/y/b"), list(where + ".files[1].path: colliding names")},
		{"Unicode form", full, oracle("e\u0301.md", "\u00e9.md"), list(where + ".files[1].path: colliding names")},
		{"Unicode case", full, oracle("strasse", "stra\u00dfe"), list(where + ".files[1].path: colliding names")},
		{"file and folder", full, oracle("a", "a/b"), list(where + ".files[1].path: colliding names")},
		{"file and folder by case", full, oracle("A", "a/b"), list(where + ".files[1].path: colliding names")},
		{"leads out", full, oracle("../a"), list(where + ".files[0].path: invalid path")},
		{"absolute", full, oracle("/etc/passwd"), list(where + ".files[0].path: invalid path")},
		{"drive", full, oracle("C:/x"), list(where + ".files[0].path: invalid path")},
		{"not clean", full, oracle("a/./c", "a//b"), list(where+".files[0].path: invalid path", where+".files[1].path: invalid path")},
		{"backslash", full, oracle(`a\b`), list(where + ".files[0].path: invalid path")},
		{"control", full, oracle("a\nb"), list(where + ".files[0].path: invalid path")},
		{"direction", full, oracle("a\u202eb"), list(where + ".files[0].path: invalid path")},
		{"folder with bytes", full, func(p *Plan) { setBundle(p, "oracle:full", func(b *Bundle) { b.Files[0].Mode = ModeDir }) }, list(where + ".files[0]: misplaced content")},
		{"mode", full, func(p *Plan) { setBundle(p, "oracle:full", func(b *Bundle) { b.Files[0].Mode = "0777" }) }, list(where + ".files[0].mode: unknown word")},
		{"mold of an oracle", full, func(p *Plan) { p.Bundles[2].Mold = &Mold{ProvenanceDigest: digestOf("x")} }, list(where + ".mold: misplaced mold")},
		{"used twice", full, func(p *Plan) { p.Bundles = slices.Insert(p.Bundles, 2, p.Bundles[2]) }, list("bundles[3](oracle:full): id used twice")},
	})
}

func TestValidateNodes(t *testing.T) {
	const s = "nodes[0](summarize)"
	node := func(i int, change func(n *Node)) func(p *Plan) { return func(p *Plan) { change(&p.Nodes[i]) } }
	run(t, []broken{
		{"kind", full, node(first, func(n *Node) { n.Kind = "wizard" }), list(s + ".kind: unknown word")},
		{"id", minimal, node(0, func(n *Node) { n.ID = "a b" }), list("nodes[0].id: invalid name")},
		{"agent without skill", full, node(first, func(n *Node) { n.Skill = "" }), list(s+".prompt: token without a value", s+".skill: no skill")},
		{"unknown skill", full, node(first, func(n *Node) { n.Skill = "skill:none" }), list(s+".prompt: token without a value", s+".sandbox.mounts: skill without a mount", s+".skill: dangling reference")},
		{"unknown harness", full, node(first, func(n *Node) { n.Harness = "large" }), list(s + ".harness: dangling reference")},
		{"no harness", full, node(first, func(n *Node) { n.Harness = "" }), list(s + ".harness: no harness")},
		{"unknown nested skill", full, node(first, func(n *Node) { n.NestedSkills = list("skill:none") }), list(s+".nested_skills[0]: dangling reference", s+".sandbox.mounts: skill without a mount")},
		{"no prompt", full, node(first, func(n *Node) { n.Prompt = "" }), list(s + ".prompt: no prompt")},
		{"agent with a check", full, node(first, func(n *Node) { n.Check = &Check{Name: "x", Of: "draft"} }), list(s+": cycle", s+".check: wrong kind of node", s+".id: wrong id of a check")},
		{"parent in a trace", full, node(first, func(n *Node) { n.Kind = NodeParent }), list(s + ".kind: wrong kind of node")},
		{"agent in a black box", blackBox, node(0, func(n *Node) { n.Kind = NodeAgent }), list("nodes: no parent", "nodes[0](pipeline-black-box).kind: wrong kind of node",
			"nodes[0](pipeline-black-box).process.env[4]: token without a value", "nodes[0](pipeline-black-box).process.env[5]: token without a value", "nodes[0](pipeline-black-box).skill: no skill")},
		{"contradiction", full, node(first, func(n *Node) { n.NotApplicable = list("source") }), list(s + ".not_applicable[0]: contradiction")},
		{"submit attempts", full, node(first, func(n *Node) { n.SubmitAttempts = 0 }), list(s + ".submit_attempts: number out of range")},

		{"unknown input", full, node(first, func(n *Node) { n.Inputs[0].From = "input:none" }), list(s + ".inputs[0].from: dangling reference")},
		{"unknown form of from", full, node(first, func(n *Node) { n.Inputs[0].From = "file:/x" }), list(s + ".inputs[0].from: dangling reference")},
		{"unknown node", full, node(draft, func(n *Node) { n.Inputs[0].From = "node:none" }), list("nodes[1](draft).inputs[0].from: dangling reference")},
		{"node without it", full, node(draft, func(n *Node) { n.Inputs[0].From = "node:find" }), list("nodes[1](draft).inputs[0].from: dangling reference")},
		{"unknown branch", full, node(again, func(n *Node) { n.Inputs[0].From = "branch:none" }), list("nodes[7](summarize#2).inputs[0].from: dangling reference")},
		{"branch without it", full, func(p *Plan) { p.Branches[0].Artifacts = nil }, list("nodes[7](summarize#2).inputs[0].from: dangling reference")},
		{"reads an alternative", full, node(again, func(n *Node) { n.Inputs[0].From = "node:test-data/find" }), list("nodes[7](summarize#2).inputs[0].from: reads an alternative")},
		{"required of nothing", full, node(draft, func(n *Node) { n.Inputs[1].Required = true }), list("nodes[1](draft).inputs[1].required: contradiction")},
		{"required of optional", full, node(first, func(n *Node) { n.Outputs[0].Required = Optional }), list("nodes[1](draft).inputs[0].required: contradiction", "nodes[7](summarize#2).inputs[1].required: contradiction")},
		{"carried from outside", full, node(draft, func(n *Node) { n.Inputs[1].CarriedFrom = "summarize" }), list("nodes[1](draft).inputs[1].carried_from: dangling reference")},
		{"carried from one without it", full, node(draft, func(n *Node) { n.Inputs[1].CarriedFrom = "refine" }), list("nodes[1](draft).inputs[1].carried_from: dangling reference")},
		{"unknown schema", full, node(lint, func(n *Node) { n.Inputs[0].Schema = "schema:none" }), list("nodes[4](review.lint).inputs[0].schema: dangling reference")},
		{"input path", full, node(first, func(n *Node) { n.Inputs[0].Path = "../x" }), list(s + ".inputs[0].path: invalid path")},
		{"input twice", full, node(first, func(n *Node) { n.Inputs = append(n.Inputs, n.Inputs[0]) }), list(s + ".inputs[1].artifact: colliding names")},
		{"inputs by case", full, node(first, func(n *Node) {
			in := n.Inputs[0]
			in.Artifact, in.Path = "other", "Source.json"
			addInput(n, in)
		}), list(s + ".inputs[1].path: colliding names")},
		{"input without a mount", full, node(first, func(n *Node) { n.Sandbox.Mounts = slices.Delete(n.Sandbox.Mounts, 4, 5) }), list(s+".inputs[0]: input without a mount", s+".prompt: token without a value")},

		{"output of another schema", full, node(first, func(n *Node) { n.Outputs[0].Schema = "skill:draft" }), list(s + ".outputs[0].schema: dangling reference")},
		{"output kind", full, node(first, func(n *Node) { n.Outputs[0].Kind = "xml" }), list(s + ".outputs[0].kind: unknown word")},
		{"at_end outside a loop", full, node(first, func(n *Node) { n.Outputs[0].Required = RequiredAtEnd }), list(s + ".outputs[0].required: contradiction")},
		{"outputs by case", full, node(first, func(n *Node) { n.Outputs[1].Filename = "Summary.JSON" }), list(s + ".outputs[1].filename: colliding names")},
		{"outputs of one name", full, node(first, func(n *Node) { n.Outputs[1].Filename = "summary.json" }), list(s + ".outputs[1].filename: colliding names")},
		{"output within an output", full, node(first, func(n *Node) { n.Outputs[1].Filename = "summary.json/x" }), list(s + ".outputs[1].filename: colliding names")},
		{"outputs by form", full, node(first, func(n *Node) { n.Outputs[0].Filename, n.Outputs[1].Filename = "e\u0301", "\u00c9" }), list(s + ".outputs[1].filename: colliding names")},
		{"output leads out", full, node(first, func(n *Node) { n.Outputs[0].Filename = "a/../../x" }), list(s + ".outputs[0].filename: invalid path")},
		{"output with a control character", full, node(first, func(n *Node) { n.Outputs[0].Filename = "a\x1b[2J" }), list(s + ".outputs[0].filename: invalid path")},
		{"output is no text", full, node(first, func(n *Node) { n.Outputs[0].Filename = "a\xff" }), list(s + ".outputs[0].filename: invalid path")},

		{"check of nothing", full, node(lint, func(n *Node) { n.Check.Of = "none" }), list("nodes[4](review.lint).check.of: dangling reference")},
		{"check with another id", full, node(lint, func(n *Node) { n.Check.Of = "refine" }), list("nodes[4](review.lint).id: wrong id of a check")},
		{"check with an unknown tool", full, node(lint, func(n *Node) { n.Check.Tool = "none" }), list("nodes[4](review.lint).check.tool: dangling reference")},
		{"check with a worker", full, node(lint, func(n *Node) { n.Harness = "medium" }), list("nodes[4](review.lint): wrong kind of node")},
		{"trusted host in a container", full, node(lint, func(n *Node) { n.Check.TrustedHost = true }), list("nodes[4](review.lint).check.trusted_host: contradiction")},
		{"check asserts another check", full, node(lint, func(n *Node) { n.Check.Assert.Args[0].Fact.Name = "size" }), list("nodes[4](review.lint).check.assert.args[0].fact.name: dangling reference")},
	})
}

func TestValidateSteps(t *testing.T) {
	const s, b = "nodes[0](summarize)", "nodes[0](summarize).sandbox"
	node := func(change func(n *Node)) func(p *Plan) { return func(p *Plan) { change(&p.Nodes[0]) } }
	argv := func(args ...string) func(p *Plan) { return node(func(n *Node) { n.Process.Argv = args }) }
	env := func(entries ...string) func(p *Plan) { return node(func(n *Node) { n.Process.Env = entries }) }
	mount := func(m Mount) func(p *Plan) {
		return node(func(n *Node) { n.Sandbox.Mounts = append(n.Sandbox.Mounts, m) })
	}
	last := b + ".mounts[6]"
	run(t, []broken{
		{"budget", full, node(func(n *Node) { n.Budget = NodeBudget{} }), list(s+".budget.cost_micro_usd: number out of range", s+".budget.output_bytes: number out of range", s+".budget.output_files: number out of range",
			s+".budget.tokens: number out of range", s+".budget.tool_calls: number out of range", s+".budget.turns: number out of range", s+".budget.wall_seconds: number out of range")},
		{"endless budget", full, node(func(n *Node) { n.Budget.CostMicroUSD = 1<<63 - 1 }), list(s + ".budget.cost_micro_usd: number out of range")},
		{"no argv", full, argv(), list(s + ".process.argv: no program")},
		{"shell", full, argv("/bin/bash", "-c", "true"), list(s + ".process.argv: runs a shell")},
		{"fetch", full, argv("uvx", "planemo"), list(s + ".process.argv: fetches code")},
		{"NUL", full, argv("a\x00b"), list(s + ".process.argv[0]: invalid text")},
		{"host path", full, argv("pi", "/home/someone/x"), list(s + ".process.argv[1]: host path")},
		{"host path in an option", full, argv("pi", "--config=/Users/someone/x"), list(s + ".process.argv[1]: host path")},
		{"host path in a list", full, env("PATH=/usr/bin:/home/someone/bin"), list(s + ".process.env[0]: host path")},
		{"drive", full, argv("pi", `C:\Users\x`), list(s + ".process.argv[1]: host path")},
		{"path of a mount", full, argv("pi", "/skills/summarize/scripts/run.py", "--out=/out/x", "/usr/lib/x", "/compact", "http://host.example/a/b"), nil},
		{"unknown token", full, argv("pi", "{broker.ur1}"), list(s + ".process.argv[1]: unknown token")},
		{"broken token", full, node(func(n *Node) { n.Prompt = "{in:a b} and {skill:" }), list(s + ".prompt: unknown token")},
		{"input of another", full, argv("pi", "{in:summary}"), list(s + ".process.argv[1]: token without a value")},
		{"skill of another", full, node(func(n *Node) { n.Files[0].Content = "{skill:draft}" }), list(s + ".files[0].content: token without a value")},
		{"nothing recorded", full, argv("pi", "{recorded}"), list(s + ".process.argv[1]: token without a value")},
		{"subagent of a trace", full, env("S={subagent.socket}"), list(s + ".process.env[0]: token without a value")},
		{"broker without network", full, node(func(n *Node) { n.Sandbox.Network = NetworkNone }), list(s+".files[0].content: token without a value", s+".process.env[0]: token without a value", s+".process.env[1]: token without a value")},
		{"credential in env", full, env("ANTHROPIC_API_KEY=sk-1"), list(s + ".process.env[0]: credential in a plan")},
		{"something like one", full, env("GH_TOKEN=x"), list(s + ".process.env[0]: credential in a plan")},
		{"half a token", full, env("GH_TOKEN=x{broker.token}"), list(s + ".process.env[0]: credential in a plan")},
		{"env not sorted", full, env("B=1", "A=1", "A=2"), list(s+".process.env[1]: not sorted", s+".process.env[2]: not sorted")},
		{"env without value", full, env("A", "=b", "B=x\ny"), list(s+".process.env[0]: invalid environment", s+".process.env[1]: invalid environment", s+".process.env[2]: invalid environment")},
		{"cwd of the host", full, node(func(n *Node) { n.Process.Cwd = "/srv/x" }), list(s + ".process.cwd: invalid working folder")},
		{"cwd nowhere", full, node(func(n *Node) { n.Process.Cwd = "" }), list(s + ".process.cwd: invalid working folder")},
		{"cwd leads out", full, node(func(n *Node) { n.Process.Cwd = "{scratch}/../x" }), list(s + ".process.cwd: invalid working folder")},
		{"cwd in a mount", full, node(func(n *Node) { n.Process.Cwd = "/out/x" }), nil},
		{"root (C15)", full, node(func(n *Node) { n.Process.User = "0:0" }), list(s + ".process.user: invalid user")},
		{"file elsewhere", full, node(func(n *Node) { n.Files[0].Path = "{out}/x" }), list(s + ".files[0].path: invalid path")},
		{"file leads out", full, node(func(n *Node) { n.Files[0].Path = "{scratch}/../x" }), list(s + ".files[0].path: invalid path")},
		{"files by case", full, node(func(n *Node) { n.Files = append(n.Files, File{Path: "{scratch}/Config/x"}) }), list(s + ".files[1].path: colliding names")},

		{"sandbox mode", full, node(func(n *Node) { n.Sandbox.Mode = "vm" }), list(b + ".mode: unknown word")},
		{"network", full, node(func(n *Node) { n.Sandbox.Network = "host" }), list(b + ".network: unknown word")},
		{"tag", full, node(func(n *Node) { n.Sandbox.Image = "pi:latest" }), list(b + ".image: invalid image")},
		{"no image", full, node(func(n *Node) { n.Sandbox.Image = "" }), list(b + ".image: invalid image")},
		{"image of a local process", minimal, func(p *Plan) { p.Nodes[0].Sandbox.Image = ImageBuiltin }, list("nodes[0](hello).sandbox.image: misplaced image")},
		{"egress without hosts", full, node(func(n *Node) { n.Sandbox.Network = NetworkEgress }), list(b + ".egress_hosts: misplaced hosts")},
		{"hosts without egress", full, node(func(n *Node) { n.Sandbox.EgressHosts = list("a.example") }), list(b + ".egress_hosts: misplaced hosts")},
		{"host form", full, func(p *Plan) { p.Nodes[refine].Sandbox.EgressHosts = list("*", "https://a.example") }, list("nodes[2](refine).sandbox.egress_hosts[0]: invalid name", "nodes[2](refine).sandbox.egress_hosts[1]: invalid name")},
		{"credential of no provider", full, node(func(n *Node) { n.Sandbox.Credentials = list("OTHER_KEY") }), list(b + ".credentials[0]: dangling reference")},
		{"resources", full, node(func(n *Node) { n.Sandbox.Resources = Resources{PIDs: MaxPIDs + 1} }), list(b+".resources.cpu_millis: number out of range", b+".resources.memory_bytes: number out of range", b+".resources.pids: number out of range")},

		{"oracle", full, mount(Mount{Source: "oracle:full", Destination: "/oracle", Mode: MountReadOnly}), list(last + ".source: mounted oracle")},
		{"unknown source", full, mount(Mount{Source: "/home/someone", Destination: "/x", Mode: MountReadOnly}), list(last + ".source: dangling reference")},
		{"input of another node", full, mount(Mount{Source: "in:summary", Destination: "/x", Mode: MountReadOnly}), list(last + ".source: dangling reference")},
		{"skill rw", full, node(func(n *Node) { n.Sandbox.Mounts[0].Mode = MountReadWrite }), list(b + ".mounts[0].mode: wrong mode of a mount")},
		{"output ro", full, node(func(n *Node) { n.Sandbox.Mounts[1].Mode = MountReadOnly }), list(b + ".mounts[1].mode: wrong mode of a mount")},
		{"output without bound", full, node(func(n *Node) { n.Sandbox.Mounts[1].Bytes = 0 }), list(b + ".mounts[1].bytes: number out of range")},
		{"skill with bound", full, node(func(n *Node) { n.Sandbox.Mounts[0].Bytes = 1 }), list(b + ".mounts[0].bytes: misplaced bound")},
		{"second output", full, mount(Mount{Source: MountOutput, Destination: "/out2", Mode: MountReadWrite, Bytes: 1}), list(last + ".source: id used twice")},
		{"no output", full, node(func(n *Node) { n.Sandbox.Mounts = slices.Delete(n.Sandbox.Mounts, 1, 2) }), list(s+".prompt: token without a value", b+".mounts: no output mount")},
		{"no scratch", full, node(func(n *Node) { n.Sandbox.Mounts = slices.Delete(n.Sandbox.Mounts, 2, 3) }), list(s+".files: no scratch mount", s+".process.argv[4]: token without a value", s+".process.cwd: invalid working folder", s+".process.env[2]: token without a value")},
		{"same place", full, mount(Mount{Source: MountTmpfs, Destination: "/out", Mode: MountReadWrite, Bytes: 1}), list(last + ".destination: colliding names")},
		{"within the output", full, mount(Mount{Source: MountTmpfs, Destination: "/out/tmp", Mode: MountReadWrite, Bytes: 1}), list(last + ".destination: nested mounts")},
		{"within a skill", full, mount(Mount{Source: "skill:draft", Destination: "/skills/summarize/x/y", Mode: MountReadOnly}), list(last + ".destination: nested mounts")},
		{"within scratch", full, mount(Mount{Source: "skill:draft", Destination: "/scratch/skills/draft", Mode: MountReadOnly}), nil},
		{"over scratch", full, mount(Mount{Source: MountTmpfs, Destination: "/skills", Mode: MountReadWrite, Bytes: 1}), list(b+".mounts[0].destination: nested mounts", b+".mounts[5].destination: nested mounts")},
	})
	for _, d := range list("", "/", "x", "/proc", "/proc/x", "/sys", "/dev/shm", "/.foundry", "/.foundry/x", "/a/../b", "/a/", "//a", "/a\x00", "/a{out}", "/a:b", "/a,b") {
		run(t, []broken{{"destination " + d, full, mount(Mount{Source: MountTmpfs, Destination: d, Mode: MountReadWrite, Bytes: 1}), list(last + ".destination: invalid destination")}})
	}
}

func TestValidatePackage(t *testing.T) {
	const c = "package.callable[1](skill:summarize)"
	run(t, []broken{
		{"none", blackBox, func(p *Plan) { p.Package = nil }, list("package: no package")},
		{"in a trace", minimal, func(p *Plan) { p.Package = &Package{Bundle: "skill:hello"} }, list("package: misplaced package", "package.bundle: wrong class of bundle")},
		{"order", blackBox, func(p *Plan) { slices.Reverse(p.Package.Callable) }, list("package.callable[1](skill:draft).skill: not sorted")},
		{"unknown skill", blackBox, func(p *Plan) { p.Package.Callable[1].Skill = "skill:x" }, list("package.callable[1](skill:x).prompt: token without a value", "package.callable[1](skill:x).sandbox.mounts: skill without a mount", "package.callable[1](skill:x).skill: dangling reference")},
		{"calls", blackBox, func(p *Plan) { p.Package.Callable[1].MaxCalls = MaxCalls + 1 }, list(c + ".max_calls: number out of range")},
		{"harness", blackBox, func(p *Plan) { p.Package.Callable[1].Harness = "" }, list(c + ".harness: dangling reference")},
		{"subagent of a subagent", blackBox, func(p *Plan) { p.Package.Callable[1].Process.Argv = list("x", "{subagent.token}") }, list(c + ".process.argv[1]: token without a value")},
		{"shell", blackBox, func(p *Plan) { p.Package.Callable[1].Process.Argv = list("sh") }, list(c + ".process.argv: runs a shell")},
		{"loop", blackBox, func(p *Plan) {
			p.Loops = []Loop{{ID: "l", Body: list("pipeline-black-box"), MaxIterations: 1, Until: lit(TypeBool, "true")}}
		}, list("loops: misplaced loop")},
	})
}

func TestValidateReportsEverything(t *testing.T) {
	p := chain(200)
	for i := range p.Nodes {
		p.Nodes[i].Budget.Turns = 0
	}
	got := Validate(p)
	if len(got) != MaxProblems+1 {
		t.Fatalf("%d problems", len(got))
	}
	for i, problem := range got[:MaxProblems] {
		if want := fmt.Sprintf("nodes[%d](%s).budget.turns", i, p.Nodes[i].ID); problem.Path != want {
			t.Errorf("problem %d is at %s, not at %s", i, problem.Path, want)
		}
	}
	if rest := got[MaxProblems]; rest.Detail != "100 more problems are not listed" {
		t.Errorf("the last one is %s", rest)
	}
	if got := Validate(nil); len(got) != 1 {
		t.Errorf("no plan at all has %v", got)
	}
	if got := Validate(new(Plan)); len(got) == 0 {
		t.Error("an empty plan has no problem")
	}
}
