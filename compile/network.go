package compile

import (
	"slices"

	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// network joins the policy's word with what the agent needs at least.
func (c *compiler) network(s *step, written, least string) string {
	switch {
	case least == plan.NetworkProvider && written == plan.NetworkNone:
		c.diags.Errorat(s.at, "Worker without its provider", "`"+s.id+"` needs its model's provider, and its network is \"none\": write `network = \"provider\"` in `sandbox`.")
	case least == plan.NetworkBridge && written != plan.NetworkBridge:
		c.diags.Errorat(s.at, "Worker past the broker", "`"+s.id+"` reaches its provider with a login of its own (`auth_store`), past the broker: nothing bounds what it spends or reaches. Write `network = \"bridge\"` in `sandbox` to say that you know, or take out `auth_store`.")
	}
	return written
}

// checkCredentials requires each credential to be one of a provider that the
// plan uses: the broker would have nowhere to send another.
func (c *compiler) checkCredentials() {
	known := map[string]bool{}
	for _, p := range c.plan.Providers {
		known[p.Credential] = p.Credential != ""
	}
	check := func(name string, at diag.Range) {
		if !known[name] {
			c.diags.Errorat(at, "Unknown credential", "No provider that this pipeline uses has the credential `"+name+"`, so the broker would have nowhere to send it. "+hint(name, sortedKeys(known)))
		}
	}
	for _, name := range c.opts.Override.Credentials {
		check(name, fromCommandLine)
	}
	blocks := []*policy.Sandbox{c.pol.Sandbox}
	for _, s := range c.walk {
		for _, p := range c.chain(s) {
			blocks = append(blocks, p.Sandbox)
		}
	}
	for _, b := range blocks {
		if b != nil {
			for _, t := range b.Credentials.Items {
				check(t.Value, t.At)
			}
		}
	}
}

func (c *compiler) credentials(sb plan.Sandbox, w *worker) []string {
	out := slices.Clone(sb.Credentials)
	if sb.Network == plan.NetworkProvider && w.provider != nil && w.provider.Credential != "" {
		out = append(out, w.provider.Credential)
	}
	return sortedSet(append(out, c.opts.Override.Credentials...))
}

// relayed starts a worker in a container behind the relay that joins it to its
// broker's socket, where it has one.
func relayed(n plan.Node) []string {
	if n.Sandbox.Mode != plan.SandboxContainer || n.Sandbox.Network != plan.NetworkProvider {
		return n.Process.Argv
	}
	return slices.Concat(plan.Relay(), n.Process.Argv)
}
