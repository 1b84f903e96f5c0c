package containerd

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"foundry/sandbox"
	"foundry/sandbox/image"
	"foundry/sandbox/image/build"
)

// workerImage is the archive of an agent's image that .ci/pi-image built.
func workerImage(t *testing.T, version string) string {
	t.Helper()
	file := filepath.Join("..", "..", ".cache", "pi-image", version+".tar")
	if _, err := os.Stat(file); err != nil {
		why := "there is no image of Pi " + version + ": .ci/pi-image builds it"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return file
}

// inWorker runs a program of a worker image.
func inWorker(t *testing.T, rt *Runtime, stored StoredImage, version string, argv ...string) result {
	t.Helper()
	task := demo(t, "worker", "exit", "0")
	task.Sandbox.Image = stored.Reference
	task.ImageLabels = map[string]string{sandbox.LabelProtocol: sandbox.Protocol, sandbox.LabelHarness + "pi": version}
	task.Process.Argv = argv
	return run(t, rt, task, nil)
}

// The agent and its tools run in the images that this program builds, as a user
// without rights, and are what the labels say.
func TestWorkerImage(t *testing.T) {
	for _, version := range build.Versions("pi") {
		t.Run(version, func(t *testing.T) {
			file := workerImage(t, version)
			rt := runtimeOf(t)
			name := "foundry.example/" + marker + "/pi:" + version
			stored := importImage(t, rt, file, name, nil)
			t.Cleanup(func() { _ = rt.RemoveImage(context.Background(), StoredImage{Reference: name}) })
			tool := func(name string) string { return stored.Labels[sandbox.LabelTool+name] }
			if stored.Labels[sandbox.LabelProtocol] != sandbox.Protocol || stored.Labels[sandbox.LabelHarness+"pi"] != version ||
				tool("node") == "" || tool("rg") == "" || tool("fd") == "" {
				t.Fatalf("labels %v", stored.Labels)
			}
			for _, c := range []struct {
				argv []string
				want string
			}{
				{[]string{"pi", "--version"}, version + "\n"},
				{[]string{"node", "--version"}, "v" + tool("node") + "\n"},
				{[]string{"rg", "--version"}, "ripgrep " + tool("rg")},
				// The flag is one that Pi's tool gives it, and older ones lack.
				{[]string{"fd", "--no-require-git", "--version"}, " " + tool("fd") + "\n"},
				{[]string{"rg", "--files", "--hidden", "/skills/demo"}, "/skills/demo/SKILL.md\n"},
				{[]string{"fd", "--no-require-git", "--glob", "--", "*.md", "/skills"}, "/skills/demo/SKILL.md\n"},
				{[]string{"id"}, "uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)\n"},
			} {
				r := inWorker(t, rt, stored, version, c.argv...)
				if !strings.Contains(r.stdout, c.want) || r.Code != 0 {
					t.Errorf("%q: %+v, not %q:\n%s%s", c.argv, r.Exit, c.want, r.stdout, r.stderr)
				}
			}
			// Of the folders, the sandbox's own alone are open to it.
			open := inWorker(t, rt, stored, version, "find", "/", "-xdev", "-writable", "-not", "-type", "l", "-not", "-path", "/scratch*")
			if got := strings.Fields(open.stdout); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"/out", "/tmp"}) {
				t.Errorf("it can write to %v", got)
			}
		})
	}
}

// Additions of each kind are in the image and work. A second build from the lock
// that the first wrote, and from its packages alone, gives the same bytes; the
// layers of Node and of the agent are those of the image without additions.
func TestWorkerImageWith(t *testing.T) {
	const version = "1.6.0"
	plain := workerImage(t, version)
	rt := runtimeOf(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	program := filepath.Join(t.TempDir(), "greet")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho hello from a file\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := build.Options{
		Adapter: "pi", Version: version, Name: "foundry.example/" + marker + "/with", Lock: filepath.Join(t.TempDir(), "lock.json"), UpdateLock: true,
		Cache: filepath.Join("..", "..", ".cache", "packages"),
	}
	for _, s := range []string{"apt:jq", "npm:semver@7.7.2", "file:" + program} {
		a, err := build.ParseAddition(s)
		if err != nil {
			t.Fatal(err)
		}
		o.With = append(o.With, a)
	}
	once := func() (archive string, layers []build.Layer, labels map[string]string) {
		t.Helper()
		built, err := build.Build(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "archive")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		hash := sha256.New()
		err = built.WriteArchive(io.MultiWriter(f, hash))
		if err := errors.Join(err, f.Close(), built.Close()); err != nil {
			t.Fatal(err)
		}
		return string(hash.Sum(nil)), built.Layers, built.Labels
	}
	first, layers, labels := once()
	// No network from here on.
	o.UpdateLock, o.AptSources = false, "/nonexistent"
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:9")
	}
	second, again, _ := once()
	if first != second || !slices.Equal(layers, again) {
		t.Errorf("two builds from one cache differ: %v, %v", layers, again)
	}
	src, err := image.Open(plain, image.Options{Architecture: runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range src.Layers {
		if shared := layers[i].Digest == l.Digest; shared != (layers[i].Name != "base") {
			t.Errorf("the layer %s is shared: %t", layers[i].Name, shared)
		}
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}

	stored := importImage(t, rt, filepath.Join(dir, "archive"), o.Name, nil)
	t.Cleanup(func() { _ = rt.RemoveImage(context.Background(), StoredImage{Reference: o.Name}) })
	for _, c := range []struct {
		argv        []string
		want, label string
	}{
		{[]string{"jq", "--version"}, "jq-1.", "foundry.tool.jq"},
		{[]string{"semver", "--range", ">=1", "0.9.0", "1.2.3"}, "1.2.3\n", "foundry.tool.semver"},
		{[]string{"greet"}, "hello from a file\n", "foundry.tool.greet"},
		{[]string{"pi", "--version"}, version + "\n", "foundry.harness.pi"},
	} {
		r := inWorker(t, rt, stored, version, c.argv...)
		if r.Code != 0 || !strings.HasPrefix(r.stdout, c.want) || stored.Labels[c.label] == "" || stored.Labels[c.label] != labels[c.label] {
			t.Errorf("%q: %+v, not %q; %s = %q:\n%s%s", c.argv, r.Exit, c.want, c.label, stored.Labels[c.label], r.stdout, r.stderr)
		}
	}
	if err := os.Remove(filepath.Join(dir, "archive")); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
}
