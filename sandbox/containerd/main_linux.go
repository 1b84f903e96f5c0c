package containerd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
)

const (
	shimName   = "containerd-shim-runc-v2" // as containerd calls it, and as argv[0] says
	shimType   = "io.containerd.runc.v2"
	shimEnv    = "FOUNDRY_ROLE=shim" // in the environment of the shims of an embedded daemon
	daemonName = "foundry-containerd"
)

// Main runs this process as the embedded daemon or as the shim of a container
// when it was started as one, and does not return then. Otherwise it returns
// false at once. Call it before anything else, flags included.
func Main() (handled bool) {
	switch {
	case isShim():
		runShim()
	case filepath.Base(os.Args[0]) == daemonName:
		if err := runDaemon(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "foundry: the embedded containerd failed:", err)
			os.Exit(1)
		}
	default:
		return false
	}
	os.Exit(0)
	return true
}

// isShim knows the shim by its name, which containerd calls it by, or by the
// environment of the embedded daemon: the shim starts itself a second time
// under the name of the executable.
func isShim() bool {
	if filepath.Base(os.Args[0]) == shimName {
		return true
	}
	return os.Getenv("FOUNDRY_ROLE") == "shim" && len(os.Args) > 1 && os.Args[1] == "-namespace"
}

// runShim is the shim as containerd ships it, with a sandbox service that makes
// one of all containers of a runtime. The plugins of the daemon, which are in
// this program too, are dropped: a shim loads what is registered.
func runShim() {
	registry.Reset()
	registry.Register(&plugin.Registration{
		Type:     plugins.TTRPCPlugin,
		ID:       "task",
		Requires: []plugin.Type{plugins.EventPlugin, plugins.InternalPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			publisher, err := ic.GetByID(plugins.EventPlugin, "publisher")
			if err != nil {
				return nil, err
			}
			stop, err := ic.GetByID(plugins.InternalPlugin, "shutdown")
			if err != nil {
				return nil, err
			}
			tasks, err := task.NewTaskService(ic.Context, publisher.(shim.Publisher), stop.(shutdown.Service))
			if err != nil {
				return nil, err
			}
			return &groupService{TTRPCTaskService: tasks, stop: stop.(shutdown.Service)}, nil
		},
	})
	shim.RunShim(context.Background(), manager.NewShimManager(shimType))
}
