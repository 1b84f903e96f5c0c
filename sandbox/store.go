package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"foundry/plan"
)

// Blobs gives bytes by digest. Whoever reads from it verifies what it reads.
type Blobs interface {
	// Open returns the bytes of a "sha256:…" digest. An unknown one is an error
	// that wraps fs.ErrNotExist.
	Open(digest string) (io.ReadCloser, error)
}

// Store is a content-addressed folder in the form of an OCI image layout:
// oci-layout, index.json, blobs/sha256/<hex>. It is safe for use by several
// goroutines and processes at once. It survives a killed process, not a power
// cut: nothing is synced to the disk.
type Store struct {
	dir      string
	readOnly bool
}

const (
	layoutFile = "oci-layout"
	layoutText = `{"imageLayoutVersion":"1.0.0"}`
	indexFile  = "index.json"
	indexText  = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`
)

// OpenStore opens the store in dir and makes what is missing of it. A folder
// that holds another layout version is refused.
func OpenStore(dir string) (*Store, error) {
	s := &Store{dir: dir}
	if err := os.MkdirAll(s.blobDir(), 0o755); err != nil {
		return nil, fmt.Errorf("store: cannot make the folder: %w", err)
	}
	for _, f := range [...]struct{ name, text string }{{layoutFile, layoutText}, {indexFile, indexText}} {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); err == nil {
			continue
		}
		if err := s.replace(filepath.Join(dir, f.name), []byte(f.text)); err != nil {
			return nil, err
		}
	}
	return s, s.checkLayout()
}

// OpenStoreReadOnly opens a store that is there and that must not change, such
// as the blobs of a closure.
func OpenStoreReadOnly(dir string) (*Store, error) {
	s := &Store{dir: dir, readOnly: true}
	if err := s.checkLayout(); err != nil {
		return nil, err
	}
	if info, err := os.Stat(s.blobDir()); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("store: %s has no folder blobs/sha256: it is no OCI image layout", dir)
	}
	return s, nil
}

func (s *Store) checkLayout() error {
	f, _, err := openRegular(filepath.Join(s.dir, layoutFile))
	if err != nil {
		return fmt.Errorf("store: %s is no OCI image layout: %w", s.dir, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	var layout struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(data, &layout); err != nil || layout.Version != "1.0.0" {
		return fmt.Errorf("store: %s has image layout version %q, this program reads 1.0.0", s.dir, layout.Version)
	}
	return nil
}

// Dir is the folder of the store.
func (s *Store) Dir() string { return s.dir }

func (s *Store) blobDir() string { return filepath.Join(s.dir, "blobs", "sha256") }

// blobPath is where the bytes of a digest are; a digest of another form is an
// error, so that none becomes a path.
func (s *Store) blobPath(digest string) (string, error) {
	if !plan.ValidDigest(digest) {
		return "", fmt.Errorf("store: %q is no sha256 digest", digest)
	}
	return filepath.Join(s.blobDir(), strings.TrimPrefix(digest, "sha256:")), nil
}

// Has reports whether the store holds a digest. It does not read the bytes.
func (s *Store) Has(digest string) bool {
	path, err := s.blobPath(digest)
	if err != nil {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// Put stores bytes and returns their digest.
func (s *Store) Put(data []byte) (string, error) {
	digest := plan.Digest(data)
	path, err := s.writable(digest)
	if err != nil || holds(path, int64(len(data))) {
		return digest, err
	}
	return digest, s.replace(path, data)
}

// PutFile stores the bytes of a regular file, never of what a link points to,
// and returns their digest and number.
func (s *Store) PutFile(path string) (digest string, bytes int64, err error) {
	if s.readOnly {
		return "", 0, errReadOnly(s.dir)
	}
	src, _, err := openRegular(path)
	if err != nil {
		return "", 0, fmt.Errorf("store: cannot put a file: %w", err)
	}
	defer src.Close()
	h := sha256.New()
	tmp, err := s.temp(func(f *os.File) error {
		bytes, err = io.Copy(io.MultiWriter(f, h), src)
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("store: cannot put %s: %w", path, err)
	}
	digest = hexDigest(h)
	dst, err := s.writable(digest)
	if err == nil && !holds(dst, bytes) {
		err = os.Rename(tmp, dst)
	}
	if err != nil {
		os.Remove(tmp)
		return "", 0, fmt.Errorf("store: cannot put %s: %w", path, err)
	}
	os.Remove(tmp) // already gone if it was renamed
	return digest, bytes, nil
}

func errReadOnly(dir string) error {
	return fmt.Errorf("store: %s is open for reading only: %w", dir, fs.ErrPermission)
}

func (s *Store) writable(digest string) (string, error) {
	if s.readOnly {
		return "", errReadOnly(s.dir)
	}
	return s.blobPath(digest)
}

// holds says that a blob need not be written again. Its bytes are verified by
// each reader, not here.
func holds(path string, bytes int64) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == bytes
}

// temp writes a file beside blobs, so that the blob folder never shows half a
// blob under any name.
func (s *Store) temp(write func(*os.File) error) (string, error) {
	f, err := os.CreateTemp(s.dir, ".put-*")
	if err != nil {
		return "", err
	}
	err = errors.Join(write(f), f.Chmod(0o444), f.Close())
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

func (s *Store) replace(path string, data []byte) error {
	tmp, err := s.temp(func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
	if err == nil {
		if err = os.Rename(tmp, path); err != nil {
			os.Remove(tmp)
		}
	}
	if err != nil {
		return fmt.Errorf("store: cannot write %s: %w", path, err)
	}
	return nil
}

// Open returns a reader that verifies: where the bytes are not those of the
// digest, the read that would return io.EOF returns an error that names digest
// and path. A caller that stops before the end has verified nothing.
func (s *Store) Open(digest string) (io.ReadCloser, error) {
	f, _, err := s.open(digest)
	if err != nil {
		return nil, err
	}
	return &verifier{f: f, want: digest, hash: sha256.New()}, nil
}

func (s *Store) open(digest string) (*os.File, int64, error) {
	path, err := s.blobPath(digest)
	if err != nil {
		return nil, 0, err
	}
	f, info, err := openRegular(path)
	if err != nil {
		return nil, 0, fmt.Errorf("store: cannot open blob %s: %w", digest, err)
	}
	return f, info.Size(), nil
}

// ReadAll returns the verified bytes of a digest; more than max bytes are an
// error.
func (s *Store) ReadAll(digest string, max int64) ([]byte, error) {
	f, size, err := s.open(digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > max {
		return nil, fmt.Errorf("store: blob %s has %d bytes, more than %d", digest, size, max)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("store: cannot read blob %s: %w", digest, err)
	}
	if got := plan.Digest(data); got != digest {
		return nil, mismatch(digest, got, f.Name())
	}
	return data, nil
}

func mismatch(want, got, path string) error {
	return fmt.Errorf("store: bytes do not match their digest: %s should be %s and is %s: remove the store and make it again", path, want, got)
}

type verifier struct {
	f    *os.File
	want string
	hash hash.Hash
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.f.Read(p)
	v.hash.Write(p[:n])
	if err == io.EOF {
		if got := hexDigest(v.hash); got != v.want {
			return n, mismatch(v.want, got, v.f.Name())
		}
	}
	return n, err
}

func (v *verifier) Close() error { return v.f.Close() }

func hexDigest(h hash.Hash) string {
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// openRegular opens a regular file without following a link in its last
// component and without ever waiting for the other end of a FIFO.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
