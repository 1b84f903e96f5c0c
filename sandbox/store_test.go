package sandbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"foundry/plan"
)

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreKeepsBytes(t *testing.T) {
	s := newStore(t)
	data := bytes.Repeat([]byte("abc\x00"), 100_000)
	digest, err := s.Put(data)
	if err != nil || digest != plan.Digest(data) {
		t.Fatalf("Put = %s, %v", digest, err)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	again, n, err := s.PutFile(file)
	if err != nil || again != digest || n != int64(len(data)) {
		t.Fatalf("PutFile = %s, %d, %v", again, n, err)
	}
	got, err := s.ReadAll(digest, int64(len(data)))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("ReadAll: %v, equal %v", err, bytes.Equal(got, data))
	}
	if _, err := s.ReadAll(digest, int64(len(data))-1); err == nil {
		t.Error("ReadAll gave more than its bound")
	}
	entries, err := os.ReadDir(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "blobs index.json oci-layout" {
		t.Errorf("the store holds %s", got)
	}
	info, err := os.Stat(filepath.Join(s.Dir(), "blobs", "sha256", strings.TrimPrefix(digest, "sha256:")))
	if err != nil || info.Mode() != 0o444 {
		t.Errorf("blob mode %v, %v", info.Mode(), err)
	}
}

func TestStoreReopened(t *testing.T) {
	s := newStore(t)
	digest, err := s.Put([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(s.Dir()); err != nil {
		t.Fatal(err)
	}
	ro, err := OpenStoreReadOnly(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if !ro.Has(digest) || ro.Has(plan.Digest([]byte("y"))) {
		t.Error("Has is wrong")
	}
	if _, err := ro.Put([]byte("z")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Put into a read-only store: %v", err)
	}
	if _, _, err := ro.PutFile(filepath.Join(s.Dir(), indexFile)); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("PutFile into a read-only store: %v", err)
	}
	if _, err := OpenStoreReadOnly(t.TempDir()); err == nil {
		t.Error("an empty folder was taken for a store")
	}
	if err := os.Remove(filepath.Join(s.Dir(), layoutFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), layoutFile), []byte(`{"imageLayoutVersion":"2.0.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(s.Dir()); err == nil || !strings.Contains(err.Error(), "2.0.0") {
		t.Errorf("another layout version: %v", err)
	}
}

func TestStoreRefuses(t *testing.T) {
	s := newStore(t)
	for _, d := range []string{"", "sha256:", "sha256:../../x", "md5:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("A", 64)} {
		if _, err := s.Open(d); err == nil {
			t.Errorf("%q was opened", d)
		}
	}
	if _, err := s.Open(plan.Digest(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown digest: %v", err)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.PutFile(link); err == nil {
		t.Error("PutFile followed a link")
	}
}

func TestStoreSeesChangedBytes(t *testing.T) {
	s := newStore(t)
	digest, err := s.Put([]byte("right"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir(), "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), digest) || !strings.Contains(err.Error(), path) {
		t.Errorf("the error should name digest and path: %v", err)
	}
	if _, err := s.ReadAll(digest, 100); err == nil {
		t.Error("ReadAll gave changed bytes")
	}
	files := []plan.BundleFile{{Path: "a", Mode: plan.ModeRegular, Bytes: 5, Digest: digest}}
	dst := filepath.Join(t.TempDir(), "dst")
	if err := Materialize(t.Context(), s, files, dst); err == nil {
		t.Error("Materialize wrote changed bytes")
	}
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left of the refused tree: %v", err)
	}
}

func TestStoreConcurrentPuts(t *testing.T) {
	s := newStore(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				data := bytes.Repeat([]byte{byte(j)}, 1000+j)
				digest, err := s.Put(data)
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				if got, err := s.ReadAll(digest, 1<<20); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d/%d: %v", i, j, err)
				}
			}
		})
	}
	wg.Wait()
	blobs, err := os.ReadDir(s.blobDir())
	if err != nil || len(blobs) != 50 {
		t.Errorf("%d blobs, %v", len(blobs), err)
	}
}
