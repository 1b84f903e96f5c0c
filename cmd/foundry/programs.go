package main

import (
	"context"
	"errors"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/local"
)

// localPrograms finds the programs of the plan's local agents, once, and asks
// them for their versions. One that is not there is left to the runtime, which
// says so of the node that needs it; given is --program NAME=PATH.
func localPrograms(ctx context.Context, p *plan.Plan, given []string) ([]sandbox.ProgramFile, error) {
	paths := map[string]string{}
	for _, g := range given {
		name, path, ok := strings.Cut(g, "=")
		if !ok || name == "" || path == "" {
			return nil, usage("--program %q is not NAME=PATH", g)
		}
		paths[name] = path
	}
	var out []sandbox.ProgramFile
	var names []string
	for _, n := range p.Nodes {
		versionArgs := localAgent(p, n)
		if versionArgs == nil || slices.Contains(names, n.Process.Argv[0]) {
			continue
		}
		name := n.Process.Argv[0]
		names = append(names, name)
		found, err := local.FindProgram(ctx, name, paths[name], versionArgs)
		switch {
		case err == nil:
			out = append(out, found)
		case paths[name] != "":
			return nil, usage("--program %s: %w", name, err)
		case !errors.Is(err, osexec.ErrNotFound):
			return nil, &exitError{exitInfrastructure, err}
		}
	}
	for _, g := range given {
		if name, _, _ := strings.Cut(g, "="); !slices.Contains(names, name) {
			return nil, usage("--program %s: no local agent of the plan is started as %q; there is %s", g, name, orNone(names))
		}
	}
	return out, nil
}

// localAgent is how the agent of a local step is asked for its version; nil of
// any other step, and of an agent that cannot be asked.
func localAgent(p *plan.Plan, n plan.Node) []string {
	if n.Sandbox.Mode != plan.SandboxLocal || len(n.Process.Argv) == 0 {
		return nil
	}
	i := slices.IndexFunc(p.Harnesses, func(h plan.Harness) bool { return h.Name == n.Harness })
	if i < 0 {
		return nil
	}
	h := p.Harnesses[i]
	adapter := adapters()[h.Adapter]
	if adapter == nil {
		return nil
	}
	caps, err := adapter.Capabilities(h.Version)
	if err != nil {
		return nil // the executor says so
	}
	return caps.VersionArgs
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// lentLogins are the files of the agents' own logins by label; given is
// --auth-store LABEL=FILE. One that is not given is left to the executor, which
// knows whether a step that runs needs it.
func lentLogins(p *plan.Plan, given []string) (map[string]string, error) {
	var labels []string
	for _, h := range p.Harnesses {
		if h.AuthStore != "" && !slices.Contains(labels, h.AuthStore) {
			labels = append(labels, h.AuthStore)
		}
	}
	out := map[string]string{}
	for _, g := range given {
		label, file, ok := strings.Cut(g, "=")
		if !ok || label == "" || file == "" {
			return nil, usage("--auth-store %q is not LABEL=FILE", g)
		}
		if !slices.Contains(labels, label) {
			return nil, usage("--auth-store %s: the plan has no login of that label; there is %s", label, orNone(labels))
		}
		// The agent sees the file itself, so that it can renew what is in it.
		path, err := filepath.EvalSymlinks(file)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, usage("--auth-store %s: %w", label, err)
		}
		out[label] = path
	}
	return out, nil
}
