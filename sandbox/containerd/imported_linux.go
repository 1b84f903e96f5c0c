package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/image"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxDocument bounds an index, a manifest or a config in bytes.
const maxDocument = image.MaxDocumentBytes

// imported returns an image of the daemon's by digest: the name in front of it
// decides nothing. This program is bound into it.
func (r *Runtime) imported(ctx context.Context, t sandbox.Task) (*readyImage, error) {
	ref := t.Sandbox.Image
	r.images.mu.Lock()
	defer r.images.mu.Unlock()
	_, asked, _ := strings.Cut(ref, "@")
	ready, ok := r.images.stored[asked]
	if !ok {
		var err error
		if ready, err = r.find(leases.WithLease(ctx, r.lease), ref, digest.Digest(asked)); err != nil {
			return nil, err
		}
		if r.images.stored == nil {
			r.images.stored = map[string]*readyImage{}
		}
		r.images.stored[asked] = ready
	}
	if err := sandbox.CheckLabels(ref, ready.labels, t.ImageLabels); err != nil {
		return nil, err
	}
	program, err := r.program(t.Executable)
	if err != nil {
		return nil, err
	}
	used := *ready
	used.program, used.mount = program, t.Executable
	return &used, nil
}

// program is the digest of an executable that a container's user may run.
func (r *Runtime) program(executable string) (string, error) {
	id, err := identify(executable)
	if err != nil {
		return "", err
	}
	if d, ok := r.images.hashes[id]; ok {
		return d, nil
	}
	info, err := os.Stat(executable)
	if err != nil {
		return "", fmt.Errorf("sandbox: this program: %w", err)
	}
	if info.Mode().Perm()&0o005 != 0o005 {
		return "", fmt.Errorf("sandbox: a container's user may not run this program, which is bound into the image: chmod a+rx %s", executable)
	}
	f, err := os.Open(executable)
	if err != nil {
		return "", fmt.Errorf("sandbox: this program: %w", err)
	}
	defer f.Close()
	d, err := digest.FromReader(f)
	if err != nil {
		return "", fmt.Errorf("sandbox: reading this program: %w", err)
	}
	if r.images.hashes == nil {
		r.images.hashes = map[fileID]string{}
	}
	r.images.hashes[id] = d.String()
	return d.String(), nil
}

// find looks an image up by the digest of its manifest or of its index, and
// unpacks what is for this machine.
func (r *Runtime) find(ctx context.Context, ref string, asked digest.Digest) (*readyImage, error) {
	list, err := r.client.ImageService().List(ctx, "target.digest=="+asked.String(), fmt.Sprintf("labels.%q==%s", indexLabel, asked))
	if err != nil {
		return nil, fmt.Errorf("sandbox: asking containerd for the image %s: %w", ref, err)
	}
	if len(list) == 0 {
		return nil, &sandbox.ImageMismatch{Image: ref, Problem: "is not in the store of this machine's containerd",
			Fix: "import the very image that the plan was made with (`foundry image import`), or plan again with one that `foundry image ls` shows"}
	}
	s, err := r.describe(ctx, list[0])
	if err != nil {
		return nil, fmt.Errorf("sandbox: reading the image %s: %w", ref, err)
	}
	if s.Platform != image.Platform(runtime.GOARCH) {
		return nil, &sandbox.ImageMismatch{Image: ref, Problem: "is for " + s.Platform + ", and this machine is " + image.Platform(runtime.GOARCH), Fix: "import one for this machine"}
	}
	record := images.Image{Name: list[0].Name, Target: s.target}
	ready := &readyImage{image: client.NewImage(r.client, record), manifest: s.Digest, config: s.Config, labels: s.Labels, index: s.Index, repositories: s.Repositories}
	if err := r.unpack(ctx, ready); err != nil {
		return nil, fmt.Errorf("sandbox: unpacking the image %s: %w", ref, err)
	}
	return ready, nil
}

// document reads a bounded blob of the content store into v.
func (r *Runtime) document(ctx context.Context, desc v1.Descriptor, v any) error {
	at, err := r.client.ContentStore().ReaderAt(ctx, desc)
	if err != nil {
		return err
	}
	defer at.Close()
	if at.Size() > maxDocument {
		return fmt.Errorf("%s has %d bytes, more than the %d that such a document may have", desc.Digest, at.Size(), maxDocument)
	}
	b, err := io.ReadAll(content.NewReader(at))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// mountPoints makes the places of the mounts in a root file system. The image's
// own /.foundry gives way to this program's.
func (c *container) mountPoints(rootfs string) error {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, m := range c.spec.Mounts {
		name := strings.TrimPrefix(m.Destination, "/")
		switch {
		case strings.HasPrefix(m.Destination, "/dev/"): // on the tmpfs of /dev
		case m.Destination == sandbox.FoundryPath:
			if err := c.programPoint(root, name); err != nil {
				return err
			}
		case m.Destination == plan.BrokerSocketPath:
			if err := socketPoint(root, name); err != nil {
				return err
			}
		default:
			if err := root.MkdirAll(name, 0o755); err != nil {
				return &sandbox.ImageMismatch{Image: c.task.Sandbox.Image, Problem: "has something at " + m.Destination + ", where a mount belongs: " + err.Error(), Fix: "use an image with a folder or nothing there"}
			}
			if slices.Contains(m.Options, "mode=1777") {
				// runc gives a tmpfs the mode of the folder that it covers.
				if err := root.Chmod(name, os.ModeSticky|0o777); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// socketPoint makes the place of the broker's socket, beside this program's.
func socketPoint(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// programPoint makes the place of this program, whatever the image has there,
// and looks for the loader that a dynamically linked program needs.
func (c *container) programPoint(root *os.Root, name string) error {
	dir := path.Dir(name)
	if err := root.RemoveAll(dir); err != nil {
		return fmt.Errorf("replacing the image's own /%s: %w", dir, err)
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !strings.HasPrefix(c.task.Process.Argv[0], "{foundry}") {
		return nil
	}
	loader, err := image.Loader(c.image.mount)
	if err != nil || loader == "" {
		return err
	}
	if _, err := root.Stat(strings.TrimPrefix(loader, "/")); errors.Is(err, os.ErrNotExist) {
		return &sandbox.ImageMismatch{Image: c.task.Sandbox.Image, Problem: "lacks " + loader + ", which this dynamically linked program needs", Fix: "build foundry with CGO_ENABLED=0, which needs no library"}
	}
	return nil
}

// Labels of an image record.
const (
	// indexLabel is the digest of the multi-platform index that an image was
	// taken from.
	indexLabel = "foundry.index"
	// repositoryLabel lists its repository digests, separated by spaces.
	repositoryLabel = "foundry.repository-digests"
)

// writeBlob writes a blob whose digest and size are verified, and labels it,
// there before or not.
func (r *Runtime) writeBlob(ctx context.Context, desc v1.Descriptor, from io.Reader, labels map[string]string) error {
	store := r.client.ContentStore()
	if err := content.WriteBlob(ctx, store, "foundry-"+desc.Digest.String(), from, desc, content.WithLabels(labels)); err != nil {
		return fmt.Errorf("writing %s: %w", desc.Digest, err)
	}
	if len(labels) == 0 {
		return nil
	}
	fields := make([]string, 0, len(labels))
	for name := range labels {
		fields = append(fields, "labels."+name)
	}
	_, err := store.Update(ctx, content.Info{Digest: desc.Digest, Labels: labels}, fields...)
	return err
}

// setImage makes or moves the record of a name.
func (r *Runtime) setImage(ctx context.Context, record images.Image) error {
	service := r.client.ImageService()
	_, err := service.Create(ctx, record)
	if errdefs.IsAlreadyExists(err) {
		_, err = service.Update(ctx, record)
	}
	return err
}
