package image

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"foundry/plan"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// MaxDocumentBytes bounds an index, a manifest or a config. Registries take
// 4 MiB.
const MaxDocumentBytes = 8 << 20

// Media types of Docker's that are read like the OCI's.
const (
	dockerIndex     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest  = "application/vnd.docker.distribution.manifest.v2+json"
	dockerLayer     = "application/vnd.docker.image.rootfs.diff.tar"
	dockerLayerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// layerTypes are the layers that a runtime can unpack.
var layerTypes = []string{v1.MediaTypeImageLayer, v1.MediaTypeImageLayerGzip, v1.MediaTypeImageLayerZstd, dockerLayer, dockerLayerGzip}

// Annotations of a descriptor.
const (
	annotationName   = "io.containerd.image.name"
	annotationSource = "containerd.io/distribution.source." // the registry follows
)

// Options say how an image is read.
type Options struct {
	// Name is what the image is to be called; "" takes the name that it has, or
	// that of its file.
	Name string
	// Architecture of the platform, in Go's words; the system is Linux.
	Architecture string
	// Labels are the config's of an image made from a folder. Other images have
	// theirs.
	Labels map[string]string
}

// Source is an image on disk, for one platform. Index, Manifest and Config are
// verified; layers are verified by whoever reads them.
type Source struct {
	Name         string // without a digest
	Index        *Blob  // of a multi-platform image; nil of any other
	Manifest     Blob
	Config       Blob
	Layers       []v1.Descriptor // lowest first
	Repositories []string        // NAME@digest of the registries that it came from, sorted; none where it does not say
	blobs        blobs
}

// blobs are the bytes that descriptors name.
type blobs interface {
	open(d digest.Digest) (io.ReadCloser, error)
	io.Closer
}

// Open reads an image: an OCI layout, as a folder or a tar, a tar as `docker
// save` writes it, either compressed with gzip, or any other folder, which is
// taken for a root file system.
func Open(name string, o Options) (*Source, error) {
	if o.Name != "" {
		if err := checkName(o.Name); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	var s *Source
	switch {
	case info.IsDir() && isLayout(name):
		s, err = openLayout(name, o)
	case info.IsDir():
		s, err = openRootfs(name, o)
	default:
		s, err = openArchive(name, o)
	}
	if err != nil {
		return nil, fmt.Errorf("image: %s: %w", name, err)
	}
	if err := s.named(name, o.Name); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenLayer opens the bytes of a layer.
func (s *Source) OpenLayer(l v1.Descriptor) (io.ReadCloser, error) { return s.blobs.open(l.Digest) }

// Close removes what Open made for itself.
func (s *Source) Close() error { return s.blobs.Close() }

// Platform is the word for a platform: "linux/amd64".
func Platform(architecture string) string { return "linux/" + architecture }

// checkName refuses what cannot stand in front of the digest of a plan.
func checkName(name string) error {
	if strings.Contains(name, "@") || !plan.ValidImage(name+"@sha256:"+strings.Repeat("0", 64)) {
		return fmt.Errorf("image: %q is no name of an image: lower-case words separated by . _ - and /, maybe a registry in front and a :tag behind, and no digest", name)
	}
	return nil
}

// named gives the image its name: the one asked for, its own, or its file's.
func (s *Source) named(file, asked string) error {
	if asked != "" {
		s.Name = asked
	}
	if s.Name == "" {
		abs, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("image: %w", err)
		}
		s.Name = strings.ToLower(filepath.Base(abs))
		for _, end := range []string{".gz", ".tgz", ".tar", ".oci"} {
			s.Name = strings.TrimSuffix(s.Name, end)
		}
	}
	if err := checkName(s.Name); err != nil {
		return fmt.Errorf("%w; --name gives another one", err)
	}
	return nil
}

func isLayout(dir string) bool {
	for _, name := range []string{v1.ImageLayoutFile, v1.ImageIndexFile} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// folderBlobs are those of an OCI layout.
type folderBlobs struct{ root *os.Root }

func (f folderBlobs) open(d digest.Digest) (io.ReadCloser, error) {
	return f.root.Open(filepath.Join(v1.ImageBlobsDir, d.Algorithm().String(), d.Encoded()))
}

func (f folderBlobs) Close() error { return f.root.Close() }

func openLayout(dir string, o Options) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(v1.ImageIndexFile)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s, err := readLayout(f, folderBlobs{root}, o)
	if err != nil {
		err = errors.Join(err, root.Close())
	}
	return s, errors.Join(err, f.Close())
}

// readLayout finds the image of the platform, from the index of a layout.
func readLayout(index io.Reader, from blobs, o Options) (*Source, error) {
	var list v1.Index
	b, err := readBounded(index)
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v1.ImageIndexFile, err)
	}
	desc, err := entry(list.Manifests, o)
	if err != nil {
		return nil, err
	}
	s := &Source{blobs: from, Name: desc.Annotations[annotationName], Repositories: Repositories(desc.Digest, desc.Annotations)}
	if desc.MediaType == v1.MediaTypeImageIndex || desc.MediaType == dockerIndex {
		whole, err := s.read(desc)
		if err != nil {
			return nil, err
		}
		s.Index = &whole
		var list v1.Index
		if err := json.Unmarshal(whole.Bytes, &list); err != nil {
			return nil, fmt.Errorf("the index %s: %w", desc.Digest, err)
		}
		if desc, err = Choose(list, o.Architecture); err != nil {
			return nil, err
		}
		s.Repositories = append(s.Repositories, Repositories(desc.Digest, desc.Annotations)...)
	}
	slices.Sort(s.Repositories)
	s.Repositories = slices.Compact(s.Repositories)
	return s, s.manifest(desc, o.Architecture)
}

// entry is the one image of a layout, or the one that is asked for by name or
// by platform.
func entry(list []v1.Descriptor, o Options) (v1.Descriptor, error) {
	if len(list) == 1 {
		return list[0], nil
	}
	var byName, byPlatform []v1.Descriptor
	var names []string
	for _, d := range list {
		name := d.Annotations[annotationName]
		if name == "" {
			name = d.Annotations[v1.AnnotationRefName]
		}
		if name != "" {
			names = append(names, name)
		}
		if o.Name != "" && name == o.Name {
			byName = append(byName, d)
		}
		if fits(d, o.Architecture) {
			byPlatform = append(byPlatform, d)
		}
	}
	switch {
	case len(byName) == 1:
		return byName[0], nil
	case len(byPlatform) == 1:
		return byPlatform[0], nil
	}
	slices.Sort(names)
	return v1.Descriptor{}, fmt.Errorf("it holds %d images (named: %s): say which by --name, or export one alone", len(list), strings.Join(slices.Compact(names), ", "))
}

// fits reports whether a descriptor says that it is for a platform. Build
// attestations, which are no images, are for none.
func fits(d v1.Descriptor, architecture string) bool {
	return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == architecture
}

// Choose is the manifest of a platform in a multi-platform index: the first
// that fits, as runtimes take it.
func Choose(list v1.Index, architecture string) (v1.Descriptor, error) {
	var have []string
	for _, d := range list.Manifests {
		if fits(d, architecture) {
			return d, nil
		}
		if d.Platform != nil && d.Platform.OS != "unknown" {
			have = append(have, d.Platform.OS+"/"+d.Platform.Architecture)
		}
	}
	slices.Sort(have)
	return v1.Descriptor{}, fmt.Errorf("it has nothing for %s: it is for %s", Platform(architecture), strings.Join(slices.Compact(have), ", "))
}

// manifest reads manifest and config, and checks that they fit together.
func (s *Source) manifest(desc v1.Descriptor, architecture string) error {
	if desc.MediaType == "" {
		desc.MediaType = v1.MediaTypeImageManifest
	}
	if desc.MediaType != v1.MediaTypeImageManifest && desc.MediaType != dockerManifest {
		return fmt.Errorf("%s is of the type %q, which is no image", desc.Digest, desc.MediaType)
	}
	var err error
	if s.Manifest, err = s.read(desc); err != nil {
		return err
	}
	var m v1.Manifest
	if err := json.Unmarshal(s.Manifest.Bytes, &m); err != nil {
		return fmt.Errorf("the manifest %s: %w", desc.Digest, err)
	}
	if s.Config, err = s.read(m.Config); err != nil {
		return err
	}
	s.Layers = m.Layers
	return s.check(architecture)
}

// check refuses an image that could not be run here.
func (s *Source) check(architecture string) error {
	var config v1.Image
	if err := json.Unmarshal(s.Config.Bytes, &config); err != nil {
		return fmt.Errorf("the config %s: %w", s.Config.Desc.Digest, err)
	}
	if got := config.OS + "/" + config.Architecture; got != Platform(architecture) {
		return fmt.Errorf("it is for %s, not for %s", got, Platform(architecture))
	}
	if len(config.RootFS.DiffIDs) != len(s.Layers) || len(s.Layers) == 0 {
		return fmt.Errorf("its manifest has %d layers and its config %d", len(s.Layers), len(config.RootFS.DiffIDs))
	}
	for _, l := range s.Layers {
		if !slices.Contains(layerTypes, l.MediaType) {
			return fmt.Errorf("the layer %s is of the type %q, which cannot be unpacked", l.Digest, l.MediaType)
		}
		if err := checkDigest(l); err != nil {
			return err
		}
	}
	return nil
}

func checkDigest(d v1.Descriptor) error {
	if d.Digest.Validate() != nil || d.Digest.Algorithm() != digest.SHA256 || d.Size < 0 {
		return fmt.Errorf("%q with %d bytes is no sha256 descriptor", d.Digest, d.Size)
	}
	return nil
}

// read reads and verifies a document.
func (s *Source) read(desc v1.Descriptor) (Blob, error) {
	if err := checkDigest(desc); err != nil {
		return Blob{}, err
	}
	f, err := s.blobs.open(desc.Digest)
	if err != nil {
		return Blob{}, err
	}
	defer f.Close()
	b, err := readBounded(f)
	if err != nil {
		return Blob{}, fmt.Errorf("%s: %w", desc.Digest, err)
	}
	if got := digest.FromBytes(b); got != desc.Digest || int64(len(b)) != desc.Size {
		return Blob{}, fmt.Errorf("%s with %d bytes holds other bytes: %s with %d", desc.Digest, desc.Size, got, len(b))
	}
	desc.Annotations, desc.Platform = nil, nil
	return Blob{Desc: desc, Bytes: b}, nil
}

func readBounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxDocumentBytes+1))
	if err == nil && len(b) > MaxDocumentBytes {
		err = fmt.Errorf("more than %d bytes", MaxDocumentBytes)
	}
	return b, err
}

// Repositories are the references by which registries know a digest, sorted:
// containerd writes them into the annotations of what it exports and the labels
// of what it pulls.
func Repositories(d digest.Digest, annotations map[string]string) []string {
	var list []string
	for key, value := range annotations {
		registry, ok := strings.CutPrefix(key, annotationSource)
		if !ok {
			continue
		}
		for repository := range strings.SplitSeq(value, ",") {
			if ref := registry + "/" + repository + "@" + d.String(); plan.ValidImage(ref) {
				list = append(list, ref)
			}
		}
	}
	slices.Sort(list)
	return list
}

// gunzipped is a file's bytes, decompressed into a temporary file when they are
// compressed. remove removes that one.
func gunzipped(name string) (f *os.File, remove func() error, err error) {
	f, err = os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	magic := make([]byte, 2)
	n, err := f.ReadAt(magic, 0)
	if err != nil && err != io.EOF {
		return nil, nil, errors.Join(err, f.Close())
	}
	if !bytes.Equal(magic[:n], []byte{0x1f, 0x8b}) {
		return f, func() error { return nil }, nil
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		return nil, nil, err
	}
	out, err := os.CreateTemp("", "foundry-image-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() error { return os.Remove(out.Name()) }
	if _, err = io.Copy(out, in); err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(err, out.Close(), remove())
	}
	return out, remove, nil
}
