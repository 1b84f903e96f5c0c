//go:build !linux

package containerd

import (
	"context"

	"foundry/sandbox/image"
)

// ImportImage fails: containers need Linux.
func (*Runtime) ImportImage(context.Context, *image.Source) (StoredImage, error) {
	return StoredImage{}, unavailable()
}

// Images fails: containers need Linux.
func (*Runtime) Images(context.Context) ([]StoredImage, error) { return nil, unavailable() }

// RemoveImage fails: containers need Linux.
func (*Runtime) RemoveImage(context.Context, StoredImage) error { return unavailable() }
