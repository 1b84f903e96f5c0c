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

// Places below the scratch folder.
const (
	configDir    = "{scratch}/pi"
	modelsFile   = configDir + "/models.json"
	settingsFile = configDir + "/settings.json"
	authFile     = configDir + "/auth.json"
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
	if err := checkLevel(req.Harness); err != nil {
		return harness.Lowered{}, err
	}
	network, files := plan.NetworkProvider, []plan.File{}
	if req.Harness.AuthStore != "" {
		network = plan.NetworkBridge // past the broker
	} else {
		models, err := modelsOf(req)
		if err != nil {
			return harness.Lowered{}, err
		}
		files = append(files, plan.File{Path: modelsFile, Content: models})
	}
	files = append(files, plan.File{Path: settingsFile, Content: settings(req.Harness.Version)})
	return harness.Lowered{
		Process: plan.Process{Argv: argv(req), Env: environment(), Cwd: "{scratch}", User: "65534:65534"},
		Files:   files,
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

func argv(req harness.Request) []string {
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
	out = append(out, "--provider", providerOf(h), "--model", h.Model, "--thinking", level(h), "--offline", "--no-approve")
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
		"PI_TELEMETRY=0",
		"TMPDIR={scratch}/tmp",
		"TZ=UTC",
	}
}

// settings are Pi's own defaults where they matter, so that the plan shows them:
// what fails in passing is tried again, three times. From 1.6.0 on Pi would also
// ask its provider for nothing but to keep a cache warm, outside every turn.
func settings(version string) string {
	retry := "{\n  \"retry\": {\"enabled\": true, \"maxRetries\": 3, \"baseDelayMs\": 2000}"
	if version == "1.6.0" {
		retry += ",\n  \"cacheWarming\": \"off\""
	}
	return retry + "\n}\n"
}

// Parts of models.json. A price of the plan is a decimal, and stands there as it
// is written.
type (
	cost struct {
		Input      json.Number `json:"input"`
		Output     json.Number `json:"output"`
		CacheRead  json.Number `json:"cacheRead"`
		CacheWrite json.Number `json:"cacheWrite"`
		Tiers      *[]struct{} `json:"tiers,omitempty"`
	}
	model struct {
		ID        string  `json:"id,omitempty"`
		Reasoning *bool   `json:"reasoning,omitempty"`
		MaxTokens int64   `json:"maxTokens"`
		Cost      cost    `json:"cost"`
		Compat    *compat `json:"compat,omitempty"`
	}
	compat struct {
		Fallbacks []struct{} `json:"allowedFallbackModels"`
	}
	entry struct {
		BaseURL   string           `json:"baseUrl"`
		API       string           `json:"api,omitempty"`
		APIKey    string           `json:"apiKey"`
		Models    []model          `json:"models,omitempty"`
		Overrides map[string]model `json:"modelOverrides,omitempty"`
	}
)

// modelsOf is the configuration of the one provider and its one model: the
// broker, and the prices and the bound of the plan. A model that Pi describes
// itself keeps that description, but for these, and but for other models that
// its provider may answer with instead.
func modelsOf(req harness.Request) (string, error) {
	i := slices.IndexFunc(req.Provider.Models, func(m plan.Model) bool { return m.ID == req.Harness.Model })
	if i < 0 {
		return "", fmt.Errorf("pi: the provider %s has no model %q", req.Provider.Name, req.Harness.Model)
	}
	m := req.Provider.Models[i]
	p := m.Price
	out := model{MaxTokens: m.MaxOutput, Cost: cost{Input: json.Number(p.Input), Output: json.Number(p.Output),
		CacheRead: json.Number(p.CacheRead), CacheWrite: json.Number(p.CacheWrite)}}
	e := entry{BaseURL: "{broker.url}", APIKey: "{broker.token}"}
	name := providerOf(req.Harness)
	if name == builtin {
		out.Cost.Tiers, out.Compat = &[]struct{}{}, &compat{Fallbacks: []struct{}{}}
		e.Overrides = map[string]model{m.ID: out}
	} else {
		thinks := level(req.Harness) != "off"
		out.ID, out.Reasoning = m.ID, &thinks
		e.API, e.Models = req.Provider.API, []model{out}
	}
	encoded, err := json.MarshalIndent(map[string]map[string]entry{"providers": {name: e}}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("pi: the configuration of the model %s: %w", m.ID, err)
	}
	return string(encoded) + "\n", nil
}
