package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/sandbox/containerd"
	"foundry/sandbox/image"
)

func (a *app) imageCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build images or bring them in, without a registry, and see their digests",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&address, "containerd", os.Getenv("CONTAINERD_ADDRESS"), "`ADDRESS` of a system containerd; default: the embedded one's store")
	cmd.AddCommand(a.imageBuild(&address), a.imageImport(&address), a.imageList(&address), a.imageRemove(&address))
	return cmd
}

func (a *app) imageImport(address *string) *cobra.Command {
	var name string
	var labels []string
	cmd := &cobra.Command{
		Use:   "import FILE|DIR",
		Short: "Import an OCI archive or layout, a tar of docker save, or a root file system",
		Long: "Import an image for this machine's platform: an OCI archive or layout folder, a tar as docker save\n" +
			"writes it, either compressed with gzip, or any other folder, which is taken for a root file system.\n" +
			"The same files give the same digest. It prints the reference that a policy takes: NAME@sha256:…",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := image.Options{Name: name, Architecture: runtime.GOARCH, Labels: map[string]string{}}
			for _, l := range labels {
				key, value, ok := strings.Cut(l, "=")
				if !ok || key == "" {
					return usage("--label %q is not NAME=VALUE", l)
				}
				o.Labels[key] = value
			}
			return a.importImage(cmd.Context(), *address, args[0], o)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the image, maybe with a :tag; default: its own, or its file's")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "`NAME=VALUE` of a label of an image made from a root file system, such as foundry.tool.planemo=0.75.30 (repeatable)")
	return cmd
}

func (a *app) importImage(ctx context.Context, address, file string, o image.Options) (err error) {
	src, err := image.Open(file, o)
	if err != nil {
		return usage("%w", err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return a.withStore(ctx, address, func(r *containerd.Runtime) error {
		stored, err := r.ImportImage(ctx, src)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.stdout, view.Safe(stored.Reference))
		return err
	})
}

func (a *app) imageList(address *string) *cobra.Command {
	var quiet, asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the imported images with their digests and labels",
		Long: "List the imported images, or the one of a name, a reference or a digest. With a name that no image\n" +
			"has it fails. --quiet prints the references alone, which policies and --sandbox-image take.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), *address, func(r *containerd.Runtime) error {
				list, err := findImages(cmd.Context(), r, args)
				if err != nil {
					return err
				}
				if asJSON {
					return a.json(list)
				}
				return view.Images(a.stdout, list, quiet)
			})
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the references alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) imageRemove(address *string) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove an imported image by name, reference or digest",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), *address, func(r *containerd.Runtime) error {
				list, err := findImages(cmd.Context(), r, args)
				if err != nil {
					return err
				}
				for _, s := range list {
					if err := r.RemoveImage(cmd.Context(), s); err != nil {
						return err
					}
					fmt.Fprintf(a.stdout, "removed %s\n", view.Safe(s.Reference))
				}
				return nil
			})
		},
	}
}

// findImages lists the images of the store, or those that a name, a reference
// or a digest means.
func findImages(ctx context.Context, r *containerd.Runtime, name []string) ([]containerd.StoredImage, error) {
	list, err := r.Images(ctx)
	if err != nil || len(name) == 0 {
		return list, err
	}
	found := []containerd.StoredImage{}
	for _, s := range list {
		if slices.Contains(s.Names, name[0]) || slices.Contains([]string{s.Reference, s.Digest, s.Index}, name[0]) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, &exitError{exitNo, fmt.Errorf("no image is called %s: `foundry image ls` shows those there are, `foundry image import` brings one in", name[0])}
	}
	return found, nil
}

// withStore opens the store of images that container runs use. What fails is
// the machine's.
func (a *app) withStore(ctx context.Context, address string, use func(*containerd.Runtime) error) error {
	r, err := containerd.New(ctx, containerd.Options{Address: address, Base: containerBase()})
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	err = use(r)
	if errC := r.Close(); err == nil {
		err = errC
	}
	if _, told := errors.AsType[*exitError](err); err != nil && !told {
		err = &exitError{exitInfrastructure, err}
	}
	return err
}
