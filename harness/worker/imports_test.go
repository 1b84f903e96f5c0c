package worker

import (
	"os/exec"
	"strings"
	"testing"
)

// foreign lists the packages that a package may not be built from: everything
// but the standard library, itself and the contract. List lines are
// "standard import-path".
func foreign(list, self string) []string {
	var found []string
	for line := range strings.Lines(list) {
		std, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if std != "true" && path != self && path != "foundry/harness/contract" {
			found = append(found, path)
		}
	}
	return found
}

func TestImportsStandardLibraryAndContractAlone(t *testing.T) {
	for _, self := range []string{"foundry/harness/worker", "foundry/harness/worker/probe", "foundry/harness/contract"} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{.Standard}} {{.ImportPath}}", self).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), "true encoding/json") || !strings.Contains(string(out), "false "+self) {
			t.Fatalf("go list says %q", out)
		}
		if bad := foreign(string(out), self); len(bad) > 0 {
			t.Errorf("%s is built from %v", self, bad)
		}
	}
}

// The rule catches an injected import.
func TestForeignImportIsFound(t *testing.T) {
	list := "true fmt\nfalse foundry/harness/contract\nfalse foundry/plan\nfalse example.com/x\nfalse foundry/harness/worker\n"
	if got := strings.Join(foreign(list, "foundry/harness/worker"), " "); got != "foundry/plan example.com/x" {
		t.Error(got)
	}
}
