package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"foundry/exec/broker/redact"
	"foundry/exec/record"
	"foundry/plan"
)

// canary stands for a provider's key: nothing that a run leaves may hold it.
const canary = "sk-canary-7b1e5c0d9f3a48e6"

// pilotVersions are the versions of the real agent.
var pilotVersions = []string{"0.84.4", "1.6.0"}

// pilot is one policy with the real Pi, in its own state folder.
type pilot struct {
	t       *testing.T
	exe     string
	env     []string
	state   string
	version string
	image   string // reference, "" for a local run
}

// needPi is a program or an archive that `make test` makes; on CI its absence is
// a failure.
func needPi(t *testing.T, script string, name ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{repository(t), ".cache"}, name...)...)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not there, and in CI this must be tested: %s makes it", filepath.Join(name...), script)
		}
		t.Skipf("%s is not there: %s makes it", filepath.Join(name...), script)
	}
	return path
}

func newPilot(t *testing.T, version string, container bool) *pilot {
	t.Helper()
	p := &pilot{t: t, exe: foundry(t), version: version}
	if !container {
		needPi(t, ".ci/pi-local", "pi", version, "bin", "pi")
		return p.in(t.TempDir())
	}
	needContainers(t)
	agents.Lock()
	defer agents.Unlock()
	if agents.state == "" {
		dir, err := os.MkdirTemp("", "foundry-test-images-")
		if err != nil {
			t.Fatal(err)
		}
		agents.state, agents.images = dir, map[string]string{}
	}
	p.in(agents.state)
	if agents.images[version] == "" {
		agents.images[version] = p.imported()
	}
	p.image = agents.images[version]
	return p
}

// agents are the images of the agents, imported once for all tests.
var agents struct {
	sync.Mutex
	state  string
	images map[string]string // references by version
}

// in sets the state folder.
func (p *pilot) in(state string) *pilot {
	p.state = state
	p.env = append(os.Environ(), "FOUNDRY_STATE_DIR="+p.state, "PILOT_KEY="+canary)
	return p
}

// imported is the reference of the agent's image, which it imports.
func (p *pilot) imported() string {
	p.t.Helper()
	archive := needPi(p.t, ".ci/pi-image", "pi-image", p.version+".tar")
	lines := strings.Fields(p.must("image", "import", archive))
	return lines[len(lines)-1]
}

// run is the program's combined output and its exit code.
func (p *pilot) run(args ...string) (string, int) {
	p.t.Helper()
	cmd := exec.Command(p.exe, args...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (p *pilot) must(args ...string) string {
	p.t.Helper()
	out, code := p.run(args...)
	if code != 0 {
		p.t.Fatalf("%v: exit %d\n%s", args, code, out)
	}
	return out
}

// args are those of apply where the worker is the pilot's.
func (p *pilot) args(more ...string) []string {
	args := []string{"apply", "--yes", "--var", "pi=" + p.version}
	if p.image != "" {
		args = append(args, "--sandbox", "container", "--sandbox-image", p.image)
	} else {
		args = append(args, "--program", "pi="+filepath.Join(repository(p.t), ".cache", "pi", p.version, "bin", "pi"))
	}
	return append(args, more...)
}

// unmarked fails where a file below a folder holds the canary. A mask counts,
// too: it stands where the canary was.
func unmarked(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		if strings.Contains(name, canary) {
			t.Errorf("%s holds the credential in its name", name)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, mark := range []string{canary, redact.Mask} {
			if bytes.Contains(data, []byte(mark)) {
				t.Errorf("%s holds %q", name, mark)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%s: %d files, %v", dir, files, err)
	}
}

func readAttempt(t *testing.T, dir, node string, iteration, number int64) *record.Attempt {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(record.AttemptFolder(node, iteration, number)), record.AttemptFile))
	if err != nil {
		t.Fatal(err)
	}
	a := new(record.Attempt)
	if err := json.Unmarshal(data, a); err != nil {
		t.Fatal(err)
	}
	return a
}

// provenTwice holds an attempt against what the pilot must show.
func provenTwice(t *testing.T, dir string, a *record.Attempt, artifact string) {
	t.Helper()
	act := a.Activation
	if a.Status != record.StatusSucceeded || act == nil || act.State != record.ActivationProven || !act.Stream || act.Request == nil || act.Request.Number != 1 {
		t.Errorf("%s: %s, activation %+v, failure %+v", a.Node, a.Status, act, a.Failure)
	}
	if a.Usage.Source != record.SourceBroker || a.Broker == nil || a.Broker.Differs || a.Broker.Forwarded < 2 {
		t.Errorf("%s: usage %+v, broker %+v", a.Node, a.Usage, a.Broker)
	}
	i := slices.IndexFunc(a.Outputs, func(o record.Output) bool { return o.Artifact == artifact })
	if i < 0 || a.Outputs[i].State != record.OutputPromoted {
		t.Errorf("%s: outputs %+v", a.Node, a.Outputs)
	}
	// The agent's own stream tells the tool that wrote it.
	stream, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(record.AttemptFolder(a.Node, a.Iteration, a.Attempt)), record.StdoutFile))
	if err != nil || !bytes.Contains(stream, []byte(`"toolName":"write"`)) {
		t.Errorf("%s: no call of the write tool in the stream (%v)", a.Node, err)
	}
}

// TestPilot runs the first phases of a published pipeline with the real agent:
// each activates its skill, which the agent's stream and a request to the
// provider show, and writes its artifact by the agent's own tool. The provider
// plays a script.
func TestPilot(t *testing.T) {
	corpus := needCorpus(t)
	testdata := filepath.Join("testdata", "pilot")
	for _, version := range pilotVersions {
		for _, container := range []bool{false, true} {
			name := map[bool]string{false: "local", true: "container"}[container]
			t.Run(version+"/"+name, func(t *testing.T) {
				p := newPilot(t, version, container)
				dir := filepath.Join(t.TempDir(), "run")
				out := p.must(p.args("--var", "corpus="+corpus, "--var", "script="+filepath.Join(testdata, "script.json"), "--run-dir", dir,
					"--through", "nextflow-summary-to-galaxy-reference-data", filepath.Join(testdata, "policy.hcl"))...)
				if !strings.Contains(out, "A scripted provider played answers") {
					t.Errorf("it does not say that no model worked:\n%s", out)
				}
				r, err := record.ReadRun(dir)
				if err != nil {
					t.Fatal(err)
				}
				if r.Status != record.StatusSucceeded || r.Isolated != container || !r.PlaysScript || r.TestStub {
					t.Errorf("run %s, isolated %v, plays a script %v, stub %v", r.Status, r.Isolated, r.PlaysScript, r.TestStub)
				}
				first := readAttempt(t, dir, "summarize-nextflow", 1, 1)
				provenTwice(t, dir, first, "summary-nextflow")
				if o := first.Outputs[0]; o.Schema == "" || len(o.Problems) > 0 {
					t.Errorf("the summary was not held against its schema: %+v", o)
				}
				provenTwice(t, dir, readAttempt(t, dir, "nextflow-summary-to-galaxy-reference-data", 1, 1), "nextflow-galaxy-reference-data")
				var mounts []string
				for _, m := range first.Sandbox.Mounts {
					mounts = append(mounts, m.Source)
				}
				// Of the corpus the bundle alone.
				want := []string{"in:nextflow-source", "output", "scratch", "skill:summarize-nextflow"}
				if container {
					want = append(want, "tmpfs")
				}
				slices.Sort(mounts)
				slices.Sort(want)
				if !slices.Equal(mounts, want) {
					t.Errorf("mounts %v, not %v", mounts, want)
				}
				if container {
					if first.Sandbox.Network != plan.NetworkProvider || !first.Sandbox.SecurityBoundary {
						t.Errorf("sandbox %+v", first.Sandbox)
					}
				} else if a := first.Sandbox.Agent; a == nil || a.Version != version || !strings.HasPrefix(a.Digest, "sha256:") || !filepath.IsAbs(a.Path) {
					t.Errorf("program %+v", a)
				}
				unmarked(t, dir)
			})
		}
	}
}

// TestCanary looks for the provider's key wherever a run leaves bytes, while the
// agent looks for it wherever it can, and its provider repeats it to it.
func TestCanary(t *testing.T) {
	corpus := needCorpus(t)
	// What the tool prints goes to the provider, into the agent's stream and into
	// the transcripts: a key in it would be found there.
	look := "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/self/mountinfo | tr '\\0' '\\n'; env; ls -laR /.foundry /scratch /in /skills; echo looked"
	script := func(t *testing.T, replies ...map[string]any) string {
		t.Helper()
		data, err := json.Marshal(map[string]any{"version": 1, "default": replies})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "script.json")
		write(t, name, data)
		return name
	}
	call := func(name string, input map[string]any) []map[string]any {
		return []map[string]any{{"name": name, "input": input}}
	}
	needContainers(t)
	// A state folder of its own, in which every byte is looked at.
	p := (&pilot{t: t, exe: foundry(t), version: pilotVersions[0]}).in(t.TempDir())
	p.image = p.imported()
	apply := func(t *testing.T, script string) (dir, out string, code int) {
		dir = filepath.Join(t.TempDir(), "run")
		out, code = p.run(p.args("--var", "corpus="+corpus, "--var", "script="+script, "--run-dir", dir, "--progress", "json",
			"--through", "summarize-nextflow", filepath.Join("testdata", "pilot", "policy.hcl"))...)
		if strings.Contains(out, canary) {
			t.Errorf("the output holds the key:\n%s", out)
		}
		return dir, out, code
	}

	summary, err := os.ReadFile(filepath.Join("testdata", "pilot", "script.json"))
	if err != nil {
		t.Fatal(err)
	}
	var good struct {
		Nodes map[string][]map[string]any `json:"nodes"`
	}
	if err := json.Unmarshal(summary, &good); err != nil {
		t.Fatal(err)
	}
	t.Run("kept", func(t *testing.T) {
		replies := append([]map[string]any{{"tools": call("bash", map[string]any{"command": look})}}, good.Nodes["summarize-nextflow"]...)
		dir, out, code := apply(t, script(t, replies...))
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, out)
		}
		stream, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(record.AttemptFolder("summarize-nextflow", 1, 1)), record.StdoutFile))
		if err != nil || !bytes.Contains(stream, []byte("PI_CODING_AGENT_DIR=")) || !bytes.Contains(stream, []byte("looked")) {
			t.Errorf("the agent saw no environment of a process: %v", err)
		}
		unmarked(t, dir)
		// Images, snapshots, specs and logs of the daemon.
		unmarked(t, p.state)
	})
	t.Run("repeated", func(t *testing.T) {
		dir, out, code := apply(t, script(t, map[string]any{"status": 401, "echo_credential": true}))
		if code == 0 {
			t.Fatalf("it succeeded\n%s", out)
		}
		found := false
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(name)
			if bytes.Contains(data, []byte(canary)) {
				t.Errorf("%s holds the key", name)
			}
			found = found || bytes.Contains(data, []byte(redact.Mask))
			return err
		})
		if err != nil || !found {
			t.Errorf("the provider repeated the key, and nothing says that it was taken out: %v", err)
		}
	})
}

// TestGalaxyWithPi compiles the seven published pipelines for the real agent.
func TestGalaxyWithPi(t *testing.T) {
	corpus := needCorpus(t)
	policies, err := filepath.Glob(filepath.Join(repository(t), "examples", "galaxy", "*-to-*.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	image := "foundry-pi:0.84.4@sha256:" + strings.Repeat("0123456789abcdef", 4)
	compiled := 0
	for _, name := range policies {
		if strings.Contains(name, ".replay.") {
			continue
		}
		cmd := exec.Command(foundry(t), "plan", "--json", "--var", "corpus="+corpus, "--harness", "worker=pi", "--sandbox-image", image, "--sandbox-network", "provider", name)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, err := plan.Decode(out)
		if err != nil {
			t.Fatal(err)
		}
		compiled++
		for _, n := range p.Nodes {
			if n.Kind == plan.NodeAgent && (!n.RequireActivation || n.Harness != "pi" || !slices.Contains(n.Process.Argv, "pi") || !slices.Equal(n.Sandbox.Credentials, []string{"ANTHROPIC_API_KEY"})) {
				t.Errorf("%s: %s: %+v", name, n.ID, n.Sandbox)
			}
		}
	}
	if compiled != 7 {
		t.Errorf("%d pipelines", compiled)
	}
}
