package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/cmd/containerd/server"
	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/version"
	"golang.org/x/sys/unix"

	// The plugins of the embedded daemon: what our calls need, and no CRI.
	_ "github.com/containerd/containerd/v2/core/runtime/v2"
	_ "github.com/containerd/containerd/v2/plugins/content/local/plugin"
	_ "github.com/containerd/containerd/v2/plugins/diff/walking/plugin"
	_ "github.com/containerd/containerd/v2/plugins/events"
	_ "github.com/containerd/containerd/v2/plugins/gc"
	_ "github.com/containerd/containerd/v2/plugins/leases"
	_ "github.com/containerd/containerd/v2/plugins/metadata"
	_ "github.com/containerd/containerd/v2/plugins/mount"
	_ "github.com/containerd/containerd/v2/plugins/sandbox"
	_ "github.com/containerd/containerd/v2/plugins/server/grpc"
	_ "github.com/containerd/containerd/v2/plugins/server/ttrpc"
	_ "github.com/containerd/containerd/v2/plugins/services/containers"
	_ "github.com/containerd/containerd/v2/plugins/services/content"
	_ "github.com/containerd/containerd/v2/plugins/services/diff"
	_ "github.com/containerd/containerd/v2/plugins/services/events"
	_ "github.com/containerd/containerd/v2/plugins/services/healthcheck"
	_ "github.com/containerd/containerd/v2/plugins/services/images"
	_ "github.com/containerd/containerd/v2/plugins/services/introspection"
	_ "github.com/containerd/containerd/v2/plugins/services/leases"
	_ "github.com/containerd/containerd/v2/plugins/services/namespaces"
	_ "github.com/containerd/containerd/v2/plugins/services/sandbox"
	_ "github.com/containerd/containerd/v2/plugins/services/snapshots"
	_ "github.com/containerd/containerd/v2/plugins/services/tasks"
	_ "github.com/containerd/containerd/v2/plugins/services/version"
	_ "github.com/containerd/containerd/v2/plugins/services/warning"
	_ "github.com/containerd/containerd/v2/plugins/snapshots/native/plugin"
	_ "github.com/containerd/containerd/v2/plugins/snapshots/overlay/plugin"
)

// layout is where an embedded daemon keeps its things. What is kept from one
// run to the next is below base. State is in a short path under /run: socket
// paths are limited to 108 bytes, and a container's root is entered as a user
// that may not pass a private folder above base. A link there stands for base:
// the options of an overlay cannot hold a comma or a colon.
type layout struct {
	base, state string
}

func layoutOf(base string) layout {
	sum := sha256.Sum256([]byte(base))
	return layout{base: base, state: "/run/foundry-" + hex.EncodeToString(sum[:6])}
}

func (l layout) kept() string    { return filepath.Join(l.base, "containerd") }
func (l layout) root() string    { return filepath.Join(l.state, "r") }
func (l layout) scope() string   { return filepath.Base(l.state) }
func (l layout) log() string     { return filepath.Join(l.base, "daemon.log") }
func (l layout) shim() string    { return filepath.Join(l.base, "bin", shimName) }
func (l layout) users() string   { return filepath.Join(l.base, "users.lock") }
func (l layout) lock() string    { return filepath.Join(l.base, "daemon.lock") }
func (l layout) socket() string  { return filepath.Join(l.state, "c.sock") }
func (l layout) sockets() string { return filepath.Join(l.state, "s") }
func (l layout) runc() string    { return filepath.Join(l.state, "runc") }
func (l layout) owners() string  { return filepath.Join(l.state, "f") }
func (l layout) sweep() string   { return filepath.Join(l.base, "sweep.lock") }

func (l layout) config() *config.Config {
	return &config.Config{
		Version: version.ConfigVersion,
		Root:    l.root(),
		State:   filepath.Join(l.state, "d"),
		TempDir: filepath.Join(l.base, "tmp"),
		Plugins: map[string]any{
			"io.containerd.server.v1.grpc":   map[string]any{"address": l.socket()},
			"io.containerd.server.v1.ttrpc":  map[string]any{"address": l.socket() + ".ttrpc"},
			"io.containerd.shim.v1.manager":  map[string]any{"env": []string{shimEnv}, "socket_dir": l.sockets()},
			"io.containerd.metadata.v1.bolt": map[string]any{"no_sync": true}, // it can all be made again
		},
	}
}

// lockFD is the descriptor that a daemon inherits the lock of its base on. The
// lock is held for as long as the process lives.
const lockFD = 3

// runDaemon is the embedded daemon. It ends when no process uses its base any
// more, whatever ended them: each holds a shared lock on the users file, and
// the daemon waits for an exclusive one.
func runDaemon(args []string) error {
	if len(args) != 1 || !filepath.IsAbs(args[0]) {
		return errors.New("it takes one absolute folder, and is started by foundry alone")
	}
	l := layoutOf(args[0])
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	syscall.CloseOnExec(lockFD) // a shim that outlives the daemon must not hold its lock
	if err := prepareState(l); err != nil {
		return err
	}
	ctx := context.Background()
	cfg := l.config()
	if err := server.CreateTopLevelDirectories(cfg); err != nil {
		return err
	}
	temp := filepath.Join(l.root(), "tmpmounts")
	if err := mount.SetTempMountLocation(temp); err != nil {
		return err
	}
	if _, err := mount.CleanupTempMounts(0); err != nil {
		return err
	}
	s, err := server.New(ctx, cfg)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	s.Wait()

	users, err := os.OpenFile(l.users(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// Closed at the very end: a file that nothing refers to any more is closed by
	// the garbage collector, and its lock goes with it.
	defer users.Close()
	if err := flock(users, unix.LOCK_EX); err != nil {
		return err
	}
	// Nobody is left, and nobody new gets in before this process has ended.
	err = l.sweepAll()
	s.Stop()
	return errors.Join(err, os.RemoveAll(l.state))
}

// prepareState makes the folders of a daemon and points the shim at this
// program.
func prepareState(l layout) error {
	if err := os.MkdirAll(filepath.Dir(l.shim()), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(l.state, 0o711); err != nil {
		return err
	}
	if err := os.Chmod(l.state, 0o711); err != nil { // whatever the umask
		return err
	}
	if err := os.MkdirAll(l.kept(), 0o700); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return errors.Join(link(l.kept(), l.root()), link(self, l.shim()))
}

// link makes or replaces a link.
func link(to, at string) error {
	next := at + ".new"
	_ = os.Remove(next)
	if err := os.Symlink(to, next); err != nil {
		return err
	}
	return os.Rename(next, at)
}

// sweepAll ends what users that died left behind.
func (l layout) sweepAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := dial(ctx, l.socket())
	if err != nil {
		return err
	}
	defer c.Close()
	// The mounts of other daemons are none of ours.
	_, err = l.sweeper(c, func(string) bool { return true }, func(_, scope string) bool { return scope == l.scope() }).sweep(ctx)
	return err
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
				return fmt.Errorf("locking %s: %w", f.Name(), err)
			}
			return err
		}
	}
}
