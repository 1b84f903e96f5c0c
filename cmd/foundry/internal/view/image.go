package view

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"foundry/sandbox/containerd"
)

// Images writes the images of a store: each with its reference, what it is and
// its labels, or the references alone.
func Images(w io.Writer, list []containerd.StoredImage, quiet bool) error {
	var b strings.Builder
	for i, s := range list {
		if quiet {
			fmt.Fprintln(&b, Safe(s.Reference))
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, Safe(s.Reference))
		line := func(what, value string) {
			if value != "" {
				fmt.Fprintf(&b, "  %-9s %s\n", what, Safe(value))
			}
		}
		line("names", strings.Join(s.Names, ", "))
		line("index", s.Index)
		line("platform", s.Platform)
		line("problem", s.Problem)
		if s.Problem == "" {
			line("size", Count(s.Bytes)+" bytes")
		}
		for _, r := range s.Repositories {
			line("registry", r)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			line("label", name+" = "+s.Labels[name])
		}
	}
	if len(list) == 0 && !quiet {
		b.WriteString("no images: `foundry image import FILE|DIR` brings one in\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
