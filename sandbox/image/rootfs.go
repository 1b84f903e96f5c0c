package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// emptied are folders whose content is never part of an image: file systems of
// the kernel's are mounted there, or this program is.
var emptied = []string{"dev", "proc", "sys", ".foundry"}

// layerFile is a layer that was made, in a temporary file.
type layerFile struct{ name string }

func (l layerFile) open(digest.Digest) (io.ReadCloser, error) { return os.Open(l.name) }
func (l layerFile) Close() error                              { return os.Remove(l.name) }

// openRootfs makes an image of one layer from a folder. It is a function of the
// files alone: owners become root, times the epoch, and setuid and setgid bits
// and extended attributes, which a sandbox gives no force, are dropped.
func openRootfs(dir string, o Options) (_ *Source, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out, err := os.CreateTemp("", "foundry-image-")
	if err != nil {
		return nil, err
	}
	layer := layerFile{out.Name()}
	defer func() {
		if err != nil {
			err = errors.Join(err, layer.Close())
		}
	}()
	hash := digest.SHA256.Digester()
	err = WriteLayer(root, io.MultiWriter(out, hash.Hash()))
	size, errSize := out.Seek(0, io.SeekEnd)
	if err := errors.Join(err, errSize, out.Close()); err != nil {
		return nil, err
	}
	l := v1.Descriptor{MediaType: v1.MediaTypeImageLayer, Digest: hash.Digest(), Size: size}
	config, err := json.Marshal(v1.Image{
		Platform: v1.Platform{Architecture: o.Architecture, OS: "linux"},
		Config:   v1.ImageConfig{Labels: o.Labels},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{l.Digest}},
	})
	if err != nil {
		return nil, err
	}
	s := &Source{blobs: layer, Config: blob(v1.MediaTypeImageConfig, config), Layers: []v1.Descriptor{l}}
	manifest, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: s.Config.Desc, Layers: s.Layers,
	})
	if err != nil {
		return nil, err
	}
	s.Manifest = blob(v1.MediaTypeImageManifest, manifest)
	return s, nil
}

// fileKey is a file, whatever names it has.
type fileKey struct{ dev, inode uint64 }

// WriteLayer writes all below a folder as a tar, in the order of their names: a
// function of names, modes and bytes alone. Owners become root, times the epoch;
// setuid and setgid bits and extended attributes are dropped, and what is in the
// folders where the kernel's file systems are mounted.
func WriteLayer(root *os.Root, to io.Writer) error {
	w := tar.NewWriter(to)
	seen := map[fileKey]string{} // files of several names: the first of them
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}
		if info.Mode()&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		switch info.Mode().Type() {
		case fs.ModeDir:
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
		case fs.ModeSymlink:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = root.Readlink(name); err != nil {
				return err
			}
		case 0:
			return writeFile(w, root, h, info, seen)
		default:
			return fmt.Errorf("%s is no file, folder or link: an image cannot hold it; remove it", name)
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		for _, e := range emptied {
			if name == e && d.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	return errors.Join(err, w.Close())
}

func writeFile(w *tar.Writer, root *os.Root, h *tar.Header, info fs.FileInfo, seen map[fileKey]string) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && uint64(st.Nlink) > 1 {
		key := fileKey{uint64(st.Dev), st.Ino}
		if first, again := seen[key]; again {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return w.WriteHeader(h)
		}
		seen[key] = h.Name
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	f, err := root.Open(h.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(w, f); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	return nil
}
