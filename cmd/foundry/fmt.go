package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/compile"
)

// maxPolicyFile is more than a policy file may have; the rest is not read.
const maxPolicyFile = 17 << 20

func (a *app) fmtCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "fmt [FILE|DIR]…",
		Short: "Lay policy files out; the plan stays the same byte for byte",
		Long: "Lay policy files out: *.hcl beneath each folder, the current one without an argument; - is standard\n" +
			"input, laid out on standard output. Files that were changed are listed. With --check nothing is written,\n" +
			"and the exit code is 1 when a file would be. A file with an error is left as it is.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			f := &formatter{app: a, check: check, sources: map[string][]byte{}}
			for _, name := range args {
				if err := f.argument(name); err != nil {
					return err
				}
			}
			return f.finish()
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; list the files that would change, with exit code 1")
	return cmd
}

// formatter lays out what the command line names.
type formatter struct {
	*app
	check   bool
	differ  bool
	diags   []compile.Diagnostic
	sources map[string][]byte
}

// finish tells what was wrong, and makes the exit code.
func (f *formatter) finish() error {
	if err := view.Diagnostics(f.stderr, f.diags, f.sources); err != nil {
		return err
	}
	switch {
	case len(f.diags) > 0:
		return &exitError{code: exitUsage}
	case f.check && f.differ:
		return &exitError{code: exitNo}
	}
	return nil
}

func (f *formatter) argument(name string) error {
	if name == "-" {
		return f.standardInput()
	}
	info, err := os.Lstat(name)
	if err != nil {
		return usage("%w", err)
	}
	dir, base := name, "."
	if !info.IsDir() {
		dir, base = filepath.Split(filepath.Clean(name))
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			// A folder may be reached through a link that the user names.
			if target, err := os.Stat(name); err == nil && target.IsDir() {
				dir, base = name, "."
				break
			}
			return usage("%s is a link: name the file that it leads to", name)
		case !strings.HasSuffix(base, ".hcl"):
			return usage("%s is no policy file: its name does not end in .hcl", name)
		}
	}
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return usage("%w", err)
	}
	defer root.Close()
	if base != "." {
		return f.file(root, base, name)
	}
	return f.folder(root, name)
}

// folder lays out every policy file beneath a folder, without following links
// and without what starts with a dot.
func (f *formatter) folder(root *os.Root, name string) error {
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return usage("%s: %w", name, err)
		case p != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || !strings.HasSuffix(p, ".hcl"):
			return nil
		}
		return f.file(root, p, path.Join(filepath.ToSlash(name), p))
	})
}

// file lays out one file of a folder; name is what the user calls it.
func (f *formatter) file(root *os.Root, p, name string) error {
	in, err := root.Open(p)
	if err != nil {
		return usage("%s: %w", name, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return usage("%s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return usage("%s is no regular file", name)
	}
	src, err := io.ReadAll(io.LimitReader(in, maxPolicyFile))
	if err != nil {
		return usage("%s: %w", name, err)
	}
	out, ok := f.format(filepath.ToSlash(name), src)
	if !ok || bytes.Equal(out, src) {
		return nil
	}
	f.differ = true
	fmt.Fprintln(f.stdout, view.Safe(name))
	if f.check {
		return nil
	}
	if err := replace(root, filepath.FromSlash(p), out, info.Mode().Perm()); err != nil {
		return &exitError{exitInfrastructure, fmt.Errorf("%s: %w", name, err)}
	}
	return nil
}

func (f *formatter) format(name string, src []byte) ([]byte, bool) {
	out, ds := compile.Format(name, src)
	f.diags = append(f.diags, ds...)
	f.sources[name] = src
	return out, out != nil && !slices.ContainsFunc(ds, func(d compile.Diagnostic) bool { return d.Severity == compile.Error })
}

func (f *formatter) standardInput() error {
	src, err := io.ReadAll(io.LimitReader(f.stdin, maxPolicyFile))
	if err != nil {
		return &exitError{exitInfrastructure, err}
	}
	out, ok := f.format("<stdin>", src)
	if !ok {
		return nil
	}
	f.differ = f.differ || !bytes.Equal(src, out)
	if f.check {
		return nil
	}
	_, err = f.stdout.Write(out)
	return err
}

// replace puts a file in the place of another within a root: whole or not at
// all, and whatever stands there, nothing outside the root is written to.
func replace(root *os.Root, name string, data []byte, mode fs.FileMode) (err error) {
	temporary := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text())
	out, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		err = errors.Join(err, root.Remove(temporary))
	}
	return err
}
