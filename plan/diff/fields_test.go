package diff

import (
	"slices"
	"strings"

	"foundry/plan"
)

// str finds a text of a plan.
type str = func(p *plan.Plan) *string

func (l *changes) addPlan() {
	l.ranks("Plan.mode", func(p *plan.Plan) *string { return &p.Mode }, plan.ModeTrace, plan.ModeBlackBox)
	l.ranks("Plan.order", func(p *plan.Plan) *string { return &p.Order }, plan.OrderAssembly, plan.OrderDataflow)
	l.becomes("Pipeline.name", "changes", Neutral, func(p *plan.Plan) *string { return &p.Pipeline.Name }, "one", "another")
	l.neutralNumber("Pipeline.source_revision", func(p *plan.Plan) *int64 { return &p.Pipeline.SourceRevision })
	l.list("Pipeline.options", Neutral, Neutral, Neutral, func(p *plan.Plan) *[]string { return &p.Pipeline.Options })
	l.becomes("Pipeline.digest", "changes", Neutral, func(p *plan.Plan) *string { return &p.Pipeline.Digest }, "one", "another")
	l.present("Pipeline.scenario", Neutral, Neutral, Neutral, func(p *plan.Plan) *string { return &p.Pipeline.Scenario })

	entries(l, "Plan.inputs", Widens, Narrows, func(p *plan.Plan) *[]plan.Input { return &p.Inputs }, plan.Input{ID: "extra", Kind: plan.KindJSON})
	l.after("Input.id", "renamed", Neutral, func(p *plan.Plan) { p.Inputs[0].ID = "other" })
	l.add("Input.id", "to one that looks the same", Widens, func(a, b *plan.Plan) { a.Inputs[0].ID, b.Inputs[0].ID = "refs-1", "refs-l" })
	l.becomes("Input.bundle", "changes", Widens, func(p *plan.Plan) *string { return &p.Inputs[0].Bundle }, "input:refs", "input:source")
	l.ranks("Input.kind", func(p *plan.Plan) *string { return &p.Inputs[0].Kind }, plan.KindJSON, plan.KindFile)
	l.becomes("Input.filename", "changes", Widens, func(p *plan.Plan) *string { return &p.Inputs[0].Filename }, "one", "another")

	for _, b := range []struct {
		of  func(p *plan.Plan) *plan.RunBudget
		row string
	}{{func(p *plan.Plan) *plan.RunBudget { return &p.Budget }, "budget"}, {func(p *plan.Plan) *plan.RunBudget { return &p.Evaluation.Budget }, "evaluation.budget"}} {
		l.grows("RunBudget.wall_seconds", func(p *plan.Plan) *int64 { return &b.of(p).WallSeconds })
		l.grows("RunBudget.cost_micro_usd", func(p *plan.Plan) *int64 { return &b.of(p).CostMicroUSD })
		l.grows("RunBudget.tokens", func(p *plan.Plan) *int64 { return &b.of(p).Tokens })
		l.ranks("RunBudget.unknown", func(p *plan.Plan) *string { return &b.of(p).Unknown }, plan.UnknownFail, plan.UnknownWarn)
	}
	l.grows("WorstCase.uncapped_cost_micro_usd", func(p *plan.Plan) *int64 { return &p.WorstCase.UncappedCostMicroUSD })
	l.grows("WorstCase.cost_micro_usd", func(p *plan.Plan) *int64 { return &p.WorstCase.CostMicroUSD })
	l.grows("WorstCase.uncapped_wall_seconds", func(p *plan.Plan) *int64 { return &p.WorstCase.UncappedWallSeconds })
	l.grows("WorstCase.wall_seconds", func(p *plan.Plan) *int64 { return &p.WorstCase.WallSeconds })
	l.grows("WorstCase.uncapped_tokens", func(p *plan.Plan) *int64 { return &p.WorstCase.UncappedTokens })
	l.grows("WorstCase.tokens", func(p *plan.Plan) *int64 { return &p.WorstCase.Tokens })

	entries(l, "Plan.probes", Widens, Widens, func(p *plan.Plan) *[]plan.Probe { return &p.Probes }, plan.Probe{Tool: "extra"})
	l.list2("Probe.argv", func(p *plan.Plan) *[]string { return &p.Probes[0].Argv })
	l.present("Probe.expect", Narrows, Widens, Widens, func(p *plan.Plan) *string { return &p.Probes[0].Expect })
	l.present("Probe.image", Widens, Widens, Widens, func(p *plan.Plan) *string { return &p.Probes[0].Image })

	entries(l, "Plan.tools", Neutral, Neutral, func(p *plan.Plan) *[]plan.Tool { return &p.Tools }, plan.Tool{Name: "extra", By: plan.ToolImage})
	l.after("Plan.tools", "a waived one added", Widens, func(p *plan.Plan) { p.Tools = append(p.Tools, plan.Tool{Name: "extra", By: plan.ToolUnavailable}) })
	l.ranks("Tool.by", func(p *plan.Plan) *string { return &p.Tools[0].By }, plan.ToolImage, plan.ToolUnavailable)
	l.present("Tool.image", Widens, Narrows, Widens, func(p *plan.Plan) *string { return &p.Tools[0].Image })
	l.present("Tool.reason", Neutral, Neutral, Neutral, func(p *plan.Plan) *string { return &p.Tools[0].Reason })

	l.both("Plan.package", "removed", Narrows, "added", Widens, func(p *plan.Plan) { p.Package = nil })
	entries(l, "Plan.guards", Narrows, Widens, func(p *plan.Plan) *[]plan.Guard { return &p.Guards }, plan.Guard{Set: "baseline", Name: "extra"})
	l.becomes("Guard.digest", "changes", Widens, func(p *plan.Plan) *string { return &p.Guards[0].Digest }, "one", "another")
	l.ranks("Guard.result", func(p *plan.Plan) *string { return &p.Guards[0].Result }, plan.GuardPass, plan.GuardFail)
}

// list2: a list that means something as a whole.
func (l *changes) list2(row string, of func(p *plan.Plan) *[]string) {
	l.add(row, "changes", Widens, func(a, b *plan.Plan) { *of(a), *of(b) = []string{"a", "b"}, []string{"b", "a"} })
}

func (l *changes) addBundles() {
	bundle := func(p *plan.Plan) *plan.Bundle {
		i := slices.IndexFunc(p.Bundles, func(b plan.Bundle) bool { return b.ID == "skill:draft" })
		return &p.Bundles[i]
	}
	of := func(p *plan.Plan) *[]plan.Bundle { return &p.Bundles }
	entries(l, "Plan.bundles", Widens, Narrows, of, plan.Bundle{ID: "skill:extra", Digest: "x"})
	l.after("Plan.bundles", "a schema added", Neutral, func(p *plan.Plan) { p.Bundles = append(p.Bundles, plan.Bundle{ID: "schema:extra"}) })
	l.after("Bundle.id", "renamed", Neutral, func(p *plan.Plan) { bundle(p).ID = "skill:other" })
	l.add("Bundle.id", "to one that looks the same", Widens, func(a, b *plan.Plan) {
		bundle(a).ID = "skill:l1st"
		bundle(b).ID = "skill:list"
		i := slices.IndexFunc(b.Bundles, func(b plan.Bundle) bool { return b.ID == "skill:list" })
		b.Bundles[i].ID = "skill:I1st"
	})
	l.becomes("Bundle.digest", "changes", Widens, func(p *plan.Plan) *string { return &bundle(p).Digest }, "one", "another")
	l.both("Bundle.mold", "removed", Neutral, "added", Neutral, func(p *plan.Plan) { bundle(p).Mold = nil })
	mold := func(p *plan.Plan) *plan.Mold { return bundle(p).Mold }
	l.becomes("Mold.name", "changes", Neutral, func(p *plan.Plan) *string { return &mold(p).Name }, "one", "another")
	l.neutralNumber("Mold.revision", func(p *plan.Plan) *int64 { return &mold(p).Revision })
	l.becomes("Mold.commit", "changes", Neutral, func(p *plan.Plan) *string { return &mold(p).Commit }, "one", "another")
	l.becomes("Mold.content_hash", "changes", Neutral, func(p *plan.Plan) *string { return &mold(p).ContentHash }, "one", "another")
	l.becomes("Mold.provenance_digest", "changes", Neutral, func(p *plan.Plan) *string { return &mold(p).ProvenanceDigest }, "one", "another")
	l.present("Mold.cast_bundle_sha256", Neutral, Neutral, Neutral, func(p *plan.Plan) *string { return &mold(p).CastBundleSHA256 })

	files := func(p *plan.Plan) *[]plan.BundleFile { return &bundle(p).Files }
	entries(l, "Bundle.files", Widens, Widens, files, plan.BundleFile{Path: "extra.md", Mode: plan.ModeRegular, Digest: "sha256:extra"})
	file := func(p *plan.Plan) *plan.BundleFile { return &bundle(p).Files[0] }
	l.after("BundleFile.path", "renamed", Widens, func(p *plan.Plan) { file(p).Path = "OTHER.md" })
	l.add("BundleFile.path", "to one that looks the same", Widens, func(_, b *plan.Plan) { file(b).Path = "SKlLL.md" })
	l.ranks("BundleFile.mode", func(p *plan.Plan) *string { return &file(p).Mode }, plan.ModeRegular, plan.ModeExecutable)
	l.after("BundleFile.bytes", "changes", Widens, func(p *plan.Plan) { file(p).Bytes++ })
	l.becomes("BundleFile.digest", "changes", Widens, func(p *plan.Plan) *string { return &file(p).Digest }, "sha256:1", "sha256:2")
}

func (l *changes) addWorkers() {
	entries(l, "Plan.providers", Widens, Narrows, func(p *plan.Plan) *[]plan.Provider { return &p.Providers }, plan.Provider{Name: "extra"})
	provider := func(p *plan.Plan) *plan.Provider { return &p.Providers[0] }
	l.after("Provider.name", "renamed", Neutral, func(p *plan.Plan) { provider(p).Name = "other" })
	l.add("Provider.name", "to one that looks the same", Widens, func(a, b *plan.Plan) { provider(a).Name, provider(b).Name = "one-1", "one-l" })
	l.becomes("Provider.api", "changes", Widens, func(p *plan.Plan) *string { return &provider(p).API }, "one", "another")
	l.present("Provider.base_url", Widens, Narrows, Widens, func(p *plan.Plan) *string { return &provider(p).BaseURL })
	l.present("Provider.credential", Widens, Narrows, Widens, func(p *plan.Plan) *string { return &provider(p).Credential })
	l.present("Provider.script", Narrows, Widens, Widens, func(p *plan.Plan) *string { return &provider(p).Script })
	entries(l, "Provider.models", Widens, Narrows, func(p *plan.Plan) *[]plan.Model { return &provider(p).Models }, plan.Model{ID: "extra"})
	model := func(p *plan.Plan) *plan.Model { return &provider(p).Models[0] }
	l.grows("Model.max_output_tokens", func(p *plan.Plan) *int64 { return &model(p).MaxOutput })
	for row, of := range map[string]str{
		"Price.input":       func(p *plan.Plan) *string { return &model(p).Price.Input },
		"Price.output":      func(p *plan.Plan) *string { return &model(p).Price.Output },
		"Price.cache_read":  func(p *plan.Plan) *string { return &model(p).Price.CacheRead },
		"Price.cache_write": func(p *plan.Plan) *string { return &model(p).Price.CacheWrite },
	} {
		l.becomes(row, "grows", Narrows, of, "9.5", "10")
		l.becomes(row, "shrinks", Widens, of, "0.31", "0.3")
		l.becomes(row, "shrinks", Widens, of, "10", "9.99")
		l.becomes(row, "shrinks", Widens, of, "3", "free")
	}

	entries(l, "Plan.harnesses", Widens, Narrows, func(p *plan.Plan) *[]plan.Harness { return &p.Harnesses }, plan.Harness{Name: "extra"})
	harness := func(p *plan.Plan) *plan.Harness { return &p.Harnesses[0] }
	l.after("Harness.name", "renamed", Neutral, func(p *plan.Plan) { harness(p).Name = "other" })
	l.add("Harness.name", "to one that looks the same", Widens, func(a, b *plan.Plan) { harness(a).Name, harness(b).Name = "one-1", "one-l" })
	l.becomes("Harness.adapter", "changes", Widens, func(p *plan.Plan) *string { return &harness(p).Adapter }, "pi", "codex")
	l.becomes("Harness.version", "changes", Widens, func(p *plan.Plan) *string { return &harness(p).Version }, "1", "2")
	l.becomes("Harness.provider", "changes", Widens, func(p *plan.Plan) *string { return &harness(p).Provider }, "anthropic", "other")
	l.becomes("Harness.model", "changes", Widens, func(p *plan.Plan) *string { return &harness(p).Model }, "one", "another")
	l.ranks("Harness.thinking", func(p *plan.Plan) *string { return &harness(p).Thinking }, "low", "high")
	l.list("Harness.tools", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &harness(p).Tools })
	l.present("Harness.auth_store", Widens, Narrows, Widens, func(p *plan.Plan) *string { return &harness(p).AuthStore })
	l.flips("Harness.test_stub", Narrows, Widens, func(p *plan.Plan) *bool { return &harness(p).TestStub })
}

func (l *changes) addNode() {
	worker := func(id string) plan.Node { return plan.Node{ID: id, Kind: plan.NodeAgent, Skill: "skill:extra"} }
	check := plan.Node{ID: "refine.extra", Kind: plan.NodeCheck, Check: &plan.Check{Name: "extra", Of: "refine"}}
	add := func(n plan.Node) func(p *plan.Plan) {
		return func(p *plan.Plan) { p.Nodes = append(slices.Clone(p.Nodes), n) }
	}
	l.both("Plan.nodes", "a worker added", Widens, "a worker without a required output removed", Narrows, add(worker("extra")))
	giver := worker("extra")
	giver.Outputs = []plan.NodeOutput{{Artifact: "evidence", Required: plan.RequiredAtEnd}}
	l.both("Plan.nodes", "a worker added", Widens, "a worker with a required output removed", Widens, add(giver))
	l.after("Plan.nodes", "an alternative removed", Narrows, func(p *plan.Plan) {
		p.Nodes = slices.Delete(slices.Clone(p.Nodes), 6, 7)
		p.Branches[0].Alternatives = p.Branches[0].Alternatives[:1]
	})
	l.after("Plan.nodes", "a worker with a required output removed", Widens, func(p *plan.Plan) {
		p.Nodes = slices.Delete(slices.Clone(p.Nodes), 6, 7)
		p.Branches = nil
	})
	l.both("Plan.nodes", "a check added", Widens, "a check removed", Widens, add(check))
	l.after("Plan.nodes", "reordered", Neutral, func(p *plan.Plan) { p.Nodes[1], p.Nodes[2] = p.Nodes[2], p.Nodes[1] })

	node := func(p *plan.Plan) *plan.Node { return &p.Nodes[0] }
	l.after("Node.id", "renamed", Neutral, func(p *plan.Plan) { node(p).ID = "other" })
	l.add("Node.id", "to one that looks the same", Widens, func(a, b *plan.Plan) { node(a).ID, node(b).ID = "sum-1", "sum-l" })
	l.becomes("Node.kind", "changes", Widens, func(p *plan.Plan) *string { return &node(p).Kind }, plan.NodeAgent, plan.NodeJudge)
	l.after("Node.phase", "changes", Neutral, func(p *plan.Plan) { node(p).Phase++ })
	l.add("Node.needs", "does not wait for it any more", Widens, func(a, b *plan.Plan) { a.Nodes[1].Needs, b.Nodes[1].Needs = []string{"summarize"}, nil })
	l.add("Node.needs", "waits for it by way of others", Neutral, func(a, b *plan.Plan) {
		a.Nodes[9].Needs, b.Nodes[9].Needs = []string{"summarize", "summarize#2"}, []string{"summarize#2"}
	})
	l.add("Node.needs", "waited for what is gone", Neutral, func(a, b *plan.Plan) {
		a.Nodes = append(a.Nodes, worker("gone"))
		a.Nodes[9].Needs, b.Nodes[9].Needs = []string{"gone", "summarize#2"}, []string{"summarize#2"}
	})
	l.add("Node.needs", "waits for one more", Narrows, func(a, b *plan.Plan) { a.Nodes[2].Needs, b.Nodes[2].Needs = nil, []string{"draft"} })
	l.add("Node.needs", "waited for it by way of others", Neutral, func(a, b *plan.Plan) {
		a.Nodes[9].Needs, b.Nodes[9].Needs = []string{"summarize#2"}, []string{"summarize", "summarize#2"}
	})
	l.add("Node.needs", "reordered", Neutral, func(a, b *plan.Plan) {
		a.Nodes[9].Needs, b.Nodes[9].Needs = []string{"draft", "refine"}, []string{"refine", "draft"}
	})
	l.becomes("Node.skill", "changes", Widens, func(p *plan.Plan) *string { return &node(p).Skill }, "skill:summarize", "skill:draft")
	l.list("Node.nested_skills", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &node(p).NestedSkills })
	l.becomes("Node.harness", "changes", Widens, func(p *plan.Plan) *string { return &node(p).Harness }, "medium", "stub")
	l.both("Node.check", "removed", Widens, "added", Narrows, func(p *plan.Plan) { p.Nodes[4].Check = nil })
	l.becomes("Node.prompt", "changes", Widens, func(p *plan.Plan) *string { return &node(p).Prompt }, "Do.\n", "Do more.\n")
	skillOf := func(p *plan.Plan) *plan.Bundle {
		return &p.Bundles[slices.IndexFunc(p.Bundles, func(b plan.Bundle) bool { return b.ID == node(p).Skill })]
	}
	l.add("Node.prompt", "changes only in the digests of bundles that changed", Neutral, func(a, b *plan.Plan) {
		skillOf(b).Digest = plan.Digest([]byte("another"))
		node(a).Prompt, node(b).Prompt = "It is "+skillOf(a).Digest+".\n", "It is "+skillOf(b).Digest+".\n"
	})
	entries(l, "Node.files", Widens, Widens, func(p *plan.Plan) *[]plan.File { return &node(p).Files }, plan.File{Path: "{scratch}/extra"})
	l.becomes("File.content", "changes", Widens, func(p *plan.Plan) *string { return &node(p).Files[0].Content }, "one\n", "another\n")
	entries(l, "Node.inputs", Widens, Narrows, func(p *plan.Plan) *[]plan.NodeInput { return &node(p).Inputs }, plan.NodeInput{Artifact: "extra"})
	l.list("Node.not_applicable", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &node(p).NotApplicable })
	l.outputs("Node.outputs", func(p *plan.Plan) *[]plan.NodeOutput { return &node(p).Outputs })
	l.grows("Node.submit_attempts", func(p *plan.Plan) *int64 { return &node(p).SubmitAttempts })
	l.flips("Node.require_activation", Narrows, Widens, func(p *plan.Plan) *bool { return &node(p).RequireActivation })

	l.becomes("Check.name", "changes", Neutral, func(p *plan.Plan) *string { return &p.Nodes[4].Check.Name }, "one", "another")
	l.becomes("Check.of", "changes", Widens, func(p *plan.Plan) *string { return &p.Nodes[4].Check.Of }, "review", "draft")
	l.present("Check.tool", Neutral, Neutral, Widens, func(p *plan.Plan) *string { return &p.Nodes[4].Check.Tool })
	l.both("Check.assert", "is dropped", Widens, "is set", Narrows, func(p *plan.Plan) { p.Nodes[4].Check.Assert = nil })
	l.predicates("Check.assert", func(p *plan.Plan) *plan.Expr { return p.Nodes[4].Check.Assert })
	l.flips("Check.blocking", Narrows, Widens, func(p *plan.Plan) *bool { return &p.Nodes[4].Check.Blocking })
	l.flips("Check.trusted_host", Widens, Narrows, func(p *plan.Plan) *bool { return &p.Nodes[4].Check.TrustedHost })

	l.list2("Process.argv", func(p *plan.Plan) *[]string { return &node(p).Process.Argv })
	l.list("Process.env", Widens, Widens, Neutral, func(p *plan.Plan) *[]string { return &node(p).Process.Env })
	l.becomes("Process.cwd", "changes", Widens, func(p *plan.Plan) *string { return &node(p).Process.Cwd }, "{scratch}", "{out}")
	l.present("Process.user", Widens, Widens, Widens, func(p *plan.Plan) *string { return &node(p).Process.User })

	in := func(p *plan.Plan) *plan.NodeInput { return &node(p).Inputs[0] }
	l.becomes("NodeInput.from", "changes", Widens, func(p *plan.Plan) *string { return &in(p).From }, "input:source", "input:refs")
	l.present("NodeInput.carried_from", Widens, Narrows, Widens, func(p *plan.Plan) *string { return &in(p).CarriedFrom })
	l.flips("NodeInput.required", Narrows, Widens, func(p *plan.Plan) *bool { return &in(p).Required })
	l.ranks("NodeInput.kind", func(p *plan.Plan) *string { return &in(p).Kind }, plan.KindJSON, plan.KindFile)
	l.becomes("NodeInput.path", "changes", Widens, func(p *plan.Plan) *string { return &in(p).Path }, "one", "another")
	l.present("NodeInput.schema", Narrows, Widens, Widens, func(p *plan.Plan) *string { return &in(p).Schema })

	out := func(p *plan.Plan) *plan.NodeOutput { return &node(p).Outputs[0] }
	l.becomes("NodeOutput.filename", "changes", Neutral, func(p *plan.Plan) *string { return &out(p).Filename }, "one", "another")
	l.ranks("NodeOutput.kind", func(p *plan.Plan) *string { return &out(p).Kind }, plan.KindJSON, plan.KindFile)
	l.present("NodeOutput.schema", Narrows, Widens, Widens, func(p *plan.Plan) *string { return &out(p).Schema })
	l.ranks("NodeOutput.required", func(p *plan.Plan) *string { return &out(p).Required }, plan.RequiredAlways, plan.RequiredAtEnd)
	l.ranks("NodeOutput.required", func(p *plan.Plan) *string { return &out(p).Required }, plan.RequiredAtEnd, plan.Optional)
}

func (l *changes) outputs(row string, of func(p *plan.Plan) *[]plan.NodeOutput) {
	entries(l, row, Widens, Widens, of, plan.NodeOutput{Artifact: "extra", Required: plan.RequiredAlways})
	l.add(row, "an optional one removed", Narrows, func(a, _ *plan.Plan) {
		*of(a) = append(slices.Clone(*of(a)), plan.NodeOutput{Artifact: "extra", Required: plan.Optional})
	})
}

// predicates: see TestPredicates for what is provable.
func (l *changes) predicates(row string, of func(p *plan.Plan) *plan.Expr) {
	x, y := exists("x"), exists("y")
	l.add(row, "is provably narrower", Narrows, func(a, b *plan.Plan) { *of(a), *of(b) = x, op(plan.OpAll, x, y) })
	l.add(row, "changes", Widens, func(a, b *plan.Plan) { *of(a), *of(b) = op(plan.OpAll, x, y), x })
	l.add(row, "says the same in other words", Neutral, func(a, b *plan.Plan) { *of(a), *of(b) = op(plan.OpAll, x, y), op(plan.OpAll, y, x) })
}

func (l *changes) addSandbox() {
	box := func(p *plan.Plan) *plan.Sandbox { return &p.Nodes[0].Sandbox }
	l.ranks("Sandbox.mode", func(p *plan.Plan) *string { return &box(p).Mode }, plan.SandboxContainer, plan.SandboxLocal)
	l.present("Sandbox.image", Widens, Widens, Widens, func(p *plan.Plan) *string { return &box(p).Image })
	network := func(p *plan.Plan) *string { return &box(p).Network }
	for _, more := range []string{plan.NetworkProvider, plan.NetworkEgress, plan.NetworkBridge} {
		l.ranks("Sandbox.network", network, plan.NetworkNone, more)
	}
	l.ranks("Sandbox.network", network, plan.NetworkEgress, plan.NetworkBridge)
	l.becomes("Sandbox.network", "changes", Widens, network, plan.NetworkProvider, plan.NetworkEgress)
	l.becomes("Sandbox.network", "changes", Widens, network, plan.NetworkEgress, plan.NetworkProvider)
	l.list("Sandbox.egress_hosts", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &box(p).EgressHosts })
	l.list("Sandbox.credentials", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &box(p).Credentials })
	l.list("Sandbox.worker_credentials", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &box(p).WorkerCredentials })
	entries(l, "Sandbox.mounts", Widens, Narrows, func(p *plan.Plan) *[]plan.Mount { return &box(p).Mounts }, plan.Mount{Destination: "/extra"})
	l.add("Sandbox.mounts", "one inside a writable folder removed", Widens, func(a, _ *plan.Plan) {
		box(a).Mounts = append(slices.Clone(box(a).Mounts), plan.Mount{Destination: "/scratch/kept", Mode: plan.MountReadOnly})
	})
	l.flips("Sandbox.allow_shell", Widens, Narrows, func(p *plan.Plan) *bool { return &box(p).AllowShell })
	l.flips("Sandbox.allow_fetch", Widens, Narrows, func(p *plan.Plan) *bool { return &box(p).AllowFetch })
	l.becomes("Mount.source", "changes", Widens, func(p *plan.Plan) *string { return &box(p).Mounts[0].Source }, "skill:a", "skill:b")
	l.ranks("Mount.mode", func(p *plan.Plan) *string { return &box(p).Mounts[0].Mode }, plan.MountReadOnly, plan.MountReadWrite)
	l.grows("Mount.bytes", func(p *plan.Plan) *int64 { return &box(p).Mounts[0].Bytes })
	l.grows("Resources.memory_bytes", func(p *plan.Plan) *int64 { return &box(p).Resources.MemoryBytes })
	l.grows("Resources.pids", func(p *plan.Plan) *int64 { return &box(p).Resources.PIDs })
	l.grows("Resources.cpu_millis", func(p *plan.Plan) *int64 { return &box(p).Resources.CPUMillis })
	budget := func(p *plan.Plan) *plan.NodeBudget { return &p.Nodes[0].Budget }
	l.grows("NodeBudget.wall_seconds", func(p *plan.Plan) *int64 { return &budget(p).WallSeconds })
	l.grows("NodeBudget.turns", func(p *plan.Plan) *int64 { return &budget(p).Turns })
	l.grows("NodeBudget.tool_calls", func(p *plan.Plan) *int64 { return &budget(p).ToolCalls })
	l.grows("NodeBudget.tokens", func(p *plan.Plan) *int64 { return &budget(p).Tokens })
	l.grows("NodeBudget.cost_micro_usd", func(p *plan.Plan) *int64 { return &budget(p).CostMicroUSD })
	l.grows("NodeBudget.output_bytes", func(p *plan.Plan) *int64 { return &budget(p).OutputBytes })
	l.grows("NodeBudget.output_files", func(p *plan.Plan) *int64 { return &budget(p).OutputFiles })
}

func (l *changes) addFlow() {
	entries(l, "Plan.loops", Widens, Widens, func(p *plan.Plan) *[]plan.Loop { return &p.Loops }, plan.Loop{ID: "extra"})
	loop := func(p *plan.Plan) *plan.Loop { return &p.Loops[0] }
	l.after("Loop.id", "renamed", Neutral, func(p *plan.Plan) { loop(p).ID = "other" })
	l.add("Loop.id", "to one that looks the same", Widens, func(a, b *plan.Plan) { loop(a).ID, loop(b).ID = "one-1", "one-l" })
	l.list("Loop.body", Widens, Widens, Widens, func(p *plan.Plan) *[]string { return &loop(p).Body })
	l.predicates("Loop.until", func(p *plan.Plan) *plan.Expr { return &loop(p).Until })
	l.grows("Loop.max_iterations", func(p *plan.Plan) *int64 { return &loop(p).MaxIterations })
	l.list("Loop.carries", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &loop(p).Carries })

	entries(l, "Plan.branches", Widens, Widens, func(p *plan.Plan) *[]plan.Branch { return &p.Branches }, plan.Branch{ID: "extra"})
	branch := func(p *plan.Plan) *plan.Branch { return &p.Branches[0] }
	l.after("Branch.id", "renamed", Neutral, func(p *plan.Plan) { branch(p).ID = "other" })
	l.add("Branch.id", "to one that looks the same", Widens, func(a, b *plan.Plan) { branch(a).ID, branch(b).ID = "one-1", "one-l" })
	l.becomes("Branch.pattern", "changes", Neutral, func(p *plan.Plan) *string { return &branch(p).Pattern }, "one", "another")
	l.list("Branch.alternatives", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &branch(p).Alternatives })
	l.predicates("Branch.accept", func(p *plan.Plan) *plan.Expr { return &branch(p).Accept })
	otherwise := func(p *plan.Plan) *string { return &branch(p).Otherwise }
	l.becomes("Branch.otherwise", "is set", Widens, otherwise, plan.OtherwiseFail, "input:refs")
	l.becomes("Branch.otherwise", "is dropped", Narrows, otherwise, "input:refs", plan.OtherwiseFail)
	l.becomes("Branch.otherwise", "changes", Widens, otherwise, "input:refs", "input:source")
	l.list("Branch.artifacts", Widens, Narrows, Neutral, func(p *plan.Plan) *[]string { return &branch(p).Artifacts })
}

func (l *changes) addCallable() {
	call := func(p *plan.Plan) *plan.Callable { return &p.Package.Callable[0] }
	entries(l, "Package.callable", Widens, Narrows, func(p *plan.Plan) *[]plan.Callable { return &p.Package.Callable }, plan.Callable{Skill: "skill:extra"})
	l.becomes("Package.bundle", "changes", Widens, func(p *plan.Plan) *string { return &p.Package.Bundle }, "package:a", "package:b")
	l.becomes("Callable.harness", "changes", Widens, func(p *plan.Plan) *string { return &call(p).Harness }, "medium", "stub")
	l.grows("Callable.max_calls", func(p *plan.Plan) *int64 { return &call(p).MaxCalls })
	l.becomes("Callable.prompt", "changes", Widens, func(p *plan.Plan) *string { return &call(p).Prompt }, "Do.\n", "Do more.\n")
	l.add("Callable.prompt", "changes only in the digests of bundles that changed", Neutral, func(a, b *plan.Plan) {
		for i, p := range []*plan.Plan{a, b} {
			k := slices.IndexFunc(p.Bundles, func(x plan.Bundle) bool { return x.ID == call(p).Skill })
			p.Bundles[k].Digest = plan.Digest([]byte(strings.Repeat("x", i)))
			call(p).Prompt = "It is " + p.Bundles[k].Digest
		}
	})
	entries(l, "Callable.files", Widens, Widens, func(p *plan.Plan) *[]plan.File { return &call(p).Files }, plan.File{Path: "{scratch}/extra"})
	l.outputs("Callable.outputs", func(p *plan.Plan) *[]plan.NodeOutput { return &call(p).Outputs })
	l.list2("Process.argv", func(p *plan.Plan) *[]string { return &call(p).Process.Argv })
	l.flips("Sandbox.allow_shell", Widens, Narrows, func(p *plan.Plan) *bool { return &call(p).Sandbox.AllowShell })
	l.grows("NodeBudget.turns", func(p *plan.Plan) *int64 { return &call(p).Budget.Turns })
}

func (l *changes) addEvaluation() {
	e := func(p *plan.Plan) *plan.Evaluation { return p.Evaluation }
	l.both("Plan.evaluation", "removed", Widens, "added", Widens, func(p *plan.Plan) { p.Evaluation = nil })
	l.ranks("Evaluation.require", func(p *plan.Plan) *string { return &e(p).Require }, "all", "supported")
	l.becomes("Evaluation.judge", "changes", Widens, func(p *plan.Plan) *string { return &e(p).Judge }, "medium", "stub")
	entries(l, "Evaluation.properties", Narrows, Widens, func(p *plan.Plan) *[]plan.Property { return &e(p).Properties }, plan.Property{Key: "extra"})
	property := func(p *plan.Plan) *plan.Property { return &e(p).Properties[0] }
	l.becomes("Property.digest", "changes", Widens, func(p *plan.Plan) *string { return &property(p).Digest }, "one", "another")
	l.present("Property.binding", Neutral, Widens, Widens, func(p *plan.Plan) *string { return &property(p).Binding })
	entries(l, "Evaluation.cases", Narrows, Widens, func(p *plan.Plan) *[]plan.Case { return &e(p).Cases }, plan.Case{Key: "extra"})
	l.present("Case.fixture", Widens, Widens, Widens, func(p *plan.Plan) *string { return &e(p).Cases[0].Fixture })
	l.becomes("Case.digest", "changes", Widens, func(p *plan.Plan) *string { return &e(p).Cases[0].Digest }, "one", "another")
}

// op and exists make predicates.
func op(name string, args ...plan.Expr) plan.Expr { return plan.Expr{Op: name, Args: args} }

func exists(artifact string) plan.Expr {
	return op(plan.OpExists, plan.Expr{Op: plan.OpFact, Fact: &plan.Fact{Source: plan.FactOutput, Name: artifact, Field: "exists"}})
}
