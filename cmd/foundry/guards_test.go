package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// A plan that breaks its guards, and has nothing else wrong, is a no; comparing
// it with another is trouble, since 1 would say that the two differ.
func TestGuardExitCodes(t *testing.T) {
	exe, dir := foundry(t), filepath.Join(t.TempDir(), "policy")
	copyTree(t, filepath.Join(repository(t), "examples", "quickstart"), dir)
	for _, c := range []struct {
		guards string
		args   []string
		want   int
	}{
		{`guards = ["baseline"]`, []string{"plan", dir}, exitOK},
		{`guards = ["conformance"]`, []string{"plan", dir}, exitNo},
		{`guards = ["conformance"]`, []string{"validate", dir}, exitNo},
		{`guards = ["conformance"]`, []string{"apply", "--yes", dir}, exitNo},
		{`guards = ["conformance"]`, []string{"diff", dir, dir}, exitUsage},
		{`guards = ["no-such-set"]`, []string{"plan", dir}, exitUsage},
		{"guards = [\"conformance\"]\nphase \"none\" {}", []string{"plan", dir}, exitUsage},
	} {
		write(t, filepath.Join(dir, "guards.hcl"), []byte(c.guards+"\n"))
		cmd := exec.Command(exe, c.args...)
		out, _ := cmd.CombinedOutput() // the exit code tells
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%s, %v: exit %d, not %d\n%s", c.guards, c.args, got, c.want, out)
		}
	}
}
