package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foundry/harness/worker/probe"
)

// TestContainerSeesNothing is a worker that looks around in its container: no
// checkout, no oracle, no other skill, no earlier run, nothing writable but its
// own folders, no network, no resolver, no host socket, one user, no capability
// (must show 6, and field case C9).
func TestContainerSeesNothing(t *testing.T) {
	needContainers(t)
	exe := foundry(t)
	dir := t.TempDir()
	copyTree(t, filepath.Join("testdata", "probe"), dir)
	oracle := filepath.Join(dir, "eval.md")
	if err := os.WriteFile(oracle, []byte("the answer"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A listener of the host on every address that loopback could mean.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	abstract, err := net.Listen("unix", "@foundry-probe-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	run := filepath.Join(dir, "run")
	script := filepath.Join(dir, "script.json")
	data, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("@REPO@", repository(t), "@RUN@", run, "@ORACLE@", oracle, "@PORT@", port).Replace(string(data))
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "apply", "--yes", "--sandbox", "container", "--run-dir", run, dir)
	cmd.Env = append(os.Environ(), "FOUNDRY_STATE_DIR="+t.TempDir(), "CANARY=bird")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r probe.Report
	data, err = os.ReadFile(filepath.Join(run, "artifacts", "look", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	wantExists := map[string]bool{"/skills/look": true, "/in/thing": true, "/in/thing/thing.json": true, "/.foundry/foundry": true}
	for p, exists := range r.Exists {
		if exists != wantExists[p] {
			t.Errorf("%s exists: %v", p, exists)
		}
	}
	wantWritable := map[string]bool{"/out": true, "/scratch": true, "/tmp": true}
	for p, writable := range r.Writable {
		if writable != wantWritable[p] {
			t.Errorf("%s writable: %v", p, writable)
		}
	}
	for name, at := range r.Programs {
		if at != "" {
			t.Errorf("%s is on the PATH at %s", name, at)
		}
	}
	for _, c := range append(r.Connects, r.Lookup) {
		if c.Error == "" {
			t.Errorf("it reached %s", c.Target)
		}
	}
	if len(r.Connects) < 4 {
		t.Errorf("only %v was tried", r.Connects)
	}
	if !slices.Equal(r.Interfaces, []string{"lo"}) || len(r.Resolver) > 0 || len(r.UnixSockets) > 0 {
		t.Errorf("network: interfaces %v, resolver %v, sockets %v", r.Interfaces, r.Resolver, r.UnixSockets)
	}
	for _, route := range r.Routes {
		if !strings.HasSuffix(strings.TrimSpace(route), "lo") {
			t.Errorf("a route: %s", route)
		}
	}
	if r.UID != 65534 || r.GID != 65534 {
		t.Errorf("user %d:%d", r.UID, r.GID)
	}
	for _, id := range append(strings.Fields(r.Status["Uid"]), strings.Fields(r.Status["Gid"])...) {
		if id != "65534" {
			t.Errorf("ids: %s, %s", r.Status["Uid"], r.Status["Gid"])
		}
	}
	for _, c := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(r.Status[c], "0") != "" || r.Status[c] == "" {
			t.Errorf("%s is %q", c, r.Status[c])
		}
	}
	if r.Status["NoNewPrivs"] != "1" || r.Status["Seccomp"] != "2" {
		t.Errorf("no new privileges %q, seccomp %q", r.Status["NoNewPrivs"], r.Status["Seccomp"])
	}
	if slices.Contains(r.Environ, "CANARY") {
		t.Error("the host's environment is in the container")
	}
	for _, p := range r.Processes {
		if !strings.HasPrefix(p, "1 ") {
			t.Errorf("it sees the process %s", p)
		}
	}
	for _, m := range r.Mounts {
		if strings.Contains(m.Path, repository(t)) {
			t.Errorf("it sees the mount %s", m.Path)
		}
	}
	// What was not declared did not cross.
	if _, err := os.Stat(filepath.Join(run, "artifacts", "make", "undeclared.txt")); err == nil {
		t.Error("an undeclared file was promoted")
	}
}
