package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"foundry/sandbox"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// self is this test binary, which "go test" links dynamically where it can.
func self(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the builtin image is made of an ELF executable")
	}
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// build compiles a small program.
func build(t *testing.T, cgo string) string {
	t.Helper()
	self(t)
	dir := t.TempDir()
	source := "package main\nfunc main() { println(\"ran\") }\n"
	if cgo == "1" {
		if _, err := exec.LookPath("gcc"); err != nil {
			t.Skip("cgo needs gcc")
		}
		source = "package main\n// #include <stdlib.h>\nimport \"C\"\nfunc main() { if C.abs(-1) == 1 { println(\"ran\") } }\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", "program", "main.go")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "program")
}

func entriesOf(t *testing.T, layer []byte) map[string]*tar.Header {
	t.Helper()
	entries := map[string]*tar.Header{}
	r := tar.NewReader(bytes.NewReader(layer))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		if entries[h.Name] != nil {
			t.Errorf("%s is there twice", h.Name)
		}
		entries[h.Name] = h
	}
}

func TestBuiltin(t *testing.T) {
	program := self(t)
	first, err := Builtin(program, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Builtin(program, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if first.Manifest.Desc.Digest != second.Manifest.Desc.Digest || !bytes.Equal(first.Layer.Bytes, second.Layer.Bytes) {
		t.Error("two images of one program differ")
	}
	for name, h := range entriesOf(t, first.Layer.Bytes) {
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 || h.Uname != "" || strings.HasPrefix(name, "/") || h.Mode&0o022 != 0 && name != "tmp/" {
			t.Errorf("%s: %+v", name, h)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			t.Errorf("%s is of type %c", name, h.Typeflag)
		}
	}
	h := entriesOf(t, first.Layer.Bytes)[programPath]
	if h == nil || h.Mode != 0o555 {
		t.Errorf("the program: %+v", h)
	}

	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if first.Program != digest.FromBytes(b) {
		t.Error("the digest of the program is of other bytes")
	}
	var manifest v1.Manifest
	var config v1.Image
	if err := errors.Join(json.Unmarshal(first.Manifest.Bytes, &manifest), json.Unmarshal(first.Config.Bytes, &config)); err != nil {
		t.Fatal(err)
	}
	if manifest.Config.Digest != digest.FromBytes(first.Config.Bytes) || len(manifest.Layers) != 1 || manifest.Layers[0].Digest != digest.FromBytes(first.Layer.Bytes) || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Errorf("the digests do not fit: %+v %+v", manifest, config)
	}
	if config.Config.Labels[sandbox.LabelProtocol] != "2" || config.Config.Labels[LabelProgram] != first.Program.String() || len(config.Config.Env) > 0 || len(config.Config.Entrypoint) > 0 || config.Config.User != "" {
		t.Errorf("config %+v", config.Config)
	}
}

func TestStatic(t *testing.T) {
	img, err := Builtin(build(t, "0"), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, h := range entriesOf(t, img.Layer.Bytes) {
		if h.Typeflag == tar.TypeReg {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if want := []string{".foundry/foundry", "etc/group", "etc/hosts", "etc/nsswitch.conf", "etc/passwd"}; !slices.Equal(got, want) {
		t.Errorf("files %v", got)
	}
}

// A dynamically linked program runs on the image's files alone.
func TestDynamic(t *testing.T) {
	program := build(t, "1")
	libraries, err := closure(program)
	if err != nil {
		t.Fatal(err)
	}
	o, err := readELF(program)
	if err != nil {
		t.Fatal(err)
	}
	if o.interpreter == "" || libraries[o.interpreter] == "" {
		t.Fatalf("no loader in %v", libraries)
	}
	for _, needed := range o.needed {
		found := false
		for p := range libraries {
			found = found || filepath.Base(p) == needed
		}
		if !found {
			t.Errorf("%s is missing in %v", needed, libraries)
		}
	}
	img, err := Builtin(program, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	entries := entriesOf(t, img.Layer.Bytes)
	for p := range libraries {
		if h := entries[strings.TrimPrefix(p, "/")]; h == nil || h.Mode != 0o555 {
			t.Errorf("%s: %+v", p, h)
		}
	}
}

func TestRefused(t *testing.T) {
	self(t)
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"no ELF file": text, "reading the program": text + ".gone"} {
		if _, err := Builtin(file, "amd64"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigured(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ld.so.conf":       "# comment\n/first # more\ninclude conf.d/*.conf\ninclude ld.so.conf\n",
		"conf.d/b.conf":    "/b\n",
		"conf.d/a.conf":    "/a\n",
		"conf.d/other.txt": "/other\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := configured(filepath.Join(dir, "ld.so.conf"), 0)
	if len(got) < 3 || !slices.Equal(got[:3], []string{"/first", "/a", "/b"}) || slices.Contains(got, "/other") {
		t.Errorf("folders %v", got)
	}
}
