package containerd

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/plan"
	"foundry/sandbox"
)

// The token of an attempt is in the environment of its process. The daemon, which
// makes that process, has it in the spec, for as long as the attempt is there,
// where nobody but root comes to; no label, no argument of the shim and nothing
// that is kept has it (field case C8).
func TestTokenStaysInTheAttempt(t *testing.T) {
	rt := runtimeOf(t)
	const token = "canary-4be1b9d07c"
	task := demo(t, "token", "sleep")
	task.Process.Env = append(task.Process.Env, "TOKEN={broker.token}")
	task.Tokens = map[string]string{"broker.token": token}
	task.Sandbox.Network = plan.NetworkNone
	s, err := rt.Prepare(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	if err := s.Start(t.Context(), sandbox.Stdio{}); err != nil {
		t.Fatal(err)
	}
	ctr, err := rt.client.LoadContainer(t.Context(), containerID(task))
	if err != nil {
		t.Fatal(err)
	}
	info, err := ctr.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Spec == nil || !strings.Contains(string(info.Spec.GetValue()), token) {
		t.Fatal("the daemon's spec does not have it: this test looks in the wrong place")
	}
	info.Spec = nil
	rest, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(rest), token) || len(info.Labels) == 0 {
		t.Errorf("what the daemon tells of the container: %s", rest)
	}
	argvs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range argvs {
		if argv, _ := os.ReadFile(f); strings.Contains(string(argv), token) {
			t.Errorf("it is an argument: %q", argv)
		}
	}
	facts := s.Facts()
	kept, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(kept), token) || !strings.Contains(string(facts.Spec), "TOKEN={broker.token}") {
		t.Errorf("the kept spec: %s", facts.Spec)
	}
	if rt.embedded == nil {
		return
	}
	l := rt.embedded.layout
	bundles, err := filepath.Glob(filepath.Join(l.config().State, "*", namespace, containerID(task), "config.json"))
	if err != nil || len(bundles) != 1 {
		t.Fatalf("the bundles %v, %v", bundles, err)
	}
	if reachable(t, bundles[0]) {
		t.Errorf("everybody can read %s", bundles[0])
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rt.removals.settle(containerID(task)); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(bundles[0]); !os.IsNotExist(err) {
		t.Errorf("the bundle is still there: %v", err)
	}
}

// reachable reports whether a user who is neither owner nor of the group can
// read a file: its folders let them through, and it lets them read.
func reachable(t *testing.T, file string) bool {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode()&0o004 == 0 {
		return false
	}
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
