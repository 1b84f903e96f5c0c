package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"foundry/exec/record"
)

// The controller stays as small as it is, from the worker's start to the end of
// the run, while a worker writes 200 MiB to stdout and 200 MiB of outputs, which
// are validated, hashed, promoted and shown.
func TestControllerStaysSmall(t *testing.T) {
	exe := foundry(t)
	sandboxes := []string{"local"}
	if canContain(t) {
		sandboxes = append(sandboxes, "container")
	}
	const mib = 1 << 20
	for _, sandbox := range sandboxes {
		t.Run(sandbox, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			peak := func(times int) int64 {
				dir := t.TempDir()
				copyTree(t, filepath.Join(repository(t), "examples", "quickstart"), dir)
				edit(t, filepath.Join(dir, "quickstart.hcl"), `output     = "1MiB"`, `output     = "256MiB"`)
				edit(t, filepath.Join(dir, "quickstart.hcl"), `phase "collect-changes" {`, "phase \"write-release-notes\" {\n  output \"release-notes\" { kind = \"file\" }\n}\n\nphase \"collect-changes\" {")
				kib := strings.Repeat("x", 1023) + `\n`
				write(t, filepath.Join(dir, "scripts", "release-notes.json"), fmt.Appendf(nil, `{"version": 1, "nodes": {
  "collect-changes": [{"write": {"path": "changes.json", "content": "{\"changes\": [{\"id\": \"a\", \"kind\": \"fix\", \"summary\": \"A.\"}]}"}}],
  "classify-changes": [{"write": {"path": "classes.json", "content": "{\"bump\": \"patch\", \"breaking\": [], \"features\": [], \"fixes\": [\"a\"]}"}}],
  "write-release-notes": [{"stdout": {"text": "%[1]s", "times": %[2]d}}, {"write": {"path": "release-notes.md", "content": "%[1]s", "times": %[2]d}},
    {"write": {"path": "release.json", "content": "{\"bump\": \"patch\", \"order\": [\"a\"]}"}}]}}`, kib, times))
				run := filepath.Join(dir, "run")
				cmd := exec.Command(exe, "apply", "--yes", "--sandbox", sandbox, "--run-dir", run, dir)
				cmd.Env = append(os.Environ(), "FOUNDRY_STATE_DIR="+state, "CONTAINERD_ADDRESS=")
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				most, err := peakOf(cmd)
				if err != nil {
					t.Fatalf("%v\n%s", err, said.String())
				}
				r, err := record.ReadRun(run)
				if err != nil {
					t.Fatal(err)
				}
				var promoted int64
				for _, n := range r.Nodes {
					for _, o := range n.Outputs {
						promoted += o.Bytes
					}
				}
				if want := int64(times) << 10; promoted < want {
					t.Fatalf("%d bytes were promoted, want %d", promoted, want)
				}
				return most
			}
			peak(1) // the first one makes the image
			small, large := peak(1), peak(200<<10)
			t.Logf("peak %d MiB, with 400 MiB through it %d MiB", small/mib, large/mib)
			if large > small+24*mib {
				t.Errorf("the controller grew from %d to %d MiB", small/mib, large/mib)
			}
		})
	}
}

// peakOf runs a program, and looks meanwhile at the most memory that it had, in
// bytes. (The usage that wait tells counts its parent's too.)
func peakOf(cmd *exec.Cmd) (int64, error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	most := int64(0)
	for {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if _, rest, ok := bytes.Cut(data, []byte("VmHWM:")); ok {
			if kib, err := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64); err == nil {
				most = max(most, kib<<10)
			}
		}
		select {
		case err := <-ended:
			if err == nil && most == 0 {
				err = errors.New("the kernel tells no VmHWM")
			}
			return most, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// edit replaces a text that must be there, once.
func edit(t *testing.T, file, old, text string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(data), old) != 1 {
		t.Fatalf("%s has not the one %s", file, old)
	}
	write(t, file, []byte(strings.Replace(string(data), old, text, 1)))
}
