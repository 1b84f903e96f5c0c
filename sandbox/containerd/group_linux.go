package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	sandboxapi "github.com/containerd/containerd/api/runtime/sandbox/v1"
	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/errdefs"
	"github.com/containerd/ttrpc"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// group is the shim that the containers of one runtime share, where the daemon
// is ours: containerd's sandbox API groups them. Starting one for each
// container would cost more than the container.
type group struct {
	id   string
	box  client.Sandbox
	conn *ttrpc.Client
	// tasks asks the shim itself: how a process ends is known whatever becomes
	// of the daemon.
	tasks taskapi.TTRPCTaskService
	lost  chan struct{} // closed when the shim is gone
}

// groupPrefix begins the id of every group; the owner and a count follow.
const groupPrefix = "shim-"

// groups hands out the group of a runtime, and a new one when its shim died.
type groups struct {
	mu      sync.Mutex
	now     *group
	count   int
	retired []string // ids of those whose shim died
}

// group returns the runtime's group; nil with a system daemon, whose shims are
// its own.
func (r *Runtime) group(ctx context.Context) (*group, error) {
	if r.embedded == nil {
		return nil, nil
	}
	r.groups.mu.Lock()
	defer r.groups.mu.Unlock()
	if g := r.groups.now; g != nil {
		select {
		case <-g.lost:
			r.groups.retired = append(r.groups.retired, g.id)
			r.groups.now = nil
		default:
			return g, nil
		}
	}
	r.groups.count++
	g, err := r.newGroup(ctx, fmt.Sprintf("%s%s-%d", groupPrefix, r.owner, r.groups.count))
	if err != nil {
		return nil, fmt.Errorf("sandbox: starting the shim of the containers: %w", err)
	}
	r.groups.now = g
	return g, nil
}

func (r *Runtime) newGroup(ctx context.Context, id string) (g *group, err error) {
	box, err := r.client.NewSandbox(ctx, id,
		client.WithSandboxRuntime(r.embedded.layout.shim(), &r.runc),
		client.WithSandboxSpec(&specs.Spec{Version: "1.0.2"}),
		client.WithSandboxLabels(map[string]string{ownerLabel: r.owner}),
	)
	if err != nil {
		return nil, errors.Join(err, removeGroup(ctx, r.client, &r.embedded.layout, id))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeGroup(ctx, r.client, &r.embedded.layout, id))
		}
	}()
	if err := box.Start(ctx); err != nil {
		return nil, err
	}
	socket, err := r.embedded.layout.shimSocket(id)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	g = &group{id: id, box: box, lost: make(chan struct{})}
	g.conn = ttrpc.NewClient(conn, ttrpc.WithOnClose(func() { close(g.lost) }))
	g.tasks = taskapi.NewTTRPCTaskClient(g.conn)
	return g, nil
}

// shimSocket is where a shim of our own daemon listens: the daemon keeps that
// to find it again, and its API does not tell it.
func (l layout) shimSocket(id string) (string, error) {
	b, err := os.ReadFile(filepath.Join(l.bundle(shimBundles, id), "bootstrap.json"))
	if err != nil {
		return "", err
	}
	var boot struct{ Address string }
	if err := json.Unmarshal(b, &boot); err != nil {
		return "", err
	}
	socket, ok := strings.CutPrefix(boot.Address, "unix://")
	if !ok {
		return "", fmt.Errorf("its address is %q", boot.Address)
	}
	return socket, nil
}

// wait waits for the end of a container's process.
func (g *group) wait(ctx context.Context, id string) (*taskapi.WaitResponse, error) {
	return g.tasks.Wait(namespaces.WithNamespace(ctx, namespace), &taskapi.WaitRequest{ID: id})
}

// close ends the shims of a runtime, whose containers are gone.
func (r *Runtime) closeGroups(ctx context.Context) error {
	r.groups.mu.Lock()
	defer r.groups.mu.Unlock()
	ids := r.groups.retired
	if g := r.groups.now; g != nil {
		ids = append(ids, g.id)
		defer g.conn.Close()
	}
	r.groups.now, r.groups.retired = nil, nil
	var errs []error
	for _, id := range ids {
		errs = append(errs, removeGroup(ctx, r.client, &r.embedded.layout, id))
	}
	return errors.Join(errs...)
}

// removeGroup ends a shim and removes what the daemon knows of it, and what it
// forgot of one that was killed.
func removeGroup(ctx context.Context, c *client.Client, l *layout, id string) error {
	err := c.SandboxController("shim").Shutdown(ctx, id)
	if err != nil && !errdefs.IsNotFound(err) && !dropped(err) {
		return fmt.Errorf("sandbox: ending the shim %s: %w", id, err)
	}
	if err := ignoreNotFound(c.SandboxStore().Delete(ctx, id)); err != nil {
		return fmt.Errorf("sandbox: removing the record of the shim %s: %w", id, err)
	}
	return l.removeBundle(shimBundles, id)
}

// Plugins that keep a folder for each shim and each task.
const (
	shimBundles = "io.containerd.sandbox.controller.v1.shim"
	taskBundles = "io.containerd.runtime.v2.task"
)

// bundle is the folder that a plugin keeps for an id.
func (l layout) bundle(plugin, id string) string {
	return filepath.Join(l.config().State, plugin, namespace, id)
}

// removeBundle removes what a daemon or a shim that was killed did not get to
// remove.
func (l layout) removeBundle(plugin, id string) error {
	folder := l.bundle(plugin, id)
	if err := unmount(filepath.Join(folder, "rootfs")); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(folder), os.RemoveAll(filepath.Join(l.root(), plugin, namespace, id)))
}

// endShims kills the shims of owners that are gone, and removes their sockets.
// One whose daemon died while it started has no record in any daemon.
func (l layout) endShims(ctx context.Context, gone func(owner string) bool) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it ended
		}
		args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		id := after(args, "-id")
		owner, ours := groupOwner(id)
		if !ours || after(args, "-address") != l.socket() || !gone(owner) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err == nil {
			err = unix.Kill(pid, unix.SIGKILL)
		}
		if err == nil || errors.Is(err, unix.ESRCH) {
			err = poll(ctx, func() (bool, error) { // nobody reaps it, perhaps; it does nothing any more
				b, err := os.ReadFile(f)
				return err != nil || len(b) == 0, nil
			})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sandbox: ending the shim %s: %w", id, err))
		}
		errs = append(errs, ignoreAbsent(os.Remove(l.shimAddress(id))))
	}
	return errors.Join(append(errs, l.removeSockets())...)
}

// shimAddress is the socket that a shim of ours makes: containerd names it by
// the daemon and the id.
func (l layout) shimAddress(id string) string {
	sum := sha256.Sum256([]byte(filepath.Join(l.socket(), namespace, id)))
	return filepath.Join(l.sockets(), hex.EncodeToString(sum[:]))
}

// removeSockets removes the sockets of shims that nobody listens on.
func (l layout) removeSockets() error {
	entries, err := os.ReadDir(l.sockets())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		file := filepath.Join(l.sockets(), e.Name())
		info, err := e.Info()
		if err != nil || info.Mode().Type() != os.ModeSocket || time.Since(info.ModTime()) < socketAge {
			continue
		}
		c, err := net.Dial("unix", file)
		if err == nil {
			c.Close()
		} else if errors.Is(err, unix.ECONNREFUSED) {
			errs = append(errs, ignoreAbsent(os.Remove(file)))
		}
	}
	return errors.Join(errs...)
}

// socketAge is the age from which on a socket that nobody listens on is dead,
// not in the making: that takes microseconds.
const socketAge = 50 * time.Millisecond

// groupOwner is the owner that the id of a group names.
func groupOwner(id string) (string, bool) {
	rest, ok := strings.CutPrefix(id, groupPrefix)
	at := strings.LastIndexByte(rest, '-')
	if !ok || at < 0 {
		return "", false
	}
	return rest[:at], true
}

// after is the argument that follows a flag.
func after(args []string, flag string) string {
	for i := 1; i < len(args); i++ {
		if args[i-1] == flag {
			return args[i]
		}
	}
	return ""
}

// dropped reports the error of a connection that the other side closed, as a
// shim does that ends.
func dropped(err error) bool {
	return errors.Is(err, ttrpc.ErrClosed) || errdefs.IsUnavailable(err) || strings.Contains(err.Error(), ttrpc.ErrClosed.Error())
}

// groupService is what the shared shim serves: containerd's own task service,
// and a sandbox that is nothing but the shim.
type groupService struct {
	taskapi.TTRPCTaskService
	stop shutdown.Service
}

// RegisterTTRPC registers both services.
func (s *groupService) RegisterTTRPC(server *ttrpc.Server) error {
	taskapi.RegisterTTRPCTaskService(server, s)
	sandboxapi.RegisterTTRPCSandboxService(server, &groupSandbox{stop: s.stop})
	return nil
}

// Shutdown does nothing: the daemon asks for it after each container, and the
// shim goes on until its sandbox ends.
func (s *groupService) Shutdown(context.Context, *taskapi.ShutdownRequest) (*types.Empty, error) {
	return &types.Empty{}, nil
}

// groupSandbox has no process and no namespace of its own.
type groupSandbox struct {
	sandboxapi.TTRPCSandboxService // nil: what is not below is never called
	stop                           shutdown.Service
}

func (s *groupSandbox) CreateSandbox(context.Context, *sandboxapi.CreateSandboxRequest) (*sandboxapi.CreateSandboxResponse, error) {
	return &sandboxapi.CreateSandboxResponse{}, nil
}

func (s *groupSandbox) StartSandbox(context.Context, *sandboxapi.StartSandboxRequest) (*sandboxapi.StartSandboxResponse, error) {
	return &sandboxapi.StartSandboxResponse{}, nil
}

func (s *groupSandbox) PingSandbox(context.Context, *sandboxapi.PingRequest) (*sandboxapi.PingResponse, error) {
	return &sandboxapi.PingResponse{}, nil
}

func (s *groupSandbox) StopSandbox(context.Context, *sandboxapi.StopSandboxRequest) (*sandboxapi.StopSandboxResponse, error) {
	return &sandboxapi.StopSandboxResponse{}, nil
}

// ShutdownSandbox ends the shim.
func (s *groupSandbox) ShutdownSandbox(context.Context, *sandboxapi.ShutdownSandboxRequest) (*sandboxapi.ShutdownSandboxResponse, error) {
	s.stop.Shutdown()
	return &sandboxapi.ShutdownSandboxResponse{}, nil
}
