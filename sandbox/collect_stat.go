package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openDirFlags open a folder and never anything else: no link, no waiting.
const openDirFlags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// stat is what is needed of unix.Stat_t, whose field types differ between
// systems.
type stat struct {
	mode       uint32
	size       int64
	dev, ino   uint64
	nlink      uint64
	mtime      int64 // seconds
	mtimeNanos int64
}

func newStat(st *unix.Stat_t) stat {
	return stat{
		mode: uint32(st.Mode), size: st.Size, dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink),
		mtime: int64(st.Mtim.Sec), mtimeNanos: int64(st.Mtim.Nsec),
	}
}

// statAt describes one name in an open folder, a link itself and not its
// target.
func statAt(dir *os.File, name string) (stat, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stat{}, err
	}
	return newStat(&st), nil
}

func statOf(f *os.File) (stat, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stat{}, err
	}
	return newStat(&st), nil
}

func (s stat) isDir() bool         { return s.mode&unix.S_IFMT == unix.S_IFDIR }
func (s stat) isRegular() bool     { return s.mode&unix.S_IFMT == unix.S_IFREG }
func (s stat) special() uint32     { return s.mode & (unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX) }
func (s stat) permissions() uint32 { return s.mode & 0o7777 }

// same says that two looks saw the same thing.
func (s stat) same(o stat) bool {
	return s.dev == o.dev && s.ino == o.ino && s.mode == o.mode && (s.isDir() || s.nlink == o.nlink)
}

// unchanged says that a file was not written to between two looks.
func (s stat) unchanged(o stat) bool {
	return s.same(o) && s.size == o.size && s.mtime == o.mtime && s.mtimeNanos == o.mtimeNanos
}

// word is the type for a message.
func (s stat) word() string {
	if s.isDir() {
		return "folder"
	}
	return "file"
}

// refusal is the reason and the description of what is neither file nor
// folder.
func (s stat) refusal() (reason, what string) {
	switch s.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return RefusedLink, "it is a symbolic link; only real files and folders cross"
	case unix.S_IFIFO:
		return RefusedFIFO, "it is a FIFO"
	case unix.S_IFSOCK:
		return RefusedSocket, "it is a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return RefusedDevice, "it is a device"
	}
	return RefusedNotRegular, fmt.Sprintf("it has the file type %#o", s.mode&unix.S_IFMT)
}

// openDirAt opens a folder by one name, or again by ".".
func openDirAt(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, openDirFlags)
}

// openFileAt opens what statAt said is a regular file.
func openFileAt(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
}

// openAt opens one component and so needs no trust in any path.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|flags, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
