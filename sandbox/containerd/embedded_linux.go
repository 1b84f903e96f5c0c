package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"golang.org/x/sys/unix"
)

// namespace is ours in every daemon.
const namespace = "foundry"

const (
	readyTimeout = 30 * time.Second // for a daemon to answer; it takes milliseconds
	stopTimeout  = 30 * time.Second // for the embedded daemon to end after its last user
	pollInterval = 3 * time.Millisecond
)

// embedded is this process' use of the daemon of a base.
type embedded struct {
	layout layout
	users  *os.File // holds the shared lock
}

// dial connects to a daemon that must answer now.
func dial(ctx context.Context, address string) (*client.Client, error) {
	// A path without a socket is told at once; the client would retry.
	info, err := os.Stat(address)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("%s is no socket", address)
	}
	c, err := client.New(address, client.WithDefaultNamespace(namespace), client.WithTimeout(readyTimeout))
	if err != nil {
		return nil, err
	}
	if _, err := c.Version(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connect joins the users of a base and starts its daemon when there is none.
func connect(ctx context.Context, l layout) (*embedded, *client.Client, error) {
	if err := os.MkdirAll(l.base, 0o700); err != nil {
		return nil, nil, fmt.Errorf("sandbox: making the folder of the embedded containerd: %w", err)
	}
	users, err := os.OpenFile(l.users(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: opening the lock of the embedded containerd: %w", err)
	}
	e := &embedded{layout: l, users: users}
	c, err := e.join(ctx)
	if err != nil {
		users.Close()
		return nil, nil, err
	}
	return e, c, nil
}

func (e *embedded) join(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	// A daemon that is ending holds the lock of the users until it is gone.
	if err := poll(ctx, func() (bool, error) { return tryLock(e.users, unix.LOCK_SH) }); err != nil {
		return nil, fmt.Errorf("sandbox: the embedded containerd of %s is ending, and does not come to its end: %w", e.layout.base, err)
	}
	return e.reach(ctx)
}

// running reports whether the base has a daemon; it holds its lock for as long
// as it lives.
func (e *embedded) running() (bool, error) {
	lock, err := os.OpenFile(e.layout.lock(), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	free, err := tryLock(lock, unix.LOCK_SH)
	return !free, err
}

// reach connects to the daemon, started unless one runs.
func (e *embedded) reach(ctx context.Context) (*client.Client, error) {
	var c *client.Client
	var ended chan error // of a daemon that this process started
	var last error
	err := poll(ctx, func() (bool, error) {
		select {
		case err := <-ended:
			return false, fmt.Errorf("it ended (%v) while starting: %s", err, tail(e.layout.log()))
		default:
		}
		if ended == nil {
			started, err := e.start()
			if err != nil {
				return false, err
			}
			ended = started // nil when another process' daemon runs
		}
		dialed, err := dial(ctx, e.layout.socket())
		if err != nil {
			last = err
			return false, nil
		}
		c = dialed
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("sandbox: the embedded containerd of %s could not be reached: %w", e.layout.base, errors.Join(err, last))
	}
	return c, nil
}

// start starts the daemon unless one runs, which holds its lock; it returns nil
// then.
func (e *embedded) start() (chan error, error) {
	lock, err := os.OpenFile(e.layout.lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // the daemon holds it on by its own descriptor
	if free, err := tryLock(lock, unix.LOCK_EX); err != nil || !free {
		return nil, err
	}
	// Nothing of an earlier daemon may be taken for the new one.
	_ = os.Remove(e.layout.socket())
	log, err := os.OpenFile(e.layout.log(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := &exec.Cmd{
		// The file may be gone already, as after "go run".
		Path:        "/proc/self/exe",
		Args:        []string{daemonName, e.layout.base},
		Env:         daemonEnv(),
		Dir:         "/",
		Stdout:      log,
		Stderr:      log,
		ExtraFiles:  []*os.File{lock},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting it: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// daemonEnv is all that a daemon, and through it each shim and runc, gets of
// this process' environment: no credential goes there.
func daemonEnv() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

// leave ends this process' use. The last one waits until the daemon is gone.
func (e *embedded) leave() error {
	defer e.users.Close()
	last, err := tryLock(e.users, unix.LOCK_EX)
	if err != nil {
		return fmt.Errorf("sandbox: leaving the embedded containerd: %w", err)
	}
	if err := flock(e.users, unix.LOCK_UN); err != nil {
		return fmt.Errorf("sandbox: leaving the embedded containerd: %w", err)
	}
	if !last {
		return nil
	}
	lock, err := os.OpenFile(e.layout.lock(), os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the base was removed
	}
	if err != nil {
		return fmt.Errorf("sandbox: leaving the embedded containerd: %w", err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err = poll(ctx, func() (bool, error) {
		gone, err := tryLock(lock, unix.LOCK_SH)
		if gone || err != nil {
			return gone, err
		}
		return e.usedByOthers()
	})
	if err != nil {
		return fmt.Errorf("sandbox: the embedded containerd of %s does not end: %w; its log is %s", e.layout.base, err, e.layout.log())
	}
	return nil
}

// usedByOthers reports whether somebody joined before the daemon, which waits
// for its last user to leave, saw that it was alone.
func (e *embedded) usedByOthers() (bool, error) {
	shared, err := tryLock(e.users, unix.LOCK_SH)
	if err != nil || !shared { // the daemon has the lock and is ending
		return false, err
	}
	alone, err := tryLock(e.users, unix.LOCK_EX)
	return !alone && err == nil, errors.Join(err, flock(e.users, unix.LOCK_UN))
}

func tryLock(f *os.File, how int) (bool, error) {
	err := flock(f, how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// poll calls try until it says true or fails, or ctx ends.
func poll(ctx context.Context, try func() (bool, error)) error {
	for {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// tail is the end of a log, for an error.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "no log: " + err.Error()
	}
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return strings.TrimSpace(string(b))
}

// findRunc returns the path of the OCI runtime.
func findRunc(path string) (string, error) {
	if path == "" {
		path = "runc"
	}
	found, err := exec.LookPath(path)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return "", &Unavailable{
			Need: "the OCI runtime runc was not found",
			Fix:  "install it (Debian and Ubuntu: apt-get install runc), or use --sandbox local",
			Err:  err,
		}
	}
	return found, nil
}
