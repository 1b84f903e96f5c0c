package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/docker/go-units"
	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/sandbox/containerd"
	"foundry/sandbox/image/build"
)

func (a *app) imageBuild(address *string) *cobra.Command {
	var o build.Options
	var with []string
	var archive string
	var noStore bool
	cmd := &cobra.Command{
		Use:   "build --adapter NAME --version V",
		Short: "Build the image that an agent works in",
		Long: "Build an image with an agent, its Node, and the search tools that agents use, on a Debian base. Every\n" +
			"package is named with its hash in a lock file, so the same lock gives the same digest. It goes into the\n" +
			"store, and with --output into an OCI archive too; it prints the reference that a policy takes.\n" +
			"It needs mmdebstrap, apt and npm, and root or user namespaces.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, w := range with {
				add, err := build.ParseAddition(w)
				if err != nil {
					return usage("%w", err)
				}
				o.With = append(o.With, add)
			}
			if noStore && archive == "" {
				return usage("--no-store without --output would build an image for nobody")
			}
			if o.Cache == "" {
				dir, err := os.UserCacheDir()
				if err != nil {
					return usage("--cache DIR: there is no folder for caches: %w", err)
				}
				o.Cache = filepath.Join(dir, "foundry", "packages")
			}
			o.Progress = a.stderr
			return a.buildImage(cmd.Context(), *address, o, archive, noStore)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Adapter, "adapter", "", "`NAME` of the agent's adapter")
	f.StringVar(&o.Version, "version", "", "exact `VERSION` of the agent")
	f.StringArrayVar(&with, "with", nil, "`ADDITION` for the image: apt:PACKAGE, npm:PACKAGE@VERSION or file:PATH of a program (repeatable)")
	f.StringVar(&o.Lock, "lock", "", "lock `FILE`; default: the one in this program, for an image without additions of packages")
	f.BoolVar(&o.UpdateLock, "update-lock", false, "write the lock file from what the package sources have now")
	f.StringVar(&o.Cache, "cache", "", "`DIR` that keeps packages for later builds; default: in the user's cache")
	f.StringVar(&o.AptSources, "apt-sources", "", "`FILE` of apt sources; default: this machine's for Debian")
	f.StringVar(&o.Name, "name", "", "`NAME` of the image; default: foundry-ADAPTER:VERSION")
	f.StringVarP(&archive, "output", "o", "", "also write an OCI archive to `FILE`")
	f.BoolVar(&noStore, "no-store", false, "only write the archive")
	for _, name := range []string{"adapter", "version"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return cmd
}

func (a *app) buildImage(ctx context.Context, address string, o build.Options, archive string, noStore bool) (err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = &exitError{exitInterrupted, err}
		}
	}()
	built, err := build.Build(ctx, o)
	if _, refused := errors.AsType[*build.Refusal](err); refused {
		return usage("%w", err)
	}
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	defer func() { err = errors.Join(err, built.Close()) }()
	var bytes int64
	for _, l := range built.Layers {
		bytes += l.Bytes
		fmt.Fprintf(a.stderr, "layer %-5s %9s  %s\n", l.Name, units.HumanSize(float64(l.Bytes)), l.Digest)
	}
	fmt.Fprintf(a.stderr, "image %-5s %9s  %s\n", "", units.HumanSize(float64(bytes)), built.Source.Manifest.Desc.Digest)
	if archive != "" {
		if err := writeArchive(archive, built.WriteArchive); err != nil {
			return &exitError{exitInfrastructure, fmt.Errorf("image build: the archive: %w", err)}
		}
	}
	if noStore {
		_, err := fmt.Fprintln(a.stdout, view.Safe(built.Source.Name+"@"+built.Source.Manifest.Desc.Digest.String()))
		return err
	}
	return a.withStore(ctx, address, func(r *containerd.Runtime) error {
		stored, err := r.ImportImage(ctx, built.Source)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.stdout, view.Safe(stored.Reference))
		return err
	})
}

// writeArchive writes a file whole or not at all.
func writeArchive(name string, write func(io.Writer) error) (err error) {
	f, err := renameio.NewPendingFile(name, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
