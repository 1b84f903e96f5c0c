package view

import (
	"fmt"
	"io"
	"strings"

	"foundry/sandbox/containerd"
)

// Left writes what dead processes left, which would be removed.
func Left(w io.Writer, l containerd.Left) error {
	var b strings.Builder
	for _, kind := range []struct {
		what string
		list []string
	}{{"container", l.Containers}, {"shim", l.Shims}, {"lease", l.Leases}, {"mount", l.Mounts}, {"folder", l.Folders}} {
		for _, name := range kind.list {
			fmt.Fprintf(&b, "would remove the %s %s\n", kind.what, Safe(name))
		}
	}
	if l.Empty() {
		b.WriteString("nothing of dead runs is left in containers\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Swept writes what was removed.
func Swept(w io.Writer, s containerd.Swept) error {
	var b strings.Builder
	for _, kind := range []struct {
		what string
		n    int
	}{{"container", s.Containers}, {"shim", s.Shims}, {"snapshot", s.Snapshots}, {"lease", s.Leases}, {"mount", s.Mounts}, {"folder", s.Folders}} {
		if kind.n > 0 {
			fmt.Fprintf(&b, "removed %s\n", count(kind.n, kind.what))
		}
	}
	if s.Total() == 0 {
		b.WriteString("nothing of dead runs was left in containers\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
