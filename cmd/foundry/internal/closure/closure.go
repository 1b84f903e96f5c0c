// Package closure writes and reads closures: a folder with plan.json and an
// OCI image layout of every blob that the plan names, enough to run anywhere.
// It also finds a plan's bytes in folders that the user names.
package closure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"foundry/plan"
	"foundry/sandbox"
)

// PlanFile is the name of the plan in a closure.
const PlanFile = "plan.json"

// Media types of a closure's manifest, in the vendor tree as the OCI
// distribution rules ask.
const (
	artifactType = "application/vnd.foundry.closure.v1"
	planType     = "application/vnd.foundry.plan.v1+json"
	blobType     = "application/octet-stream"
)

// Write makes the closure of an encoded plan in dir, which must not exist or
// be empty. It is written beside dir first and renamed, so that a closure is
// whole or not there. The same plan gives the same bytes.
func Write(dir string, p *plan.Plan, encoded []byte, blobs map[string][]byte) (err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s exists and is not empty: remove it, or name another folder", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			sandbox.RemoveTree(tmp)
		}
	}()
	if err := fill(tmp, p, encoded, blobs); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if len(entries) == 0 {
		os.Remove(dir)
	}
	return os.Rename(tmp, dir)
}

func fill(dir string, p *plan.Plan, encoded []byte, blobs map[string][]byte) error {
	store, err := sandbox.OpenStore(dir)
	if err != nil {
		return err
	}
	config, err := store.Put(encoded)
	if err != nil {
		return err
	}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType,
		Config: ocispec.Descriptor{MediaType: planType, Digest: digest.Digest(config), Size: int64(len(encoded))},
		Layers: []ocispec.Descriptor{},
	}
	for _, d := range Digests(p) {
		data, ok := blobs[d]
		if !ok {
			return fmt.Errorf("the bytes of %s are missing", d)
		}
		got, err := store.Put(data)
		if err != nil {
			return err
		}
		if got != d {
			return fmt.Errorf("a file changed while it was read: %s became %s", d, got)
		}
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: blobType, Digest: digest.Digest(d), Size: int64(len(data))})
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		return err
	}
	md, err := store.Put(manifest)
	if err != nil {
		return err
	}
	index, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{{
			MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType, Digest: digest.Digest(md), Size: int64(len(manifest)),
			Annotations: map[string]string{ocispec.AnnotationTitle: p.Pipeline.Name},
		}},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), append(index, '\n'), 0o644); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, PlanFile), encoded, 0o644)
}

// Digests lists every blob that a plan names, sorted, each once.
func Digests(p *plan.Plan) []string {
	var out []string
	for _, b := range p.Bundles {
		for _, f := range b.Files {
			if f.Mode != plan.ModeDir {
				out = append(out, f.Digest)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Is reports whether dir looks like a closure.
func Is(dir string) bool {
	for _, name := range []string{PlanFile, "oci-layout"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// Read opens a closure. The plan is decoded; blobs are verified when they are
// read.
func Read(dir string) (p *plan.Plan, encoded []byte, blobs *sandbox.Store, err error) {
	encoded, err = ReadPlanFile(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, nil, nil, err
	}
	if p, err = plan.Decode(encoded); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, PlanFile), err)
	}
	if err := checkConfig(dir, encoded); err != nil {
		return nil, nil, nil, err
	}
	blobs, err = sandbox.OpenStoreReadOnly(dir)
	return p, encoded, blobs, err
}

// checkConfig requires that the closure's index leads to the plan beside it.
func checkConfig(dir string, encoded []byte) error {
	store, err := sandbox.OpenStoreReadOnly(dir)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil || len(index.Manifests) != 1 {
		return fmt.Errorf("%s: the index does not name exactly one closure", filepath.Join(dir, "index.json"))
	}
	manifest, err := store.ReadAll(string(index.Manifests[0].Digest), 64<<20)
	if err != nil {
		return err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return fmt.Errorf("%s: the manifest cannot be read: %w", dir, err)
	}
	if want, got := string(m.Config.Digest), plan.Digest(encoded); want != got {
		return fmt.Errorf("%s: the plan has the digest %s, and the closure was made with %s: restore plan.json, or make the closure again", filepath.Join(dir, PlanFile), got, want)
	}
	return nil
}

// ReadPlanFile reads a plan's bytes, bounded.
func ReadPlanFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > plan.MaxEncodedBytes {
		return nil, fmt.Errorf("%s is no plan: not a regular file of at most %d bytes", name, plan.MaxEncodedBytes)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
