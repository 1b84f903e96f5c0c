package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPiPage compiles the policies of docs/pi.md, each in place of the example's
// own provider, harness and sandbox.
func TestPiPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository(t), "docs", "pi.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```hcl\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("%d policies", len(blocks))
	}
	for i := range blocks {
		blocks[i], _, _ = strings.Cut(blocks[i], "```")
	}
	provider, rest, ok := strings.Cut(blocks[0], "harness ")
	if !ok {
		t.Fatal("the first policy has no harness")
	}
	exe := foundry(t)
	image := "foundry-pi@sha256:" + strings.Repeat("ab", 32)
	p := &pilot{t: t, exe: exe, env: append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())}
	for name, text := range map[string]string{
		"real":  provider + "harness " + strings.ReplaceAll(rest, "foundry-pi@sha256:…", image),
		"login": provider + strings.Replace(blocks[1], `budget { unknown = "warn" }`, "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			policy := piExample(t)
			data, err := os.ReadFile(policy)
			if err != nil {
				t.Fatal(err)
			}
			head, tail, ok := strings.Cut(string(data), "provider \"scripted\"")
			_, tail, found := strings.Cut(tail, "budget { # the whole run\n")
			if !ok || !found {
				t.Fatal("the example has another form")
			}
			unknown := ""
			if name == "login" {
				unknown = "  unknown = \"warn\"\n"
			}
			write(t, policy, []byte(head+text+"\nbudget {\n"+unknown+tail))
			p.t = t
			out := p.must("plan", policy)
			network := map[string]string{"real": "network provider, credentials ANTHROPIC_API_KEY", "login": "network bridge, no credential"}[name]
			for _, part := range []string{"pi 1.6.0, anthropic/claude-sonnet-5, thinking medium, tools bash edit read write", network} {
				if !strings.Contains(out, part) {
					t.Errorf("%q does not stand in\n%s", part, out)
				}
			}
		})
	}
}
