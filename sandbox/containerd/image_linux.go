package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/image"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/opencontainers/image-spec/identity"
)

// imagePrefix begins the name of every builtin image; the program's digest
// follows.
const imagePrefix = "foundry.local/builtin:"

// imageCache remembers the images that were made or found.
type imageCache struct {
	mu     sync.Mutex
	made   map[fileID]*readyImage
	stored map[string]*readyImage // by the digest that they were asked for
	hashes map[fileID]string      // digests of executables
}

// fileID is a file in a state: when the bytes change, so does it.
type fileID struct {
	dev, inode  uint64
	size, mtime int64
}

// readyImage is an image that is unpacked.
type readyImage struct {
	image        client.Image
	snapshotter  string
	program      string // digests
	manifest     string
	config       string
	index        string // of the multi-platform index, "" for none
	repositories []string
	labels       map[string]string // of its config
	mount        string            // the program on the host, where the image does not hold it
}

// imageOf returns the image of a task.
func (r *Runtime) imageOf(ctx context.Context, t sandbox.Task) (*readyImage, error) {
	if t.Sandbox.Image == plan.ImageBuiltin {
		return r.builtin(ctx, t.Executable)
	}
	return r.imported(ctx, t)
}

// builtin returns the image of an executable, made and unpacked the first
// time.
func (r *Runtime) builtin(ctx context.Context, executable string) (*readyImage, error) {
	id, err := identify(executable)
	if err != nil {
		return nil, err
	}
	r.images.mu.Lock()
	defer r.images.mu.Unlock()
	if ready, ok := r.images.made[id]; ok {
		return ready, nil
	}
	made, err := image.Builtin(executable, runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	ready, err := r.install(leases.WithLease(ctx, r.lease), made)
	if err != nil {
		return nil, fmt.Errorf("sandbox: putting the builtin image into containerd: %w", err)
	}
	if r.images.made == nil {
		r.images.made = map[fileID]*readyImage{}
	}
	r.images.made[id] = ready
	return ready, nil
}

func identify(file string) (fileID, error) {
	info, err := os.Stat(file)
	if err != nil {
		return fileID{}, fmt.Errorf("sandbox: this program: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, errors.New("sandbox: this program: its inode cannot be told")
	}
	return fileID{dev: uint64(st.Dev), inode: st.Ino, size: info.Size(), mtime: info.ModTime().UnixNano()}, nil
}

// install writes an image's blobs, names it, and unpacks it. The context holds
// the runtime's lease, so that nothing of it is collected while it lives.
func (r *Runtime) install(ctx context.Context, made *image.Image) (*readyImage, error) {
	write := func(b image.Blob, labels map[string]string) error {
		return r.writeBlob(ctx, b.Desc, bytes.NewReader(b.Bytes), labels)
	}
	for _, b := range []image.Blob{made.Layer, made.Config} {
		if err := write(b, nil); err != nil {
			return nil, err
		}
	}
	if err := write(made.Manifest, map[string]string{
		"containerd.io/gc.ref.content.config": made.Config.Desc.Digest.String(),
		"containerd.io/gc.ref.content.l.0":    made.Layer.Desc.Digest.String(),
	}); err != nil {
		return nil, err
	}
	name := imagePrefix + made.Program.Encoded()
	record := images.Image{Name: name, Target: made.Manifest.Desc}
	if err := r.dropOld(ctx, name); err != nil {
		return nil, err
	}
	if err := r.setImage(ctx, record); err != nil {
		return nil, err
	}
	ready := &readyImage{
		image:    client.NewImage(r.client, record),
		program:  made.Program.String(),
		manifest: made.Manifest.Desc.Digest.String(),
		config:   made.Config.Desc.Digest.String(),
	}
	return ready, r.unpack(ctx, ready)
}

// unpack unpacks an image unless it is, and holds it for as long as this
// runtime lives.
func (r *Runtime) unpack(ctx context.Context, ready *readyImage) error {
	var errs []error
	for _, snapshotter := range snapshotters {
		if err := ready.image.Unpack(ctx, snapshotter); err != nil {
			errs = append(errs, fmt.Errorf("unpacking with %s: %w", snapshotter, err))
			continue
		}
		ready.snapshotter = snapshotter
		return r.hold(ctx, ready)
	}
	return errors.Join(errs...)
}

// hold puts the image under the runtime's lease by name: what was there before
// is not by itself.
func (r *Runtime) hold(ctx context.Context, ready *readyImage) error {
	layers, err := ready.image.RootFS(ctx)
	if err != nil {
		return err
	}
	top := leases.Resource{
		ID:   identity.ChainID(layers).String(),
		Type: "snapshots/" + ready.snapshotter,
	}
	manifest := leases.Resource{ID: ready.manifest, Type: "content"} // which refers to the rest
	for _, res := range []leases.Resource{top, manifest} {
		if err := r.client.LeasesService().AddResource(ctx, leases.Lease{ID: r.lease}, res); err != nil {
			return fmt.Errorf("holding %s %s: %w", res.Type, res.ID, err)
		}
	}
	return nil
}

// dropOld removes the builtin images of other programs, which are older builds
// of this one. One that is in use is held by the lease of its user.
func (r *Runtime) dropOld(ctx context.Context, keep string) error {
	all, err := r.client.ImageService().List(ctx)
	if err != nil {
		return err
	}
	for _, i := range all {
		if strings.HasPrefix(i.Name, imagePrefix) && i.Name != keep {
			if err := ignoreNotFound(r.client.ImageService().Delete(ctx, i.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}
