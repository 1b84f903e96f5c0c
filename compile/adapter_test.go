package compile_test

import (
	"fmt"

	"foundry/compile"
	"foundry/harness"
	"foundry/harness/scripted"
	"foundry/plan"
)

// realAgent stands for an adapter of a real agent: it needs a provider, has
// tools and levels of thinking, and its image must be named.
type realAgent struct{}

func (realAgent) Name() string { return "agent" }

func (realAgent) Capabilities(version string) (harness.Capabilities, error) {
	if version != "1" && version != "2" {
		return harness.Capabilities{}, fmt.Errorf("there is no version %q: this program knows 1 and 2", version)
	}
	return harness.Capabilities{
		Tools: []string{"bash", "edit", "read"}, Thinking: []string{"low", "high"},
		APIs: []string{"test-messages"}, NeedsProvider: true,
	}, nil
}

func (realAgent) Lower(req harness.Request) (harness.Lowered, error) {
	if req.Task == "do not lower" {
		return harness.Lowered{}, fmt.Errorf("the task cannot be said in one prompt")
	}
	argv := []string{"agent", "--model", req.Harness.Model}
	switch req.Task {
	case "shell":
		argv = []string{"bash", "-c", "agent"}
	case "fetch":
		argv = []string{"npx", "agent"}
	}
	return harness.Lowered{
		Process: plan.Process{Argv: argv, Env: []string{"HOME={scratch}"}, Cwd: "{scratch}", User: "65534:65534"},
		Files:   []plan.File{}, Prompt: "Use " + req.Skill + ". " + req.Task, Network: plan.NetworkProvider,
	}, nil
}

func (realAgent) Session(harness.SessionConfig) harness.Session { return nil }

func adaptersWithAgent() map[string]harness.Adapter {
	return map[string]harness.Adapter{scripted.Name: scripted.Adapter{}, "agent": realAgent{}}
}

// agentBlocks are a provider and a harness of a real agent.
const agentBlocks = `
provider "lab" {
  api        = "test-messages"
  base_url   = "https://lab.example"
  credential = "LAB_KEY"
  model "small" {
    price      = { input = "1", output = "2", cache_read = "0.1", cache_write = "1.25" }
    max_output = 1000
  }
  model "large" {
    price      = { input = "3", output = "9", cache_read = "0.3", cache_write = "3.75" }
    max_output = 4000
  }
}
harness "real" {
  adapter  = "agent"
  version  = "1"
  provider = "lab"
  model    = "small"
  thinking = "low"
  tools    = ["read", "bash"]
}
`

func overriding(o compile.Override) func(*compile.Options) {
	return func(opts *compile.Options) { opts.Override = o }
}
