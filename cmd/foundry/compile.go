package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/closure"
	"foundry/cmd/foundry/internal/view"
	"foundry/compile"
	"foundry/harness"
	"foundry/harness/pi"
	"foundry/harness/scripted"
	"foundry/plan"
	"foundry/sandbox"
)

// compileDeadline bounds a compilation: an expression that passes it is a
// mistake or an attack.
const compileDeadline = 60 * time.Second

// adapters are the harness adapters of this program.
func adapters() map[string]harness.Adapter {
	out := map[string]harness.Adapter{}
	for _, a := range []harness.Adapter{pi.Adapter{}, scripted.Adapter{}} {
		out[a.Name()] = a
	}
	return out
}

// compileFlags are the flags that are inputs of a compilation.
type compileFlags struct {
	vars, varFiles, credentials, harness []string
	override                             compile.Override
	scenario                             string
}

func (f *compileFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.vars, "var", nil, "`NAME=VALUE` of a variable; a path is relative to the current folder (repeatable)")
	fl.StringArrayVar(&f.varFiles, "var-file", nil, "`FILE` of variables; a path in it is relative to it (repeatable)")
	fl.StringVar(&f.scenario, "scenario", "", "`NAME` of the scenario whose inputs are taken")
	fl.StringVar(&f.override.Sandbox, "sandbox", "", "where steps run: `local` or container")
	fl.StringVar(&f.override.Image, "sandbox-image", "", "`REFERENCE` of the image by digest, or builtin")
	fl.StringVar(&f.override.Network, "sandbox-network", "", "`KIND` of network: none, provider, egress or bridge")
	fl.StringArrayVar(&f.credentials, "credential-env", nil, "`NAME` of a credential that the broker may use (repeatable)")
	fl.StringArrayVar(&f.harness, "harness", nil, "`NAME=OTHER`: use the harness OTHER wherever the policy says NAME (repeatable)")
	fl.StringVar(&f.override.Provider, "provider", "", "`NAME` of the provider of every harness that has one")
	fl.StringVar(&f.override.Model, "model", "", "`ID` of the model of every harness that has one")
	fl.StringVar(&f.override.Thinking, "thinking", "", "`LEVEL` of thinking of every harness that has levels")
}

func (f *compileFlags) options() (compile.Options, error) {
	o := compile.Options{Open: openFolder, VarFiles: f.varFiles, Adapters: adapters(), Override: f.override, Scenario: f.scenario}
	for _, v := range f.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return o, usage("--var %q is not NAME=VALUE", v)
		}
		o.Vars = append(o.Vars, compile.Assignment{Name: name, Value: value})
	}
	for _, h := range f.harness {
		name, other, ok := strings.Cut(h, "=")
		if !ok || name == "" || other == "" {
			return o, usage("--harness %q is not NAME=OTHER, two harnesses of the policy", h)
		}
		if o.Override.Harness == nil {
			o.Override.Harness = map[string]string{}
		}
		o.Override.Harness[name] = other
	}
	for _, c := range f.credentials {
		if !plan.ValidID(c) {
			return o, usage("--credential-env %q is not the name of a credential", c)
		}
	}
	o.Override.Credentials = f.credentials
	return o, f.refuseUnbuilt()
}

// refuseUnbuilt refuses what the command line asks for and this version cannot
// do, before anything is read.
func (f *compileFlags) refuseUnbuilt() error {
	switch f.override.Sandbox {
	case "", plan.SandboxLocal, plan.SandboxContainer:
	default:
		return usage("--sandbox %q is unknown: it is local or container", f.override.Sandbox)
	}
	switch f.override.Network {
	case "", plan.NetworkNone, plan.NetworkProvider, plan.NetworkBridge:
		return nil // the executor says where it gives a bridge
	case plan.NetworkEgress:
		return usage("--sandbox-network %s is not built yet: this version has none, provider and, for local agents with a login of their own, bridge", f.override.Network)
	}
	return usage("--sandbox-network %q is unknown: it is none, provider, egress or bridge", f.override.Network)
}

// openFolder opens a folder so that nothing outside it can be reached through
// it, by a link or otherwise.
func openFolder(dir string) (fs.FS, error) {
	root, err := os.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return nil, err
	}
	return root.FS(), nil
}

// compile compiles a policy and tells its diagnostics on standard error.
func (a *app) compile(policy string, f *compileFlags) (*compile.Result, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	return a.compileWith(policy, opts)
}

func (a *app) compileWith(policy string, opts compile.Options) (*compile.Result, error) {
	ctx, cancel := context.WithTimeout(a.ctx, compileDeadline)
	defer cancel()
	res := compile.Compile(ctx, filepath.ToSlash(policy), opts)
	if err := view.Diagnostics(a.stderr, res.Diagnostics, res.Sources); err != nil {
		return nil, err
	}
	if res.Plan == nil {
		return nil, &notCompiled{res}
	}
	return res, nil
}

// notCompiled is a compilation without a plan: what is wrong was told.
type notCompiled struct{ result *compile.Result }

func (e *notCompiled) Error() string { return "the policy does not compile" }

// Unwrap is the exit code: no, where the plan breaks its guards and nothing else
// is wrong.
func (e *notCompiled) Unwrap() error {
	if e.result.Refused != nil {
		return &exitError{code: exitNo}
	}
	return &exitError{code: exitUsage}
}

// source is a plan with its bytes, from wherever it came.
type source struct {
	plan    *plan.Plan
	encoded []byte
	blobs   sandbox.Blobs
	policy  string // the policy it was compiled from, "" otherwise
	raw     map[string][]byte
	result  *compile.Result // of the policy
}

// load finds out what the user named: a policy, a plan file, or a closure.
func (a *app) load(name string, f *compileFlags, roots []closure.Root) (*source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, usage("%w", err)
	}
	switch {
	case info.IsDir() && closure.Is(name):
		p, encoded, blobs, err := closure.Read(name)
		if err != nil {
			return nil, usage("%w", err)
		}
		return checked(name, &source{plan: p, encoded: encoded, blobs: blobs})
	case !info.IsDir() && strings.EqualFold(filepath.Ext(name), ".json"):
		encoded, err := closure.ReadPlanFile(name)
		if err != nil {
			return nil, usage("%w", err)
		}
		p, err := plan.Decode(encoded)
		if err != nil {
			return nil, usage("%s: %w", name, err)
		}
		s, err := checked(name, &source{plan: p, encoded: encoded})
		if err != nil || roots == nil {
			return s, err
		}
		blobs, err := closure.Gather(p, roots)
		if err != nil {
			return nil, usage("%w", err)
		}
		s.blobs = blobs
		return s, nil
	}
	if len(roots) > 0 {
		return nil, usage("--root is for a plan file; %s is a policy, which names its own folders", name)
	}
	res, err := a.compile(name, f)
	if err != nil {
		return nil, err
	}
	return compiled(name, res), nil
}

func compiled(policy string, res *compile.Result) *source {
	return &source{plan: res.Plan, encoded: res.Encoded, blobs: closure.Memory(res.Blobs), policy: policy, raw: res.Blobs, result: res}
}

// checked proves a decoded plan against the rules of its format.
func checked(name string, s *source) (*source, error) {
	problems := plan.Validate(s.plan)
	if len(problems) == 0 {
		if err := honestSpend(name, s.plan); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), compileDeadline)
		defer cancel()
		if err := compile.RecheckGuards(ctx, s.plan); err != nil {
			return nil, usage("%s is no plan of this policy: %w", name, err)
		}
		return s, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is no valid plan:", name)
	for _, p := range problems {
		fmt.Fprintf(&b, "\n  %s: %s: %s", p.Path, p.Summary, p.Detail)
	}
	return nil, usage("%s", b.String())
}

// write puts the plan where -o says: a .json file, or a closure folder.
func (a *app) write(s *source, out string) error {
	if strings.EqualFold(filepath.Ext(out), ".json") {
		if err := writePlan(out, s.encoded); err != nil {
			return &exitError{exitInfrastructure, err}
		}
		return nil
	}
	if err := closure.Write(out, s.plan, s.encoded, s.raw); err != nil {
		return &exitError{exitInfrastructure, err}
	}
	return nil
}

func (a *app) json(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
