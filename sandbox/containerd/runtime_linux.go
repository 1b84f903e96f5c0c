package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"foundry/plan"
	"foundry/sandbox"

	"github.com/containerd/containerd/api/types/runc/options"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/leases"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

const (
	killTimeout  = 20 * time.Second // for a SIGKILL to end a container; it takes milliseconds
	closeTimeout = 60 * time.Second // for one attempt to be removed
)

// Runtime runs tasks in containers. It is safe for concurrent use.
type Runtime struct {
	client   *client.Client
	embedded *embedded // nil with a system daemon
	owner    string
	scope    string // of the daemon, in the names of mounts
	lease    string // holds the images of this runtime

	own      string // folder of this owner's, for named pipes
	runtime  string // of containers, as containerd calls it: a name, or a path
	runc     options.Options
	versions map[string]string
	host     hostFeatures
	seccomp  *specs.LinuxSeccomp

	sweeper  *sweeper
	images   imageCache
	roots    roots
	groups   groups
	removals removals

	mu     sync.Mutex
	open   map[string]*container // by id
	closed bool
}

var _ sandbox.Runtime = (*Runtime)(nil)

// hostFeatures is what the kernel gives.
type hostFeatures struct {
	userNamespace, cgroupNamespace, swapLimit bool
	openFiles                                 uint64
	cgroups                                   cgroupTree
}

// New connects to the daemon that the options name, or starts the embedded
// one. An *Unavailable error says what the machine lacks.
func New(ctx context.Context, o Options) (*Runtime, error) {
	if os.Geteuid() != 0 {
		return nil, &Unavailable{Need: "they need root", Fix: "run as root, or use --sandbox local"}
	}
	runc, err := findRunc(o.RuncPath)
	if err != nil {
		return nil, err
	}
	owner, err := newOwner()
	if err != nil {
		return nil, err
	}
	r := &Runtime{owner: owner, host: features(), open: map[string]*container{}}
	sweeper := &sweeper{gone: dead, unmounts: deadMount, cgroups: r.host.cgroups, owners: systemOwners}
	if o.Address != "" {
		r.runtime, r.scope = shimType, "system"
		if o.RuncPath != "" {
			r.runc.BinaryName = runc
		}
		address := strings.TrimPrefix(o.Address, "unix://")
		if r.client, err = dial(ctx, address); err != nil {
			return nil, &Unavailable{
				Need: "no containerd answers at " + address,
				Fix:  "start it, or leave the address out to use the embedded one",
				Err:  err,
			}
		}
	} else {
		if !filepath.IsAbs(o.Base) {
			return nil, fmt.Errorf("sandbox: the folder of the embedded containerd must be absolute, not %q", o.Base)
		}
		l := layoutOf(filepath.Clean(o.Base))
		if r.embedded, r.client, err = connect(ctx, l); err != nil {
			return nil, err
		}
		r.runtime, r.scope = idleRuntime(l), l.scope()
		r.runc.BinaryName, r.runc.Root = runc, l.runc()
		sweeper = l.sweeper(nil, dead, deadMount)
	}
	sweeper.client, r.own = r.client, filepath.Join(sweeper.owners, owner)
	r.sweeper = sweeper
	if err := r.begin(ctx, runc); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// begin does what needs the daemon: versions, what dead processes left, a
// lease.
func (r *Runtime) begin(ctx context.Context, runc string) error {
	v, err := r.client.Version(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: asking containerd for its version: %w", err)
	}
	r.versions = map[string]string{"containerd": v.Version, "runc": runcVersion(ctx, runc)}
	if r.embedded != nil {
		r.versions["containerd"] += " (embedded)"
	}
	// A profile is a function of the capabilities alone, and there are none.
	r.seccomp = seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if _, err := r.sweeper.sweep(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.own, 0o700); err != nil {
		return fmt.Errorf("sandbox: making the folder of the pipes: %w", err)
	}
	r.removals.start(r)
	l, err := r.client.LeasesService().Create(ctx, leases.WithRandomID(), leases.WithLabel(ownerLabel, r.owner))
	if err != nil {
		return fmt.Errorf("sandbox: making a lease: %w", err)
	}
	r.lease = l.ID
	return nil
}

// Mode is plan.SandboxContainer.
func (r *Runtime) Mode() string { return plan.SandboxContainer }

// Close ends the attempts that are still open and leaves the daemon; the
// embedded one ends with its last user.
func (r *Runtime) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	left := make([]*container, 0, len(r.open))
	for _, c := range r.open {
		left = append(left, c)
	}
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, c := range left {
		errs = append(errs, c.Close(ctx))
	}
	errs = append(errs, r.removals.finish())
	if r.client != nil && r.lease != "" {
		errs = append(errs, r.daemon(ctx), r.closeGroups(ctx))
		_, err := removeRoots(ctx, r.client, func(owner string) bool { return owner == r.owner })
		errs = append(errs, err, ignoreNotFound(r.client.LeasesService().Delete(ctx, leases.Lease{ID: r.lease}, leases.SynchronousDelete)))
	}
	if r.own != "" {
		errs = append(errs, removeOwner(r.own))
	}
	errs = append(errs, r.client.Close())
	if r.embedded != nil {
		errs = append(errs, r.embedded.leave())
	}
	return errors.Join(errs...)
}

// daemon makes sure that the embedded daemon runs: one that was killed is
// started again, and finds the containers that it had.
func (r *Runtime) daemon(ctx context.Context) error {
	if r.embedded == nil {
		return nil
	}
	running, err := r.embedded.running()
	if running || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	fresh, err := r.embedded.reach(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: the embedded containerd ended, and cannot be started again: %w", err)
	}
	fresh.Close()
	conn, _ := r.client.Conn().(interface{ ResetConnectBackoff() })
	return poll(ctx, func() (bool, error) {
		if conn != nil {
			conn.ResetConnectBackoff() // it would wait for a second and more
		}
		_, err := r.client.Version(ctx)
		return err == nil, nil
	})
}

// whileDaemonLives is a context that ends with the embedded daemon.
func (r *Runtime) whileDaemonLives(ctx context.Context) (context.Context, func()) {
	if r.embedded == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			if running, err := r.embedded.running(); err == nil && !running {
				cancel(errors.New("sandbox: the embedded containerd ended"))
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// idleRuntime is what a container of the shared shim names as its runtime.
// Where the shim is shared, containerd starts that program for one thing alone:
// to clean up after a container whose shim it lost or left, which this package
// does itself, by the kernel's own lists. So it is the program that does
// nothing; the shim, of many megabytes, would take longer than the container.
func idleRuntime(l layout) string {
	for _, idle := range []string{"/bin/true", "/usr/bin/true"} {
		if info, err := os.Stat(idle); err == nil && info.Mode().IsRegular() {
			return idle
		}
	}
	return l.shim()
}

// systemOwners holds the folders of the owners that use the system's daemon.
const systemOwners = "/run/foundry-system"

func deadMount(owner, _ string) bool { return dead(owner) }

// runcVersion is what the runtime says of itself, "unknown" when it says
// nothing.
func runcVersion(ctx context.Context, runc string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, runc, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	if _, v, ok := strings.Cut(first, " version "); ok && err == nil {
		return strings.TrimSpace(v)
	}
	return "unknown"
}

func features() hostFeatures {
	h := hostFeatures{cgroups: findCgroups(), openFiles: sandbox.DefaultOpenFiles}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		h.openFiles = min(h.openFiles, files.Max) // more may need a capability that we lack
	}
	if b, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err == nil {
		h.userNamespace = strings.TrimSpace(string(b)) != "0"
	}
	_, err := os.Stat("/proc/self/ns/cgroup")
	h.cgroupNamespace = err == nil
	h.swapLimit = h.cgroups.countsSwap()
	return h
}
