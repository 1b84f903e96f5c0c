package sandbox

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// chmodDir changes the mode of a folder that cannot be opened for reading.
// Linux before 6.6 has no chmod that refuses a link, so it goes by a
// descriptor of the folder itself.
func chmodDir(parent int, name string, mode uint32) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}

// openDirHere opens a folder by one name, neither through a link nor into a
// mount: what a forgotten bind mount shows belongs to somebody else.
func openDirHere(parent int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return unix.Openat(parent, name, flags, 0) // before Linux 5.6, or filtered
	}
	return fd, err
}
