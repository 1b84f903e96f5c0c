package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/sandbox/image"
)

func TestParseAddition(t *testing.T) {
	dir := t.TempDir()
	program, text := filepath.Join(dir, "tool.sh"), filepath.Join(dir, "text")
	if err := errors.Join(os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755), os.WriteFile(text, nil, 0o644), os.WriteFile(filepath.Join(dir, "a b"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, want string }{
		{"apt:jq", ""}, {"apt:libstdc++6", ""}, {"npm:cowsay@1.6.0", ""}, {"npm:@scope/tool@2.0.0-rc.1", ""}, {"file:" + program, ""},
		{"apt:", "no Debian package"}, {"apt:jq=1.7", "no Debian package"}, {"apt:-oDir=x", "no Debian package"}, {"apt:A", "no Debian package"},
		{"npm:cowsay", "one version"}, {"npm:cowsay@latest", "one version"}, {"npm:cowsay@^1.0.0", "one version"}, {"npm:../x@1.0.0", "one version"}, {"npm:--x@1.0.0", "one version"},
		{"file:" + text, "no executable file"}, {"file:" + dir, "no executable file"}, {"file:/no/such", "no such file"}, {"file:" + dir + "/a b", "letters, digits"},
		{"pip:x", "is not apt:"}, {"", "is not apt:"},
	} {
		a, err := ParseAddition(c.in)
		if c.want == "" {
			if err != nil || a.String() != c.in {
				t.Errorf("%s: %v, %v", c.in, a, err)
			}
			continue
		}
		if _, refused := errors.AsType[*Refusal](err); !refused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", c.in, err, c.want)
		}
	}
}

// A request that no machine could meet is refused before anything starts.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	add := func(list ...string) []Addition {
		t.Helper()
		var out []Addition
		for _, s := range list {
			a, err := ParseAddition(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, a)
		}
		return out
	}
	for what, c := range map[string]struct {
		o    Options
		want string
	}{
		"adapter":         {Options{Adapter: "scripted"}, "no image for the adapter \"scripted\": there are images for pi"},
		"version":         {Options{Adapter: "pi", Version: "1.0.0"}, "there are lock files for 0.84.4 and 1.6.0"},
		"path as version": {Options{Adapter: "pi", Version: "../pi/1.6.0"}, "no version"},
		"built-in lock":   {Options{Adapter: "pi", Version: "1.6.0", UpdateLock: true}, "--update-lock needs --lock FILE"},
		"not locked":      {Options{Adapter: "pi", Version: "1.6.0", With: add("npm:cowsay@1.6.0", "apt:jq")}, "is for --with [], and the image is to have [apt:jq npm:cowsay@1.6.0]: --lock FILE --update-lock"},
		"no lock":         {Options{Adapter: "pi", Version: "1.6.0", Lock: filepath.Join(dir, "none")}, "--update-lock makes it"},
		"bad lock":        {Options{Adapter: "pi", Version: "1.6.0", Lock: file("lock", "{}")}, "format 0"},
		"the agent again": {Options{Adapter: "pi", Version: "1.6.0", With: add("file:" + file("pi", ""))}, "a tool pi is there already, by the agent"},
		"a tool twice":    {Options{Adapter: "pi", Version: "1.6.0", With: add("apt:jq", "file:"+file("jq", ""))}, "a tool jq is there already, by apt:jq"},
	} {
		_, err := Build(t.Context(), c.o)
		if _, refused := errors.AsType[*Refusal](err); !refused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", what, err, c.want)
		}
	}
}

// A file is no part of a lock: its bytes are in the image.
func TestLockedAdditions(t *testing.T) {
	with := []Addition{{kind: kindNPM, name: "x", version: "1.0.0"}, {kind: kindFile, name: "y", path: "y"}, {kind: kindApt, name: "jq"}}
	if got := locked(with); !slices.Equal(got, []string{"apt:jq", "npm:x@1.0.0"}) {
		t.Errorf("got %v", got)
	}
	if err := (Lock{}).covers(with[1:2]); err != nil {
		t.Error(err)
	}
}

// The files in this program agree with each other: a recipe and versions for
// each adapter, and locks that name no place to fetch from.
func TestRecipes(t *testing.T) {
	l, err := readLock("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range basePackages {
		if _, ok := l.find(name); !ok {
			t.Errorf("the lock has no %s", name)
		}
	}
	if l.Suite != defaultSuite || len(l.With) > 0 || l.NPM != nil {
		t.Errorf("the lock is for %s with %v", l.Suite, l.With)
	}
	encoded, err := l.encode()
	original, errRead := image.Recipes.ReadFile(builtinLock)
	if err := errors.Join(err, errRead); err != nil || string(encoded) != string(original) {
		t.Errorf("the lock is not as it would be written: %v", err)
	}
	for adapter := range recipes {
		versions := Versions(adapter)
		if len(versions) == 0 {
			t.Errorf("%s has no version", adapter)
		}
		for _, v := range versions {
			for _, name := range []string{"package.json", "package-lock.json"} {
				b, err := image.Recipes.ReadFile(adapter + "/" + v + "/" + name)
				if err != nil || strings.Contains(string(b), "://") && strings.Contains(string(b), `"resolved"`) {
					t.Errorf("%s %s: %s: %v", adapter, v, name, err)
				}
			}
		}
	}
}

func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Build(context.Background(), Options{Adapter: "pi", Version: "1.6.0", Cache: t.TempDir()})
	want := "image build: this machine lacks mmdebstrap (package mmdebstrap), apt-get (package apt), apt-cache (package apt), " +
		"dpkg-deb (package dpkg), npm (package npm), node (package nodejs); install them, or build elsewhere and `foundry image import` the archive"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
