package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// room says what a package and those below it may reach, directly or through
// others: the design's table, each line a rule that fails when it is broken.
type room struct {
	name    string
	exact   bool     // only the package itself
	ours    []string // packages of ours that it may reach; nil: no limit here
	forbids []string // prefixes of import paths that it must not reach
}

var (
	language         = []string{"github.com/hashicorp/hcl", "github.com/zclconf/go-cty"}
	containerModules = []string{"github.com/containerd/containerd"}
	processes        = []string{"os", "os/exec", "net", "net/http", "time/tzdata", "plugin"}
)

var rooms = []room{
	{name: "foundry/plan", exact: true, ours: []string{"foundry/plan"}, forbids: slices.Concat(language, containerModules, []string{"os", "net", "os/exec"})},
	{name: "foundry/plan/diff", ours: []string{"foundry/plan", "foundry/plan/document", "foundry/predicates"}, forbids: slices.Concat(language, containerModules, []string{"os", "net", "os/exec"})},
	{name: "foundry/plan/spend", ours: []string{"foundry/plan/spend", "foundry/plan"}, forbids: slices.Concat(language, containerModules, []string{"os", "net", "os/exec"})},
	{name: "foundry/plan/document", ours: []string{"foundry/plan/document"}},
	{name: "foundry/predicates", ours: []string{"foundry/predicates", "foundry/plan", "foundry/plan/document"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/harness/contract", ours: []string{"foundry/harness/contract"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/harness/worker", exact: true, ours: []string{"foundry/harness/worker", "foundry/harness/contract"}, forbids: []string{"github.com/", "golang.org/", "go.yaml.in/"}},
	{name: "foundry/harness/worker/relay", exact: true, ours: []string{}, forbids: []string{"github.com/", "golang.org/", "go.yaml.in/"}},
	{name: "foundry/harness/worker/early", exact: true, ours: []string{"foundry/harness/worker", "foundry/harness/contract"}, forbids: []string{"github.com/", "golang.org/", "go.yaml.in/"}},
	{name: "foundry/harness/worker/probe", exact: true, ours: []string{"foundry/harness/worker/probe", "foundry/harness/contract"}, forbids: []string{"github.com/", "golang.org/", "go.yaml.in/"}},
	{name: "foundry/harness", exact: true, ours: []string{"foundry/harness", "foundry/harness/contract", "foundry/plan", "foundry/plan/document"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/harness/pi", ours: []string{"foundry/harness", "foundry/harness/contract", "foundry/plan", "foundry/plan/document"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/harness/scripted", ours: []string{"foundry/harness/scripted", "foundry/harness", "foundry/harness/contract", "foundry/plan", "foundry/plan/document"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/compile", forbids: slices.Concat(containerModules, []string{"foundry/exec", "foundry/sandbox", "foundry/cmd", "os/exec", "net/http"})},
	{name: "foundry/sandbox", exact: true, ours: []string{"foundry/sandbox", "foundry/plan"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/sandbox/local", ours: []string{"foundry/sandbox/local", "foundry/sandbox", "foundry/plan"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/sandbox/image", exact: true, ours: []string{"foundry/sandbox", "foundry/plan"}, forbids: slices.Concat(language, containerModules, []string{"os/exec"})},
	{name: "foundry/sandbox/image/build", ours: []string{"foundry/sandbox/image", "foundry/sandbox", "foundry/plan"}, forbids: slices.Concat(language, containerModules)},
	{name: "foundry/sandbox", forbids: slices.Concat(language, []string{"foundry/compile", "foundry/exec", "foundry/harness"})},
	{name: "foundry/exec", forbids: slices.Concat(language, containerModules, []string{"foundry/compile", "foundry/cmd", "foundry/exec/grade", "foundry/exec/subagent"})},
	{name: "foundry/exec/broker", ours: []string{"foundry/exec/broker/redact", "foundry/plan", "foundry/plan/document"}},
	{name: "foundry/exec/record", ours: []string{"foundry/exec/record", "foundry/plan", "foundry/plan/document"}},
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// packages lists ours, as linked into the program and not into its tests.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps=false", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = repository(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// broken lists how a package breaks the rules of the rooms.
func broken(p listed) []string {
	var out []string
	for _, r := range rooms {
		if p.ImportPath != r.name && (r.exact || !strings.HasPrefix(p.ImportPath, r.name+"/")) {
			continue
		}
		for _, d := range p.Deps {
			for _, f := range r.forbids {
				// A standard library package is forbidden as a direct import: what
				// libraries do with it is not ours to say.
				if first, _, _ := strings.Cut(f, "/"); !strings.Contains(first, ".") && first != "foundry" {
					continue
				}
				if d == strings.TrimSuffix(f, "/") || strings.HasPrefix(d, strings.TrimSuffix(f, "/")+"/") {
					out = append(out, p.ImportPath+" reaches "+d+", which "+r.name+" must not")
				}
			}
			if r.ours != nil && strings.HasPrefix(d, "foundry/") && p.ImportPath != d && !slices.Contains(r.ours, d) {
				out = append(out, p.ImportPath+" reaches "+d+", which is not in the list of "+r.name)
			}
		}
		for _, d := range p.Imports {
			if slices.Contains(r.forbids, d) {
				out = append(out, p.ImportPath+" imports "+d+", which "+r.name+" must not")
			}
		}
	}
	if strings.HasPrefix(p.ImportPath, "foundry/compile") {
		for _, d := range p.Imports {
			if slices.Contains(processes, d) || d == "time" {
				out = append(out, p.ImportPath+" imports "+d+": the compiler has no clock, environment, network or process")
			}
		}
	}
	if !slices.Contains([]string{"foundry/sandbox/containerd", "foundry/sandbox/image"}, p.ImportPath) {
		for _, d := range p.Imports {
			if strings.HasPrefix(d, containerModules[0]) {
				out = append(out, p.ImportPath+" imports "+d+": that is for sandbox/containerd and sandbox/image")
			}
		}
	}
	return out
}

func TestRooms(t *testing.T) {
	all := packages(t)
	if len(all) < 20 {
		t.Fatalf("only %d packages", len(all))
	}
	for _, p := range all {
		for _, b := range broken(p) {
			t.Error(b)
		}
	}
	// The rules can fail: each of these imports, injected, breaks one.
	for _, injected := range []listed{
		{ImportPath: "foundry/plan", Deps: []string{"foundry/compile"}},
		{ImportPath: "foundry/exec/attempt", Deps: []string{"github.com/hashicorp/hcl/v2"}},
		{ImportPath: "foundry/exec", Deps: []string{"foundry/exec/grade"}},
		{ImportPath: "foundry/compile/internal/policy", Deps: []string{"foundry/sandbox"}},
		{ImportPath: "foundry/compile/internal/policy", Imports: []string{"os"}},
		{ImportPath: "foundry/compile", Imports: []string{"time"}},
		{ImportPath: "foundry/sandbox", Deps: []string{"github.com/containerd/containerd/v2/client"}},
		{ImportPath: "foundry/cmd/foundry", Imports: []string{"github.com/containerd/containerd/v2/client"}},
		{ImportPath: "foundry/harness/worker", Deps: []string{"github.com/spf13/cobra"}},
		{ImportPath: "foundry/harness/worker", Deps: []string{"foundry/plan"}},
		{ImportPath: "foundry/predicates", Deps: []string{"github.com/zclconf/go-cty/cty"}},
	} {
		if len(broken(injected)) == 0 {
			t.Errorf("no rule is broken by %+v", injected)
		}
	}
}

// TestNoShellLine: nothing of the program builds a shell line; argv only.
func TestNoShellLine(t *testing.T) {
	shell := regexp.MustCompile(`exec\.Command(Context)?\([^)]*"(/bin/|/usr/bin/)?(sh|bash|dash|zsh)"`)
	if !shell.MatchString(`exec.Command("sh", "-c", x)`) {
		t.Fatal("the pattern finds nothing")
	}
	root := repository(t)
	n := 0
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return err
		}
		n++
		data, err := os.ReadFile(p)
		if err == nil && shell.Match(data) {
			t.Errorf("%s builds a shell line", p)
		}
		return err
	})
	if err != nil || n < 50 {
		t.Fatalf("%d files, %v", n, err)
	}
}
