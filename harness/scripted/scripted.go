package scripted

import (
	"fmt"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
)

// Name is the adapter's word in a policy, and the agent of contract.Input.
const Name = "scripted"

// Version is the only version there is.
const Version = "1"

// ScriptPath is where the worker finds its node's part of the script.
const ScriptPath = "{scratch}/script.json"

// Adapter is the test stub.
type Adapter struct{}

var (
	_ harness.Adapter   = Adapter{}
	_ harness.Versioned = Adapter{}
)

// Name implements harness.Adapter.
func (Adapter) Name() string { return Name }

// Versions implements harness.Versioned.
func (Adapter) Versions() []string { return []string{Version} }

// Capabilities implements harness.Adapter. The stub has no tools and no model.
func (Adapter) Capabilities(version string) (harness.Capabilities, error) {
	if version != Version {
		return harness.Capabilities{}, fmt.Errorf("scripted: there is no version %q: write version = %q", version, Version)
	}
	return harness.Capabilities{Tools: []string{}, TestStub: true, BuiltinImage: true}, nil
}

// Lower implements harness.Adapter. The process gets this node's part of the
// script alone: other nodes' steps do not leak, and a change to them changes
// nothing here.
func (a Adapter) Lower(req harness.Request) (harness.Lowered, error) {
	fail := func(err error) (harness.Lowered, error) {
		return harness.Lowered{}, fmt.Errorf("scripted: node %s: %w", req.Node, err)
	}
	if _, err := a.Capabilities(req.Harness.Version); err != nil {
		return harness.Lowered{}, err
	}
	if !req.Harness.TestStub {
		return fail(fmt.Errorf("the harness %s is a test stub: write test_stub = true", req.Harness.Name))
	}
	if req.Script == nil {
		return fail(fmt.Errorf("the harness %s has no script: write script = \"FILE.json\"", req.Harness.Name))
	}
	book, err := read(req.Script)
	if err != nil {
		return harness.Lowered{}, err
	}
	part, err := book.partOf(req.Node)
	if err != nil {
		return harness.Lowered{}, err
	}
	paths, err := recorded(part)
	if err != nil {
		return fail(err)
	}
	text, err := contract.EncodeScript(part)
	if err != nil {
		return fail(err)
	}
	for _, token := range plan.TokensIn(string(text)) {
		if !knownToken(req, token) {
			return fail(fmt.Errorf("the script uses {%s}, which the node does not have", token))
		}
	}
	return harness.Lowered{
		Process: plan.Process{
			Argv: []string{"{foundry}", "worker", "--test-stub", "--script", ScriptPath, "--out", "{out}"},
			Env:  environment(),
			Cwd:  "{scratch}",
			User: "65534:65534",
		},
		Files:    []plan.File{{Path: ScriptPath, Content: string(text)}},
		Prompt:   harness.Prompt(req, "/skill:"+req.Skill),
		Network:  plan.NetworkNone,
		Recorded: paths,
	}, nil
}

// environment is all that the worker inherits, sorted.
func environment() []string {
	return []string{
		"HOME={scratch}",
		"LANG=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"TMPDIR={scratch}",
		"TZ=UTC",
	}
}

// knownToken reports whether the runtime will have a value for token in this
// node: a typing error is found before anything is spent.
func knownToken(req harness.Request, token string) bool {
	switch token {
	case "skill", "out", "scratch", "recorded", "foundry":
		return true
	}
	for _, in := range req.Inputs {
		if token == "in:"+in.Artifact {
			return true
		}
	}
	for _, name := range append([]string{req.Skill}, req.NestedSkills...) {
		if token == "skill:"+name {
			return true
		}
	}
	return false
}
