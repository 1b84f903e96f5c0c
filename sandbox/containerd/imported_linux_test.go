package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"foundry/sandbox"
	"foundry/sandbox/image"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/opencontainers/go-digest"
	imagespecs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// imageProbe is a static program, built once for a test.
func imageProbe(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "imageprobe")
	cmd := exec.Command("go", "build", "-o", out, "./testdata/imageprobe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return out
}

// hostileImage is an OCI layout as others may make it: a multi-platform index,
// a config that wants to be root with an entry point and an environment, and a
// /.foundry of its own.
func hostileImage(t *testing.T, probe, marker string, labels map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(b []byte, mediaType string) v1.Descriptor {
		d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
		file := filepath.Join(dir, "blobs/sha256", d.Digest.Encoded())
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o644)); err != nil {
			t.Fatal(err)
		}
		return d
	}
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	program, err := os.ReadFile(probe)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, e := range []struct {
		name string
		mode int64
		b    []byte
	}{
		{"usr/bin/probe", 0o755, program},
		{"usr/share/marker", 0o644, []byte(marker)},
		{".foundry/foundry", 0o755, program},
		{".foundry/evil", 0o755, program},
		{"open/", 0o777, nil},
	} {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.b)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l := put(layer.Bytes(), v1.MediaTypeImageLayer)
	var index v1.Index
	index.SchemaVersion, index.MediaType = 2, v1.MediaTypeImageIndex
	for _, architecture := range []string{"other", runtime.GOARCH} {
		config := put(encode(v1.Image{
			Platform: v1.Platform{OS: "linux", Architecture: architecture},
			Config: v1.ImageConfig{
				User: "0", Env: []string{"PATH=/evil", "INHERITED=1"}, Entrypoint: []string{"/.foundry/evil"},
				WorkingDir: "/open", Volumes: map[string]struct{}{"/open": {}}, Labels: labels,
			},
			RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{l.Digest}},
		}), v1.MediaTypeImageConfig)
		m := put(encode(v1.Manifest{Versioned: imagespecs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: config, Layers: []v1.Descriptor{l}}), v1.MediaTypeImageManifest)
		m.Platform = &v1.Platform{OS: "linux", Architecture: architecture}
		index.Manifests = append(index.Manifests, m)
	}
	top := put(encode(index), v1.MediaTypeImageIndex)
	top.Annotations = map[string]string{"containerd.io/distribution.source.registry.example": "team/agent"}
	layout := encode(v1.Index{Versioned: imagespecs.Versioned{SchemaVersion: 2}, Manifests: []v1.Descriptor{top}})
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, v1.ImageIndexFile), layout, 0o644),
		os.WriteFile(filepath.Join(dir, v1.ImageLayoutFile), encode(v1.ImageLayout{Version: v1.ImageLayoutVersion}), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

func importImage(t *testing.T, rt *Runtime, path, name string, labels map[string]string) StoredImage {
	t.Helper()
	src, err := image.Open(path, image.Options{Name: name, Architecture: runtime.GOARCH, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := rt.ImportImage(t.Context(), src)
	if err := errors.Join(err, src.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A second image may have taken a name of this one.
		stored.Names = nil
		if err := rt.RemoveImage(context.Background(), stored); err != nil {
			t.Error(err)
		}
	})
	return stored
}

type found struct {
	Argv, Env, Foundry, Written []string
	Program, Marker             string
	UID                         int
}

func inImage(t *testing.T, rt *Runtime, task sandbox.Task) (found, result) {
	t.Helper()
	r := run(t, rt, task, nil)
	var f found
	if err := json.Unmarshal([]byte(r.stdout), &f); err != nil || r.Code != 0 {
		t.Fatalf("%+v: %v: %s%s", r.Exit, err, r.stdout, r.stderr)
	}
	return f, r
}

// Nothing of an image's config is inherited, its /.foundry is not there, this
// program is, and places of mounts that it lacks are made. A tag that moved
// changes nothing of a plan (field case C13).
func TestImportedImage(t *testing.T) {
	rt := runtimeOf(t)
	probe := imageProbe(t)
	name := "foundry.example/" + marker + "/agent:1"
	first := importImage(t, rt, hostileImage(t, probe, "first", map[string]string{sandbox.LabelProtocol: "2", "foundry.harness.pi": "0.84.4"}), name, nil)
	second := importImage(t, rt, hostileImage(t, probe, "second", nil), name, nil)
	t.Cleanup(func() {
		if err := rt.RemoveImage(context.Background(), StoredImage{Reference: name}); err != nil {
			t.Error(err)
		}
	})
	if first.Reference == second.Reference || first.Reference != name+"@"+first.Digest || first.Index == "" || first.Index == first.Digest {
		t.Fatalf("references %+v, %+v", first, second)
	}
	if want := "registry.example/team/agent@" + first.Index; !slices.Equal(first.Repositories, []string{want}) {
		t.Errorf("repository digests %v, not %s", first.Repositories, want)
	}
	list, err := rt.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		switch s.Reference {
		case first.Reference:
			if len(s.Names) != 0 || s.Labels["foundry.harness.pi"] != "0.84.4" {
				t.Errorf("the first image: %+v", s)
			}
		case second.Reference:
			if !slices.Equal(s.Names, []string{name}) {
				t.Errorf("the second image is named %v", s.Names)
			}
		}
	}

	task := demo(t, "imported")
	task.Executable = probe
	task.Process.Argv = []string{"/usr/bin/probe", "{skill}"}
	task.ImageLabels = map[string]string{"foundry.harness.pi": "0.84.4"}
	for what, ref := range map[string]string{"manifest": first.Reference, "index": name + "@" + first.Index, "another name": "else@" + first.Digest} {
		task.Sandbox.Image = ref
		f, r := inImage(t, rt, task)
		if want := []string{"HOME=/scratch", "PATH=/usr/local/bin:/usr/bin:/bin", "SKILL=/skills/demo"}; !slices.Equal(f.Env, want) {
			t.Errorf("%s: the environment is %v", what, f.Env)
		}
		if !slices.Equal(f.Argv, []string{"/usr/bin/probe", "/skills/demo"}) || f.UID != 65534 || f.Marker != "first" {
			t.Errorf("%s: argv %v, uid %d, marker %s", what, f.Argv, f.UID, f.Marker)
		}
		if !slices.Equal(f.Foundry, []string{"/.foundry/foundry"}) || f.Program != r.facts.Program.Digest || f.Program == "" {
			t.Errorf("%s: /.foundry holds %v, the program is %s, recorded %s", what, f.Foundry, f.Program, r.facts.Program.Digest)
		}
		if !slices.Equal(f.Written, []string{"/out", "/scratch", "/tmp"}) {
			t.Errorf("%s: it can write to %v", what, f.Written)
		}
		if r.facts.Image != ref || r.facts.ImageDigest != first.Digest || r.facts.ConfigDigest != first.Config ||
			r.facts.ImageIndex != first.Index || !slices.Equal(r.facts.Repositories, first.Repositories) {
			t.Errorf("%s: recorded %s, %s, %s", what, r.facts.Image, r.facts.ImageDigest, r.facts.ConfigDigest)
		}
	}
	// This program itself, bound into the image.
	task.Process.Argv = []string{"{foundry}", "as foundry"}
	if f, _ := inImage(t, rt, task); !slices.Equal(f.Argv, []string{"/.foundry/foundry", "as foundry"}) {
		t.Errorf("argv %v", f.Argv)
	}
}

func TestImageMismatch(t *testing.T) {
	rt := runtimeOf(t)
	probe := imageProbe(t)
	name := "foundry.example/" + marker + "/mismatch"
	labels := map[string]string{sandbox.LabelProtocol: "1"}
	old := importImage(t, rt, hostileImage(t, probe, "old", labels), name, nil)
	labels[sandbox.LabelProtocol] = "2"
	good := importImage(t, rt, hostileImage(t, probe, "good", labels), name, nil)
	t.Cleanup(func() {
		if err := rt.RemoveImage(context.Background(), StoredImage{Reference: name}); err != nil {
			t.Error(err)
		}
	})
	for what, c := range map[string]struct {
		ref, problem string
		labels       map[string]string
	}{
		"absent":         {ref: name + "@sha256:" + strings.Repeat("0", 64), problem: "not in the store"},
		"other protocol": {ref: old.Reference, problem: sandbox.LabelProtocol + " = 1"},
		"no harness":     {ref: good.Reference, labels: map[string]string{"foundry.harness.pi": "0.84.4"}, problem: "no label foundry.harness.pi"},
		"wrong version":  {ref: good.Reference, labels: map[string]string{sandbox.LabelProtocol: "3"}, problem: "and 3 is needed"},
	} {
		task := demo(t, "mismatch")
		task.Executable, task.Sandbox.Image, task.ImageLabels = probe, c.ref, c.labels
		s, err := rt.Prepare(t.Context(), task)
		if err == nil {
			t.Errorf("%s: it was prepared", what)
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			continue
		}
		mismatch, ok := errors.AsType[*sandbox.ImageMismatch](err)
		if !ok || !strings.Contains(mismatch.Problem, c.problem) || mismatch.Image != c.ref {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := os.ReadDir(task.Dir); len(left) > 0 {
			t.Errorf("%s: left %v", what, left)
		}
	}
}

// An image that something else put there, and that is not for this machine,
// hides no other one.
func TestImagesOfOthers(t *testing.T) {
	rt := runtimeOf(t)
	ctx := t.Context()
	index, err := json.Marshal(v1.Index{Versioned: imagespecs.Versioned{SchemaVersion: 2}, Manifests: []v1.Descriptor{}})
	if err != nil {
		t.Fatal(err)
	}
	name := "foundry.example/" + marker + "/others"
	desc := v1.Descriptor{MediaType: v1.MediaTypeImageIndex, Digest: digest.FromBytes(index), Size: int64(len(index))}
	held := leases.WithLease(ctx, rt.lease)
	if err := rt.writeBlob(held, desc, bytes.NewReader(index), nil); err != nil {
		t.Fatal(err)
	}
	if err := rt.setImage(held, images.Image{Name: name, Target: desc}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.RemoveImage(context.Background(), StoredImage{Reference: name}); err != nil {
			t.Error(err)
		}
	})
	list, err := rt.Images(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(s StoredImage) bool { return slices.Contains(s.Names, name) })
	if i < 0 || !strings.Contains(list[i].Problem, "nothing for linux/") || list[i].Reference != name+"@"+string(desc.Digest) {
		t.Errorf("the store holds %+v", list)
	}
}

// A dynamically linked program is not started in an image without its loader.
func TestImageWithoutLoader(t *testing.T) {
	rt := runtimeOf(t)
	task := demo(t, "loader", "exit", "0")
	loader, err := image.Loader(task.Executable)
	if err != nil {
		t.Fatal(err)
	}
	if loader == "" {
		t.Skip("this test program is linked statically")
	}
	stored := importImage(t, rt, hostileImage(t, imageProbe(t), "x", nil), "foundry.example/"+marker+"/loader", nil)
	t.Cleanup(func() {
		_ = rt.RemoveImage(context.Background(), StoredImage{Reference: "foundry.example/" + marker + "/loader"})
	})
	task.Sandbox.Image = stored.Reference
	_, err = rt.Prepare(t.Context(), task)
	if mismatch, ok := errors.AsType[*sandbox.ImageMismatch](err); !ok || !strings.Contains(mismatch.Problem, loader) {
		t.Fatalf("got %v", err)
	}
}

// A folder gives the same image each time, which is there for the next process
// that uses the store, and gone once it is removed.
func TestImportedRootfs(t *testing.T) {
	need(t)
	if os.Getenv("FOUNDRY_TEST_CONTAINERD") != "" {
		t.Skip("the system's containerd outlives its clients by itself")
	}
	probe := imageProbe(t)
	folder := filepath.Join(t.TempDir(), "My.rootfs")
	program, err := os.ReadFile(probe)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.MkdirAll(filepath.Join(folder, "usr/bin"), 0o755),
		os.MkdirAll(filepath.Join(folder, "usr/share"), 0o755),
		os.WriteFile(filepath.Join(folder, "usr/bin/probe"), program, 0o755),
		os.WriteFile(filepath.Join(folder, "usr/share/marker"), []byte("rootfs"), 0o644),
		os.Symlink("usr/bin", filepath.Join(folder, "bin")),
	); err != nil {
		t.Fatal(err)
	}
	o := Options{Base: newBase(t)}
	var refs []string
	for i := range 2 {
		rt, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		src, err := image.Open(folder, image.Options{Architecture: runtime.GOARCH, Labels: map[string]string{"foundry.tool.probe": "1"}})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := rt.ImportImage(t.Context(), src)
		if err := errors.Join(err, src.Close(), rt.Close()); err != nil {
			t.Fatal(i, err)
		}
		refs = append(refs, stored.Reference)
	}
	if refs[0] != refs[1] || !strings.HasPrefix(refs[0], "my.rootfs@sha256:") {
		t.Fatalf("two imports of a folder are %v", refs)
	}
	rt, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}()
	task := demo(t, "rootfs")
	task.Executable, task.Sandbox.Image = probe, refs[0]
	task.Process.Argv = []string{"/bin/probe"}
	task.ImageLabels = map[string]string{"foundry.tool.probe": ""}
	if f, _ := inImage(t, rt, task); f.Marker != "rootfs" {
		t.Errorf("it ran in %+v", f)
	}
	list, err := rt.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || !maps.Equal(list[0].Labels, map[string]string{"foundry.tool.probe": "1"}) || list[0].Platform != "linux/"+runtime.GOARCH || list[0].Bytes < int64(len(program)) {
		t.Fatalf("the store holds %+v", list)
	}
	if err := rt.RemoveImage(t.Context(), list[0]); err != nil {
		t.Fatal(err)
	}
	if list, err = rt.Images(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after removal: %+v, %v", list, err)
	}
}
