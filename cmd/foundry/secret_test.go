package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A6: a credential is a name in everything that is written before a run: its
// value in the environment, or in the file that NAME_FILE names, stands in no
// plan, closure, preview, picture or comparison; and a value in the place of a
// name is refused.
func TestPlanHoldsNoSecret(t *testing.T) {
	dir := t.TempDir()
	held := filepath.Join(dir, "key")
	write(t, held, []byte(canary+"\n"))
	for name, env := range map[string]string{"environment": "PILOT_KEY=" + canary, "file": "PILOT_KEY_FILE=" + held} {
		t.Run(name, func(t *testing.T) {
			p := &pilot{t: t, exe: foundry(t), env: append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir(), env)}
			policy := piExample(t, lives("http://127.0.0.1:9")...)
			other := piExample(t, append(lives("http://127.0.0.1:9"), "100000", "90000")...)
			out := t.TempDir()
			said := p.must("plan", policy, "-o", filepath.Join(out, "plan.json")) + p.must("plan", policy, "--prompts", "-o", filepath.Join(out, "closure")) +
				p.must("plan", policy, "--json") + p.must("show", filepath.Join(out, "plan.json")) + p.must("graph", policy, "--format", "html")
			diff, code := p.run("diff", policy, other)
			if code != exitNo {
				t.Errorf("diff: exit %d\n%s", code, diff)
			}
			if said += diff; strings.Contains(said, canary) || !strings.Contains(said, "PILOT_KEY") {
				t.Errorf("the output holds the value, or not the name:\n%s", said)
			}
			unmarked(t, out)
		})
	}
	for name, change := range map[string][2]string{
		"as a name":      {`credential = "PILOT_KEY"`, `credential = "` + canary + `"`},
		"for the broker": {`credentials = ["PILOT_KEY"]`, `credentials = ["` + canary + `"]`},
		"for the worker": {`credentials = ["PILOT_KEY"]`, `worker_credentials = ["` + canary + `"]`},
		"as environment": {`credentials = ["PILOT_KEY"]`, `env = { TOKEN = "` + canary + `" }`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pilot{t: t, exe: foundry(t), env: append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())}
			policy := piExample(t, append(lives("http://127.0.0.1:9"), change[0], change[1])...)
			to := filepath.Join(t.TempDir(), "plan.json")
			out, code := p.run("plan", policy, "-o", to)
			if _, err := os.Stat(to); code != exitUsage || !os.IsNotExist(err) {
				t.Errorf("exit %d, %v\n%s", code, err, out)
			}
		})
	}
}
