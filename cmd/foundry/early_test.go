package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A step of a test stub does not wait for the packages that compiler, executor
// and daemon need.
func TestWorkerStartsBeforeOtherPackages(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script.json")
	if err := os.WriteFile(script, []byte(`{"version":1,"steps":[{"write":{"path":"x","content":"here"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "worker", "--test-stub", "--script", script, "--out", dir)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	cmd.Stdin = strings.NewReader(`{"protocol_version":2,"agent":"scripted","harness":{"name":"stub","version":"1","model":""},"node":"n","iteration":1,"attempt":1,"prompt":"","test_stub":true}` + "\n")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err, trace.String())
	}
	if data, err := os.ReadFile(filepath.Join(dir, "x")); err != nil || string(data) != "here" {
		t.Errorf("%q %v", data, err)
	}
	if !strings.Contains(trace.String(), "init encoding/json ") {
		t.Fatalf("no trace of what was initialized:\n%s", trace.String())
	}
	for _, late := range []string{"net", "path/filepath", "github.com/distribution/reference", "github.com/zclconf/go-cty/cty"} {
		if strings.Contains(trace.String(), "init "+late+" ") {
			t.Errorf("%s was initialized before the worker", late)
		}
	}
}
