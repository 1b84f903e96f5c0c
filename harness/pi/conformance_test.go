package pi

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/harness/harnesstest"
)

// answer is a reply of the scripted provider with so many output tokens.
func answer(output int, text string, calls ...string) string {
	return fmt.Sprintf(`{"text":%s,"chunk":1048576,"tools":[%s],"usage":{"input":10,"output":%d,"cache_read":5,"cache_write":2}}`,
		quoted(text), strings.Join(calls, ","), output)
}

func call(tool string, input map[string]any) string {
	data, _ := json.Marshal(map[string]any{"name": tool, "input": input})
	return string(data)
}

func shell(command string) string { return call("bash", map[string]any{"command": command}) }

func writes(name, text string) string {
	return call("write", map[string]any{"path": "{out}/" + name, "content": text})
}

func list(replies ...string) string { return "[" + strings.Join(replies, ",") + "]" }

// behaviours are the answers that bring them about.
func behaviours() map[harnesstest.Behaviour]string {
	var busy []string
	for i := range harnesstest.BusyTurns {
		busy = append(busy, answer(10, "", writes(fmt.Sprintf("%d.txt", i), "x")))
	}
	long := func(bytes int, output int) string {
		return strings.Replace(answer(output, "0123456789abcdef"), `"chunk"`, fmt.Sprintf(`"times":%d,"chunk"`, bytes/16), 1)
	}
	return map[harnesstest.Behaviour]string{
		harnesstest.Settles:  list(answer(100, "first", writes("a.txt", "x")), answer(200, "done")),
		harnesstest.Fails:    list(`{"status":401,"body":"no"}`),
		harnesstest.Recovers: list(`{"status":529,"body":"overloaded"}`, answer(1, "done")),
		harnesstest.Silent:   list(`{"text":"wait","hang":true}`),
		harnesstest.LongLine: list(strings.Replace(long(2<<20, 100), `"tools":[]`, `"tools":[`+writes("a.txt", "x")+`]`, 1), long(20<<20, 200)),
		harnesstest.Long:     list(long(100<<10, 1)),
		harnesstest.Busy:     list(append(busy, answer(1, "done"))...),
		harnesstest.Hangs:    list(answer(10, "", shell("sleep 60"))),
		harnesstest.Submits:  list(strings.Replace(answer(1, "done"), `"chunk"`, `"repeat":4,"chunk"`, 1)),
		harnesstest.Writes: list(answer(1, "", writes(harnesstest.WrittenFile, "one\ntwo\n")),
			answer(1, "", call("edit", map[string]any{"path": "{out}/" + harnesstest.WrittenFile, "edits": []any{map[string]string{"oldText": "two", "newText": "three"}}})),
			answer(1, "done")),
		harnesstest.Shows: list(answer(1, "", shell("env > {out}/"+harnesstest.ShownFile)), answer(1, "done")),
		harnesstest.Shell: list(answer(1, "", shell("echo x > {out}/"+harnesstest.ShellFile)), answer(1, "done")),
	}
}

func TestConformance(t *testing.T) {
	scripts := behaviours()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			launcher(t, version)
			t.Parallel()
			made := map[string]*lab{} // by output folder
			at := make(chan func(), 1)
			at <- func() {}
			locked := func(f func()) { unlock := <-at; f(); at <- unlock }
			harnesstest.Run(t, harnesstest.Subject{
				Adapter:  Adapter{},
				Config:   harness.SessionConfig{Harness: newLab(version, "").req.Harness},
				Parallel: true,
				Launch: func(t *testing.T, b harnesstest.Behaviour) harnesstest.Agent {
					l := newLab(version, scripts[b])
					if b == harnesstest.LongLine { // the broker lets few bytes through for a token
						l.req.Provider.Models[0].MaxOutput = 64 << 20
						l.limits.Tokens, l.limits.CostMicroUSD = 1<<40, 1<<40
						l.change = func(l *lab) { l.rewrite(t, modelsFile, `"maxTokens"`, `"contextWindow": 1000000000, "maxTokens"`) }
					}
					if b == harnesstest.Silent { // it ends at the end of its input, as if all were well
						l.asked = func(int) { l.agent.Stdin.Close() }
					}
					l.start(t)
					locked(func() { made[l.out] = l })
					return l.agent
				},
				Configure: func(cfg *harness.SessionConfig, a harnesstest.Agent) {
					locked(func() {
						submits := cfg.SubmitAttempts
						*cfg = made[a.Out].cfg
						cfg.SubmitAttempts = submits
					})
				},
				SelfTest: func(t *testing.T) []byte {
					out, err := json.Marshal(map[string]any{"protocol_version": contract.ProtocolVersion, "adapters": harness.SelfTest([]harness.Adapter{Adapter{}})})
					if err != nil {
						t.Fatal(err)
					}
					return out
				},
				Skip: func(b harnesstest.Behaviour) string {
					if b == harnesstest.Cut {
						return "Pi does not end within a line by itself; the next case cuts its output"
					}
					return ""
				},
			})
		})
	}
}

// The catalogue is what the real programs say of themselves.
func TestCatalogue(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			program := launcher(t, version)
			t.Parallel()
			dir := t.TempDir()
			put(t, dir+"/models.json", `{"providers":{"anthropic":{"baseUrl":"http://127.0.0.1:9","apiKey":"none"}}}`)
			cmd := exec.Command(program, "--mode", "rpc", "--no-session", "--no-extensions", "--no-skills", "--offline")
			cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "PI_CODING_AGENT_DIR=" + dir}, dir
			cmd.Stdin = strings.NewReader(`{"type":"get_available_models"}` + "\n")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Data struct {
					Models []struct {
						ID       string             `json:"id"`
						Provider string             `json:"provider"`
						API      string             `json:"api"`
						Levels   map[string]*string `json:"thinkingLevelMap"`
					} `json:"models"`
				} `json:"data"`
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			found := map[string]string{}
			for _, m := range got.Data.Models {
				if m.Provider != builtin || m.API != "anthropic-messages" {
					continue
				}
				var levels []string
				for _, l := range thinking {
					mapped, named := m.Levels[l]
					if extra := l == "xhigh" || l == "max"; named && mapped != nil || !named && !extra {
						levels = append(levels, l)
					}
				}
				found[m.ID] = strings.Join(levels, " ")
			}
			if fmt.Sprint(found) != fmt.Sprint(catalogue[version]) {
				t.Errorf("Pi %s says\n%v\nthe catalogue has\n%v", version, found, catalogue[version])
			}
		})
	}
}
