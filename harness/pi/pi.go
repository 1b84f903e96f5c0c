package pi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"foundry/harness"
	"foundry/plan"
)

// Name is the adapter's word in a policy.
const Name = "pi"

// provider is the name of the one provider in the agent's configuration: no
// built-in one, so that nothing is taken from the environment or merged in.
const provider = "foundry"

// Places below the scratch folder.
const (
	configDir  = "{scratch}/pi"
	modelsFile = configDir + "/models.json"
	authFile   = configDir + "/auth.json"
)

// versions that this adapter was tried with.
var versions = []string{"0.84.4", "1.6.0"}

// tools that Pi brings itself, and the levels of thinking it knows, in order.
var (
	tools    = []string{"bash", "edit", "find", "grep", "ls", "read", "write"}
	thinking = []string{"off", "minimal", "low", "medium", "high", "xhigh", "max"}
)

// Adapter is the Pi coding agent.
type Adapter struct{}

var (
	_ harness.Adapter   = Adapter{}
	_ harness.Versioned = Adapter{}
	_ harness.Lender    = Adapter{}
)

// Name implements harness.Adapter.
func (Adapter) Name() string { return Name }

// Versions implements harness.Versioned.
func (Adapter) Versions() []string { return slices.Clone(versions) }

// Capabilities implements harness.Adapter. Pi's shell tool does not know a
// read-only policy: that is the sandbox's.
func (Adapter) Capabilities(version string) (harness.Capabilities, error) {
	if !slices.Contains(versions, version) {
		return harness.Capabilities{}, fmt.Errorf("pi: there is no version %q here: this program was tried with %s%s",
			version, strings.Join(versions, " and "), harness.DidYouMean(version, versions))
	}
	return harness.Capabilities{
		Tools: slices.Clone(tools), Thinking: slices.Clone(thinking), APIs: []string{"anthropic-messages"},
		NeedsProvider: true, AuthStore: true, WorkerPrograms: []string{"pi", "fd", "rg"}, VersionArgs: []string{"--version"},
	}, nil
}

// AuthFile implements harness.Lender.
func (Adapter) AuthFile() string { return authFile }

// Lower implements harness.Adapter.
func (a Adapter) Lower(req harness.Request) (harness.Lowered, error) {
	if _, err := a.Capabilities(req.Harness.Version); err != nil {
		return harness.Lowered{}, err
	}
	if req.Provider == nil || req.Harness.Model == "" {
		return harness.Lowered{}, fmt.Errorf("pi: the harness %s reaches a model through a provider: write provider and model", req.Harness.Name)
	}
	name, network := provider, plan.NetworkProvider
	models := []byte("{\"providers\": {}}\n")
	if req.Harness.AuthStore != "" {
		// Its own login is for one of its own providers.
		name, network = req.Provider.Name, plan.NetworkBridge
	} else {
		var err error
		if models, err = modelsOf(req); err != nil {
			return harness.Lowered{}, err
		}
	}
	return harness.Lowered{
		Process: plan.Process{Argv: argv(req, name), Env: environment(), Cwd: "{scratch}", User: "65534:65534"},
		Files:   []plan.File{{Path: modelsFile, Content: string(models)}},
		Prompt:  harness.Prompt(req, command(req.Skill)),
		Network: network,
	}, nil
}

// command is how a skill is asked for.
func command(skill string) string { return "/skill:" + skill }

// level is the level of thinking; Pi's own default depends on the model.
func level(h plan.Harness) string {
	if h.Thinking == "" {
		return "off"
	}
	return h.Thinking
}

func argv(req harness.Request, provider string) []string {
	h := req.Harness
	out := []string{"pi", "--mode", "rpc", "--no-session", "--no-context-files", "--no-extensions", "--no-prompt-templates",
		"--no-themes", "--no-skills", "--skill", "{skill}"}
	for _, nested := range req.NestedSkills {
		out = append(out, "--skill", "{skill:"+nested+"}")
	}
	if len(h.Tools) == 0 {
		out = append(out, "--no-tools")
	} else {
		out = append(out, "--tools", strings.Join(h.Tools, ","))
	}
	out = append(out, "--provider", provider, "--model", h.Model, "--thinking", level(h), "--offline", "--no-approve")
	if h.Version == "1.6.0" { // the first that has it
		out = append(out, "--no-mcp")
	}
	return out
}

// environment is all that the agent and its shell inherit, sorted. The token of
// the broker is not in it: a tool's output must not show it.
func environment() []string {
	return []string{
		"HOME={scratch}/home",
		"LANG=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PI_CODING_AGENT_DIR=" + configDir,
		"PI_OFFLINE=1",
		"TMPDIR={scratch}/tmp",
		"TZ=UTC",
	}
}

// modelsOf is the configuration of the one provider and its one model: the
// broker, with the prices of the plan as they are written there.
func modelsOf(req harness.Request) ([]byte, error) {
	type cost struct {
		Input      json.Number `json:"input"`
		Output     json.Number `json:"output"`
		CacheRead  json.Number `json:"cacheRead"`
		CacheWrite json.Number `json:"cacheWrite"`
	}
	type model struct {
		ID        string `json:"id"`
		Reasoning bool   `json:"reasoning"`
		MaxTokens int64  `json:"maxTokens"`
		Cost      cost   `json:"cost"`
	}
	type entry struct {
		BaseURL string  `json:"baseUrl"`
		API     string  `json:"api"`
		APIKey  string  `json:"apiKey"`
		Models  []model `json:"models"`
	}
	i := slices.IndexFunc(req.Provider.Models, func(m plan.Model) bool { return m.ID == req.Harness.Model })
	if i < 0 {
		return nil, fmt.Errorf("pi: the provider %s has no model %q", req.Provider.Name, req.Harness.Model)
	}
	m := req.Provider.Models[i]
	p := m.Price
	encoded, err := json.MarshalIndent(map[string]map[string]entry{"providers": {provider: {
		BaseURL: "{broker.url}", API: req.Provider.API, APIKey: "{broker.token}",
		Models: []model{{ID: m.ID, Reasoning: level(req.Harness) != "off", MaxTokens: m.MaxOutput,
			Cost: cost{json.Number(p.Input), json.Number(p.Output), json.Number(p.CacheRead), json.Number(p.CacheWrite)}}},
	}}}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("pi: the configuration of the model %s: %w", m.ID, err)
	}
	return append(encoded, '\n'), nil
}
