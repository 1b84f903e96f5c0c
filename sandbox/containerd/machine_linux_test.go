package containerd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/sandbox"
)

// stubRunc is a runtime that says a version.
func stubRunc(t *testing.T, version string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "runc")
	if err := os.WriteFile(name, []byte("#!/bin/sh\necho runc version "+version+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func factOf(t *testing.T, m Machine, name string) Fact {
	t.Helper()
	for _, f := range m.Facts {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("nothing is said of %s: %+v", name, m.Facts)
	return Fact{}
}

func TestInspect(t *testing.T) {
	base := t.TempDir()
	o := Options{Base: filepath.Join(base, "not", "made")}
	for version, state := range map[string]string{"1.1.5+ds1": FactWarning, "1.3.3": FactOK, "of my own": FactWarning} {
		o.RuncPath = stubRunc(t, version)
		f := factOf(t, Inspect(t.Context(), o), "runc")
		if f.State != state || !strings.Contains(f.Detail, version) || (f.State != FactOK) != (f.Fix != "") {
			t.Errorf("%s: %+v", version, f)
		}
	}
	m := Inspect(t.Context(), o)
	again := Inspect(t.Context(), o)
	if !slices.Equal(m.Facts, again.Facts) || !slices.Equal(m.Properties, again.Properties) {
		t.Error("two looks differ")
	}
	if left, _ := os.ReadDir(base); len(left) > 0 {
		t.Errorf("looking made %v", left)
	}

	o.RuncPath = filepath.Join(base, "none")
	m = Inspect(t.Context(), o)
	if f := factOf(t, m, "runc"); f.State != FactMissing || f.Package != "runc" || len(m.Properties) > 0 || len(m.Missing()) == 0 {
		t.Errorf("without runc: %+v, %v", f, m.Properties)
	}
	o.Address = filepath.Join(base, "none.sock")
	if f := factOf(t, Inspect(t.Context(), o), "containerd"); f.State != FactMissing || !strings.Contains(f.Detail, "none.sock") {
		t.Errorf("without a daemon: %+v", f)
	}
}

// What is foreseen is what a container then has.
func TestForeseen(t *testing.T) {
	rt := runtimeOf(t)
	m := Inspect(t.Context(), Options{})
	r := run(t, rt, demo(t, "foreseen", "exit", "0"), nil)
	if len(m.Properties) == 0 || len(m.Properties) != len(r.facts.Properties) {
		t.Fatalf("foreseen %+v, had %+v", m.Properties, r.facts.Properties)
	}
	for i, p := range r.facts.Properties {
		if f := m.Properties[i]; f.Name != p.Name || f.State != p.State || f.State == sandbox.Enforced && f.Detail == "" {
			t.Errorf("foreseen %+v, had %+v", f, p)
		}
	}
}

func TestCgroupsInspect(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may write to what it has no permission for")
	}
	root := t.TempDir()
	if f := (cgroupTree{root: root}).inspect(); f.State != FactMissing || !strings.Contains(f.Detail, "cpu, memory, pids") {
		t.Errorf("without any: %+v", f)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset cpu pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := (cgroupTree{root: root, unified: true}).inspect(); f.State != FactMissing || !strings.HasSuffix(f.Detail, "without memory") {
		t.Errorf("without memory: %+v", f)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset cpu memory pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := (cgroupTree{root: root, unified: true}).inspect(); f.State != FactOK || f.Detail != "version 2: cpu, memory, pids" {
		t.Errorf("with all: %+v", f)
	}
}
