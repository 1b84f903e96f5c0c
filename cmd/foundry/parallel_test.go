package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"foundry/exec/record"
)

// TestSideBySide runs the same pipeline in assembly order and, with two steps at
// a time, by its data alone: independent phases overlap, and the artifacts are
// the same.
func TestSideBySide(t *testing.T) {
	exe := foundry(t)
	state := t.TempDir()
	digests := map[string]string{}
	for order, overlap := range map[string]bool{"assembly": false, "dataflow": true} {
		dir := t.TempDir()
		copyTree(t, filepath.Join(repository(t), "examples", "quickstart"), dir)
		// The second phase reads an input of its own instead of the first one's
		// output, so that nothing joins the two.
		prov := filepath.Join(dir, "skills", "classify-changes", "_provenance.json")
		data, err := os.ReadFile(prov)
		if err != nil {
			t.Fatal(err)
		}
		write(t, prov, []byte(strings.Replace(string(data), `"id": "changes"`, `"id": "other-changes"`, 1)))
		policy := filepath.Join(dir, "quickstart.hcl")
		if data, err = os.ReadFile(policy); err != nil {
			t.Fatal(err)
		}
		write(t, policy, []byte(fmt.Sprintf("order = %q\ninput \"other-changes\" { path = \"other.json\" }\n%s", order, data)))
		write(t, filepath.Join(dir, "other.json"), []byte(`{"changes": [{"id": "a", "kind": "fix", "summary": "A."}]}`))
		script := filepath.Join(dir, "scripts", "release-notes.json")
		if data, err = os.ReadFile(script); err != nil {
			t.Fatal(err)
		}
		slow := string(data)
		for _, phase := range []string{"collect-changes", "classify-changes"} {
			slow = strings.Replace(slow, `"`+phase+`": [`, `"`+phase+`": [{"sleep_ms": 700},`, 1)
		}
		write(t, script, []byte(slow))
		run := filepath.Join(dir, "run")
		cmd := exec.Command(exe, "apply", "--yes", "--parallelism", "2", "--run-dir", run, dir)
		cmd.Env = append(os.Environ(), "FOUNDRY_STATE_DIR="+state)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", order, err, out)
		}
		events, err := record.ReadEvents(filepath.Join(run, record.EventsFile))
		if err != nil {
			t.Fatal(err)
		}
		active, most := 0, 0
		for _, e := range events {
			switch e.Type {
			case record.EventNodeStarted:
				active++
			case record.EventNodeFinished:
				active--
			}
			most = max(most, active)
		}
		if (most == 2) != overlap {
			t.Errorf("%s: at most %d steps at a time", order, most)
		}
		digests[order] = treeDigest(t, filepath.Join(run, "artifacts"))
	}
	if digests["assembly"] != digests["dataflow"] {
		t.Error("the order changes the artifacts")
	}
}
