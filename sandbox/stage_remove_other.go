//go:build unix && !linux

package sandbox

import "golang.org/x/sys/unix"

// chmodDir changes the mode of a folder that cannot be opened for reading.
func chmodDir(parent int, name string, mode uint32) error {
	return unix.Fchmodat(parent, name, mode, unix.AT_SYMLINK_NOFOLLOW)
}

// openDirHere opens a folder by one name, not through a link.
func openDirHere(parent int, name string) (int, error) {
	return unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
