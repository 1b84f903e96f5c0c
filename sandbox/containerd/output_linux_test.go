package containerd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"foundry/sandbox"
)

// A large output folder is a bounded file system on disk, which costs the
// worker no memory and leaves no file, device or mount.
func TestOutputOnDisk(t *testing.T) {
	rt := runtimeOf(t)
	if _, err := findTool("mkfs.ext4"); err != nil {
		t.Skip("needs mkfs.ext4 (apt-get install e2fsprogs)")
	}
	const size = 96 << 20
	for name, c := range map[string]struct{ probe, want string }{
		"fits":   {"write /out/big 96", "\n"},
		"full":   {"write /out/big 140", "no space left on device\n"},
		"inodes": {"files /out 5000", "no space left on device\n"},
	} {
		task := demo(t, "disk-"+name, strings.Fields(c.probe)...)
		task.OutputBytes, task.OutputFiles = size, 100
		task.Sandbox.Resources.MemoryBytes = 64 << 20 // less than is written
		r := run(t, rt, task, nil)
		if r.stdout != c.want || r.OOM {
			t.Errorf("%s: %q %q %+v", name, r.stdout, r.stderr, r.Exit)
		}
		for _, p := range r.facts.Properties {
			if p.Name == sandbox.PropOutputBytes && (p.State != sandbox.Enforced || !strings.Contains(p.Detail, "ext4")) {
				t.Errorf("%s: %+v", name, p)
			}
		}
		for _, m := range r.facts.Mounts {
			if m.Source == "output" && (m.Bytes < size || m.Bytes > size*5/4) {
				t.Errorf("%s: the bound that holds is %d, %d was asked for", name, m.Bytes, size)
			}
		}
		if name == "full" && (r.facts.Measured.OutputBytes == nil || *r.facts.Measured.OutputBytes < size) {
			t.Errorf("the fullness is not measured: %+v", r.facts.Measured)
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, l := range loops {
		if b, _ := os.ReadFile(l); strings.Contains(string(b), marker) {
			t.Errorf("%s holds %s", l, b)
		}
	}
}

// An attempt can be prepared before what it reads is there.
func TestTreesFilledLate(t *testing.T) {
	rt := runtimeOf(t)
	task := demo(t, "late", "cat", "/in/data/data.json", "/skills/demo/deep/SKILL.md")
	task.Trees["in:data"], task.Trees["skill:demo"] = t.TempDir(), t.TempDir()
	s, err := rt.Prepare(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	for file, text := range map[string]string{
		filepath.Join(task.Trees["in:data"], "data.json"):        "late data",
		filepath.Join(task.Trees["skill:demo"], "deep/SKILL.md"): "late skill",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	for _, tree := range task.Trees { // a TempDir is its owner's alone
		if err := os.Chmod(tree, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := s.Start(t.Context(), sandbox.Stdio{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if exit, err := s.Wait(t.Context()); err != nil || exit.Code != 0 || out.String() != "late data\nlate skill\n" {
		t.Errorf("%+v %v %q", exit, err, out.String())
	}
	if err := s.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// This process stays as small as it is while a worker writes a gigabyte to
// stdout and 200 megabytes of outputs.
func TestFlatMemory(t *testing.T) {
	rt := runtimeOf(t)
	task := demo(t, "flat", "pour", "1024", "200")
	task.OutputBytes = 210 << 20
	ctx := t.Context()
	s, err := rt.Prepare(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	count := &counter{}
	if err := s.Start(ctx, sandbox.Stdio{Stdout: count}); err != nil {
		t.Fatal(err)
	}
	if exit, err := s.Wait(ctx); err != nil || exit.Code != 0 {
		t.Fatalf("%+v %v", exit, err)
	}
	if err := s.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if count.bytes != 1<<30 {
		t.Errorf("%d bytes of stdout", count.bytes)
	}
	const bound = 16 << 20
	if count.peak > before.HeapAlloc+bound {
		t.Errorf("the heap grew from %d to %d", before.HeapAlloc, count.peak)
	}
	if n := s.Facts().Measured.OutputBytes; n == nil || *n < 200<<20 {
		t.Errorf("outputs: %v", n)
	}
}

// counter counts bytes and, now and then, the heap.
type counter struct {
	bytes, next int64
	peak        uint64
}

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	if c.bytes >= c.next {
		c.next += 32 << 20
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.peak = max(c.peak, m.HeapAlloc)
	}
	return len(p), nil
}
