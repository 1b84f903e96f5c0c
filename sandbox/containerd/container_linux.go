package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"foundry/plan"
	"foundry/sandbox"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// container is one attempt in its container.
type container struct {
	rt    *Runtime
	task  sandbox.Task
	id    string
	dir   string
	image *readyImage

	spec     *specs.Spec
	specJSON json.RawMessage
	group    *group // nil with a system daemon
	ctr      client.Container
	ctrTask  client.Task
	io       *streams
	applied  applied // what was read back from the kernel

	mu       sync.Mutex // of what follows
	started  time.Time
	exit     sandbox.Exit
	exitErr  error
	killed   bool
	measured sandbox.Measured // after the kill
	closed   bool
	closing  sync.Mutex // one Close at a time

	done chan struct{} // closed when the process has ended and its output was handed on
}

// Expand replaces tokens by paths in the container.
func (c *container) Expand(s string) (string, error) {
	return plan.Expand(s, c.task.ContainerLookup())
}

// Lost reports that the shim of a prepared container is gone.
func (c *container) Lost() bool {
	if c.group == nil {
		return false // a system daemon looks after its shims
	}
	select {
	case <-c.group.lost:
		return true
	default:
		return false
	}
}

// Start starts the process that Prepare made.
func (c *container) Start(ctx context.Context, stdio sandbox.Stdio) error {
	c.mu.Lock()
	if c.killed || c.closed || !c.started.IsZero() {
		c.mu.Unlock()
		return errors.New("sandbox: the attempt was started, killed or closed before")
	}
	c.started = time.Now()
	c.mu.Unlock()
	// Waiting goes on whatever becomes of the caller: a cancelled wait would
	// look like an exit code.
	lasting := context.WithoutCancel(ctx)
	exited, err := c.exits(lasting)
	if err != nil {
		close(c.done)
		return fmt.Errorf("sandbox: waiting for the task: %w", err)
	}
	c.io.connect(stdio, func() {
		// Without this the process would never see the end of its input. It
		// fails when the process has ended, which is fine.
		ctx, cancel := context.WithTimeout(lasting, killTimeout)
		defer cancel()
		_ = c.ctrTask.CloseIO(ctx, client.WithStdinCloser)
	})
	go c.watch(exited)
	if err := c.ctrTask.Start(ctx); err != nil {
		return fmt.Errorf("sandbox: starting the process: %w", err)
	}
	// What held before the start holds now, or the attempt ends here.
	if err := c.checkLimits(); err != nil {
		return errors.Join(err, c.Kill(lasting))
	}
	return nil
}

// ended is how a process came to its end.
type ended struct {
	code int
	at   time.Time
	err  error // nobody can tell
}

// exits asks for the end of the process: the shim, or a system daemon.
func (c *container) exits(ctx context.Context) (<-chan ended, error) {
	told := make(chan ended, 1)
	if c.group != nil {
		go func() {
			r, err := c.group.wait(ctx, c.id)
			told <- ended{int(r.GetExitStatus()), r.GetExitedAt().AsTime(), err}
		}()
		return told, nil
	}
	exited, err := c.ctrTask.Wait(ctx)
	if err != nil {
		return nil, err
	}
	go func() {
		status := <-exited
		code, at, err := status.Result()
		told <- ended{int(code), at, err}
	}()
	return told, nil
}

// watch takes the exit, then the rest of the output: pipes outlive a process.
func (c *container) watch(exited <-chan ended) {
	defer close(c.done)
	end := <-exited
	if end.err != nil {
		c.mu.Lock()
		c.exitErr = fmt.Errorf("sandbox: containerd lost the process: %w", end.err)
		c.mu.Unlock()
		return
	}
	kills := c.rt.host.cgroups.oomKills(c.cgroup())
	c.io.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exit = sandbox.Exit{Code: end.code, Signal: signalOf(end.code), OOM: kills != nil && *kills > 0, Started: c.started, Ended: end.at}
	c.exitErr = c.io.err()
}

// signalOf names the signal that ended a process. The shim tells it as 128 +
// signal alone, which a process can also give as its code.
func signalOf(code int) string {
	if code <= 128 {
		return ""
	}
	return unix.SignalName(syscall.Signal(code - 128))
}

// Wait returns when the process has ended and its output was handed on.
func (c *container) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit, c.exitErr
}

// cgroupOf names the cgroup of a container, as its spec does.
func cgroupOf(id string) string { return "foundry-" + id }

func (c *container) cgroup() string { return cgroupOf(c.id) }

// Kill kills every process of the container's cgroup, looks whether it is
// empty, and takes the kernel's counts.
func (c *container) Kill(ctx context.Context) error {
	c.mu.Lock()
	c.killed = true
	c.mu.Unlock()
	if c.ctrTask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	if err := c.rt.host.cgroups.kill(ctx, c.cgroup()); err != nil {
		pids, _ := c.rt.host.cgroups.pids(c.cgroup())
		return fmt.Errorf("sandbox: container %s still has the processes %v: %w", c.id, pids, err)
	}
	c.verified()
	return nil
}

// verified notes that everything is dead and what it used; the first time is
// the one that counts, later the cgroup may be gone.
func (c *container) verified() {
	measured := c.rt.host.cgroups.measure(c.cgroup())
	measured.OutputBytes, measured.OutputFiles = used(filepath.Join(c.dir, outDir))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applied.verifiedDead {
		return
	}
	c.applied.verifiedDead, c.measured = true, measured
}

// used tells the bytes and inodes in use on the file system mounted at a
// folder.
func used(folder string) (bytes, files *int64) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return nil, nil
	}
	b, f := int64(fs.Blocks-fs.Bfree)*fs.Bsize, int64(fs.Files-fs.Ffree)
	return &b, &f
}

// Output is the output folder on the host.
func (c *container) Output() string { return filepath.Join(c.dir, outDir) }

// Close ends what is left of the attempt and removes all that it has on the
// host. What only the daemon knows of it is removed behind the caller's back,
// and before Runtime.Close returns.
func (c *container) Close(ctx context.Context) error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	errs := []error{c.Kill(ctx), c.drained(ctx)}
	if c.io != nil {
		_ = c.io.Close() // twice is an error, and means nothing
		errs = append(errs, os.RemoveAll(filepath.Join(c.rt.own, c.id)))
	}
	errs = append(errs, c.removeFolders())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sandbox: closing attempt %s of run %s: %w", c.task.Attempt, c.task.Run, err)
	}
	c.mu.Lock()
	c.closed = true
	if c.started.IsZero() {
		c.exitErr = errors.New("sandbox: the attempt was closed before it was started")
		close(c.done)
	}
	c.mu.Unlock()
	c.rt.removals.add(c)
	return nil
}

// drained waits until all output was handed on: closing the pipes would lose
// the rest.
func (c *container) drained(ctx context.Context) error {
	c.mu.Lock()
	started := !c.started.IsZero()
	c.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the output of container %s does not end: %w", c.id, ctx.Err())
	}
}

// remove removes what the daemon and runc know of a closed container.
func (c *container) remove(ctx context.Context) error {
	if err := c.rt.daemon(ctx); err != nil {
		return err
	}
	var errs []error
	if c.ctr != nil {
		var err error
		if c.ctrTask != nil {
			err = c.deleteTask(ctx)
		}
		if c.ctrTask == nil || err != nil {
			// A Prepare that was cut off may have left a task that it never saw.
			errs = append(errs, removeContainer(ctx, c.ctr))
		} else {
			errs = append(errs, ignoreNotFound(c.ctr.Delete(ctx)))
		}
		errs = append(errs, c.rt.sweeper.forget(c.id))
	}
	errs = append(errs, c.rt.host.cgroups.kill(ctx, c.cgroup()), c.rt.host.cgroups.remove(c.cgroup()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sandbox: removing container %s: %w", c.id, err)
	}
	return nil
}

// deleteTask deletes a task whose processes are dead.
func (c *container) deleteTask(ctx context.Context) error {
	var opts []client.ProcessDeleteOpts
	c.mu.Lock()
	if c.exitErr != nil { // not started, or lost
		opts = append(opts, client.WithProcessKill) // it costs a process, and a dead task needs it not
	}
	c.mu.Unlock()
	if _, err := c.ctrTask.Delete(ctx, opts...); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("sandbox: deleting the task of container %s: %w", c.id, err)
	}
	return nil
}

// removeFolders unmounts and removes what is below the attempt's folder.
func (c *container) removeFolders() error {
	var errs []error
	for _, name := range []string{outDir, scratchDir} {
		folder := filepath.Join(c.dir, name)
		if err := unmount(folder); err != nil {
			errs = append(errs, err)
			continue
		}
		// Not RemoveAll: what is still in a folder that was a mount is a mount
		// that did not go.
		if err := os.Remove(folder); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
