package compile

import (
	"path"
	"strings"

	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// Place is where the sources say what stands at a path of the plan that leads
// by ids, such as nodes[summarize-cwl].budget.turns: the word in the policy
// where one is written, else the block that it follows from, else the file. The
// zero Range where no source is to blame.
func (r *Result) Place(path string) Range {
	if r.compiler == nil {
		return Range{}
	}
	return r.compiler.sourceOf(path)
}

// Source is the text of a file that a place is in, nil where it was not kept.
func (r *Result) Source(file string) []byte { return r.Sources[file] }

func (c *compiler) sourceOf(path string) diag.Range {
	list, rest, ok := strings.Cut(path, "[")
	if !ok || strings.Contains(list, ".") {
		return c.placeOfRun(path)
	}
	id, rest, _ := strings.Cut(rest, "]")
	rest = strings.TrimPrefix(rest, ".")
	at := diag.Range{}
	switch list {
	case "nodes":
		at = c.placeOfNode(id, rest)
	case "loops", "branches":
		at = c.placeOfUnit(id, rest)
	case "inputs":
		at = c.placeOfInput(id)
	case "bundles":
		return c.placeOfBundle(id, rest)
	case "harnesses":
		at = c.placeOfHarness(id, rest)
	case "providers":
		at = c.placeOfProvider(id, rest)
	case "tools":
		for _, t := range c.pol.Tools {
			if t.Name == id {
				at = t.At
			}
		}
	case "probes":
		for _, p := range c.pol.Probes {
			if p.Tool == id {
				at = p.At
			}
		}
	}
	return or(at, c.policy)
}

// or is the first place that is one.
func or(places ...diag.Range) diag.Range {
	for _, p := range places {
		if p != (diag.Range{}) && p != fromCommandLine {
			return p
		}
	}
	return diag.Range{}
}

// placeOfRun is the place of what is said of the pipeline and the whole run.
func (c *compiler) placeOfRun(path string) diag.Range {
	first, rest, _ := strings.Cut(path, ".")
	switch first {
	case "order":
		return or(c.pol.Order.At, c.policy)
	case "pipeline":
		return or(c.pol.Assembly.At, c.policy)
	case "budget", "worst_case":
		b := c.pol.Budget
		if b == nil {
			return c.policy
		}
		word := map[string]diag.Range{"wall_seconds": b.WallSeconds.At, "cost_micro_usd": b.CostMicroUSD.At, "tokens": b.Tokens.At, "unknown": b.Unknown.At}
		if first == "worst_case" {
			return or(b.At, c.policy)
		}
		return or(word[rest], b.At, c.policy)
	}
	return c.policy
}

func (c *compiler) placeOfNode(id, rest string) diag.Range {
	if s := c.steps[id]; s != nil {
		return or(c.placeOfField(c.chain(s), c.pol.Sandbox, rest), s.place(false))
	}
	for _, s := range c.walk {
		for _, k := range s.checks {
			if k.id() == id {
				return c.placeOfCheck(k, rest)
			}
		}
	}
	return diag.Range{}
}

func (c *compiler) placeOfCheck(k *check, rest string) diag.Range {
	d := k.decl
	if d == nil {
		return k.at
	}
	switch {
	case rest == "process.argv":
		return or(d.Argv.At, d.At)
	case rest == "sandbox.image":
		return or(d.Image.At, d.At)
	case rest == "check.assert":
		return or(d.Assert.At, d.At)
	case rest == "check.blocking":
		return or(d.Blocking.At, d.At)
	case rest == "check.trusted_host":
		return or(d.TrustedHost.At, d.At)
	case strings.HasPrefix(rest, "budget.") && d.Budget != nil:
		return or(budgetPlaces(d.Budget)[strings.TrimPrefix(rest, "budget.")], d.Budget.At, d.At)
	}
	return or(d.At, k.at)
}

// placeOfField finds the block that has the last word on a field of a step.
func (c *compiler) placeOfField(chain []*policy.Phase, whole *policy.Sandbox, rest string) diag.Range {
	at := sandboxPlaces(whole)[rest]
	for _, p := range chain {
		at = or(phasePlaces(p)[rest], sandboxPlaces(p.Sandbox)[rest], at)
		if name, ok := strings.CutPrefix(rest, "budget."); ok && p.Budget != nil {
			at = or(budgetPlaces(p.Budget)[name], at)
		}
		for _, o := range p.Outputs {
			if strings.HasPrefix(rest, "outputs["+o.Artifact+"]") {
				at = or(o.At, at)
			}
		}
	}
	return at
}

func phasePlaces(p *policy.Phase) map[string]diag.Range {
	return map[string]diag.Range{
		"prompt": p.Task.At, "harness": p.Harness.At, "not_applicable": p.NotApplicable.At, "nested_skills": p.NestedSkills.At,
		"submit_attempts": p.SubmitAttempts.At, "require_activation": p.RequireActivation.At,
	}
}

func budgetPlaces(b *policy.NodeBudget) map[string]diag.Range {
	return map[string]diag.Range{
		"wall_seconds": b.WallSeconds.At, "turns": b.Turns.At, "tool_calls": b.ToolCalls.At, "tokens": b.Tokens.At,
		"cost_micro_usd": b.CostMicroUSD.At, "output_bytes": b.OutputBytes.At, "output_files": b.OutputFiles.At,
	}
}

func sandboxPlaces(b *policy.Sandbox) map[string]diag.Range {
	if b == nil {
		return nil
	}
	return map[string]diag.Range{
		"sandbox.mode": b.Mode.At, "sandbox.image": b.Image.At, "sandbox.network": b.Network.At, "sandbox.egress_hosts": b.EgressHosts.At,
		"sandbox.credentials": b.Credentials.At, "sandbox.worker_credentials": b.WorkerCredentials.At,
		"sandbox.resources.memory_bytes": b.MemoryBytes.At, "sandbox.resources.cpu_millis": b.CPUMillis.At, "sandbox.resources.pids": b.PIDs.At,
		"sandbox.mounts[" + destTmp + "].bytes": b.TmpBytes.At, "sandbox.mounts[" + destScratch + "].bytes": b.ScratchBytes.At,
		"sandbox.allow_shell": b.AllowShell.At, "sandbox.allow_fetch": b.AllowFetch.At,
	}
}

func (c *compiler) placeOfUnit(id, rest string) diag.Range {
	u := c.units[id]
	switch {
	case u == nil:
		return diag.Range{}
	case u.loop != nil:
		word := map[string]diag.Range{"until": u.loop.Until.At, "max_iterations": u.loop.MaxIterations.At, "body": u.loop.Phases.At}
		return or(word[rest], u.loop.At)
	case u.branch != nil:
		word := map[string]diag.Range{"accept": u.branch.Accept.At, "otherwise": u.branch.Otherwise.At}
		return or(word[rest], u.branch.At)
	}
	return u.at
}

func (c *compiler) placeOfInput(id string) diag.Range {
	var at diag.Range
	lists := [][]*policy.Input{c.pol.Inputs}
	for _, s := range c.pol.Scenarios {
		if s.Name == c.opts.Scenario {
			lists = append(lists, s.Inputs)
		}
	}
	for _, list := range lists {
		for _, in := range list {
			if in.Name == id {
				at = or(in.Path.At, in.At)
			}
		}
	}
	return at
}

// placeOfBundle is the file itself where it is one of a skill, else what names
// the bundle.
func (c *compiler) placeOfBundle(id, rest string) diag.Range {
	class, name, _ := strings.Cut(id, ":")
	switch class {
	case plan.BundleSkill:
		file, inFile := strings.CutPrefix(rest, "files[")
		file, _, _ = strings.Cut(file, "]")
		if inFile && plan.ValidPath(file) {
			return diag.Range{File: path.Join(c.pol.Skills.Value, name, file)}
		}
		return or(c.pol.Skills.At, c.policy)
	case plan.BundleInput:
		return or(c.placeOfInput(name), c.policy)
	}
	return c.policy
}

func (c *compiler) placeOfHarness(name, rest string) diag.Range {
	for _, h := range c.pol.Harnesses {
		if h.Name == name {
			word := map[string]diag.Range{
				"adapter": h.Adapter.At, "version": h.Version.At, "provider": h.Provider.At, "model": h.Model.At,
				"thinking": h.Thinking.At, "tools": h.Tools.At, "auth_store": h.Auth.At, "test_stub": h.TestStub.At,
			}
			return or(word[rest], h.At)
		}
	}
	return diag.Range{}
}

func (c *compiler) placeOfProvider(name, rest string) diag.Range {
	for _, p := range c.pol.Providers {
		if p.Name != name {
			continue
		}
		for _, m := range p.Models {
			if strings.HasPrefix(rest, "models["+m.ID+"]") {
				_, field, _ := strings.Cut(rest, "].")
				word := map[string]diag.Range{
					"max_output_tokens":                        m.MaxOutput.At,
					"price_usd_per_million_tokens.input":       m.Input.At,
					"price_usd_per_million_tokens.output":      m.Output.At,
					"price_usd_per_million_tokens.cache_read":  m.CacheRead.At,
					"price_usd_per_million_tokens.cache_write": m.CacheWrite.At,
				}
				return or(word[field], m.At)
			}
		}
		word := map[string]diag.Range{"api": p.API.At, "base_url": p.BaseURL.At, "credential": p.Credential.At, "script": p.Script.At}
		return or(word[rest], p.At)
	}
	return diag.Range{}
}
