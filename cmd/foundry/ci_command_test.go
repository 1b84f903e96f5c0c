package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// ciCommand is one call of foundry in a script.
type ciCommand struct{ args []string }

// ciCommands finds every call of foundry, also by way of sudo.
func ciCommands(script string, env map[string]string) ([]ciCommand, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	var out []ciCommand
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		var args []string
		for _, w := range call.Args {
			args = append(args, ciWord(w.Parts, env))
		}
		if len(args) > 1 && args[0] == "sudo" {
			args = args[1:]
			for len(args) > 1 && strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
		}
		if len(args) > 0 && args[0] == "foundry" {
			out = append(out, ciCommand{args: args[1:]})
		}
		return true
	})
	return out, nil
}

// ciWord is a word with the variables that are known, and x for all else.
func ciWord(parts []syntax.WordPart, env map[string]string) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(ciWord(p.Parts, env))
		case *syntax.ParamExp:
			if v, ok := env[p.Param.Value]; ok && !strings.Contains(v, "${{") {
				b.WriteString(v)
				continue
			}
			b.WriteString("x")
		default:
			b.WriteString("x")
		}
	}
	return b.String()
}

// unknownToFoundry says what the command line has wrong, by the real commands.
func unknownToFoundry(args []string) error {
	cmd, rest, err := (&app{}).root().Find(terraformFlags(args))
	if err != nil {
		return err
	}
	if !cmd.HasParent() {
		return fmt.Errorf("no command")
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestWorkflowCommands: every foundry command line of the workflows has words and
// flags that the program knows.
func TestWorkflowCommands(t *testing.T) {
	seen := map[string]int{}
	for name, data := range ciFiles(t) {
		w, err := readCI(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range w.Jobs {
			for _, s := range j.Steps {
				env := maps.Clone(w.Env)
				if env == nil {
					env = map[string]string{}
				}
				maps.Copy(env, j.Env)
				maps.Copy(env, s.Env)
				commands, err := ciCommands(s.Run, env)
				if err != nil {
					t.Errorf("%s: %s: %v", name, s.Name, err)
				}
				for _, c := range commands {
					if err := unknownToFoundry(c.args); err != nil {
						t.Errorf("%s: %s: foundry %s: %v", name, s.Name, strings.Join(c.args, " "), err)
					}
					seen[name+" "+c.args[0]]++
				}
			}
		}
	}
	for _, want := range []string{"review.yml review", "smoke.yml image", "smoke.yml spend", "smoke.yml apply", "nightly.yml spend", "nightly.yml apply",
		"release.yml review", "release.yml plan", "release.yml validate", "release.yml spend", "release.yml doctor", "release.yml apply"} {
		if seen[want] == 0 {
			t.Errorf("no command %s: %v", want, seen)
		}
	}
	for _, wrong := range []string{"reviews a b", "review --format html a b", "review a", "apply --trials many p", "apply --trial 3 p", "image built", "image build --version 1", "plan"} {
		if unknownToFoundry(strings.Fields(wrong)) == nil {
			t.Errorf("foundry %s is taken", wrong)
		}
	}
}

// TestReviewStep runs the script of the review, as the workflow has it, over a
// repository: the summary and the artifact are the comment.
func TestReviewStep(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil || runtime.GOOS == "windows" {
		t.Skip("the script of a workflow needs bash")
	}
	w, err := readCI(ciFiles(t)["review.yml"])
	if err != nil {
		t.Fatal(err)
	}
	var script string
	for _, s := range w.Jobs["review"].Steps {
		if s.Name == "Review" {
			script = s.Run
		}
	}
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "foundry")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	policy := filepath.Join(dir, "policies", "pipeline.hcl")
	manyPhases(t, filepath.Dir(policy), 3, "0.10", "64MiB", "As ever.")
	if err := os.Rename(filepath.Join(dir, "policies", "policy.hcl"), policy); err != nil {
		t.Fatal(err)
	}
	commitOf(t, dir)
	base, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, old, new string
		code           int
		want           string
	}{
		{"widens", `"64MiB"`, `"96MiB"`, exitOK, "<code>64MiB</code> | <code>96MiB</code>"},
		{"breaks a guard", "\nbudget {", "\nguard \"short\" {\n  assert  = alltrue([for n in plan.nodes : n.budget.wall_seconds < 1])\n  message = \"Short.\"\n}\nbudget {", exitNo, "**HEAD breaks 1 guard**"},
		{"does not compile", "\nbudget {", "\nbuget {", exitUsage, "**HEAD does not compile**"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(policy, bytes.Replace(base, []byte(c.old), []byte(c.new), 1), 0o644); err != nil {
				t.Fatal(err)
			}
			commitOf(t, dir)
			temp := t.TempDir()
			summary := filepath.Join(temp, "summary.md")
			cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "RUNNER_TEMP="+temp, "GITHUB_STEP_SUMMARY="+summary, "POLICY="+w.Env["POLICY"])
			told, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Fatalf("exit code %d, want %d (%v): %s", code, c.code, err, told)
			}
			artifact, err := os.ReadFile(filepath.Join(temp, "review", "review.md"))
			if err != nil {
				t.Fatal(err)
			}
			shown, err := os.ReadFile(summary)
			if err != nil || !bytes.Equal(shown, artifact) || !strings.Contains(string(shown), c.want) {
				t.Errorf("%v, it lacks %q:\n%s", err, c.want, shown)
			}
			// The next case starts from what all have in common.
			if err := os.WriteFile(policy, base, 0o644); err != nil {
				t.Fatal(err)
			}
			commitOf(t, dir)
		})
	}
}
