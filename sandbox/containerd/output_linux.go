package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxTmpfsOutput is the largest output folder in memory, whose pages count
// against the container's memory limit. A larger one is a file system in a
// sparse file.
const maxTmpfsOutput = 64 << 20

// label names what is mounted for an attempt: the owner, the scope of its
// daemon, the container.
func (c *container) label() string {
	return mountPrefix + c.rt.owner + ":" + c.rt.scope + ":" + c.id
}

// outputFolder mounts the bounded file system that is the output folder.
func (c *container) outputFolder(ctx context.Context) error {
	bytes, files := c.task.OutputBytes, c.task.OutputFiles+folderAllowance
	if bytes > maxTmpfsOutput {
		err := c.loopFS(ctx, bytes, files)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// Bounded all the same, at the price of memory; the record says so.
		c.applied.noLoop = err.Error()
		if bytes >= c.task.Sandbox.Resources.MemoryBytes {
			return fmt.Errorf("sandbox: an output folder of %d bytes does not fit into the memory limit of %d bytes, and a file system on disk cannot be made: %w; install e2fsprogs, give the machine loop devices, or bound the output lower", bytes, c.task.Sandbox.Resources.MemoryBytes, err)
		}
	}
	return c.tmpfs(outDir, bytes, files, unix.MS_NOEXEC)
}

// loopFS mounts an ext4 on a sparse file that has no name any more once it is
// mounted: the disk is free as soon as the mount is gone, whatever dies.
func (c *container) loopFS(ctx context.Context, bytes, inodes int64) error {
	mkfs, err := findTool("mkfs.ext4")
	if err != nil {
		return err
	}
	folder, file := filepath.Join(c.dir, outDir), filepath.Join(c.dir, imageFile)
	image, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("making the file of the output: %w", err)
	}
	defer image.Close()
	defer os.Remove(file)
	const block = 4096
	// Beside the content: the inodes of 256 bytes, and one part in 32 and some
	// blocks for bitmaps, tables and folders. What is usable is read back.
	size := bytes + inodes*256 + bytes/32 + 256*block
	size += (block - size%block) % block
	if err := image.Truncate(size); err != nil {
		return fmt.Errorf("making the file of the output: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	uid := c.worker()
	cmd := exec.CommandContext(ctx, mkfs, "-q", "-F", "-b", fmt.Sprint(block), "-m", "0", "-N", fmt.Sprint(inodes),
		"-O", "^has_journal,^resize_inode", "-E", fmt.Sprintf("nodiscard,lazy_itable_init=1,root_owner=%d:%d", uid, uid), file)
	cmd.Env = append(daemonEnv(), "MKE2FS_CONFIG=/dev/null") // what the machine prefers is not asked
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, strings.TrimSpace(string(out)))
	}
	loop, err := attach(image, c.rt.owner, c.rt.scope)
	if err != nil {
		return err
	}
	defer loop.Close() // autoclear: it lives as long as the mount
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(loop.Name(), folder, "ext4", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_NOATIME, ""); err != nil {
		return errors.Join(fmt.Errorf("mounting the output: %w", err), os.Remove(folder))
	}
	// Its owner is the worker, who shall find an empty folder.
	err = errors.Join(os.Chmod(folder, 0o700), ignoreAbsent(os.Remove(filepath.Join(folder, "lost+found"))))
	if err != nil {
		return errors.Join(err, unmount(folder), os.Remove(folder))
	}
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// findTool finds a program of the system's by its usual places: PATH may lack
// sbin.
func findTool(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"} {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s was not found", name)
}

// attach makes a loop device of a file. It is labelled, and clears itself when
// its last user is gone.
func attach(image *os.File, owner, scope string) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], mountPrefix+owner+":"+scope)
	for range 100 { // somebody else may take a free one first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("asking for a loop device: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("setting up %s: %w", loop.Name(), err)
		}
	}
	return nil, errors.New("every loop device is taken")
}

// labelOf is the label of a mount's source: itself, or that of a loop device,
// which has no room for the container.
func labelOf(source string) string {
	if !strings.HasPrefix(source, "/dev/loop") {
		return source
	}
	loop, err := os.Open(source)
	if err != nil {
		return ""
	}
	defer loop.Close()
	info, err := unix.IoctlLoopGetStatus64(int(loop.Fd()))
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.File_name[:]) + ":"
}
