package exec

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// banned reports why a package of ours below exec may not be linked, "" if it
// may.
func banned(path string) string {
	for _, p := range []string{"foundry/compile", "foundry/policies", "foundry/exec/grade", "foundry/exec/subagent", "foundry/sandbox/local",
		"foundry/sandbox/containerd", "foundry/sandbox/image", "foundry/cmd", "github.com/hashicorp/hcl", "github.com/zclconf/go-cty",
		"github.com/containerd/containerd"} {
		if path == p || strings.HasPrefix(path, p+"/") {
			return "exec may not depend on " + p
		}
	}
	if rest, ok := strings.CutPrefix(path, "foundry/harness/"); ok && rest != "contract" {
		return "exec may not know an adapter or a worker"
	}
	return ""
}

func depsOf(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

func violations(deps []string) []string {
	var found []string
	for _, d := range deps {
		if why := banned(d); why != "" {
			found = append(found, d+": "+why)
		}
	}
	return found
}

// Nothing that exec is linked with is in a room that it may not enter; and an
// import that is, is found.
func TestRooms(t *testing.T) {
	deps := depsOf(t, ".", "./...")
	if len(deps) < 50 {
		t.Fatalf("go list gives %d packages: the test sees nothing", len(deps))
	}
	if bad := violations(deps); len(bad) > 0 {
		t.Errorf("%s", strings.Join(bad, "\n"))
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"github.com/hashicorp/hcl/v2", "foundry/sandbox/local"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "injected.go")
		if err := os.WriteFile(file, fmt.Appendf(nil, "package exec\n\nimport _ %q\n", path), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay := filepath.Join(dir, "overlay.json")
		text := fmt.Sprintf(`{"Replace":{%q:%q}}`, filepath.Join(root, "exec", "injected.go"), file)
		if err := os.WriteFile(overlay, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if bad := violations(depsOf(t, root, "-overlay", overlay, "./exec")); len(bad) == 0 {
			t.Errorf("an injected import of %s was not found", path)
		}
	}
}

// The executor treats all adapters alike: none stands in its source by name.
func TestNoAdapterByName(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			if p == "os/exec" && !strings.HasSuffix(path, filepath.Join("attempt", "attempt.go")) {
				t.Errorf("%s imports os/exec: processes are the runtimes' business", path)
			}
		}
		text, err := os.ReadFile(path)
		for _, name := range []string{"scripted", "claude", "codex", `"pi"`} {
			// A scripted provider is no adapter.
			if strings.Contains(strings.ReplaceAll(strings.ToLower(string(text)), "scripted provider", ""), name) {
				t.Errorf("%s names the adapter %s", path, name)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files seen, %v", files, err)
	}
}
