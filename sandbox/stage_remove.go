package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// RemoveTree removes dir and everything below it, whatever a worker put there:
// folders without permissions, any depth, any number of names. It follows no
// link, in dir or below, and holds two descriptors however deep the tree is:
// a folder found inside another is first moved up to dir. A dir that does not
// exist is no error; a mount point, there or below, is one, and on Linux
// nothing behind it is touched.
func RemoveTree(dir string) error {
	parent, name := filepath.Split(filepath.Clean(dir))
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("sandbox: cannot remove %q: it has no name of its own", dir)
	}
	if parent == "" {
		parent = "."
	}
	p, err := os.Open(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: cannot remove %s: %w", dir, err)
	}
	defer p.Close()
	if err := removeAt(int(p.Fd()), name); err != nil {
		return fmt.Errorf("sandbox: cannot remove %s: %w", dir, err)
	}
	return nil
}

func removeAt(parent int, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.Unlinkat(parent, name, 0)
	}
	if unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) == nil {
		return nil // most are empty
	}
	top, err := openDirForRemoval(parent, name)
	if err != nil {
		return err
	}
	defer top.Close()
	r := remover{top: int(top.Fd())}
	for {
		// Names may appear out of order while others go: read until none is left.
		n, err := r.empty(top, "")
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		}
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

type remover struct {
	top  int // descriptor of the tree's root
	next int // number of the next folder that moves up
}

// empty removes the entries of an open folder, moves those that are non-empty
// folders up to the root, and returns how many entries it saw. path is for
// messages.
func (r *remover) empty(dir *os.File, path string) (int, error) {
	fd := int(dir.Fd())
	seen := 0
	for {
		names, err := dir.Readdirnames(1024)
		seen += len(names)
		for _, name := range names {
			if err := r.remove(fd, name); err != nil {
				return seen, fmt.Errorf("%q: %w", filepath.Join(path, name), err)
			}
		}
		if err == io.EOF {
			return seen, nil
		}
		if err != nil {
			return seen, err
		}
	}
}

func (r *remover) remove(fd int, name string) error {
	err := unix.Unlinkat(fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	if unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) == nil {
		return nil
	}
	sub, err := openDirForRemoval(fd, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if fd != r.top {
		return r.lift(fd, name)
	}
	if _, err := r.empty(sub, name); err != nil {
		return err
	}
	// What is not empty yet is seen again in the root's next round.
	if err := unix.Unlinkat(fd, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// lift moves a folder to the root under a name that is free.
func (r *remover) lift(fd int, name string) error {
	for range 1 << 20 {
		r.next++
		err := unix.Renameat(fd, name, r.top, ".lifted-"+strconv.Itoa(r.next))
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		return err
	}
	return unix.EEXIST
}

// openDirForRemoval opens a folder and makes its entries removable.
func openDirForRemoval(parent int, name string) (*os.File, error) {
	fd, err := openDirHere(parent, name)
	if errors.Is(err, unix.EACCES) {
		if err := chmodDir(parent, name, 0o700); err != nil {
			return nil, err
		}
		fd, err = openDirHere(parent, name)
	}
	if err != nil {
		return nil, err
	}
	// Root removes whatever the mode is; for others an error shows up below.
	_ = unix.Fchmod(fd, 0o700)
	return os.NewFile(uintptr(fd), name), nil
}
