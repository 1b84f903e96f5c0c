package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"foundry/sandbox"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// LabelProgram is the label of a builtin image's config with the digest of the
// program's bytes.
const LabelProgram = "foundry.program"

// Image is an image of one layer, whole in memory. Two images of the same
// program for the same platform are equal byte by byte.
type Image struct {
	Program  digest.Digest // of the executable's bytes
	Manifest Blob
	Config   Blob
	Layer    Blob // a plain tar
}

// Blob is content with its descriptor.
type Blob struct {
	Desc  v1.Descriptor
	Bytes []byte
}

func blob(mediaType string, content []byte) Blob {
	return Blob{
		Desc:  v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))},
		Bytes: content,
	}
}

// programPath is where the program lies in the image, without the slash in
// front.
const programPath = ".foundry/foundry"

// folders are there in every image: the usual places of mounts and the folders
// that programs expect.
var folders = []string{
	".foundry", "dev", "etc", "in", "out", "proc", "recorded", "scratch", "skills", "sys", "tmp",
}

// files of /etc. There is no resolver: without a network there is nothing to
// ask, and a lookup fails at once.
var files = map[string]string{
	"etc/passwd":        "root:x:0:0:root:/:/nonexistent\nnobody:x:65534:65534:nobody:/:/nonexistent\n",
	"etc/group":         "root:x:0:\nnogroup:x:65534:\n",
	"etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n",
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

// Builtin makes the image that holds a program and nothing else that could be
// run: the executable, root-owned and 0555, at /.foundry/foundry, with its
// loader and libraries at their own paths when it is dynamically linked. The
// executable must be an ELF file of this machine's platform.
func Builtin(executable, architecture string) (*Image, error) {
	program, err := os.ReadFile(executable)
	if err != nil {
		return nil, fmt.Errorf("image: reading the program: %w", err)
	}
	libraries, err := closure(executable)
	if err != nil {
		return nil, err
	}
	layer, err := layerOf(program, libraries)
	if err != nil {
		return nil, err
	}
	return assemble(digest.FromBytes(program), layer, architecture)
}

func layerOf(program []byte, libraries map[string]string) ([]byte, error) {
	entries := map[string]*tar.Header{}
	content := map[string][]byte{}
	var addFolder func(name string)
	addFolder = func(name string) {
		if name == "." || entries[name] != nil {
			return
		}
		addFolder(path.Dir(name))
		mode := int64(0o755)
		if name == "tmp" {
			mode = 0o1777
		}
		entries[name] = &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}
	}
	addFile := func(name string, mode int64, b []byte) {
		addFolder(path.Dir(name))
		entries[name] = &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(b))}
		content[name] = b
	}
	for _, f := range folders {
		addFolder(f)
	}
	for name, text := range files {
		addFile(name, 0o444, []byte(text))
	}
	addFile(programPath, 0o555, program)
	for at, from := range libraries {
		b, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("image: reading a library of the program: %w", err)
		}
		addFile(strings.TrimPrefix(at, "/"), 0o555, b)
	}

	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	out.Grow(len(program) + 1<<16)
	w := tar.NewWriter(&out)
	for _, name := range names {
		h := entries[name]
		h.Format, h.ModTime = tar.FormatPAX, time.Unix(0, 0)
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("image: writing the layer: %w", err)
		}
		if _, err := io.Copy(w, bytes.NewReader(content[name])); err != nil {
			return nil, fmt.Errorf("image: writing the layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("image: writing the layer: %w", err)
	}
	return out.Bytes(), nil
}

// assemble adds config and manifest to a layer. The config has no entry point,
// environment or user: nothing is inherited from an image.
func assemble(program digest.Digest, layer []byte, architecture string) (*Image, error) {
	l := blob(v1.MediaTypeImageLayer, layer)
	config, err := json.Marshal(v1.Image{
		Platform: v1.Platform{Architecture: architecture, OS: "linux"},
		Config:   v1.ImageConfig{Labels: map[string]string{sandbox.LabelProtocol: sandbox.Protocol, LabelProgram: program.String()}},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{l.Desc.Digest}},
	})
	if err != nil {
		return nil, fmt.Errorf("image: encoding the config: %w", err)
	}
	c := blob(v1.MediaTypeImageConfig, config)
	manifest, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest,
		Config:    c.Desc,
		Layers:    []v1.Descriptor{l.Desc},
	})
	if err != nil {
		return nil, fmt.Errorf("image: encoding the manifest: %w", err)
	}
	return &Image{Program: program, Manifest: blob(v1.MediaTypeImageManifest, manifest), Config: c, Layer: l}, nil
}
