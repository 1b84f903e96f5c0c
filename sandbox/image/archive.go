package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxEntries bounds the files of an archive of images: layers and documents,
// not the files in layers.
const maxEntries = 100_000

// archive is a tar that is read at any place.
type archive struct {
	file    *os.File
	remove  func() error
	entries map[string]*io.SectionReader
	digests map[digest.Digest]string // of a docker archive: the names of its blobs
}

func openArchive(name string, o Options) (*Source, error) {
	file, remove, err := gunzipped(name)
	if err != nil {
		return nil, err
	}
	a := &archive{file: file, remove: remove, entries: map[string]*io.SectionReader{}}
	s, err := a.source(o)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return s, nil
}

func (a *archive) source(o Options) (*Source, error) {
	if err := a.scan(); err != nil {
		return nil, err
	}
	if index := a.entries[v1.ImageIndexFile]; index != nil && a.entries[v1.ImageLayoutFile] != nil {
		return readLayout(index, a, o)
	}
	if list := a.entries["manifest.json"]; list != nil {
		return a.docker(list, o)
	}
	return nil, errors.New("it is neither an OCI archive nor one of `docker save`; a tar of a root file system is imported unpacked, as a folder")
}

// scan notes where each file of the archive lies. Links, which `docker save`
// wrote once for layers that are there twice, are resolved in the archive.
func (a *archive) scan() error {
	r := tar.NewReader(a.file) // it reads no byte further than a header
	links := map[string]string{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("it is no tar that can be read: %w", err)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := a.file.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			a.entries[name] = io.NewSectionReader(a.file, at, h.Size)
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			links[name] = path.Clean(h.Linkname)
		}
		if len(a.entries)+len(links) > maxEntries {
			return fmt.Errorf("it has more than %d files, more than an archive of an image", maxEntries)
		}
	}
	for name, to := range links {
		if e := a.entries[to]; e != nil && a.entries[name] == nil {
			a.entries[name] = e
		}
	}
	return nil
}

// named opens an entry afresh.
func (a *archive) named(name string) (io.ReadCloser, error) {
	e := a.entries[path.Clean(name)]
	if e == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(e, 0, e.Size())), nil
}

func (a *archive) open(d digest.Digest) (io.ReadCloser, error) {
	if name, ok := a.digests[d]; ok {
		return a.named(name)
	}
	return a.named(path.Join(v1.ImageBlobsDir, d.Algorithm().String(), d.Encoded()))
}

func (a *archive) Close() error { return errors.Join(a.file.Close(), a.remove()) }

// dockerImage is one entry of the manifest.json of `docker save`.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// docker makes an OCI manifest of what `docker save` wrote: it has none.
func (a *archive) docker(list io.Reader, o Options) (*Source, error) {
	var all []dockerImage
	b, err := readBounded(list)
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("it holds %d images: save one alone", len(all))
	}
	a.digests = map[digest.Digest]string{}
	config, err := a.describe(all[0].Config, v1.MediaTypeImageConfig)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: config}
	for _, name := range all[0].Layers {
		l, err := a.describe(name, v1.MediaTypeImageLayer)
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, l)
	}
	s := &Source{blobs: a, Layers: m.Layers}
	if len(all[0].RepoTags) > 0 {
		s.Name = all[0].RepoTags[0]
	}
	if s.Config, err = s.read(config); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	s.Manifest = blob(v1.MediaTypeImageManifest, encoded)
	return s, s.check(o.Architecture)
}

// describe hashes an entry, and sees whether a layer is compressed.
func (a *archive) describe(name, mediaType string) (v1.Descriptor, error) {
	f, err := a.named(name)
	if err != nil {
		return v1.Descriptor{}, err
	}
	var magic strings.Builder
	in := io.TeeReader(f, &limitedWriter{&magic, 2})
	d, err := digest.FromReader(in)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("%s: %w", name, err)
	}
	if mediaType == v1.MediaTypeImageLayer && magic.String() == "\x1f\x8b" {
		mediaType = v1.MediaTypeImageLayerGzip
	}
	a.digests[d] = name
	return v1.Descriptor{MediaType: mediaType, Digest: d, Size: a.entries[path.Clean(name)].Size()}, nil
}

// limitedWriter keeps the first bytes and drops the rest.
type limitedWriter struct {
	to   io.Writer
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	n := min(w.left, len(p))
	w.left -= n
	if _, err := w.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
