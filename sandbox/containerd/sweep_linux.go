package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// ownerLabel names the process that a container or a lease belongs to.
const ownerLabel = "foundry.owner"

// mountPrefix begins the source of every file system that is mounted for an
// attempt; the owner, the scope of its daemon and the container's id follow.
const mountPrefix = "foundry:"

// self names this process so that no later process has the same name: pid
// namespace, pid, start time.
func self() (string, error) {
	ns, start, err := processOf(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("sandbox: reading this process' entry in /proc: %w", err)
	}
	return fmt.Sprintf("%s-%d-%s", ns, os.Getpid(), start), nil
}

// dead reports whether the process that an owner names has ended. A process of
// another pid namespace cannot be judged and counts as alive.
func dead(owner string) bool {
	parts := strings.Split(owner, "-")
	if len(parts) != 3 {
		return false
	}
	here, _, err := processOf(os.Getpid())
	pid, errPid := strconv.Atoi(parts[1])
	if err != nil || errPid != nil || here != parts[0] {
		return false
	}
	_, start, err := processOf(pid)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || err == nil && start != parts[2]
}

func processOf(pid int) (namespace, start string, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return "", "", err
	}
	// The name in parentheses may hold anything; the 20th field after it is
	// the start time in ticks since boot.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", "", fmt.Errorf("%s/stat has %d fields", dir, len(fields))
	}
	link, err := os.Readlink(filepath.Join(dir, "ns/pid"))
	if err != nil {
		return "", "", err
	}
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]"), fields[19], nil
}

// sweep removes what belongs to owners that are gone: containers with their
// tasks and snapshots, and leases, of one daemon.
func sweep(ctx context.Context, c *client.Client, gone func(owner string) bool) error {
	var errs []error
	containers, err := c.Containers(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: listing the containers that are left: %w", err)
	}
	for _, found := range containers {
		labels, err := found.Labels(ctx)
		if err != nil {
			errs = append(errs, ignoreNotFound(err))
			continue
		}
		if owner := labels[ownerLabel]; owner != "" && gone(owner) {
			errs = append(errs, removeContainer(ctx, found))
		}
	}
	list, err := c.LeasesService().List(ctx)
	if err != nil {
		errs = append(errs, err)
	}
	for _, l := range list {
		if owner := l.Labels[ownerLabel]; owner != "" && gone(owner) {
			errs = append(errs, ignoreNotFound(c.LeasesService().Delete(ctx, l)))
		}
	}
	return errors.Join(errs...)
}

// removeContainer ends a container's task and removes all of it.
func removeContainer(ctx context.Context, ctr client.Container) error {
	task, err := ctr.Task(ctx, nil)
	switch {
	case errdefs.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("sandbox: the task of container %s: %w", ctr.ID(), err)
	default:
		ctx, cancel := context.WithTimeout(ctx, killTimeout)
		_, err := task.Delete(ctx, client.WithProcessKill)
		cancel()
		if err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("sandbox: ending the task of container %s: %w", ctr.ID(), err)
		}
	}
	if err := ignoreNotFound(ctr.Delete(ctx, client.WithSnapshotCleanup)); err != nil {
		return fmt.Errorf("sandbox: removing container %s: %w", ctr.ID(), err)
	}
	return nil
}

// unmountLeft unmounts what is gone of the file systems of all daemons on the
// machine.
func unmountLeft(gone func(owner, scope string) bool) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("sandbox: reading the mounts that are left: %w", err)
	}
	var errs []error
	for line := range strings.Lines(string(b)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(tail) < 2 {
			continue
		}
		label, ours := strings.CutPrefix(tail[1], mountPrefix)
		owner, rest, _ := strings.Cut(label, ":")
		scope, _, _ := strings.Cut(rest, ":")
		if !ours || !gone(owner, scope) {
			continue
		}
		errs = append(errs, unmount(unescape(fields[4])))
	}
	return errors.Join(errs...)
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// unmount unmounts a folder; one that is no mount is fine. What is busy for a
// moment after the last process died is tried again before it is detached.
func unmount(folder string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := unix.Unmount(folder, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EBUSY):
			return fmt.Errorf("sandbox: unmounting %s: %w", folder, err)
		}
		if wait > 200*time.Millisecond {
			if err := unix.Unmount(folder, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("sandbox: unmounting %s: %w", folder, err)
			}
			return nil
		}
		time.Sleep(wait)
	}
}

func ignoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
