package containerd

import (
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// StoredImage is an image in the store of a containerd.
type StoredImage struct {
	// Reference is the name with the digest of the manifest, as a policy takes
	// it: it names these bytes for ever.
	Reference string `json:"reference"`
	// Names are those that mean this image now, sorted; an import of another
	// image under the same name takes the name away.
	Names    []string `json:"names"`
	Digest   string   `json:"digest"`          // of the platform's manifest
	Index    string   `json:"index,omitempty"` // of the multi-platform index that it was taken from
	Config   string   `json:"config"`
	Platform string   `json:"platform"` // linux/amd64
	Bytes    int64    `json:"bytes"`    // of its blobs, packed
	// Labels are those of the image's config, of any name.
	Labels map[string]string `json:"labels"`
	// Repositories are the digests that registries know it by, NAME@digest; none
	// of an image that came from none.
	Repositories []string `json:"repositories"`
	// Problem says why an image that something else put there cannot be used,
	// such as one for another platform; the rest is empty then, but for the
	// reference.
	Problem string `json:"problem,omitempty"`

	target v1.Descriptor
}
