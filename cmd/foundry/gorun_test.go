package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGoRun runs the README's first command as it stands, and in containers,
// with the program linked statically and dynamically: `go run` removes its
// binary afterwards, and a dynamically linked one needs its loader and
// libraries in the builtin image (must show 1).
func TestGoRun(t *testing.T) {
	containers := canContain(t)
	root := repository(t)
	want := ""
	for _, cgo := range []string{"0", "1"} {
		for _, sandbox := range []string{"", "container"} {
			if sandbox != "" && !containers {
				t.Log("containers need Linux, root and runc: only the local sandbox was run")
				continue
			}
			run := filepath.Join(t.TempDir(), "run")
			args := []string{"run", "./cmd/foundry", "apply", "--yes", "--run-dir", run, "examples/quickstart"}
			if sandbox != "" {
				args = append(args, "--sandbox", sandbox)
			}
			cmd := exec.Command("go", args...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "FOUNDRY_STATE_DIR="+t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("CGO_ENABLED=%s, sandbox %q: %v\n%s", cgo, sandbox, err, out)
			}
			got := treeDigest(t, filepath.Join(run, "artifacts"))
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("CGO_ENABLED=%s, sandbox %q: other artifacts", cgo, sandbox)
			}
		}
	}
}
