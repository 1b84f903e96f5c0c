package containerd

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"foundry/sandbox/image"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// ImportImage puts an image into the daemon's store and unpacks it. Its name
// then means this image, and an image that had it before keeps its reference
// by digest.
func (r *Runtime) ImportImage(ctx context.Context, src *image.Source) (StoredImage, error) {
	ctx = leases.WithLease(ctx, r.lease)
	if err := r.writeSource(ctx, src); err != nil {
		return StoredImage{}, fmt.Errorf("sandbox: importing %s: %w", src.Name, err)
	}
	record := images.Image{Name: src.Name + "@" + src.Manifest.Desc.Digest.String(), Target: src.Manifest.Desc, Labels: map[string]string{}}
	if src.Index != nil {
		record.Labels[indexLabel] = src.Index.Desc.Digest.String()
	}
	if len(src.Repositories) > 0 {
		record.Labels[repositoryLabel] = strings.Join(src.Repositories, " ")
	}
	// Unpacked first: an image that does not unpack gets no name.
	ready := &readyImage{image: client.NewImage(r.client, record), manifest: src.Manifest.Desc.Digest.String()}
	if err := r.unpack(ctx, ready); err != nil {
		return StoredImage{}, fmt.Errorf("sandbox: unpacking %s: %w", src.Name, err)
	}
	moved := record
	moved.Name = src.Name
	for _, rec := range []images.Image{record, moved} {
		if err := r.setImage(ctx, rec); err != nil {
			return StoredImage{}, fmt.Errorf("sandbox: naming the image %s: %w", rec.Name, err)
		}
	}
	list, err := r.Images(ctx)
	if err != nil {
		return StoredImage{}, err
	}
	for _, s := range list {
		if s.Reference == record.Name {
			return s, nil
		}
	}
	return StoredImage{}, fmt.Errorf("sandbox: the image %s was imported and is not in the store: something removed it meanwhile", record.Name)
}

// writeSource writes every blob of an image, with the references that keep them
// while the manifest is kept.
func (r *Runtime) writeSource(ctx context.Context, src *image.Source) error {
	const ref = "containerd.io/gc.ref.content."
	refs := map[string]string{ref + "config": src.Config.Desc.Digest.String()}
	for i, l := range src.Layers {
		refs[fmt.Sprintf("%sl.%d", ref, i)] = l.Digest.String()
		from, err := src.OpenLayer(l)
		if err != nil {
			return err
		}
		err = r.writeBlob(ctx, l, from, nil)
		if errC := from.Close(); err == nil {
			err = errC
		}
		if err != nil {
			return err
		}
	}
	if err := r.writeBlob(ctx, src.Config.Desc, bytes.NewReader(src.Config.Bytes), nil); err != nil {
		return err
	}
	if src.Index != nil {
		refs[ref+"index"] = src.Index.Desc.Digest.String()
		if err := r.writeBlob(ctx, src.Index.Desc, bytes.NewReader(src.Index.Bytes), nil); err != nil {
			return err
		}
	}
	return r.writeBlob(ctx, src.Manifest.Desc, bytes.NewReader(src.Manifest.Bytes), refs)
}

// Images lists the images of the daemon's store in this program's namespace,
// by reference; not the builtin ones, which are made again at need.
func (r *Runtime) Images(ctx context.Context) ([]StoredImage, error) {
	records, err := r.client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("sandbox: listing the images: %w", err)
	}
	byReference := map[string]*StoredImage{}
	for _, rec := range records {
		if strings.HasPrefix(rec.Name, imagePrefix) {
			continue
		}
		s, err := r.describe(ctx, rec)
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("sandbox: reading the image %s: %w", rec.Name, err)
			}
			s = StoredImage{Names: []string{}, Repositories: []string{}, Labels: map[string]string{}, Digest: rec.Target.Digest.String(), Problem: err.Error()}
		}
		name, _, pinned := strings.Cut(rec.Name, "@")
		s.Reference = name + "@" + s.Digest
		have := byReference[s.Reference]
		if have == nil {
			have = &s
			byReference[s.Reference] = have
		}
		if !pinned {
			have.Names = append(have.Names, name)
		}
	}
	list := make([]StoredImage, 0, len(byReference))
	for _, ref := range slices.Sorted(maps.Keys(byReference)) {
		list = append(list, *byReference[ref])
	}
	return list, nil
}

// RemoveImage takes an image out of the store, by its reference or a name of
// its. The bytes go when nothing uses them any more.
func (r *Runtime) RemoveImage(ctx context.Context, s StoredImage) error {
	for _, name := range append(slices.Clone(s.Names), s.Reference) {
		if err := ignoreNotFound(r.client.ImageService().Delete(ctx, name)); err != nil {
			return fmt.Errorf("sandbox: removing the image %s: %w", name, err)
		}
	}
	return nil
}

// describe reads what an image record leads to on this machine's platform.
func (r *Runtime) describe(ctx context.Context, rec images.Image) (StoredImage, error) {
	s := StoredImage{Names: []string{}, Repositories: []string{}, Index: rec.Labels[indexLabel], target: rec.Target}
	s.Repositories = append(s.Repositories, strings.Fields(rec.Labels[repositoryLabel])...)
	if images.IsIndexType(rec.Target.MediaType) {
		var err error
		if s.target, err = r.choose(ctx, rec.Target); err != nil {
			return s, err
		}
		s.Index = rec.Target.Digest.String()
	}
	s.Digest = s.target.Digest.String()
	var m v1.Manifest
	if err := r.document(ctx, s.target, &m); err != nil {
		return s, err
	}
	var config v1.Image
	if err := r.document(ctx, m.Config, &config); err != nil {
		return s, err
	}
	s.Config, s.Platform, s.Labels = m.Config.Digest.String(), config.OS+"/"+config.Architecture, map[string]string{}
	maps.Copy(s.Labels, config.Config.Labels)
	s.Bytes = s.target.Size + m.Config.Size
	for _, l := range m.Layers {
		s.Bytes += l.Size
	}
	return s, r.pulledFrom(ctx, &s, rec.Target)
}

// choose is the manifest of this machine's platform in an index of the store.
func (r *Runtime) choose(ctx context.Context, index v1.Descriptor) (v1.Descriptor, error) {
	var list v1.Index
	if err := r.document(ctx, index, &list); err != nil {
		return v1.Descriptor{}, err
	}
	return image.Choose(list, runtime.GOARCH)
}

// pulledFrom adds the repositories that containerd itself pulled an image from.
func (r *Runtime) pulledFrom(ctx context.Context, s *StoredImage, target v1.Descriptor) error {
	info, err := r.client.ContentStore().Info(ctx, target.Digest)
	if err != nil {
		return err
	}
	s.Repositories = append(s.Repositories, image.Repositories(target.Digest, info.Labels)...)
	slices.Sort(s.Repositories)
	s.Repositories = slices.Compact(s.Repositories)
	return nil
}
