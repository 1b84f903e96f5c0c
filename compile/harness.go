package compile

import (
	"encoding/json"
	"fmt"
	"slices"

	"foundry/compile/internal/policy"
	"foundry/harness"
	"foundry/plan"
)

// worker is one harness of the policy, checked against its adapter.
type worker struct {
	plan     plan.Harness
	adapter  harness.Adapter
	caps     harness.Capabilities
	provider *plan.Provider
	script   []byte
	recorded string // folder that a test stub copies from
	decl     *policy.Harness
	used     bool
	bad      bool // an error about it was given
}

type harnesses map[string]*worker

// resolveHarnesses checks every harness block, used or not: a word that means
// nothing is an error wherever it stands.
func (c *compiler) resolveHarnesses() {
	c.harness = harnesses{}
	c.checkProviders()
	for _, h := range c.pol.Harnesses {
		mark := len(c.diags)
		if w := c.resolveHarness(h); w != nil {
			w.bad = c.diags[mark:].HasErrors()
			c.harness[h.Name] = w
		}
	}
	c.idleOverrides()
	var names []string
	for _, h := range c.pol.Harnesses {
		names = append(names, h.Name)
	}
	for _, from := range sortedKeys(c.opts.Override.Harness) {
		for _, name := range []string{from, c.opts.Override.Harness[from]} {
			if !slices.Contains(names, name) {
				c.diags.Errorat(fromCommandLine, "Unknown harness", "--harness names `"+name+"`, and the policy has no such harness. "+hint(name, names))
			}
		}
	}
}

// checkProviders requires the prices that the language leaves open: a worker
// may read and write the cache whether the policy thinks of it or not.
func (c *compiler) checkProviders() {
	c.answers = map[string][]byte{}
	for _, p := range c.pol.Providers {
		c.readAnswers(p)
		for _, m := range p.Models {
			for _, f := range []struct {
				name string
				t    policy.Text
			}{{"cache_read", m.CacheRead}, {"cache_write", m.CacheWrite}} {
				if !f.t.Set() {
					c.diags.Errorat(m.At, "Price is unknown", "The model `"+m.ID+"` has no `"+f.name+"` in its `price`; an unknown price would make every budget on cost blind. Write all four, in USD per million tokens, as strings.")
				}
			}
		}
	}
}

// readAnswers reads the script of a scripted provider. What is in it is the
// broker's business, which refuses a bad one before anything starts.
func (c *compiler) readAnswers(p *policy.Provider) {
	if !p.Script.Set() {
		return
	}
	if p.BaseURL.Set() {
		c.diags.Errorat(p.BaseURL.At, "Provider is scripted", "The provider `"+p.Name+"` answers from a script and reaches nobody: take out `base_url` or `script`.")
	}
	data, ok := c.readFile(p.Script.Value, p.Script.At, "Script cannot be read")
	if ok && !json.Valid(data) {
		c.diags.Errorat(p.Script.At, "Script cannot be read", "`"+p.Script.Value+"` is no JSON document.")
	}
	c.answers[p.Name] = data
}

// scriptID is the bundle of a scripted provider's answers, "" for a real one.
func scriptID(p *policy.Provider) string {
	if !p.Script.Set() {
		return ""
	}
	return plan.BundleScript + ":" + p.Name
}

// useAnswers puts the answers of a scripted provider into the plan.
func (c *compiler) useAnswers(p *plan.Provider) {
	if p.Script == "" {
		return
	}
	data := c.answers[p.Name]
	file := plan.BundleFile{Path: "provider.json", Mode: plan.ModeRegular, Bytes: int64(len(data)), Digest: plan.Digest(data)}
	digest, err := plan.TreeDigest([]plan.BundleFile{file})
	if err != nil {
		c.diags.Errorat(c.policy, "Script cannot be read", sentence(err.Error()))
		return
	}
	c.addBundle(plan.Bundle{ID: p.Script, Digest: digest, Files: []plan.BundleFile{file}}, map[string][]byte{file.Path: data})
}

func (c *compiler) resolveHarness(h *policy.Harness) *worker {
	name := h.Adapter.Value
	adapter := c.opts.Adapters[name]
	if adapter == nil {
		c.diags.Errorat(h.Adapter.At, "Unknown adapter", "This program has no adapter "+quote(name)+". "+hint(name, sortedKeys(c.opts.Adapters)))
		return nil
	}
	caps, err := adapter.Capabilities(h.Version.Value)
	if err != nil {
		at := h.At
		if h.Version.Set() {
			at = h.Version.At
		}
		c.diags.Errorat(at, "Unknown version", "The harness `"+h.Name+"`: "+sentence(err.Error()))
		return nil
	}
	w := &worker{adapter: adapter, caps: caps, decl: h, plan: plan.Harness{Name: h.Name, Adapter: name, Version: h.Version.Value, TestStub: h.TestStub.Value}}
	if caps.TestStub && !h.TestStub.Value {
		c.diags.Errorat(h.At, "Test stub without a word", "The adapter `"+name+"` is no agent: it plays a script. Say that you know with `test_stub = true`.")
	}
	if !caps.TestStub && h.TestStub.Value {
		c.diags.Errorat(h.TestStub.At, "Not a test stub", "The adapter `"+name+"` is a real agent; remove `test_stub`.")
	}
	c.resolveAuth(w, h)
	c.resolveModel(w, h)
	c.resolveTools(w, h)
	c.readStub(w, h)
	return w
}

// resolveAuth takes the label of a login that a local run lends to the agent.
func (c *compiler) resolveAuth(w *worker, h *policy.Harness) {
	if !h.Auth.Set() {
		return
	}
	w.plan.AuthStore = h.Auth.Value
	if !w.caps.AuthStore {
		c.diags.Errorat(h.Auth.At, "No login to lend", "The adapter `"+h.Adapter.Value+"` has no login of its own: take out `auth_store`.")
	}
}

func (c *compiler) resolveModel(w *worker, h *policy.Harness) {
	ov := c.opts.Override
	provider, model, thinking := h.Provider, h.Model, h.Thinking
	if provider.Set() {
		override(&provider, ov.Provider)
	}
	if model.Set() {
		override(&model, ov.Model)
	}
	if thinking.Set() || len(w.caps.Thinking) > 0 {
		override(&thinking, ov.Thinking)
	}
	if thinking.Set() {
		w.plan.Thinking = thinking.Value
		if !slices.Contains(w.caps.Thinking, thinking.Value) {
			c.diags.Errorat(thinking.At, "Unknown thinking level", "The adapter `"+h.Adapter.Value+"` has no level "+quote(thinking.Value)+". "+hint(thinking.Value, w.caps.Thinking))
		}
	}
	if !provider.Set() {
		if w.caps.NeedsProvider {
			c.diags.Errorat(h.At, "Harness without a provider", "The adapter `"+h.Adapter.Value+"` reaches a model through a provider: write `provider` and `model`.")
		}
		if model.Set() {
			c.diags.Errorat(model.At, "Model without a provider", "A model belongs to a provider: write `provider` too.")
		}
		return
	}
	i := slices.IndexFunc(c.pol.Providers, func(p *policy.Provider) bool { return p.Name == provider.Value })
	if i < 0 {
		var names []string
		for _, p := range c.pol.Providers {
			names = append(names, p.Name)
		}
		c.diags.Errorat(provider.At, "Unknown provider", "The policy has no provider "+quote(provider.Value)+". "+hint(provider.Value, names))
		return
	}
	p := c.pol.Providers[i]
	if !w.caps.TestStub && !p.Script.Set() && !p.BaseURL.Set() && !h.Auth.Set() {
		c.diags.Errorat(p.At, "Provider without an address", "The broker reaches the provider `"+p.Name+"` nowhere but at its `base_url`: write it, or `script` for a scripted one.")
	}
	if w.caps.APIs != nil && !slices.Contains(w.caps.APIs, p.API.Value) {
		c.diags.Errorat(provider.At, "Provider speaks another API", "The adapter `"+h.Adapter.Value+"` cannot speak "+quote(p.API.Value)+". "+hint(p.API.Value, w.caps.APIs))
	}
	var models []string
	for _, m := range p.Models {
		models = append(models, m.ID)
		if m.ID == model.Value {
			w.plan.Provider, w.plan.Model = p.Name, m.ID
			w.provider = &plan.Provider{Name: p.Name, API: p.API.Value, BaseURL: p.BaseURL.Value, Credential: p.Credential.Value, Script: scriptID(p), Models: []plan.Model{{
				ID: m.ID, MaxOutput: m.MaxOutput.Value,
				Price: plan.Price{Input: m.Input.Value, Output: m.Output.Value, CacheRead: m.CacheRead.Value, CacheWrite: m.CacheWrite.Value},
			}}}
			return
		}
	}
	at := model.At
	if !model.Set() {
		at = h.At
	}
	c.diags.Errorat(at, "Unknown model", "The provider `"+p.Name+"` lists no model "+quote(model.Value)+"; only listed models exist. "+hint(model.Value, models))
}

func (c *compiler) resolveTools(w *worker, h *policy.Harness) {
	for _, t := range h.Tools.Items {
		if !slices.Contains(w.caps.Tools, t.Value) {
			c.diags.Errorat(t.At, "Unknown tool", "The adapter `"+h.Adapter.Value+"` cannot give the tool "+quote(t.Value)+". "+hint(t.Value, w.caps.Tools))
		}
	}
	w.plan.Tools = namesOf(h.Tools)
}

// idleOverrides warns of words of the command line that no harness takes.
func (c *compiler) idleOverrides() {
	ov := c.opts.Override
	for _, f := range []struct {
		flag, value string
		takes       func(*worker) bool
	}{
		{"--provider", ov.Provider, func(w *worker) bool { return w.decl.Provider.Set() }},
		{"--model", ov.Model, func(w *worker) bool { return w.decl.Model.Set() }},
		{"--thinking", ov.Thinking, func(w *worker) bool { return w.plan.Thinking != "" }},
	} {
		taken := false
		for _, w := range c.harness {
			taken = taken || f.takes(w)
		}
		if f.value != "" && !taken {
			c.diags.Warnat(fromCommandLine, "Flag without effect", "`"+f.flag+" "+f.value+"` changes nothing: no harness of the policy has what it replaces.")
		}
	}
}

// readStub reads the script of a test stub and checks the nodes it names.
func (c *compiler) readStub(w *worker, h *policy.Harness) {
	if !w.caps.TestStub {
		for _, t := range []policy.Text{h.Script, h.Recorded} {
			if t.Set() {
				c.diags.Errorat(t.At, "Not a test stub", "Only a test stub plays a script; the adapter `"+h.Adapter.Value+"` is a real agent.")
			}
		}
		return
	}
	if !h.Script.Set() {
		c.diags.Errorat(h.At, "Test stub without a script", "The harness `"+h.Name+"` plays a script: write `script = \"….json\"`.")
		return
	}
	data, ok := c.readFile(h.Script.Value, h.Script.At, "Script cannot be read")
	if !ok {
		return
	}
	w.script = data
	w.recorded = h.Recorded.Value
	player, ok := w.adapter.(harness.Player)
	if !ok {
		return
	}
	names, err := player.Nodes(data)
	if err != nil {
		c.diags.Errorat(h.Script.At, "Script cannot be read", fileError(h.Script.Value, err))
		w.script = nil
		return
	}
	for _, n := range names {
		if c.steps[n] == nil {
			c.diags.Errorat(h.Script.At, "Unknown phase", fmt.Sprintf("The script %s has steps for `%s`, and the pipeline has no such phase. %s", h.Script.Value, n, hint(n, sortedKeys(c.steps))))
		}
	}
}

// workerOf is the harness that a step uses, nil after an error.
func (c *compiler) workerOf(s *step) *worker {
	t := policy.Text{}
	if d := c.pol.Defaults; d != nil {
		t = d.Harness
	}
	for _, p := range s.policies {
		if p.Harness.Set() {
			t = p.Harness
		}
	}
	if !t.Set() {
		c.diags.Errorat(s.at, "Phase without a worker", "`"+s.id+"` has no harness: write `harness = \"NAME\"` in "+blockFor(s)+" or in `defaults`.")
		return nil
	}
	name := t.Value
	if other, ok := c.opts.Override.Harness[name]; ok {
		name = other
	}
	w := c.harness[name]
	if w == nil {
		if !slices.ContainsFunc(c.pol.Harnesses, func(h *policy.Harness) bool { return h.Name == name }) {
			var names []string
			for _, h := range c.pol.Harnesses {
				names = append(names, h.Name)
			}
			c.diags.Errorat(t.At, "Unknown harness", "The policy has no harness "+quote(name)+". "+hint(name, names))
		}
		return nil
	}
	w.used = true
	return w
}
