package containerd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/sandbox"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/cio"
	"golang.org/x/sys/unix"
)

// Labels of a container, which its spec has as annotations.
const (
	runLabel     = "foundry.run"
	attemptLabel = "foundry.attempt"
)

// rootDir is where a root file system is made, in the owner's folder.
const rootDir = "root"

// Names below Task.Dir.
const (
	outDir     = "out"
	scratchDir = "scratch"
	imageFile  = "out.img"
)

// folderAllowance is how many folders and files in the making an output folder
// may hold beside the files that are counted.
const folderAllowance = 64

// scratchInodes bounds the files of a scratch folder.
const scratchInodes = 1 << 20

// Prepare makes the container and its task, so that Start has little left to
// do. Networks that SupportedNetworks does not list are refused; an image that the
// daemon does not have, or that is not what the task needs, is an
// *sandbox.ImageMismatch.
func (r *Runtime) Prepare(ctx context.Context, t sandbox.Task) (sandbox.Sandbox, error) {
	if err := check(t); err != nil {
		return nil, err
	}
	if err := r.daemon(ctx); err != nil {
		return nil, err
	}
	c := &container{rt: r, task: t, id: containerID(t), dir: t.Dir, done: make(chan struct{})}
	if err := r.removals.settle(c.id); err != nil {
		return nil, err
	}
	r.mu.Lock()
	_, twice := r.open[c.id]
	if !twice && !r.closed {
		r.open[c.id] = c
	}
	closed := r.closed
	r.mu.Unlock()
	switch {
	case closed:
		return nil, errors.New("sandbox: the container runtime is closed")
	case twice:
		return nil, fmt.Errorf("sandbox: attempt %s of run %s is there already", t.Attempt, t.Run)
	}
	c.closing.Lock() // a runtime that is closed now waits, and removes what is made
	err := c.prepare(ctx)
	c.closing.Unlock()
	if err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)), r.removals.settle(c.id))
	}
	return c, nil
}

func check(t sandbox.Task) error {
	switch {
	case !slices.Contains(SupportedNetworks(), t.Sandbox.Network):
		return fmt.Errorf("sandbox: the network %q is not built yet for containers; supported: %s", t.Sandbox.Network, strings.Join(SupportedNetworks(), ", "))
	case (t.Sandbox.Network == plan.NetworkProvider) != (t.BrokerSocket != ""):
		return fmt.Errorf("sandbox: the network %q and the broker's socket %q do not go together", t.Sandbox.Network, t.BrokerSocket)
	case t.BrokerSocket != "" && !filepath.IsAbs(t.BrokerSocket):
		return fmt.Errorf("sandbox: the broker's socket %q is not absolute", t.BrokerSocket)
	case !plan.ValidImage(t.Sandbox.Image):
		return fmt.Errorf("sandbox: the image %q is neither builtin nor NAME@sha256:…", t.Sandbox.Image)
	case !filepath.IsAbs(t.Dir) || !filepath.IsAbs(t.Executable):
		return fmt.Errorf("sandbox: the attempt's folder %q and the program %q must be absolute", t.Dir, t.Executable)
	case t.OutputBytes <= 0 || t.OutputFiles <= 0:
		return fmt.Errorf("sandbox: the output folder has no bound: %d bytes, %d files", t.OutputBytes, t.OutputFiles)
	case t.Sandbox.Resources.MemoryBytes <= 0 || t.Sandbox.Resources.PIDs <= 0 || t.Sandbox.Resources.CPUMillis < 10:
		return fmt.Errorf("sandbox: a resource has no bound that can be enforced (cpu takes 10 millis at least): %+v", t.Sandbox.Resources)
	case t.Run == "" || t.Attempt == "":
		return errors.New("sandbox: an attempt needs the ids of its run and of itself")
	}
	for _, m := range t.Sandbox.Mounts {
		if (m.Source == plan.MountScratch || m.Source == plan.MountTmpfs) && m.Bytes <= 0 {
			return fmt.Errorf("sandbox: the mount of %s at %s has no bound", m.Source, m.Destination)
		}
	}
	return nil
}

// containerID names an attempt in the daemon, which takes 76 bytes.
func containerID(t sandbox.Task) string {
	id := t.Run + "." + t.Attempt
	if len(id) <= 76 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return id[:76-13] + "-" + hex.EncodeToString(sum[:6])
}

func (c *container) prepare(ctx context.Context) error {
	image, err := c.readImage(ctx)
	if err != nil {
		return err
	}
	c.image = image
	sources, err := c.folders(ctx)
	if err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if s := c.task.BrokerSocket; s != "" {
		// The worker's and nobody else's: its folder keeps others away on the host.
		if err := os.Lchown(s, c.worker(), c.worker()); err != nil {
			return fmt.Errorf("sandbox: giving the broker's socket to the worker: %w", err)
		}
	}
	if err := c.makeSpec(sources); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// What the daemon has begun it does not take back: a task that was cut off
	// in the making leaves cgroups. So this goes through, and is removed.
	through, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := c.create(leases.WithLease(through, c.rt.lease)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.readBack()
}

// readImage returns the image, or the error of a daemon that ends meanwhile:
// writing content would wait for it for ever.
func (c *container) readImage(ctx context.Context) (*readyImage, error) {
	ctx, stop := c.rt.whileDaemonLives(ctx)
	defer stop()
	image, err := c.rt.imageOf(ctx, c.task)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, errors.Join(cause, err)
	}
	return image, err
}

// makeSpec makes the spec that runs and the one that is kept, where the tokens
// that are secrets stand for themselves.
func (c *container) makeSpec(sources map[string]string) error {
	h := c.rt.host
	in := sandbox.SpecInput{
		Task: c.task, ID: c.id, Sources: sources, Labels: c.labels(), Seccomp: c.rt.seccomp,
		Program:       c.image.mount,
		UserNamespace: h.userNamespace, CgroupNamespace: h.cgroupNamespace, SwapLimit: h.swapLimit, OpenFiles: h.openFiles,
	}
	var err error
	if c.spec, err = sandbox.Spec(in); err != nil {
		return err
	}
	in.Task.Tokens = maps.Clone(c.task.Tokens)
	for name := range in.Task.Tokens {
		if strings.HasSuffix(name, ".token") {
			in.Task.Tokens[name] = "{" + name + "}"
		}
	}
	kept, err := sandbox.Spec(in)
	if err != nil {
		return err
	}
	if c.specJSON, err = json.MarshalIndent(kept, "", "  "); err != nil {
		return fmt.Errorf("sandbox: encoding the spec: %w", err)
	}
	return nil
}

func (c *container) labels() map[string]string {
	return map[string]string{runLabel: c.task.Run, attemptLabel: c.task.Attempt}
}

// worker is the process' uid and gid as the host knows them.
func (c *container) worker() int {
	if c.rt.host.userNamespace {
		return sandbox.HostWorkerUID
	}
	return sandbox.WorkerUID
}

// folders makes what is bound into the container, by source.
func (c *container) folders(ctx context.Context) (map[string]string, error) {
	sources := map[string]string{}
	for source, folder := range c.task.Trees {
		if !filepath.IsAbs(folder) {
			return nil, fmt.Errorf("sandbox: the folder of %s is not absolute: %q", source, folder)
		}
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("sandbox: the folder of %s is no folder: %s: %w", source, folder, cmp.Or[error](err, unix.ENOTDIR))
		}
		sources[source] = folder
	}
	for _, m := range c.task.Sandbox.Mounts {
		var err error
		switch m.Source {
		case plan.MountOutput:
			sources[m.Source] = filepath.Join(c.dir, outDir)
			err = c.outputFolder(ctx)
		case plan.MountScratch:
			sources[m.Source] = filepath.Join(c.dir, scratchDir)
			err = c.tmpfs(scratchDir, m.Bytes, scratchInodes, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// tmpfs mounts a bounded file system of the worker's below the attempt's
// folder. Its pages count against the container's memory.
func (c *container) tmpfs(name string, bytes, inodes int64, flags uintptr) error {
	folder := filepath.Join(c.dir, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("sandbox: making the %s folder: %w", name, err)
	}
	uid := c.worker()
	data := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700,uid=%d,gid=%d", bytes, inodes, uid, uid)
	if err := unix.Mount(c.label(), folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|flags, data); err != nil {
		return fmt.Errorf("sandbox: mounting the %s folder: %w", name, err)
	}
	return nil
}

// writeFiles writes the plan's files into the fresh scratch folder.
func (c *container) writeFiles() error {
	scratch, err := c.Expand("{scratch}")
	if err != nil {
		if len(c.task.Files) == 0 {
			return nil
		}
		return fmt.Errorf("sandbox: files need a scratch folder: %w", err)
	}
	root, err := os.OpenRoot(filepath.Join(c.dir, scratchDir))
	if err != nil {
		return fmt.Errorf("sandbox: opening the scratch folder: %w", err)
	}
	defer root.Close()
	uid := c.worker()
	folders, err := sandbox.OwnFolders(c.task.Process, c.Expand, scratch)
	if err != nil {
		return err
	}
	for _, dir := range folders {
		if err := foldersFor(root, dir+"/", uid); err != nil {
			return fmt.Errorf("sandbox: making the folder %q of the scratch folder: %w", dir, err)
		}
	}
	for _, f := range c.task.Files {
		full, err := c.Expand(f.Path)
		if err != nil {
			return err
		}
		name, below := strings.CutPrefix(path.Clean(full), scratch+"/")
		if !below {
			return fmt.Errorf("sandbox: the file %q is not below {scratch}", f.Path)
		}
		content, err := c.Expand(f.Content)
		if err != nil {
			return fmt.Errorf("sandbox: the content of %q: %w", f.Path, err)
		}
		if err := writeFor(root, name, content, uid); err != nil {
			return fmt.Errorf("sandbox: writing %q: %w", f.Path, err)
		}
	}
	return nil
}

// foldersFor makes the folders that a file lies in, for a user.
func foldersFor(root *os.Root, name string, uid int) error {
	for i, b := range name {
		if b != '/' {
			continue
		}
		if err := root.Mkdir(name[:i], 0o700); errors.Is(err, os.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := root.Chown(name[:i], uid, uid); err != nil {
			return err
		}
	}
	return nil
}

// writeFor writes one file, and the folders that it lies in, for a user.
func writeFor(root *os.Root, name, content string, uid int) error {
	if err := foldersFor(root, name, uid); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Chown(uid, uid), f.Close())
}

// create makes container and task in the daemon.
func (c *container) create(ctx context.Context) error {
	root, err := c.rootView(ctx)
	if err != nil {
		return fmt.Errorf("sandbox: making the root file system: %w", err)
	}
	if c.group, err = c.rt.group(ctx); err != nil {
		return err
	}
	labels := c.labels()
	labels[ownerLabel] = c.rt.owner
	opts := []client.NewContainerOpts{
		client.WithSnapshotter(c.image.snapshotter),
		client.WithSnapshot(root),
		client.WithImageName(c.image.image.Name()),
		client.WithRuntime(c.rt.runtime, &c.rt.runc),
		client.WithContainerLabels(labels),
		client.WithSpec(c.spec),
	}
	if c.group != nil {
		opts = append(opts, client.WithSandbox(c.group.id))
	}
	made, err := c.rt.client.NewContainer(ctx, c.id, opts...)
	if err != nil {
		return fmt.Errorf("sandbox: making the container: %w", err)
	}
	c.ctr = made
	if c.io, err = newStreams(filepath.Join(c.rt.own, c.id)); err != nil {
		return fmt.Errorf("sandbox: making the pipes of the container: %w", err)
	}
	c.ctrTask, err = made.NewTask(ctx, func(string) (cio.IO, error) { return c.io, nil })
	if err != nil {
		return fmt.Errorf("sandbox: making the task: %w", err)
	}
	return nil
}
