package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"foundry/exec/record"
)

// TestCwltool is a true external check: Debian's cwltool validates a CWL
// artifact, in a container of an image that was imported from a root file
// system. `make test` makes it (.ci/cwltool-image).
func TestCwltool(t *testing.T) {
	needContainers(t)
	rootfs := filepath.Join(repository(t), ".cache", "cwltool", "rootfs")
	if _, err := os.Stat(rootfs); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no root file system with cwltool, and in CI this must be tested: .ci/cwltool-image makes it")
		}
		t.Skip("there is no root file system with cwltool: .ci/cwltool-image makes it")
	}
	exe := foundry(t)
	env := append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir())
	command := func(args ...string) (string, error) {
		cmd := exec.Command(exe, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := command("image", "import", rootfs, "--name", "test/cwltool:1", "--label", "foundry.tool.cwltool=3.1")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fields := strings.Fields(out)
	image := fields[len(fields)-1]
	for _, c := range []struct {
		script, status, reason string
		exit                   int64
	}{
		{"good.json", record.StatusSucceeded, "", 0},
		{"bad.json", record.StatusFailed, record.ReasonCheckFailed, 1},
	} {
		run := filepath.Join(t.TempDir(), "run")
		out, err := command("apply", "--yes", "--run-dir", run, "--var", "image="+image, "--var", "script="+filepath.Join("testdata", "cwl", c.script), filepath.Join("testdata", "cwl", "policy.hcl"))
		if (err == nil) != (c.reason == "") {
			t.Fatalf("%s: %v\n%s", c.script, err, out)
		}
		r, err := record.ReadRun(run)
		if err != nil {
			t.Fatal(err)
		}
		reason := ""
		if r.Failure != nil {
			reason = r.Failure.Reason
		}
		if r.Status != c.status || reason != c.reason {
			t.Errorf("%s: %s, %s\n%s", c.script, r.Status, reason, out)
		}
		for _, n := range r.Nodes {
			if n.ID == "write-tool.valid" && (n.Check == nil || n.Check.ExitCode != c.exit) {
				t.Errorf("%s: check %+v", c.script, n.Check)
			}
		}
	}
}
