package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Look finds what processes that ended left behind, and changes nothing. While
// no embedded daemon runs, what it alone knows is not seen: only a daemon could
// tell, and one that is started cleans up.
func Look(ctx context.Context, o Options) (Left, error) {
	l := Left{Containers: []string{}, Shims: []string{}, Leases: []string{}, Mounts: []string{}, Folders: []string{}}
	var err error
	if l.Mounts, err = deadMounts(); err != nil {
		return l, err
	}
	owners, address := systemOwners, strings.TrimPrefix(o.Address, "unix://")
	if address == "" {
		of := layoutOf(filepath.Clean(o.Base))
		owners, address = of.owners(), of.socket()
		running, err := daemonRuns(of)
		if err != nil {
			return l, err
		}
		if !running {
			address = ""
			if _, err := os.Lstat(of.state); err == nil {
				l.Folders = append(l.Folders, of.state)
			}
		}
	}
	if entries, err := os.ReadDir(owners); err == nil && (o.Address != "" || address != "") {
		for _, e := range entries {
			if dead(e.Name()) {
				l.Folders = append(l.Folders, filepath.Join(owners, e.Name()))
			}
		}
	}
	for _, state := range lostStates() {
		if !slices.Contains(l.Folders, state) {
			l.Folders = append(l.Folders, state)
		}
	}
	if address != "" {
		c, err := dial(ctx, address)
		if err != nil {
			return l, fmt.Errorf("sandbox: asking the containerd at %s: %w", address, err)
		}
		defer c.Close()
		if err := l.ask(ctx, c); err != nil {
			return l, err
		}
	}
	for _, list := range [][]string{l.Containers, l.Shims, l.Leases, l.Mounts, l.Folders} {
		slices.Sort(list)
	}
	return l, nil
}

// ask adds what a daemon knows.
func (l *Left) ask(ctx context.Context, c *client.Client) error {
	containers, err := c.Containers(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: listing the containers: %w", err)
	}
	for _, ctr := range containers {
		labels, err := ctr.Labels(ctx)
		if err = ignoreNotFound(err); err != nil {
			return err
		}
		if dead(labels[ownerLabel]) {
			l.Containers = append(l.Containers, ctr.ID())
		}
	}
	boxes, err := c.SandboxStore().List(ctx)
	if err != nil && !errdefs.IsNotImplemented(err) { // before containerd 1.7
		return fmt.Errorf("sandbox: listing the shims: %w", err)
	}
	for _, box := range boxes {
		if dead(box.Labels[ownerLabel]) {
			l.Shims = append(l.Shims, box.ID)
		}
	}
	held, err := c.LeasesService().List(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: listing the leases: %w", err)
	}
	for _, lease := range held {
		if dead(lease.Labels[ownerLabel]) {
			l.Leases = append(l.Leases, lease.ID)
		}
	}
	return nil
}

// Clean removes what processes that ended left behind in a daemon and on the
// machine, and touches nothing of a living one. The embedded daemon is started
// for it where it was ever started; else nothing was left in it.
func Clean(ctx context.Context, o Options) (Swept, error) {
	var swept Swept
	_, err := os.Stat(layoutOf(filepath.Clean(o.Base)).users())
	if o.Address != "" || err == nil {
		r, err := New(ctx, o)
		if err != nil {
			return swept, err
		}
		swept = r.sweeper.swept
		if err := r.Close(); err != nil {
			return swept, err
		}
	} else {
		groups := findCgroups()
		n, err := unmountLeft(deadMount, func(id string) error {
			if id == "" {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, killTimeout)
			defer cancel()
			return errors.Join(groups.kill(ctx, cgroupOf(id)), groups.remove(cgroupOf(id)))
		})
		swept.Mounts = n
		if err != nil {
			return swept, err
		}
	}
	var errs []error
	for _, state := range lostStates() {
		swept.Folders++
		errs = append(errs, removeLost(ctx, state))
	}
	return swept, errors.Join(errs...)
}

// daemonRuns reports whether the embedded daemon of a base runs: it holds its
// lock for as long as it lives.
func daemonRuns(l layout) (bool, error) {
	lock, err := os.OpenFile(l.lock(), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sandbox: looking for the embedded containerd: %w", err)
	}
	defer lock.Close()
	free, err := tryLock(lock, unix.LOCK_SH)
	return !free, err
}

// deadMounts are the mounts of attempts whose owner has ended, of any daemon.
func deadMounts() ([]string, error) {
	list := []string{}
	mounts, err := mounted()
	if err != nil {
		return list, err
	}
	for _, m := range mounts {
		if parts := strings.SplitN(strings.TrimPrefix(m.label, mountPrefix), ":", 3); len(parts) == 3 && strings.HasPrefix(m.label, mountPrefix) && dead(parts[0]) {
			list = append(list, m.at)
		}
	}
	return list, nil
}

// lostStates are the state folders of embedded daemons that are gone together
// with their base: nobody listens, and every process that used one has ended.
// Only a link to what is gone, which this program makes, marks one.
func lostStates() []string {
	var list []string
	states, _ := filepath.Glob("/run/foundry-*") // the pattern is ours and good
	for _, state := range states {
		l := layout{state: state}
		kept, err := os.Readlink(l.root())
		if err != nil || !filepath.IsAbs(kept) || layoutOf(filepath.Dir(kept)).state != state {
			continue
		}
		if _, err := os.Stat(filepath.Dir(kept)); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if c, err := net.Dial("unix", l.socket()); err == nil {
			c.Close()
			continue
		}
		owners, _ := os.ReadDir(l.owners()) // none was made yet
		if !slices.ContainsFunc(owners, func(e os.DirEntry) bool { return !dead(e.Name()) }) {
			list = append(list, state)
		}
	}
	return list
}

// removeLost removes a lost state: its containers, the shims that outlived
// their daemon, mounts, and the folder.
func removeLost(ctx context.Context, state string) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	var errs []error
	groups := findCgroups()
	tasks, _ := os.ReadDir(filepath.Join(state, "d/io.containerd.runtime.v2.task", namespace)) // none is fine
	for _, t := range tasks {
		errs = append(errs, groups.kill(ctx, cgroupOf(t.Name())))
	}
	for _, pid := range shimsOf(state) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("sandbox: ending the shim %d: %w", pid, err))
		}
	}
	for _, t := range tasks {
		errs = append(errs, groups.remove(cgroupOf(t.Name())))
	}
	mounts, err := mounted()
	errs = append(errs, err)
	for _, m := range slices.Backward(mounts) { // the last ones lie on the first
		if strings.HasPrefix(m.at, state+"/") {
			errs = append(errs, unmount(m.at))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err // nothing is removed through a mount
	}
	return os.RemoveAll(state)
}

// shimsOf are the processes that were started as shims of a daemon.
func shimsOf(state string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is ours and good
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(b), "\x00")
		i := slices.Index(args, "-address")
		if !slices.Contains(args, "-namespace") || i < 0 || i+1 >= len(args) || !strings.HasPrefix(args[i+1], state+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mountLine is one mount of this process' mount namespace.
type mountLine struct{ at, label string }

func mounted() ([]mountLine, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("sandbox: reading the mounts: %w", err)
	}
	var list []mountLine
	for line := range strings.Lines(string(b)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) >= 5 && len(tail) >= 2 {
			list = append(list, mountLine{at: unescape(fields[4]), label: labelOf(unescape(tail[1]))})
		}
	}
	return list, nil
}
