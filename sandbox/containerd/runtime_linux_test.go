package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	Main()
	sandboxtest.WorkerMain()
	if len(os.Args) > 2 && os.Args[1] == probeArg {
		probeMain(os.Args[2:])
	}
	if len(os.Args) == 4 && os.Args[1] == crashArg {
		crashMain(os.Args[2], os.Args[3])
	}
	if len(os.Args) == 6 && os.Args[1] == roundsArg {
		n, _ := strconv.Atoi(os.Args[5])
		roundsMain(os.Args[2], os.Args[3], os.Args[4], n)
	}
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "closing the runtime of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// shared is one runtime for the tests that need nothing special of theirs.
var shared struct {
	sync.Mutex
	rt     *Runtime
	base   string
	before inventory
}

// need skips where containers cannot run, and fails there in CI.
func need(t testing.TB) {
	t.Helper()
	reason := ""
	if os.Geteuid() != 0 {
		reason = "containers need root"
	} else if _, err := exec.LookPath("runc"); err != nil {
		reason = "containers need runc (apt-get install runc)"
	}
	if reason == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func runtimeOf(t testing.TB) *Runtime {
	t.Helper()
	need(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.rt != nil {
		return shared.rt
	}
	shared.before = takeInventory()
	base, err := os.MkdirTemp("", "foundry-"+marker+"-shared-")
	if err != nil {
		t.Fatal(err)
	}
	shared.base = base
	o := Options{Base: base}
	if a := os.Getenv("FOUNDRY_TEST_CONTAINERD"); a != "" {
		o = Options{Address: a}
	}
	if shared.rt, err = New(context.Background(), o); err != nil {
		os.RemoveAll(base)
		t.Fatal(err)
	}
	return shared.rt
}

func closeShared() error {
	if shared.rt == nil {
		return nil
	}
	err := errors.Join(shared.rt.Close(), os.RemoveAll(shared.base))
	if d := takeInventory().since(shared.before); d != "" {
		err = errors.Join(err, errors.New("left behind: "+d))
	}
	return err
}

// marker is in the names of all that the tests of this process make: other
// packages test containers at the same time.
var marker = fmt.Sprint("cdtest", os.Getpid())

// newBase is a folder for an embedded daemon.
func newBase(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "foundry-"+marker+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "base")
}

// inventory is what may be left behind on a machine.
type inventory struct{ mounts, cgroups, processes []string }

func takeInventory() inventory {
	var i inventory
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, marker) {
			i.mounts = append(i.mounts, strings.TrimSpace(line))
		}
	}
	i.cgroups, _ = filepath.Glob("/sys/fs/cgroup/*/foundry-" + marker + "*")
	more, _ := filepath.Glob("/sys/fs/cgroup/foundry-" + marker + "*")
	i.cgroups = append(i.cgroups, more...)
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, c := range commands {
		b, _ := os.ReadFile(c)
		s := strings.ReplaceAll(string(b), "\x00", " ")
		if strings.Contains(s, probeArg) && strings.Contains(s, marker) || strings.Contains(s, probeArg+" tick") || strings.HasPrefix(s, daemonName) && strings.Contains(s, marker) || strings.Contains(s, "-id "+marker) {
			i.processes = append(i.processes, c+" "+s)
		}
	}
	return i
}

func (i inventory) since(before inventory) string {
	var out []string
	for _, pair := range [][2][]string{{i.mounts, before.mounts}, {i.cgroups, before.cgroups}, {i.processes, before.processes}} {
		for _, s := range pair[0] {
			if !slices.Contains(pair[1], s) {
				out = append(out, s)
			}
		}
	}
	return strings.Join(out, "\n")
}

// demo is a task with a skill, an input and recorded files, that runs a probe.
func demo(t testing.TB, attempt string, probe ...string) sandbox.Task {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	trees := map[string]string{}
	for source, file := range map[string]string{"skill:demo": "SKILL.md", "in:data": "data.json", "recorded:demo": "out.json"} {
		folder := filepath.Join(dir, "trees", strings.ReplaceAll(source, ":", "-"))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), []byte(source), 0o444); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, 0o555); err != nil {
			t.Fatal(err)
		}
		trees[source] = folder
	}
	// As in a run: nobody but root gets into the run's folder.
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "attempt")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	return sandbox.Task{
		Run: marker, Attempt: attempt, Dir: own,
		Process: plan.Process{
			Argv: append([]string{"{foundry}", probeArg}, probe...),
			Env:  []string{"HOME={scratch}", "PATH=/usr/local/bin:/usr/bin:/bin", "SKILL={skill}"},
			Cwd:  "{scratch}", User: "65534:65534",
		},
		Files: []plan.File{{Path: "{scratch}/config/models.json", Content: "in {in:data} out {out}"}},
		Sandbox: plan.Sandbox{
			Mode: plan.SandboxContainer, Image: plan.ImageBuiltin, Network: plan.NetworkNone,
			Mounts: []plan.Mount{
				{Source: "skill:demo", Destination: "/skills/demo", Mode: "ro"},
				{Source: "in:data", Destination: "/in/data", Mode: "ro"},
				{Source: "in:absent", Destination: "/in/absent", Mode: "ro"},
				{Source: "recorded:demo", Destination: "/recorded", Mode: "ro"},
				{Source: "output", Destination: "/out", Mode: "rw", Bytes: 4 << 20},
				{Source: "scratch", Destination: "/scratch", Mode: "rw", Bytes: 4 << 20},
				{Source: "tmpfs", Destination: "/tmp", Mode: "rw", Bytes: 2 << 20},
			},
			Resources: plan.Resources{MemoryBytes: 256 << 20, PIDs: 64, CPUMillis: 1000},
		},
		Wall: time.Minute, OutputBytes: 4 << 20, OutputFiles: 16,
		Skill:      "skill:demo",
		InputPaths: map[string]string{"data": "data.json"},
		Trees:      trees,
		Executable: executable,
	}
}

type result struct {
	sandbox.Exit
	stdout, stderr string
	facts          sandbox.Facts
}

// run runs a task to its end, with what it takes to clean up.
func run(t testing.TB, rt *Runtime, task sandbox.Task, stdin io.Reader) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := rt.Prepare(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(task.Dir); len(left) > 0 {
			t.Errorf("left in the attempt's folder: %v", left)
		}
	}()
	var out, errw bytes.Buffer
	if err := s.Start(ctx, sandbox.Stdio{Stdin: stdin, Stdout: &out, Stderr: &errw}); err != nil {
		t.Fatal(err)
	}
	exit, err := s.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	return result{exit, out.String(), errw.String(), s.Facts()}
}

func TestSuite(t *testing.T) {
	need(t)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Run(t, func(t *testing.T) sandbox.Runtime {
		o := Options{Base: newBase(t)}
		if a := os.Getenv("FOUNDRY_TEST_CONTAINERD"); a != "" {
			o = Options{Address: a}
		}
		rt, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}, executable)
}

func TestProbe(t *testing.T) {
	rt := runtimeOf(t)
	abstract, err := net.Listen("unix", "@foundry-test-abstract")
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	tcp, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		tcp, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	targets := []string{
		"tcp=169.254.169.254:80", "tcp=1.1.1.1:443", "tcp=" + tcp.Addr().String(),
		"unix=@foundry-test-abstract", "unix=/run/containerd/containerd.sock",
	}
	if rt.embedded != nil {
		targets = append(targets, "unix="+rt.embedded.layout.socket())
	}
	t.Setenv("FOUNDRY_SECRET_OF_HOST", "secret")
	r := run(t, rt, demo(t, "probe", append([]string{"inspect"}, targets...)...), nil)
	var p probeResult
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
		t.Fatalf("%v: %s %s", err, r.stdout, r.stderr)
	}
	if testing.Verbose() {
		b, _ := json.MarshalIndent(p, "", " ")
		t.Logf("%s\n%s", b, p.Mounts)
		b, _ = json.MarshalIndent(r.facts, "", " ")
		t.Logf("%s", b)
	}
	for k, want := range map[string]string{
		"Uid": "65534 65534 65534 65534", "Gid": "65534 65534 65534 65534", "Groups": "",
		"CapInh": zeroCaps, "CapPrm": zeroCaps, "CapEff": zeroCaps, "CapBnd": zeroCaps, "CapAmb": zeroCaps,
		"NoNewPrivs": "1", "Seccomp": "2",
	} {
		if p.Status[k] != want {
			t.Errorf("%s is %q, not %q", k, p.Status[k], want)
		}
	}
	if len(p.Interfaces) != 1 || !strings.HasPrefix(p.Interfaces[0], "lo ") || p.Routes > 0 {
		t.Errorf("interfaces %v, %d routes", p.Interfaces, p.Routes)
	}
	for _, target := range targets {
		if got, asked := p.Connect[target]; !asked || got == "" {
			t.Errorf("it could connect to %s", target)
		}
	}
	if p.Resolve == "" {
		t.Error("it could resolve a name")
	}
	for place, got := range p.Write {
		writable := place == "/out" || place == "/scratch" || place == "/tmp"
		if writable != (got == "") {
			t.Errorf("writing to %s gives %q", place, got)
		}
	}
	if want := []string{"/.foundry/foundry", "/in/data/data.json", "/recorded/out.json", "/scratch/config/models.json", "/skills/demo/SKILL.md"}; !slices.Equal(p.Files, want) {
		t.Errorf("it sees %v, not %v", p.Files, want)
	}
	if p.Foundry != "" || len(p.Suspicious) > 0 || len(p.Pids) != 1 || p.Hostname != "sandbox" || p.Cwd != "/scratch" || p.Core != 0 || p.Unshare == "" {
		t.Errorf("foundry on PATH %q, suspicious %v, pids %v, host %q, cwd %q, core %d, unshare %q", p.Foundry, p.Suspicious, p.Pids, p.Hostname, p.Cwd, p.Core, p.Unshare)
	}
	if want := []string{"HOME=/scratch", "PATH=/usr/local/bin:/usr/bin:/bin", "SKILL=/skills/demo"}; !slices.Equal(p.Env, want) {
		t.Errorf("its environment is %v", p.Env)
	}
	for _, prop := range r.facts.Properties {
		if prop.State != sandbox.Enforced {
			t.Errorf("%s is %s: %s", prop.Name, prop.State, prop.Detail)
		}
	}
	if r.facts.ImageDigest == "" || r.facts.ConfigDigest == "" || !strings.HasPrefix(r.facts.Program.Digest, "sha256:") || !json.Valid(r.facts.Spec) {
		t.Errorf("incomplete facts: %+v", r.facts)
	}
}

const zeroCaps = "0000000000000000"
