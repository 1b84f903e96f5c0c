package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"foundry/sandbox"
	"foundry/sandbox/image"

	"github.com/google/renameio/v2"
	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Options say what is built, and from what.
type Options struct {
	Adapter string // of the agent
	Version string // of the agent, exactly
	With    []Addition
	// Lock is a lock file; "" is the one in this program, for images without
	// additions.
	Lock string
	// UpdateLock writes Lock from what the sources have now.
	UpdateLock bool
	// Cache is a folder that keeps packages, for later builds.
	Cache string
	// AptSources is a file of apt sources; "" takes this machine's.
	AptSources string
	// Name of the image; "" is foundry-ADAPTER:VERSION.
	Name string
	// Progress is told each step, a line.
	Progress io.Writer
}

// Layer is one layer of an image that was built.
type Layer struct {
	Name   string // base, node, the adapter's, with
	Digest digest.Digest
	Bytes  int64 // uncompressed, as it is stored
}

// Built is an image in a folder of its own, which Close removes.
type Built struct {
	Source *image.Source
	Layers []Layer
	Labels map[string]string
	dir    string
	layout string
}

// Close removes the image's files.
func (b *Built) Close() error { return errors.Join(b.Source.Close(), os.RemoveAll(b.dir)) }

// WriteArchive writes the image as an OCI archive: a function of the image alone.
func (b *Built) WriteArchive(to io.Writer) error {
	root, err := os.OpenRoot(b.layout)
	if err != nil {
		return err
	}
	return errors.Join(image.WriteLayer(root, to), root.Close())
}

// builder is one build under way.
type builder struct {
	Options
	dir   string // of this build, removed at its end
	cache string // absolute
	debs  string // packages by their hash, in the cache
}

// Build makes an image. The same lock, adapter, version and files give the same
// image, byte by byte. A *Refusal is what is wrong with the options, a
// *MovedError a lock that the sources can no longer meet.
func Build(ctx context.Context, o Options) (_ *Built, err error) {
	lock, err := check(o)
	if err != nil {
		return nil, err
	}
	if err := needPrograms(); err != nil {
		return nil, err
	}
	b := &builder{Options: o}
	if b.cache, err = filepath.Abs(o.Cache); err != nil {
		return nil, err
	}
	b.debs = filepath.Join(b.cache, "debian")
	if b.dir, err = os.MkdirTemp("", "foundry-image-build-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(b.dir))
		}
	}()
	// Its parts are read by programs of other users in the namespaces of
	// mmdebstrap.
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return nil, err
	}
	built, lock, err := b.build(ctx, lock)
	if err != nil {
		return nil, err
	}
	if o.UpdateLock {
		text, err := lock.encode()
		if err == nil {
			err = renameio.WriteFile(o.Lock, text, 0o644)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("image build: writing the lock: %w", err), built.Source.Close())
		}
	}
	return built, nil
}

// check refuses what cannot be built, and reads the lock.
func check(o Options) (Lock, error) {
	if platform := runtime.GOOS + "/" + runtime.GOARCH; platform != "linux/"+architecture {
		return Lock{}, refuse("images are built on linux/%s, for it, and this is %s", architecture, platform)
	}
	if _, known := recipes[o.Adapter]; !known {
		return Lock{}, refuse("there is no image for the adapter %q: there are images for %s", o.Adapter, strings.Join(slices.Sorted(maps.Keys(recipes)), ", "))
	}
	if versions := Versions(o.Adapter); !slices.Contains(versions, o.Version) {
		return Lock{}, refuse("%s has no version %q here: there are lock files for %s", o.Adapter, o.Version, strings.Join(versions, " and "))
	}
	if err := checkAdditions(o.Adapter, o.With); err != nil {
		return Lock{}, err
	}
	if o.UpdateLock {
		if o.Lock == "" {
			return Lock{}, refuse("--update-lock needs --lock FILE: the lock in this program cannot be rewritten")
		}
		return Lock{Format: lockFormat, Suite: defaultSuite, Architecture: architecture, With: locked(o.With)}, nil
	}
	l, err := readLock(o.Lock)
	if err != nil {
		return Lock{}, err
	}
	return l, l.covers(o.With)
}

func (b *builder) say(format string, args ...any) {
	if b.Progress != nil {
		fmt.Fprintf(b.Progress, format+"\n", args...)
	}
}

func (b *builder) build(ctx context.Context, l Lock) (*Built, Lock, error) {
	names := slices.Clone(basePackages)
	for _, a := range b.With {
		if a.kind == kindApt {
			names = append(names, a.name)
		}
	}
	slices.Sort(names)
	l, err := b.packages(ctx, l, names)
	if err != nil {
		return nil, l, err
	}
	layers := []string{"base", "node", b.Adapter}
	b.say("base: %d packages of Debian %s", len(l.Packages), l.Suite)
	if err := b.base(ctx, l, names, b.layer("base")); err != nil {
		return nil, l, err
	}
	b.say("%s %s and its Node from npm", b.Adapter, b.Version)
	node, err := b.agent(ctx, b.Adapter, b.Version, b.layer("node"), b.layer(b.Adapter))
	if err != nil {
		return nil, l, err
	}
	if slices.ContainsFunc(b.With, func(a Addition) bool { return a.kind != kindApt }) {
		layers = append(layers, "with")
		if err := b.additions(ctx, l, b.With, b.layer("with")); err != nil {
			return nil, l, err
		}
	}
	labels, err := b.labels(l, node)
	if err != nil {
		return nil, l, err
	}
	for _, name := range layers[1:] { // Debian's modes are as they should be
		if err := normalise(b.layer(name)); err != nil {
			return nil, l, err
		}
	}
	built, err := b.assemble(ctx, layers, labels)
	return built, l, err
}

// layer is the folder that becomes a layer.
func (b *builder) layer(name string) string { return filepath.Join(b.dir, "layer-"+name) }

// packages brings those of the lock into the cache; a new lock it fills first.
func (b *builder) packages(ctx context.Context, l Lock, names []string) (Lock, error) {
	a := &apt{dir: filepath.Join(b.dir, "apt"), sources: b.AptSources, suite: l.Suite}
	if err := os.Mkdir(a.dir, 0o755); err != nil {
		return l, err
	}
	var err error
	if b.UpdateLock {
		if l.Packages, err = a.resolve(ctx, names); err != nil {
			return l, err
		}
		if l.NPM, err = b.lockAdditions(ctx, b.With); err != nil {
			return l, err
		}
	}
	l.Packages, err = a.fetch(ctx, l.Packages, b.debs, b.Lock)
	return l, err
}

// labels say what is in the image.
func (b *builder) labels(l Lock, node string) (map[string]string, error) {
	labels := map[string]string{
		sandbox.LabelProtocol: sandbox.Protocol, sandbox.LabelHarness + b.Adapter: b.Version, sandbox.LabelTool + "node": node,
	}
	tools := map[string]string{"rg": "ripgrep", "fd": "fd-find"} // by their packages
	for _, a := range b.With {
		switch a.kind {
		case kindApt:
			tools[a.name] = a.name
		case kindNPM:
			labels[sandbox.LabelTool+a.tool()] = a.version
		case kindFile:
			sum, err := hashFile(filepath.Join(b.layer("with"), "usr/local/bin", a.name))
			if err != nil {
				return nil, err
			}
			labels[sandbox.LabelTool+a.name] = "sha256:" + sum
		}
	}
	for tool, name := range tools {
		p, ok := l.find(name)
		if !ok {
			return nil, refuse("the lock has no package %s: --lock FILE --update-lock writes one that has", name)
		}
		labels[sandbox.LabelTool+tool] = p.upstream()
	}
	return labels, nil
}

// assemble writes the layers, config and manifest as an OCI layout.
func (b *builder) assemble(ctx context.Context, names []string, labels map[string]string) (*Built, error) {
	out := &Built{dir: b.dir, layout: filepath.Join(b.dir, "layout"), Labels: labels}
	blobs := filepath.Join(out.layout, v1.ImageBlobsDir, "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return nil, err
	}
	m := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	var diffs []digest.Digest
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("image build: %w", context.Cause(ctx))
		}
		d, err := writeLayer(b.layer(name), blobs)
		if err != nil {
			return nil, fmt.Errorf("image build: the layer %s: %w", name, err)
		}
		m.Layers = append(m.Layers, d)
		diffs = append(diffs, d.Digest)
		out.Layers = append(out.Layers, Layer{name, d.Digest, d.Size})
	}
	// Nothing of it is used by this program; elsewhere it is not root that runs.
	config := v1.Image{
		Platform: v1.Platform{Architecture: runtime.GOARCH, OS: "linux"},
		Config:   v1.ImageConfig{Labels: labels, User: "65534:65534", Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: diffs},
	}
	var err error
	if m.Config, err = writeDocument(blobs, v1.MediaTypeImageConfig, config); err != nil {
		return nil, err
	}
	entry, err := writeDocument(blobs, v1.MediaTypeImageManifest, m)
	if err != nil {
		return nil, err
	}
	name := b.Name
	if name == "" {
		name = "foundry-" + b.Adapter + ":" + b.Version
	}
	entry.Annotations = map[string]string{"io.containerd.image.name": name}
	index, err := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{entry}})
	if err != nil {
		return nil, err
	}
	for file, content := range map[string][]byte{v1.ImageIndexFile: index, v1.ImageLayoutFile: []byte(`{"imageLayoutVersion":"` + v1.ImageLayoutVersion + `"}`)} {
		if err := os.WriteFile(filepath.Join(out.layout, file), content, 0o644); err != nil {
			return nil, err
		}
	}
	out.Source, err = image.Open(out.layout, image.Options{Name: name, Architecture: runtime.GOARCH})
	return out, err
}

// writeLayer writes a folder as a blob, and removes it.
func writeLayer(dir, blobs string) (v1.Descriptor, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer root.Close()
	f, err := os.Create(filepath.Join(blobs, "new"))
	if err != nil {
		return v1.Descriptor{}, err
	}
	hash := digest.SHA256.Digester()
	err = image.WriteLayer(root, io.MultiWriter(f, hash.Hash()))
	size, errSize := f.Seek(0, io.SeekEnd)
	if err := errors.Join(err, errSize, f.Close()); err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: v1.MediaTypeImageLayer, Digest: hash.Digest(), Size: size}
	return d, errors.Join(os.Rename(f.Name(), filepath.Join(blobs, d.Digest.Encoded())), os.RemoveAll(dir))
}

// writeDocument writes JSON as a blob.
func writeDocument(blobs, mediaType string, v any) (v1.Descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	return d, os.WriteFile(filepath.Join(blobs, d.Digest.Encoded()), b, 0o644)
}
