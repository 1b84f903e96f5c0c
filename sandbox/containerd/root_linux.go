package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"
)

// roots are the root file systems of a runtime: for each image and set of
// mount points one view, which nothing can write to and all attempts share.
type roots struct {
	mu   sync.Mutex
	made map[string]string // what it holds → key of the view
}

// rootView returns the key of the view of a container's root, made the first
// time.
func (c *container) rootView(ctx context.Context) (string, error) {
	layers, err := c.image.image.RootFS(ctx)
	if err != nil {
		return "", err
	}
	parent := identity.ChainID(layers).String()
	h := sha256.New()
	fmt.Fprintln(h, c.image.snapshotter, parent, strings.HasPrefix(c.task.Process.Argv[0], "{foundry}"))
	for _, m := range c.spec.Mounts {
		fmt.Fprintf(h, "%q\n", m.Destination)
	}
	holds := hex.EncodeToString(h.Sum(nil)[:8])

	r := &c.rt.roots
	r.mu.Lock()
	defer r.mu.Unlock()
	if key, ok := r.made[holds]; ok {
		return key, nil
	}
	key := "root-" + c.rt.owner + "-" + holds
	if err := c.makeRoot(ctx, key, parent); err != nil {
		return "", err
	}
	if r.made == nil {
		r.made = map[string]string{}
	}
	r.made[holds] = key
	return key, nil
}

// makeRoot makes the places of the mounts on top of the image: the container's
// own root has no right to make them.
func (c *container) makeRoot(ctx context.Context, key, parent string) (err error) {
	service := c.rt.client.SnapshotService(c.image.snapshotter)
	ours := snapshots.WithLabels(map[string]string{ownerLabel: c.rt.owner})
	making, base := key+"-making", key+"-base"
	mounts, err := service.Prepare(ctx, making, parent, ours)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			for _, k := range []string{making, base} {
				err = errors.Join(err, ignoreNotFound(service.Remove(ctx, k)))
			}
		}
	}()
	folder := filepath.Join(c.rt.own, rootDir)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if err := mount.All(mounts, folder); err != nil {
		return err
	}
	err = errors.Join(c.mountPoints(folder), unmount(folder), os.Remove(folder))
	if err != nil {
		return err
	}
	if err := service.Commit(ctx, base, making, ours); err != nil {
		return err
	}
	_, err = service.View(ctx, key, base, ours)
	return err
}

// removeRoots removes the root file systems that owners made who are gone, and
// counts them.
func removeRoots(ctx context.Context, c *client.Client, gone func(owner string) bool) (int, error) {
	var errs []error
	count := 0
	for _, name := range snapshotters {
		service := c.SnapshotService(name)
		var keys []string
		err := service.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
			if owner := info.Labels[ownerLabel]; owner != "" && gone(owner) {
				keys = append(keys, info.Name)
			}
			return nil
		})
		if err != nil {
			if !errdefs.IsNotFound(err) && !errdefs.IsNotImplemented(err) {
				errs = append(errs, fmt.Errorf("sandbox: listing the snapshots of %s: %w", name, err))
			}
			continue
		}
		count += len(keys)
		// A child before its parent: a pass removes what has no child.
		for range 3 {
			left := keys[:0:0]
			for _, k := range keys {
				if err := ignoreNotFound(service.Remove(ctx, k)); errdefs.IsFailedPrecondition(err) {
					left = append(left, k)
				} else if err != nil {
					errs = append(errs, fmt.Errorf("sandbox: removing the snapshot %s: %w", k, err))
				}
			}
			keys = left
		}
		for _, k := range keys {
			errs = append(errs, fmt.Errorf("sandbox: the snapshot %s is in use", k))
		}
	}
	return count, errors.Join(errs...)
}

// snapshotters are those that this runtime uses, the better one first:
// overlayfs needs a base that is no overlay itself; native copies, and works
// everywhere.
var snapshotters = []string{"overlayfs", "native"}
