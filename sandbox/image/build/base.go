package build

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// mergedHook is mmdebstrap's own: it makes /bin and /lib links into /usr before
// the first package comes.
const mergedHook = "/usr/share/mmdebstrap/hooks/merged-usr"

// base makes the root file system of the packages of a lock, and nothing else,
// without the network.
func (b *builder) base(ctx context.Context, l Lock, names []string, to string) error {
	repo := filepath.Join(b.dir, "repo")
	if err := b.repository(ctx, l, repo); err != nil {
		return err
	}
	if _, err := os.Stat(mergedHook); err != nil {
		return fmt.Errorf("image build: mmdebstrap of this machine lacks its hook for merged /usr, which came with 1.3: %w", err)
	}
	temp := filepath.Join(b.dir, "mmdebstrap")
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	mode := "unshare"
	if os.Geteuid() == 0 {
		mode = "root"
	}
	file := filepath.Join(b.dir, "base.tar")
	c := command{
		dir: b.dir,
		env: []string{"SOURCE_DATE_EPOCH=0", "TMPDIR=" + temp},
		argv: []string{"mmdebstrap", "--quiet", "--mode=" + mode, "--variant=essential", "--architectures=" + l.Architecture,
			"--include=" + strings.Join(names, ","), "--hook-dir=" + mergedHook, `--aptopt=APT::Sandbox::User "root"`,
			l.Suite, file, "deb [trusted=yes] copy:" + repo + " ./"},
	}
	if _, err := c.run(ctx); err != nil {
		return err
	}
	if err := unpack(file, to); err != nil {
		return fmt.Errorf("image build: the base: %w", err)
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	if err := installed(to, l); err != nil {
		return err
	}
	// Debian calls it fdfind.
	return os.Symlink("../../bin/fdfind", filepath.Join(to, "usr/local/bin/fd"))
}

// repository makes a repository of the packages of a lock.
func (b *builder) repository(ctx context.Context, l Lock, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var index bytes.Buffer
	for _, p := range l.Packages {
		name := p.Name + "_" + p.Architecture + ".deb"
		file := filepath.Join(dir, name)
		if err := copyFile(filepath.Join(b.debs, p.SHA256+".deb"), file, 0o644); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		control, err := command{dir: dir, argv: []string{"dpkg-deb", "--field", file}}.run(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(&index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %s\n\n", bytes.TrimSpace(control), name, info.Size(), p.SHA256)
	}
	packages := filepath.Join(dir, "Packages")
	if err := os.WriteFile(packages, index.Bytes(), 0o644); err != nil {
		return err
	}
	sum, err := hashFile(packages)
	if err != nil {
		return err
	}
	release := fmt.Sprintf("Origin: foundry\nSuite: %s\nCodename: %s\nArchitectures: %s\nSHA256:\n %s %d Packages\n", l.Suite, l.Suite, l.Architecture, sum, index.Len())
	return os.WriteFile(filepath.Join(dir, "Release"), []byte(release), 0o644)
}

// dropped is what the base does without: what the machine or the hour of the
// build left in it, and what no worker reads.
func dropped(name string) bool {
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "boot", "etc/apt", "var/cache", "var/log", "var/lib/apt", "var/backups",
		"usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian"} {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	if strings.HasPrefix(name, "usr/share/doc/") {
		below := strings.Count(name, "/") - 3 // a package's folder
		return below > 1 || below == 1 && path.Base(name) != "copyright"
	}
	return slices.Contains([]string{"etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-"}, name) ||
		strings.HasPrefix(name, "var/lib/dpkg/") && (strings.HasSuffix(name, "-old") || strings.HasPrefix(path.Base(name), "lock"))
}

// unpack unpacks a tar into a new folder, without devices and what is dropped.
func unpack(file, to string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(bufio.NewReaderSize(f, 1<<20))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if name == "." || dropped(name) {
			continue
		}
		if err := unpackEntry(root, h, name, r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func unpackEntry(root *os.Root, h *tar.Header, name string, content io.Reader) error {
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if h.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		return root.Chmod(name, mode)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(path.Clean(h.Linkname), name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Chmod(mode), f.Close())
	}
	return fmt.Errorf("an entry of the type %q has no place in an image", h.Typeflag)
}

// installed compares what dpkg says is there with the lock.
func installed(dir string, l Lock) error {
	b, err := os.ReadFile(filepath.Join(dir, "var/lib/dpkg/status"))
	if err != nil {
		return fmt.Errorf("image build: the base: %w", err)
	}
	have := map[string]string{}
	for stanza := range strings.SplitSeq(string(b), "\n\n") {
		var name, version string
		for line := range strings.Lines(stanza) {
			if v, ok := strings.CutPrefix(line, "Package: "); ok {
				name = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "Version: "); ok {
				version = strings.TrimSpace(v)
			}
		}
		if name != "" {
			have[name] = version
		}
	}
	for _, p := range l.Packages {
		if have[p.Name] != p.Version {
			return fmt.Errorf("image build: the lock names %s %s, and the base has %q: it was written for another set of packages; --update-lock rewrites it", p.Name, p.Version, have[p.Name])
		}
		delete(have, p.Name)
	}
	for name, version := range have {
		return fmt.Errorf("image build: the base has %s %s, which the lock does not name", name, version)
	}
	return nil
}

// copyFile copies a file to a new one.
func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
