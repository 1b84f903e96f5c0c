package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"foundry/exec/record"
)

// linksTo are the links below a folder that lead to a file.
func linksTo(t *testing.T, dir, file string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if target, err := os.Readlink(name); err == nil && target == file {
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestOwnLogin lends a local agent a login of its own: past the broker, by its
// label alone, and through a link that is gone afterwards, also after a kill. The
// provider is a real one that is not reached, or refuses the canary.
func TestOwnLogin(t *testing.T) {
	corpus := needCorpus(t)
	version := pilotVersions[0]
	p := newPilot(t, version, false)
	dir := t.TempDir()
	login := filepath.Join(dir, "login.json")
	write(t, login, []byte(`{"anthropic":{"type":"api_key","key":"`+canary+`"}}`))
	if resolved, err := filepath.EvalSymlinks(login); err == nil {
		login = resolved
	}
	data, err := os.ReadFile(filepath.Join("testdata", "pilot", "policy.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	policy := strings.NewReplacer(
		`provider "scripted" {`, `provider "anthropic" {`, `provider = "scripted"`, "provider = \"anthropic\"\n  auth_store = \"pi-test-auth\"",
		`script     = var.script`, `base_url   = "https://api.anthropic.com"`, `claude-sonnet-5`, `claude-sonnet-4-5`,
		`network     = "provider"`, `network     = "bridge"`, `credentials = ["PILOT_KEY"]`, ``, `tokens   = 2000000`, "tokens   = 2000000\n  unknown  = \"warn\"",
		`variable "script" { type = path }`, ``).Replace(string(data))
	write(t, filepath.Join(dir, "policy.hcl"), []byte(policy))
	for _, name := range []string{"source/main.nf", "source/nextflow.config", "fallback.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", "pilot", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), data)
	}
	args := func(run string, more ...string) []string {
		return p.args(append([]string{"--var", "corpus=" + corpus, "--run-dir", run, "--through", "summarize-nextflow", filepath.Join(dir, "policy.hcl")}, more...)...)
	}

	if out, code := p.run(args(filepath.Join(dir, "none"))...); code != exitUsage || !strings.Contains(out, "--auth-store pi-test-auth=FILE") {
		t.Errorf("without the login: exit %d\n%s", code, out)
	}
	if out, code := p.run(args(filepath.Join(dir, "other"), "--auth-store", "other="+login)...); code != exitUsage || !strings.Contains(out, "there is pi-test-auth") {
		t.Errorf("another label: exit %d\n%s", code, out)
	}
	if out, code := p.run(args(filepath.Join(dir, "contained"), "--auth-store", "pi-test-auth="+login, "--sandbox", "container", "--sandbox-image", "foundry-pi:1@sha256:"+strings.Repeat("0", 64))...); code != exitUsage {
		t.Errorf("in a container: exit %d\n%s", code, out)
	}
	strict := strings.Replace(policy, `unknown  = "warn"`, ``, 1)
	write(t, filepath.Join(dir, "strict.hcl"), []byte(strict))
	if out, code := p.run("plan", "--var", "corpus="+corpus, "--var", "pi="+version, filepath.Join(dir, "strict.hcl")); code != exitUsage || !strings.Contains(out, "Spend that nobody can know") {
		t.Errorf("a spend that fails the run: exit %d\n%s", code, out)
	}

	t.Run("ended", func(t *testing.T) {
		run := filepath.Join(dir, "ended")
		out, code := p.run(args(run, "--auth-store", "pi-test-auth="+login)...)
		a := readAttempt(t, run, "summarize-nextflow", 1, 1)
		if code == 0 || a.Failure == nil || a.Failure.Reason != record.ReasonProviderUnreachable && a.Failure.Reason != record.ReasonProviderRefused {
			t.Errorf("exit %d, failure %+v\n%s", code, a.Failure, out)
		}
		if a.Usage.Source != record.SourceWorker || a.Usage.CostMicroUSD != record.Unknown || a.Broker != nil {
			t.Errorf("usage %+v, broker %+v", a.Usage, a.Broker)
		}
		if !a.Activation.Stream || a.Activation.State != record.ActivationProven {
			t.Errorf("activation %+v: the agent's stream showed it", a.Activation)
		}
		if found := linksTo(t, run, login); len(found) > 0 {
			t.Errorf("links to the login are left: %v", found)
		}
		unmarked(t, run)
		plan, err := os.ReadFile(filepath.Join(run, record.PlanFile))
		if err != nil || !strings.Contains(string(plan), "pi-test-auth") || strings.Contains(string(plan), login) {
			t.Errorf("the plan has more than the label of the login, or not even that (%v)", err)
		}
	})

	t.Run("killed", func(t *testing.T) {
		run := filepath.Join(dir, "killed")
		cmd := exec.Command(p.exe, args(run, "--auth-store", "pi-test-auth="+login)...)
		cmd.Env = p.env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		for end := time.Now().Add(30 * time.Second); len(linksWhereThere(t, run, login)) == 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the login was never lent")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if found := linksTo(t, run, login); len(found) == 0 {
			t.Error("the kill came too late to show anything")
		}
		p.must("clean")
		if found := linksTo(t, run, login); len(found) > 0 {
			t.Errorf("clean left %v", found)
		}
		unmarked(t, run)
	})
}

// linksWhereThere is linksTo of a folder that may not be there yet.
func linksWhereThere(t *testing.T, dir, file string) []string {
	found, err := filepath.Glob(filepath.Join(dir, record.WorkDir, "*", "scratch", "pi", "auth.json"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
