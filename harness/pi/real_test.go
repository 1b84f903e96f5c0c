package pi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/harness/harnesstest"
)

// everyVersion runs a test on each real program, side by side.
func everyVersion(t *testing.T, f func(t *testing.T, version string)) {
	for _, version := range versions {
		launcher(t, version)
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f(t, version)
		})
	}
}

// The text that proves an activation is what the real programs make of a skill,
// to the byte: in their own stream, and in the request to the provider.
func TestActivationIsProven(t *testing.T) {
	head := "---\nname: hello\ndescription: Says hello.\n---\n"
	skills := map[string]string{
		"line ends":  "\uFEFF" + strings.ReplaceAll(head+"\n# Hello\n\nBody.\n", "\n", "\r\n"),
		"no text":    head,
		"rules":      head + "\n\n  # Hello <&> \"x\"\n\n---\n\nBody \u2028 é 漢 {out}\n\n---\n\n",
		"odd spaces": head + "\n\u00A0\u2028\u3000 Body.\u0085\n\u00A0\uFEFF\n",
		"folded":     "---\nname: hello\ndescription: >-\n  Says hello,\n  twice: \"x\".\nmetadata:\n  a: b\n---\nBody.",
		"large":      head + strings.Repeat("A line of some length that stands here.\n", 5000),
	}
	everyVersion(t, func(t *testing.T, version string) {
		for name, skill := range skills {
			t.Run(name, func(t *testing.T) {
				l := newLab(version, list(answer(1, "done")))
				l.skill = skill
				res, s := l.drive(t, harnesstest.Options{})
				act, report := s.(harness.Prover).Activation(), l.endpoint.Close()
				if res.Status != contract.Settled || res.Mismatch != "" {
					t.Fatalf("%s, %q", res.Status, res.Mismatch)
				}
				if !act.Seen || report.Evidence == nil || act.Requested != "/skill:hello" {
					t.Errorf("seen in the stream: %v, in a request: %v\n%q", act.Seen, report.Evidence, act.Text[:min(len(act.Text), 400)])
				}
			})
		}
		// What was not activated is not proven, whatever the worker leaves.
		t.Run("not asked for", func(t *testing.T) {
			l := newLab(version, list(answer(1, "done")))
			l.start(t)
			l.cfg.Prompt = strings.TrimPrefix(l.cfg.Prompt, "/skill:hello ")
			res, s := l.drive(t, harnesstest.Options{})
			if report := l.endpoint.Close(); res.Status != contract.Settled || s.(harness.Prover).Activation().Seen || report.Evidence != nil {
				t.Errorf("%s, seen %v, %v", res.Status, s.(harness.Prover).Activation().Seen, report.Evidence)
			}
		})
	})
}

// request is what the provider is sent.
type sent struct {
	Model     string          `json:"model"`
	MaxTokens int64           `json:"max_tokens"`
	Thinking  json.RawMessage `json:"thinking"`
	Fallbacks json.RawMessage `json:"fallbacks"`
	Tools     []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

func (l *lab) first(t *testing.T) (sent, string) {
	t.Helper()
	heard := l.heard(t)
	if len(heard) == 0 {
		t.Fatal("the provider was not asked")
	}
	var s sent
	if err := json.Unmarshal([]byte(heard[0]), &s); err != nil {
		t.Fatal(err)
	}
	return s, heard[0]
}

// The model is offered the plan's tools and no others, and reads nothing that
// lies about: neither in the working folder nor in the home.
func TestNothingElseIsThere(t *testing.T) {
	const mark = "AMBIENT-MARK-51d0"
	everyVersion(t, func(t *testing.T, version string) {
		for _, given := range [][]string{tools, {"read"}, {}} {
			t.Run("tools "+strings.Join(given, ","), func(t *testing.T) {
				l := newLab(version, list(answer(1, "done")))
				l.nested = []string{"other"}
				l.req.Harness.Tools = given
				l.files = map[string]string{}
				skill := "---\nname: ambient\ndescription: " + mark + "\n---\n" + mark
				for _, at := range []string{"", "home/"} {
					for _, name := range []string{"AGENTS.md", "CLAUDE.md", ".pi/SYSTEM.md", ".pi/APPEND_SYSTEM.md", ".pi/prompts/x.md", ".pi/agent/AGENTS.md"} {
						l.files[at+name] = mark
					}
					for _, name := range []string{".pi/skills", ".agents/skills", ".claude/skills", ".pi/agent/skills"} {
						l.files[at+name+"/ambient/SKILL.md"] = skill
					}
					l.files[at+".pi/extensions/x.ts"] = "export default function () { process.stdout.write('" + mark + "\\n'); }"
					l.files[at+".pi/settings.json"] = `{"defaultModel":"` + mark + `"}`
				}
				res, _ := l.drive(t, harnesstest.Options{})
				if res.Status != contract.Settled || res.Mismatch != "" || res.Noise != 0 {
					t.Fatalf("%s, %q, noise %d: %s", res.Status, res.Mismatch, res.Noise, l.agent.Stderr)
				}
				s, whole := l.first(t)
				var names []string
				for _, tool := range s.Tools {
					names = append(names, tool.Name)
				}
				slices.Sort(names)
				if !slices.Equal(names, given) {
					t.Errorf("the model is offered %v, the plan has %v", names, given)
				}
				if strings.Contains(whole, mark) {
					t.Error("something ambient is before the model")
				}
			})
		}
	})
}

// A model that Pi describes itself is asked as Pi knows it must be, through the
// broker, with the plan's bound, and for no other model's answer.
func TestModelsOfTheCatalogue(t *testing.T) {
	everyVersion(t, func(t *testing.T, version string) {
		for model, want := range map[string]string{"claude-fable-5": `"adaptive"`, "claude-opus-5": `"adaptive"`, "claude-haiku-4-5": `"budget_tokens"`} {
			t.Run(model, func(t *testing.T) {
				l := newLab(version, list(answer(1, "", writes("a.txt", "x")), answer(2, "done")))
				l.req.Harness.Model, l.req.Provider.Models[0].ID, l.req.Provider.Models[0].MaxOutput = model, model, 8192
				res, s := l.drive(t, harnesstest.Options{})
				report := l.endpoint.Close()
				if res.Status != contract.Settled || res.Mismatch != "" || report.Evidence == nil || !s.(harness.Prover).Activation().Seen {
					t.Fatalf("%s, %q, %v: %s", res.Status, res.Mismatch, res.Events, l.agent.Stderr)
				}
				got, _ := l.first(t)
				if got.Model != model || got.MaxTokens != 8192 || got.Fallbacks != nil || !strings.Contains(string(got.Thinking), want) {
					t.Errorf("it was asked for %+v, thinking %s", got, got.Thinking)
				}
				if spend := report.Spend; spend.Output != 3 || res.Usage.Output != 3 {
					t.Errorf("the broker counts %+v, the worker %+v", spend, res.Usage)
				}
			})
		}
	})
}

// deaf is a session that cannot ask its agent to stop.
type deaf struct{ *session }

func (deaf) Abort() []byte { return nil }

// A login of Pi's own is found where the adapter says, through a link, and is
// what the model becomes available by. The program is ended before it is asked
// anything: the provider is a real one.
func TestLentLogin(t *testing.T) {
	everyVersion(t, func(t *testing.T, version string) {
		for _, lent := range []bool{true, false} {
			l := newLab(version, `[]`)
			l.req.Harness.AuthStore, l.req.Harness.Provider, l.req.Harness.Model = "pi-test-auth", "anthropic", "claude-sonnet-4-5"
			l.req.Provider.Models[0].ID = "claude-sonnet-4-5"
			l.change = func(l *lab) {
				login := filepath.Join(filepath.Dir(l.scratch), "login.json")
				put(t, login, `{"anthropic":{"type":"api_key","key":"`+harnesstest.Canary+`"}}`)
				if !lent {
					return
				}
				if err := os.Symlink(login, l.must(t, Adapter{}.AuthFile())); err != nil {
					t.Fatal(err)
				}
			}
			l.start(t)
			res, err := harnesstest.Drive(deaf{Adapter{}.Session(l.cfg).(*session)}, l.agent, harnesstest.Options{AbortAt: contract.Started})
			if err != nil {
				t.Fatal(err)
			}
			if began := len(res.Events) == 1; began != lent || (res.Mismatch == "") != lent {
				t.Errorf("lent: %v; events %v, mismatch %q", lent, res.Events, res.Mismatch)
			}
		}
	})
}
