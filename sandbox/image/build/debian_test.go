package build

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mirror makes a repository of small packages, as a file of apt sources, and
// returns them with their hashes.
func mirror(t *testing.T, packages ...Package) (sourcesFile string, out []Package) {
	t.Helper()
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("this machine has no " + program + ": it is no Debian")
		}
	}
	dir := t.TempDir()
	var index strings.Builder
	for _, p := range packages {
		tree := filepath.Join(dir, "tree-"+p.Name)
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nEssential: yes\nMaintainer: nobody <nobody@example.org>\nDescription: for a test\n", p.Name, p.Version, p.Architecture)
		file := filepath.Join(dir, p.file())
		if err := errors.Join(os.MkdirAll(filepath.Join(tree, "DEBIAN"), 0o755), os.WriteFile(filepath.Join(tree, "DEBIAN/control"), []byte(control), 0o644)); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("dpkg-deb", "--build", tree, file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		sum, err := hashFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %s\n\n", control, p.file(), info.Size(), sum)
		p.SHA256 = sum
		out = append(out, p)
	}
	sourcesFile = filepath.Join(dir, "sources")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "Packages"), []byte(index.String()), 0o644),
		os.WriteFile(sourcesFile, []byte("deb [trusted=yes] copy:"+dir+" ./\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return sourcesFile, out
}

// What a mirror has is resolved and fetched; what it has no more is named, all of
// it, with what to do; and what is in the cache needs no mirror.
func TestFetch(t *testing.T) {
	file, have := mirror(t, Package{Name: "one", Version: "1:1.0-2", Architecture: "amd64"}, Package{Name: "two", Version: "2.0", Architecture: "all"})
	cache := filepath.Join(t.TempDir(), "debian")
	way := func() *apt { return &apt{dir: t.TempDir(), sources: file, suite: "trixie"} }
	list, err := way().resolve(t.Context(), nil)
	if err != nil || len(list) != 2 || list[0].Version != "1:1.0-2" || list[1].Architecture != "all" {
		t.Fatalf("%v: %+v", err, list)
	}
	got, err := way().fetch(t.Context(), list, cache, "")
	if err != nil || !slices.Equal(got, have) {
		t.Fatalf("%v: %+v, not %+v", err, got, have)
	}
	if _, err := (&apt{dir: t.TempDir(), sources: "/nonexistent"}).fetch(t.Context(), got, cache, ""); err != nil {
		t.Errorf("from the cache: %v", err)
	}
	// Bytes in the cache that went bad are not used.
	bad := filepath.Join(cache, have[0].SHA256+".deb")
	if err := os.WriteFile(bad, []byte("bad"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := way().fetch(t.Context(), got, cache, ""); err != nil || !holds(bad, have[0].SHA256) {
		t.Errorf("a bad file in the cache: %v", err)
	}

	old := slices.Clone(have)
	old[0].Version, old[0].SHA256 = "1:1.0-1", strings.Repeat("1", 64)
	old = append(old, Package{Name: "three", Version: "3", Architecture: "all", SHA256: strings.Repeat("3", 64)})
	_, err = way().fetch(t.Context(), old, cache, "")
	want := "image build: the mirror has moved on from the lock: one 1:1.0-1 is gone, there is 1:1.0-2; three 3 is gone, in every version; " +
		"--lock FILE --update-lock writes a lock of your own from what there is now"
	if _, moved := errors.AsType[*MovedError](err); !moved || err.Error() != want {
		t.Errorf("got %v", err)
	}
	other := slices.Clone(have)
	other[1].SHA256 = strings.Repeat("2", 64)
	_, err = way().fetch(t.Context(), other, cache, "my.lock")
	want = "image build: the mirror has moved on from the lock: two 2.0 has the hash " + have[1].SHA256 + ", and the lock " + other[1].SHA256 + "; --update-lock rewrites my.lock from what there is now"
	if _, moved := errors.AsType[*MovedError](err); !moved || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(cache, "download-*")); err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
	if _, err := way().resolve(t.Context(), []string{"nosuch"}); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("a package that is not there: %v", err)
	}
}

func TestInstalled(t *testing.T) {
	l := Lock{Packages: []Package{{Name: "one", Version: "1"}, {Name: "two", Version: "2"}}}
	for status, want := range map[string]string{
		"Package: one\nVersion: 1\n\nPackage: two\nStatus: install ok installed\nVersion: 2\n": "",
		"Package: one\nVersion: 1\n":                                                       `the lock names two 2, and the base has ""`,
		"Package: one\nVersion: 2\n\nPackage: two\nVersion: 2\n":                           `the lock names one 1, and the base has "2"`,
		"Package: one\nVersion: 1\n\nPackage: two\nVersion: 2\n\nPackage: x\nVersion: 3\n": "the base has x 3, which the lock does not name",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "var/lib/dpkg/status")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(status), 0o644)); err != nil {
			t.Fatal(err)
		}
		err := installed(dir, l)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// The base keeps what a worker may read, and nothing of the machine or the hour.
func TestUnpack(t *testing.T) {
	kept := []string{"etc", "etc/passwd", "usr", "usr/share", "usr/share/doc", "usr/share/doc/a", "usr/share/doc/a/copyright", "var", "var/log", "tmp"}
	gone := []string{"dev/null", "etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/passwd-", "etc/apt/sources.list", "usr/share/doc/a/changelog.gz",
		"usr/share/doc/a/examples/copyright", "usr/share/man/man1/x.1.gz", "var/log/dpkg.log", "var/cache/ldconfig/aux-cache", "var/lib/dpkg/status-old", "tmp/x"}
	for _, name := range kept {
		if dropped(name) {
			t.Errorf("%s is dropped", name)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "base.tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	write := func(h tar.Header) {
		t.Helper()
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(slices.Clone(gone), kept...) {
		h := tar.Header{Name: "./" + name, Typeflag: tar.TypeReg, Mode: 0o640}
		switch {
		case name == "dev/null":
			h.Typeflag = tar.TypeChar
		case name == "tmp":
			h.Typeflag, h.Mode = tar.TypeDir, 0o1777
		case filepath.Ext(name) == "" && name != "usr/share/doc/a/copyright" && name != "etc/passwd" && slices.Contains(kept, name):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		write(h)
	}
	write(tar.Header{Name: "./etc/group", Typeflag: tar.TypeLink, Linkname: "./etc/passwd"})
	write(tar.Header{Name: "./bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"})
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if err := unpack(file, out); err != nil {
		t.Fatal(err)
	}
	var got []string
	err = fs.WalkDir(os.DirFS(out), ".", func(name string, _ fs.DirEntry, err error) error {
		if name != "." {
			got = append(got, name)
		}
		return err
	})
	want := append(slices.Clone(kept), "etc/group", "bin")
	slices.Sort(want)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: there are %v", err, got)
	}
	info, err := os.Stat(filepath.Join(out, "tmp"))
	if err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("tmp: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(out, "etc/passwd")); err != nil || info.Mode() != 0o640 {
		t.Errorf("etc/passwd: %v, %v", info.Mode(), err)
	}
}

// A tar cannot write outside of its folder, and an unknown entry is no part of an
// image.
func TestUnpackHostile(t *testing.T) {
	for what, h := range map[string][]tar.Header{
		"above":        {{Name: "../x", Typeflag: tar.TypeReg}},
		"through link": {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, {Name: "a/foundry-escaped", Typeflag: tar.TypeReg}},
		"fifo":         {{Name: "f", Typeflag: tar.TypeFifo}},
	} {
		file := filepath.Join(t.TempDir(), "x.tar")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(f)
		for i := range h {
			if err := w.WriteHeader(&h[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := unpack(file, filepath.Join(t.TempDir(), "out")); err == nil {
			t.Errorf("%s: it was unpacked", what)
		}
	}
	if _, err := os.Lstat("/tmp/foundry-escaped"); err == nil {
		t.Error("it wrote outside")
	}
}
