package pi

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"foundry/exec/broker"
	"foundry/harness"
	"foundry/harness/harnesstest"
	"foundry/plan"
)

// launcher is the real program of a version, which `make test` installs. On CI
// its absence is a failure.
func launcher(t *testing.T, version string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".cache", "pi", version, "bin", "pi"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		why := "the real Pi " + version + " is not installed: run .ci/pi-local"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return path
}

const helloSkill = "---\nname: hello\ndescription: Says hello. Use when asked to greet.\n---\n\n# Hello\n\nWrite what you are asked to write.\n"

// lab is one attempt with the real Pi and a scripted provider behind the real
// broker. Fields are set before start.
type lab struct {
	version string
	replies string // of the provider: a JSON list
	limits  broker.Limits
	skill   string            // SKILL.md, "" for helloSkill
	nested  []string          // names of further skills
	change  func(l *lab)      // before the program starts, when its files are there
	adjust  func(l *lab)      // of what the session is told, when the program was started
	asked   func(number int)  // the provider was asked, from 1
	prefix  []string          // before the program's argv
	files   map[string]string // more files below scratch
	prompt  string

	req                  harness.Request
	argv                 []string
	scratch, out, skill0 string
	endpoint             *broker.Endpoint
	agent                harnesstest.Agent
	cmd                  *exec.Cmd
	transcripts          string
	cfg                  harness.SessionConfig
}

func newLab(version, replies string) *lab {
	l := &lab{version: version, replies: replies, skill: helloSkill, limits: broker.Limits{Tokens: 50_000_000, CostMicroUSD: 1_000_000_000}}
	l.req = harness.Request{
		Node: "hello", Skill: "hello",
		Harness: plan.Harness{Name: "worker", Adapter: Name, Version: version, Provider: "lab", Model: "m", Thinking: "low", Tools: []string{"bash", "edit", "read", "write"}},
		Provider: &plan.Provider{Name: "lab", API: broker.API, Credential: "LAB_KEY", Script: "script:lab",
			Models: []plan.Model{{ID: "m", MaxOutput: 64000, Price: plan.Price{Input: "3", Output: "15", CacheRead: "0.3", CacheWrite: "3.75"}}}},
	}
	return l
}

// expand replaces tokens as a runtime does.
func (l *lab) expand(s string) (string, error) {
	return plan.Expand(s, func(token string) (string, bool) {
		switch token {
		case "scratch":
			return l.scratch, true
		case "out":
			return l.out, true
		case "skill":
			return l.skill0, true
		case "broker.url":
			return l.endpoint.URL(), true
		case "broker.token":
			return l.endpoint.Token(), true
		}
		name, ok := strings.CutPrefix(token, "skill:")
		return filepath.Join(filepath.Dir(l.skill0), name), ok
	})
}

func (l *lab) must(t *testing.T, s string) string {
	t.Helper()
	out, err := l.expand(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start stages and starts the program as the plan has it, and nothing else.
func (l *lab) start(t *testing.T) {
	t.Helper()
	program := launcher(t, l.version)
	root := t.TempDir()
	l.scratch, l.out, l.skill0 = filepath.Join(root, "scratch"), filepath.Join(root, "out"), filepath.Join(root, "skills", "hello")
	l.transcripts = filepath.Join(root, "transcripts")
	for _, dir := range []string{l.scratch, l.out, filepath.Join(l.scratch, "tmp"), filepath.Join(l.scratch, "home")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(l.skill0, "SKILL.md"), l.skill)
	for _, name := range l.nested {
		put(t, filepath.Join(root, "skills", name, "SKILL.md"), "---\nname: "+name+"\ndescription: Another one.\n---\nNested.\n")
	}
	l.req.NestedSkills = l.nested
	l.open(t, root)

	low, err := Adapter{}.Lower(l.req)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range low.Files {
		put(t, l.must(t, f.Path), l.must(t, f.Content))
	}
	for name, text := range l.files {
		put(t, filepath.Join(l.scratch, name), text)
	}
	for _, a := range low.Process.Argv {
		l.argv = append(l.argv, l.must(t, a))
	}
	l.argv[0], l.prompt = program, l.must(t, low.Prompt)
	l.quicken(t)
	if l.change != nil {
		l.change(l)
	}
	argv := slices.Concat(l.prefix, l.argv)
	l.cmd = exec.Command(argv[0], argv[1:]...)
	l.cmd.Dir, l.cmd.Env = l.must(t, low.Process.Cwd), nil
	for _, e := range low.Process.Env {
		l.cmd.Env = append(l.cmd.Env, l.must(t, e))
	}
	l.agent = harnesstest.Start(t, l.cmd)
	l.agent.Out, l.agent.Heard = l.out, func() []string { return l.heard(t) }
	l.agent.Secrets = []string{l.endpoint.Token()}
	l.cfg = harness.SessionConfig{Harness: l.req.Harness, Node: "hello", Iteration: 1, Attempt: 1, Prompt: l.prompt,
		Skill: "hello", SkillDir: l.skill0, SkillFile: []byte(l.skill), NestedSkills: l.nested, SubmitAttempts: 1}
	l.endpoint.Arm(l.limits, Adapter{}.Session(l.cfg).(harness.Prover).Activation().Text)
}

// open opens the broker with the canary as the provider's credential.
func (l *lab) open(t *testing.T, root string) {
	t.Helper()
	b, err := broker.Open(broker.Config{Journal: filepath.Join(root, "journal"), Providers: []plan.Provider{*l.req.Provider},
		Credential: func(string) (string, error) { return harnesstest.Canary, nil },
		Script:     func(string) ([]byte, error) { return []byte(`{"version":1,"default":` + l.replies + `}`), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	var mu sync.Mutex
	asked := 0
	l.endpoint, err = b.Endpoint(broker.EndpointOptions{Attempt: "a", Provider: "lab", Model: l.req.Harness.Model, TCP: true, Node: "hello", Iteration: 1,
		Transcripts: l.transcripts, Expand: func(s string) (string, error) {
			// The text of a reply is expanded first, once for each request.
			if s == "" || !strings.HasPrefix(s, "{") {
				mu.Lock()
				asked++
				n := asked
				mu.Unlock()
				if l.asked != nil {
					l.asked(n)
				}
			}
			return l.expand(s)
		}})
	if err != nil {
		t.Fatal(err)
	}
}

// rewrite changes one of the plan's files.
func (l *lab) rewrite(t *testing.T, file, from, to string) {
	t.Helper()
	path := l.must(t, file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), from, to, 1)
	if changed == string(data) {
		t.Fatalf("%q does not stand in %s", from, data)
	}
	put(t, path, changed)
}

// quicken shortens the waits between what is tried again, which the program
// offers: the number of times stays.
func (l *lab) quicken(t *testing.T) {
	l.rewrite(t, settingsFile, `"baseDelayMs": 2000`, `"baseDelayMs": 5`)
}

// heard are the requests as they came to the provider.
func (l *lab) heard(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.transcripts, "*request.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var out []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	return out
}

// drive runs the attempt to its end.
func (l *lab) drive(t *testing.T, opts harnesstest.Options) (harnesstest.Result, harness.Session) {
	t.Helper()
	if l.agent.Stdin == nil {
		l.start(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			l.agent.Stop()
		}
	})
	s := Adapter{}.Session(l.cfg)
	res, err := harnesstest.Drive(s, l.agent, opts)
	if err != nil {
		t.Fatal(err)
	}
	return res, s
}

// signal sends one to the program.
func (l *lab) signal(s syscall.Signal) { _ = l.cmd.Process.Signal(s) }

// quoted is text as it stands in a JSON document.
func quoted(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}
