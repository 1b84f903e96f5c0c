package containerd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foundry/sandbox"
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
			execute := func(argv ...string) result {
				task := demo(t, "worker", "exit", "0")
				task.Sandbox.Image = stored.Reference
				task.ImageLabels = map[string]string{sandbox.LabelProtocol: sandbox.Protocol, sandbox.LabelHarness + "pi": version}
				task.Process.Argv = argv
				return run(t, rt, task, nil)
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
				r := execute(c.argv...)
				if !strings.Contains(r.stdout, c.want) || r.Code != 0 {
					t.Errorf("%q: %+v, not %q:\n%s%s", c.argv, r.Exit, c.want, r.stdout, r.stderr)
				}
			}
			// Of the folders, the sandbox's own alone are open to it.
			open := execute("find", "/", "-xdev", "-writable", "-not", "-type", "l", "-not", "-path", "/scratch*")
			if got := strings.Fields(open.stdout); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"/out", "/tmp"}) {
				t.Errorf("it can write to %v", got)
			}
		})
	}
}
