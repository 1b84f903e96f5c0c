package sandbox_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/plan"
	"foundry/sandbox"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden specs")

// specTask is a task that has every kind of mount and token.
func specTask() sandbox.Task {
	return sandbox.Task{
		Run: "r1", Attempt: "summarize.1",
		Process: plan.Process{
			Argv: []string{"{foundry}", "worker", "--skill", "{skill}", "--beside", "{skill:other}", "--in", "{in:source}", "--tree", "{in:tree}", "--maybe", "{in:absent}", "--from", "{recorded}", "{not a token}"},
			Env:  []string{"HOME={scratch}", "PATH=/usr/bin:/bin", "URL={broker.url}"},
			Cwd:  "{scratch}", User: "65534:65534",
		},
		Sandbox: plan.Sandbox{
			Mode: plan.SandboxContainer, Image: plan.ImageBuiltin, Network: plan.NetworkNone,
			Mounts: []plan.Mount{
				{Source: "skill:demo", Destination: "/skills/demo", Mode: plan.MountReadOnly},
				{Source: "skill:other", Destination: "/skills/other", Mode: plan.MountReadOnly},
				{Source: "in:source", Destination: "/in/source", Mode: plan.MountReadOnly},
				{Source: "in:tree", Destination: "/in/tree", Mode: plan.MountReadOnly},
				{Source: "in:absent", Destination: "/in/absent", Mode: plan.MountReadOnly},
				{Source: "recorded:demo", Destination: "/recorded", Mode: plan.MountReadOnly},
				{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: 1 << 20},
				{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: 2 << 20},
				{Source: plan.MountTmpfs, Destination: "/tmp", Mode: plan.MountReadWrite, Bytes: 3 << 20},
			},
			Resources: plan.Resources{MemoryBytes: 1 << 30, PIDs: 128, CPUMillis: 1500},
		},
		OutputBytes: 1 << 20, OutputFiles: 8,
		Skill:      "skill:demo",
		InputPaths: map[string]string{"source": "workflow/main.cwl", "tree": ""},
		Tokens:     map[string]string{"broker.url": "http://127.0.0.1:1"},
	}
}

func specInput() sandbox.SpecInput {
	sources := map[string]string{}
	for _, s := range []string{"skill:demo", "skill:other", "in:source", "in:tree", "recorded:demo", "output", "scratch"} {
		sources[s] = "/host/" + strings.ReplaceAll(s, ":", "/")
	}
	return sandbox.SpecInput{
		Task: specTask(), ID: "r1.summarize.1", Sources: sources,
		Labels: map[string]string{"foundry.run": "r1"}, UserNamespace: true, CgroupNamespace: true, SwapLimit: true,
	}
}

func TestSpecGolden(t *testing.T) {
	for name, change := range map[string]func(*sandbox.SpecInput){
		"spec-full.json": func(*sandbox.SpecInput) {},
		"spec-image.json": func(in *sandbox.SpecInput) {
			in.Task.Sandbox.Image = "example/agent@sha256:" + strings.Repeat("0", 64)
			in.Program = "/host/program"
		},
		"spec-old-kernel.json": func(in *sandbox.SpecInput) {
			in.UserNamespace, in.CgroupNamespace, in.SwapLimit, in.OpenFiles = false, false, false, 1024
			in.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActErrno}
		},
	} {
		in := specInput()
		change(&in)
		spec, err := sandbox.Spec(in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.MarshalIndent(spec, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join("testdata", name)
		if *updateGolden {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// What must hold of every spec, whatever the golden files say.
func TestSpecLeastPrivilege(t *testing.T) {
	spec, err := sandbox.Spec(specInput())
	if err != nil {
		t.Fatal(err)
	}
	p := spec.Process
	caps := p.Capabilities
	if n := len(caps.Bounding) + len(caps.Effective) + len(caps.Inheritable) + len(caps.Permitted) + len(caps.Ambient); n != 0 {
		t.Errorf("%d capabilities", n)
	}
	if !p.NoNewPrivileges || p.User.UID == 0 || p.User.GID == 0 || len(p.User.AdditionalGids) != 0 || !spec.Root.Readonly {
		t.Errorf("process %+v, root %+v", p, spec.Root)
	}
	want := map[specs.LinuxNamespaceType]bool{"pid": true, "ipc": true, "uts": true, "mount": true, "network": true, "cgroup": true, "user": true}
	for _, n := range spec.Linux.Namespaces {
		if !want[n.Type] || n.Path != "" {
			t.Errorf("namespace %+v", n)
		}
		delete(want, n.Type)
	}
	if len(want) > 0 {
		t.Errorf("namespaces are missing: %v", want)
	}
	for _, m := range spec.Mounts {
		options := strings.Join(m.Options, ",") + ","
		if m.Type == "bind" && m.Destination != "/out" && m.Destination != "/scratch" && !strings.Contains(options, "ro,") {
			t.Errorf("writable: %+v", m)
		}
		if !strings.Contains(options, "nosuid,") || m.Type == "bind" && !strings.Contains(options, "nodev,") {
			t.Errorf("options of %+v", m)
		}
		if m.Destination == "/in/absent" {
			t.Error("an absent input is mounted")
		}
	}
	for _, m := range spec.Linux.UIDMappings {
		if m.HostID < 1<<30 {
			t.Errorf("the mapping %+v is a user of the host", m)
		}
	}
}

func TestSpecRefuses(t *testing.T) {
	for want, change := range map[string]func(*sandbox.SpecInput){
		"cannot run as user \"0:0\"":  func(in *sandbox.SpecInput) { in.Task.Process.User = "0:0" },
		"cannot run as user \"\"":     func(in *sandbox.SpecInput) { in.Task.Process.User = "" },
		"{broker.token}":              func(in *sandbox.SpecInput) { in.Task.Process.Argv = []string{"{broker.token}"} },
		"{skill}":                     func(in *sandbox.SpecInput) { in.Task.Skill = "" },
		"{recorded}":                  func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts = in.Task.Sandbox.Mounts[:5] },
		"argv is empty":               func(in *sandbox.SpecInput) { in.Task.Process.Argv = nil },
		"not absolute":                func(in *sandbox.SpecInput) { in.Task.Process.Cwd = "work" },
		"no clean absolute path":      func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Destination = "/a/../proc" },
		"below /":                     func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Destination = "/" },
		"only output and scratch":     func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Mode = plan.MountReadWrite },
		"cannot be mounted \"\"":      func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Mode = "" },
		"nothing was staged":          func(in *sandbox.SpecInput) { delete(in.Sources, "in:tree") },
		"is a place of the runtime's": func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Destination = "/proc/self" },
		"place of the runtime's":      func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Destination = "/.foundry" },
		"are mounted at /out":         func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Destination = "/out" },
		"lies in the mount of output": func(in *sandbox.SpecInput) { in.Task.Sandbox.Mounts[0].Destination = "/out/x" },
	} {
		in := specInput()
		change(&in)
		if _, err := sandbox.Spec(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The values of tokens hold no token: what a value brings is not expanded.
func TestLookup(t *testing.T) {
	task := specTask()
	task.Tokens["broker.url"] = "{broker.token}"
	got, err := plan.Expand("{broker.url}|{in:source}|{in:tree}|{in:absent}|{skill}|{skill:other}|{out}|{scratch}|{recorded}|{foundry}", task.ContainerLookup())
	want := "{broker.token}|/in/source/workflow/main.cwl|/in/tree|/in/absent|/skills/demo|/skills/other|/out|/scratch|/recorded|/.foundry/foundry"
	if err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, unknown := range []string{"{in:other}", "{skill:none}", "{subagent.socket}"} {
		if got, err := plan.Expand(unknown, task.ContainerLookup()); err == nil {
			t.Errorf("%s is %q", unknown, got)
		}
	}
}
