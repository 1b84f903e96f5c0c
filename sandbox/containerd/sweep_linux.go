package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// ownerLabel names the process that a container or a lease belongs to.
const ownerLabel = "foundry.owner"

// mountPrefix begins the source of every file system that is mounted for an
// attempt; the owner, the scope of its daemon and the container's id follow.
const mountPrefix = "foundry:"

// runtimes counts the runtimes of this process.
var runtimes atomic.Int64

// newOwner names a runtime of this process so that no other has the same name,
// now or later: pid namespace, pid, start time, count.
func newOwner() (string, error) {
	ns, start, err := processOf(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("sandbox: reading this process' entry in /proc: %w", err)
	}
	return fmt.Sprintf("%s-%d-%s-%d", ns, os.Getpid(), start, runtimes.Add(1)), nil
}

// dead reports whether the process that an owner names has ended. A process of
// another pid namespace cannot be judged and counts as alive.
func dead(owner string) bool {
	parts := strings.Split(owner, "-")
	if len(parts) != 4 {
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

// Swept counts what was left by processes that are gone, and is removed now.
type Swept struct {
	Containers int // with their tasks, processes and cgroups
	Shims      int
	Snapshots  int
	Leases     int
	Mounts     int
	Folders    int // of owners, with named pipes
}

// Total is the sum of all counts.
func (s Swept) Total() int {
	return s.Containers + s.Shims + s.Snapshots + s.Leases + s.Mounts + s.Folders
}

// sweeper removes what owners that are gone left in a daemon and on the
// machine. It believes no component to be alive but the daemon it asks.
type sweeper struct {
	client   *client.Client
	gone     func(owner string) bool
	unmounts func(owner, scope string) bool // which of the machine's labelled mounts go
	cgroups  cgroupTree
	own      *layout // of an embedded daemon, nil for the system's
	owners   string  // holds a folder for each owner
	swept    Swept
}

func (l layout) sweeper(c *client.Client, gone func(string) bool, unmounts func(owner, scope string) bool) *sweeper {
	return &sweeper{client: c, gone: gone, unmounts: unmounts, cgroups: findCgroups(), own: &l, owners: l.owners()}
}

// sweep goes from what uses to what is used.
func (s *sweeper) sweep(ctx context.Context) (Swept, error) {
	if s.own != nil { // one at a time
		f, err := os.OpenFile(s.own.sweep(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return Swept{}, fmt.Errorf("sandbox: cleaning up: %w", err)
		}
		defer f.Close()
		if err := flock(f, unix.LOCK_EX); err != nil {
			return Swept{}, fmt.Errorf("sandbox: cleaning up: %w", err)
		}
	}
	err := s.pass(ctx)
	// A daemon may still be at what a killed owner asked of it, and a shim may come
	// up behind the look at shims: where something was left, it is looked for until
	// nothing more comes.
	for found := 0; found != s.swept.Total() && err == nil; {
		found = s.swept.Total()
		select {
		case <-ctx.Done():
			return s.swept, ctx.Err()
		case <-time.After(lateShim):
		}
		err = s.pass(ctx)
	}
	return s.swept, err
}

// lateShim is how long a shim whose start was under way takes to come up: some
// 100 ms on a busy machine of two cores.
const lateShim = 250 * time.Millisecond

func (s *sweeper) pass(ctx context.Context) error {
	return errors.Join(s.containers(ctx), s.shims(ctx), s.roots(ctx), s.leases(ctx), s.mounts(ctx), s.folders())
}

func (s *sweeper) containers(ctx context.Context) error {
	found, err := s.client.Containers(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: listing the containers that are left: %w", err)
	}
	var errs []error
	for _, ctr := range found {
		labels, err := ctr.Labels(ctx)
		if err != nil {
			errs = append(errs, ignoreNotFound(err))
			continue
		}
		if owner := labels[ownerLabel]; owner == "" || !s.gone(owner) {
			continue
		}
		s.swept.Containers++
		errs = append(errs, s.container(ctx, ctr))
	}
	return errors.Join(errs...)
}

// container removes one container. Its processes die first, by the kernel's
// list of them: shim and runc may be gone.
func (s *sweeper) container(ctx context.Context, ctr client.Container) error {
	group := cgroupOf(ctr.ID())
	short, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	if err := s.cgroups.kill(short, group); err != nil {
		return fmt.Errorf("sandbox: ending container %s: %w", ctr.ID(), err)
	}
	if err := removeContainer(ctx, ctr); err != nil {
		return err
	}
	return errors.Join(s.forget(ctr.ID()), s.cgroups.remove(group))
}

// forget removes what runc and the daemon remember of a container that nobody
// told them the end of.
func (s *sweeper) forget(id string) error {
	if s.own == nil {
		return nil
	}
	return errors.Join(s.own.removeBundle(taskBundles, id), os.RemoveAll(filepath.Join(s.own.runc(), namespace, id)))
}

func (s *sweeper) shims(ctx context.Context) error {
	list, err := s.client.SandboxStore().List(ctx)
	if errdefs.IsNotImplemented(err) { // before containerd 1.7
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: listing the shims that are left: %w", err)
	}
	var errs []error
	for _, box := range list {
		if owner := box.Labels[ownerLabel]; s.own != nil && owner != "" && s.gone(owner) {
			s.swept.Shims++
			errs = append(errs, removeGroup(ctx, s.client, s.own, box.ID))
		}
	}
	if s.own != nil {
		errs = append(errs, s.own.endShims(ctx, s.gone))
	}
	return errors.Join(errs...)
}

func (s *sweeper) roots(ctx context.Context) error {
	n, err := removeRoots(ctx, s.client, s.gone)
	s.swept.Snapshots += n
	return err
}

func (s *sweeper) leases(ctx context.Context) error {
	list, err := s.client.LeasesService().List(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: listing the leases that are left: %w", err)
	}
	var errs []error
	for _, l := range list {
		if owner := l.Labels[ownerLabel]; owner != "" && s.gone(owner) {
			s.swept.Leases++
			errs = append(errs, ignoreNotFound(s.client.LeasesService().Delete(ctx, l, leases.SynchronousDelete)))
		}
	}
	return errors.Join(errs...)
}

func (s *sweeper) mounts(ctx context.Context) error {
	n, err := unmountLeft(s.unmounts, func(id string) error {
		if id == "" {
			return nil
		}
		// A container whose record is gone may still have a cgroup.
		short, cancel := context.WithTimeout(ctx, killTimeout)
		defer cancel()
		if err := s.cgroups.kill(short, cgroupOf(id)); err != nil {
			return err
		}
		return s.cgroups.remove(cgroupOf(id))
	})
	s.swept.Mounts += n
	return err
}

// folders removes the folders of owners: named pipes, and maybe a root in the
// making, which is unmounted first.
func (s *sweeper) folders() error {
	entries, err := os.ReadDir(s.owners)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sandbox: looking for folders that are left: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if s.gone(e.Name()) {
			s.swept.Folders++
			errs = append(errs, removeOwner(filepath.Join(s.owners, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func removeOwner(folder string) error {
	if err := unmount(filepath.Join(folder, rootDir)); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// removeContainer ends a container's task and removes both from the daemon.
func removeContainer(ctx context.Context, ctr client.Container) error {
	task, err := ctr.Task(ctx, nil)
	switch {
	case errdefs.IsNotFound(err):
	case err != nil && !dropped(err): // of a shim that is gone there is no task either
		return fmt.Errorf("sandbox: the task of container %s: %w", ctr.ID(), err)
	case err == nil:
		ctx, cancel := context.WithTimeout(ctx, killTimeout)
		_, err := task.Delete(ctx, client.WithProcessKill)
		cancel()
		if err != nil && !errdefs.IsNotFound(err) && !dropped(err) {
			return fmt.Errorf("sandbox: ending the task of container %s: %w", ctr.ID(), err)
		}
	}
	if err := ignoreNotFound(ctr.Delete(ctx)); err != nil {
		return fmt.Errorf("sandbox: removing container %s: %w", ctr.ID(), err)
	}
	return nil
}

// unmountLeft unmounts what is gone of the file systems of all daemons on the
// machine, removes the empty folder that each was mounted at, and tells the
// container that it was for.
func unmountLeft(gone func(owner, scope string) bool, each func(id string) error) (int, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, fmt.Errorf("sandbox: reading the mounts that are left: %w", err)
	}
	var errs []error
	count := 0
	for line := range strings.Lines(string(b)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(tail) < 2 {
			continue
		}
		label, ours := strings.CutPrefix(labelOf(unescape(tail[1])), mountPrefix)
		parts := strings.SplitN(label, ":", 3)
		if !ours || len(parts) != 3 || !gone(parts[0], parts[1]) {
			continue
		}
		count++
		folder := unescape(fields[4])
		if err := errors.Join(each(parts[2]), unmount(folder)); err != nil {
			errs = append(errs, err)
			continue
		}
		_ = os.Remove(folder) // it is the run's, which may have removed it
	}
	return count, errors.Join(errs...)
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
