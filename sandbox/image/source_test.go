package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// layoutTime is no time that a fresh file has.
var layoutTime = time.Unix(1_000_000_000, 0)

// tarOf makes a tar of files in the order given; a name that ends in "->x" is a
// symbolic link to x.
func tarOf(t *testing.T, files ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), Typeflag: tar.TypeReg}
		if name, to, ok := strings.Cut(f[0], "->"); ok {
			h = &tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
			f[1] = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// layout is an OCI layout in the making.
type layout struct {
	t     *testing.T
	blobs map[digest.Digest][]byte
}

func newLayout(t *testing.T) *layout { return &layout{t: t, blobs: map[digest.Digest][]byte{}} }

func (l *layout) put(v any, mediaType string) v1.Descriptor {
	l.t.Helper()
	b, ok := v.([]byte)
	if !ok {
		var err error
		if b, err = json.Marshal(v); err != nil {
			l.t.Fatal(err)
		}
	}
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	l.blobs[d.Digest] = b
	return d
}

func (l *layout) image(architecture string, change func(*v1.Manifest, *v1.Image)) v1.Descriptor {
	layer := l.put(tarOf(l.t, [2]string{"etc/hello", "hello " + architecture}), v1.MediaTypeImageLayer)
	config := v1.Image{Platform: v1.Platform{OS: "linux", Architecture: architecture}, RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}}}
	m := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Layers: []v1.Descriptor{layer}}
	if change != nil {
		change(&m, &config)
	}
	m.Config = l.put(config, v1.MediaTypeImageConfig)
	d := l.put(m, v1.MediaTypeImageManifest)
	d.Platform = &v1.Platform{OS: "linux", Architecture: architecture}
	return d
}

func (l *layout) index(list ...v1.Descriptor) v1.Descriptor {
	return l.put(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: list}, v1.MediaTypeImageIndex)
}

// write makes the layout's folder.
func (l *layout) write(list ...v1.Descriptor) string {
	l.t.Helper()
	dir := filepath.Join(l.t.TempDir(), "agent.oci")
	for name, b := range l.files(list) {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o644)); err != nil {
			l.t.Fatal(err)
		}
	}
	return dir
}

func (l *layout) files(list []v1.Descriptor) map[string][]byte {
	top, err := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: list})
	if err != nil {
		l.t.Fatal(err)
	}
	files := map[string][]byte{v1.ImageIndexFile: top, v1.ImageLayoutFile: []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	for d, b := range l.blobs {
		files["blobs/sha256/"+d.Encoded()] = b
	}
	return files
}

// archive makes the layout's tar.
func (l *layout) archive(list ...v1.Descriptor) []byte {
	var files [][2]string
	for name, b := range l.files(list) {
		files = append(files, [2]string{name, string(b)})
	}
	return tarOf(l.t, files...)
}

func file(t *testing.T, name string, b []byte) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// open opens an image, reads its layers against their digests, and closes it.
func open(t *testing.T, name string, o Options) *Source {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	o.Architecture = "amd64"
	s, err := Open(name, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range s.Layers {
		f, err := s.OpenLayer(l)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if digest.FromBytes(b) != l.Digest || int64(len(b)) != l.Size {
			t.Errorf("the layer %s holds other bytes", l.Digest)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left in the temporary folder: %v", left)
	}
	return s
}

// The same image, whatever it comes in, and its platform of a multi-platform
// index (field case C13).
func TestOpenLayout(t *testing.T) {
	l := newLayout(t)
	attestation := l.put([]byte(`{"schemaVersion":2,"layers":[]}`), v1.MediaTypeImageManifest)
	attestation.Platform = &v1.Platform{OS: "unknown", Architecture: "unknown"}
	mine := l.image("amd64", nil)
	index := l.index(l.image("arm64", nil), attestation, mine)
	index.Annotations = map[string]string{annotationName: "registry.example/team/agent:1", annotationSource + "registry.example": "team/agent,team/old"}
	dir := l.write(index)
	for what, name := range map[string]string{
		"folder": dir, "tar": file(t, "x.tar", l.archive(index)), "gzip": file(t, "x.tar.gz", gzipped(t, l.archive(index))),
	} {
		s := open(t, name, Options{})
		if s.Name != "registry.example/team/agent:1" || s.Manifest.Desc.Digest != mine.Digest || s.Index == nil || s.Index.Desc.Digest != index.Digest {
			t.Errorf("%s: %q, manifest %s, index %+v", what, s.Name, s.Manifest.Desc.Digest, s.Index)
		}
		if want := []string{"registry.example/team/agent@" + string(index.Digest), "registry.example/team/old@" + string(index.Digest)}; !slices.Equal(s.Repositories, want) {
			t.Errorf("%s: repositories %v", what, s.Repositories)
		}
	}
	if s := open(t, dir, Options{Name: "other:2"}); s.Name != "other:2" {
		t.Errorf("named %q", s.Name)
	}

	// Without an index, and without a name.
	l = newLayout(t)
	plain := l.image("amd64", nil)
	plain.Platform = nil
	if s := open(t, l.write(plain), Options{}); s.Index != nil || s.Name != "agent" || len(s.Repositories) != 0 {
		t.Errorf("without an index: %+v", s)
	}
	// Several images: by name, else by platform.
	l = newLayout(t)
	a, b := l.image("amd64", nil), l.image("arm64", nil)
	if s := open(t, l.write(a, b), Options{}); s.Manifest.Desc.Digest != a.Digest {
		t.Error("it is not the one of the platform")
	}
	c := l.image("amd64", func(_ *v1.Manifest, c *v1.Image) { c.Author = "other" })
	a.Annotations, c.Annotations = map[string]string{annotationName: "a:1"}, map[string]string{v1.AnnotationRefName: "c:1"}
	if s := open(t, l.write(a, c), Options{Name: "c:1"}); s.Manifest.Desc.Digest != c.Digest {
		t.Error("it is not the one of the name")
	}
}

func TestOpenDocker(t *testing.T) {
	layer := tarOf(t, [2]string{"etc/hello", "hello"})
	second := gzipped(t, layer)
	config, err := json.Marshal(v1.Image{
		Platform: v1.Platform{OS: "linux", Architecture: "amd64"},
		Config:   v1.ImageConfig{Labels: map[string]string{"foundry.protocol": "2"}},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer), digest.FromBytes(layer), digest.FromBytes(layer)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := `[{"Config":"c.json","RepoTags":["agent:3"],"Layers":["a/layer.tar","b/layer.tar","c/layer.tar"]}]`
	archive := tarOf(t, [2]string{"b/layer.tar->../a/layer.tar"}, [2]string{"a/layer.tar", string(layer)}, [2]string{"c/layer.tar", string(second)},
		[2]string{"c.json", string(config)}, [2]string{"manifest.json", list})
	s := open(t, file(t, "x.tar", archive), Options{})
	if s.Name != "agent:3" || len(s.Layers) != 3 || s.Layers[0].Digest != s.Layers[1].Digest || s.Layers[2].MediaType != v1.MediaTypeImageLayerGzip {
		t.Errorf("%q, layers %+v", s.Name, s.Layers)
	}
	if again := open(t, file(t, "y.tar", archive), Options{Name: "z"}); again.Manifest.Desc.Digest != s.Manifest.Desc.Digest {
		t.Error("two readings of one archive differ")
	}
	_, err = Open(file(t, "x.tar", tarOf(t, [2]string{"manifest.json", `[{},{}]`})), Options{Architecture: "amd64"})
	if err == nil || !strings.Contains(err.Error(), "holds 2 images") {
		t.Errorf("two images: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	l := newLayout(t)
	arm := l.image("arm64", nil)
	mine := l.image("amd64", nil)
	broken := func(change func(*v1.Manifest, *v1.Image)) string {
		l := newLayout(t)
		return l.write(l.image("amd64", change))
	}
	swapped := func() string {
		l := newLayout(t)
		d := l.image("amd64", nil)
		dir := l.write(d)
		if err := os.WriteFile(filepath.Join(dir, "blobs/sha256", d.Digest.Encoded()), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	outside := func() string {
		l := newLayout(t)
		d := l.image("amd64", nil)
		dir := l.write(d)
		blob := filepath.Join(dir, "blobs/sha256", d.Digest.Encoded())
		if err := errors.Join(os.Remove(blob), os.Symlink(file(t, "real", l.blobs[d.Digest]), blob)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	odd := mine
	odd.Digest = "sha512:" + digest.Digest(strings.Repeat("0", 128))
	strange := mine
	strange.MediaType = "application/vnd.example"
	for what, c := range map[string]struct{ path, name, problem string }{
		"no such file":          {path: filepath.Join(t.TempDir(), "none"), problem: "no such file"},
		"no tar":                {path: file(t, "x", []byte("hello")), problem: "no tar"},
		"another tar":           {path: file(t, "x.tar", tarOf(t, [2]string{"etc/passwd", ""})), problem: "unpacked"},
		"broken gzip":           {path: file(t, "x.gz", []byte{0x1f, 0x8b, 1}), problem: "EOF"},
		"empty layout":          {path: newLayout(t).write(), problem: "holds 0 images"},
		"two of one platform":   {path: l.write(mine, mine), problem: "say which"},
		"other platform":        {path: l.write(arm), problem: "for linux/arm64, not for linux/amd64"},
		"index without it":      {path: l.write(l.index(arm)), problem: "nothing for linux/amd64: it is for linux/arm64"},
		"other bytes":           {path: swapped(), problem: "other bytes"},
		"a blob by a link":      {path: outside(), problem: "escapes"},
		"another digest":        {path: l.write(odd), problem: "no sha256"},
		"another type":          {path: l.write(strange), problem: "no image"},
		"layers and config":     {path: broken(func(m *v1.Manifest, _ *v1.Image) { m.Layers = append(m.Layers, m.Layers[0]) }), problem: "2 layers and its config 1"},
		"no layer":              {path: broken(func(m *v1.Manifest, c *v1.Image) { m.Layers, c.RootFS.DiffIDs = nil, nil }), problem: "0 layers"},
		"an encrypted layer":    {path: broken(func(m *v1.Manifest, _ *v1.Image) { m.Layers[0].MediaType += "+encrypted" }), problem: "cannot be unpacked"},
		"a name with a digest":  {path: l.write(mine), name: "a@sha256:" + strings.Repeat("0", 64), problem: "no name"},
		"a name in upper case":  {path: l.write(mine), name: "Agent", problem: "no name"},
		"a file without a name": {path: file(t, "___.tar", l.archive(mine)), problem: "--name"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			s, err := Open(c.path, Options{Architecture: "amd64", Name: c.name})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.problem) || !strings.HasPrefix(err.Error(), "image: ") {
				t.Errorf("got %v", err)
			}
			if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A folder is a function of its files: not of times, owners or where it lies.
func TestRootfs(t *testing.T) {
	make := func(name string) string {
		dir := filepath.Join(t.TempDir(), name)
		for _, d := range []string{"usr/bin", "etc", "tmp", "dev", ".foundry", "proc/1"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(
			os.WriteFile(filepath.Join(dir, "usr/bin/tool"), []byte("tool"), 0o755),
			os.Link(filepath.Join(dir, "usr/bin/tool"), filepath.Join(dir, "usr/bin/alias")),
			os.Chmod(filepath.Join(dir, "usr/bin/tool"), 0o755|os.ModeSetuid),
			os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky),
			os.WriteFile(filepath.Join(dir, "etc/conf"), []byte("x"), 0o644),
			os.Symlink("/etc/passwd", filepath.Join(dir, "etc/link")),
			os.Symlink("usr/bin", filepath.Join(dir, "bin")),
			os.WriteFile(filepath.Join(dir, ".foundry/foundry"), []byte("evil"), 0o755),
			syscall.Mkfifo(filepath.Join(dir, "dev/pipe"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	one := make("one")
	two := make("two")
	if err := os.Chtimes(filepath.Join(two, "etc/conf"), layoutTime, layoutTime); err != nil {
		t.Fatal(err)
	}
	o := Options{Name: "x", Labels: map[string]string{"a": "1"}}
	first := open(t, one, o)
	if second := open(t, two, o); second.Manifest.Desc.Digest != first.Manifest.Desc.Digest {
		t.Error("equal folders give two images")
	}
	if labelled := open(t, one, Options{Name: "x"}); labelled.Manifest.Desc.Digest == first.Manifest.Desc.Digest {
		t.Error("labels make no difference")
	}

	s, err := Open(one, Options{Name: "x", Architecture: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.OpenLayer(s.Layers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	entries := entriesOf(t, b)
	var names []string
	for name, h := range entries {
		names = append(names, name)
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 || h.Mode&0o6000 != 0 {
			t.Errorf("%s: %+v", name, h)
		}
	}
	slices.Sort(names)
	if want := []string{".foundry/", "bin", "dev/", "etc/", "etc/conf", "etc/link", "proc/", "tmp/", "usr/", "usr/bin/", "usr/bin/alias", "usr/bin/tool"}; !slices.Equal(names, want) {
		t.Errorf("it holds %v", names)
	}
	if entries["etc/link"].Linkname != "/etc/passwd" || entries["usr/bin/tool"].Linkname != "usr/bin/alias" || entries["tmp/"].Mode != 0o1777 || entries["usr/bin/alias"].Mode != 0o755 {
		t.Errorf("entries: %+v %+v %+v", entries["etc/link"], entries["usr/bin/tool"], entries["tmp/"])
	}

	if err := syscall.Mkfifo(filepath.Join(two, "etc/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := Open(two, Options{Name: "x", Architecture: "amd64"}); err == nil || !strings.Contains(err.Error(), "etc/pipe") {
		t.Errorf("a pipe: %v", err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// FuzzOpen reads archives that others made: no panic, no file left.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("hello"))
	f.Add([]byte{0x1f, 0x8b})
	t := &testing.T{}
	l := newLayout(t)
	f.Add(l.archive(l.image("amd64", nil)))
	f.Add(tarOf(t, [2]string{"manifest.json", `[{"Config":"c","Layers":["l"]}]`}, [2]string{"c", `{"os":"linux","architecture":"amd64"}`}, [2]string{"l", ""}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Open(file(t, "x.tar", b), Options{Name: "x", Architecture: "amd64"})
		if err != nil {
			return
		}
		if len(s.Layers) == 0 || digest.FromBytes(s.Manifest.Bytes) != s.Manifest.Desc.Digest || digest.FromBytes(s.Config.Bytes) != s.Config.Desc.Digest {
			t.Errorf("opened: %+v", s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
