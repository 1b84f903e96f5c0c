package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"foundry/plan"
)

// Bounds of a path below a tree.
const (
	maxPathBytes = 1024 // leaves room below PATH_MAX (4096) for any host folder
	maxNameBytes = 255  // NAME_MAX
)

// Modes of staged trees: nobody writes, so that a worker's slip is an error.
// The owner can still remove them with RemoveTree.
const (
	stagedFile = 0o444
	stagedExec = 0o555
	stagedDir  = 0o555
)

// CheckPath says what is wrong with a slash-separated path below a tree: it
// must be relative, in its shortest form, without "..", of valid UTF-8 and
// without control characters. Names are at most 255 bytes, paths 1024.
func CheckPath(p string) error {
	switch {
	case p == "":
		return errors.New("the path is empty")
	case len(p) > maxPathBytes:
		return fmt.Errorf("the path has %d bytes, more than %d", len(p), maxPathBytes)
	case path.IsAbs(p):
		return fmt.Errorf("the path %q is absolute", p)
	case path.Clean(p) != p || p == ".":
		return fmt.Errorf("the path %q is not in its shortest form", p)
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return fmt.Errorf("the path %q leaves its folder", p)
		}
		if why := badName(name); why != "" {
			return fmt.Errorf("the path %q has a bad name: %s", p, why)
		}
	}
	return nil
}

// badName says why a name may not be in a tree, "" if it may. Characters that
// turn the direction of text are out because a reviewer would read another
// name than the one that is there.
func badName(name string) string {
	if len(name) > maxNameBytes {
		return fmt.Sprintf("it has %d bytes, more than %d", len(name), maxNameBytes)
	}
	if !utf8.ValidString(name) {
		return "it is not valid UTF-8"
	}
	for _, r := range name {
		switch {
		case unicode.IsControl(r):
			return fmt.Sprintf("it holds the control character %U", r)
		case unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), unicode.Is(unicode.Bidi_Control, r):
			return fmt.Sprintf("it holds %U, which changes how text is shown", r)
		}
	}
	return ""
}

// Materialize writes the files of a bundle below dst, which must not exist or
// be empty. Files become 0444 or 0555, folders 0555, dst too. Each file's size
// and digest are verified; the first difference is an error that names the
// path. On error nothing is left below dst.
func Materialize(ctx context.Context, blobs Blobs, files []plan.BundleFile, dst string) error {
	t, err := newTree(dst)
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	buf := make([]byte, 128<<10)
	for _, f := range files {
		if err = ctx.Err(); err != nil {
			break
		}
		if err = t.materialize(blobs, f, buf); err != nil {
			err = fmt.Errorf("stage: cannot write %q of the bundle: %w", f.Path, err)
			break
		}
	}
	if err == nil {
		err = t.seal(stagedDir)
	}
	if err != nil {
		return errors.Join(err, t.undo())
	}
	return nil
}

// tree is a folder that is being written. It remembers the folders it made.
type tree struct {
	root    string
	existed bool
	dirs    map[string]bool // slash-separated, below root
}

func newTree(root string) (*tree, error) {
	t := &tree{root: root, dirs: map[string]bool{}}
	if err := os.Mkdir(root, 0o755); err == nil {
		return t, nil
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	t.existed = true
	info, err := os.Lstat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", root)
	}
	entries, err := os.ReadDir(root)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("the folder %s is not empty", root)
	}
	return t, err
}

// undo removes what was written; the root stays if it was there before.
func (t *tree) undo() error {
	if !t.existed {
		return RemoveTree(t.root)
	}
	entries, err := os.ReadDir(t.root)
	for _, e := range entries {
		err = errors.Join(err, RemoveTree(filepath.Join(t.root, e.Name())))
	}
	return err
}

func (t *tree) mkdir(p string) error {
	if p == "." || t.dirs[p] {
		return nil
	}
	if err := t.mkdir(path.Dir(p)); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(t.root, filepath.FromSlash(p)), 0o755); err != nil {
		return err
	}
	t.dirs[p] = true
	return nil
}

// create makes a new file; that something is there already is an error.
func (t *tree) create(p string) (*os.File, error) {
	if err := t.mkdir(path.Dir(p)); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(t.root, filepath.FromSlash(p)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// seal gives every folder its final mode, the deepest first.
func (t *tree) seal(mode fs.FileMode) error {
	dirs := make([]string, 0, len(t.dirs)+1)
	for d := range t.dirs {
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	slices.Reverse(dirs)
	for _, d := range append(dirs, ".") {
		if err := os.Chmod(filepath.Join(t.root, filepath.FromSlash(d)), mode); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) materialize(blobs Blobs, f plan.BundleFile, buf []byte) error {
	if err := CheckPath(f.Path); err != nil {
		return err
	}
	var mode fs.FileMode
	switch f.Mode {
	case plan.ModeDir:
		return t.mkdir(f.Path)
	case plan.ModeRegular:
		mode = stagedFile
	case plan.ModeExecutable:
		mode = stagedExec
	default:
		return fmt.Errorf("the mode is %q, not %q, %q or %q", f.Mode, plan.ModeRegular, plan.ModeExecutable, plan.ModeDir)
	}
	src, err := openUnverified(blobs, f.Digest)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := t.create(f.Path)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := copyExactly(dst, src, f.Bytes, h, buf)
	if err = errors.Join(err, dst.Chmod(mode), dst.Close()); err != nil {
		return err
	}
	if got := hexDigest(h); n != f.Bytes || got != f.Digest {
		return fmt.Errorf("the bytes differ from the plan: it names %s (%d bytes), the store gave %s (%d bytes)", f.Digest, f.Bytes, got, n)
	}
	return nil
}

// openUnverified spares a second hash of a blob whose reader verifies anyway.
func openUnverified(blobs Blobs, digest string) (io.ReadCloser, error) {
	if s, ok := blobs.(*Store); ok {
		f, _, err := s.open(digest)
		return f, err
	}
	return blobs.Open(digest)
}

// copyExactly copies and hashes at most one byte more than want.
func copyExactly(dst io.Writer, src io.Reader, want int64, h hash.Hash, buf []byte) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(dst, h)}, io.LimitReader(src, want+1), buf)
}

// CopyTree copies the regular files and folders below src to dst, which must
// not exist or be empty. Links and everything else are refused: a staged tree
// has none. Files become 0444 or 0555; folders 0555, or 0755 if writableDirs.
// On error nothing is left below dst.
func CopyTree(src, dst string, writableDirs bool) error {
	root, err := os.OpenRoot(src)
	if err != nil {
		return fmt.Errorf("stage: cannot copy a tree: %w", err)
	}
	defer root.Close()
	t, err := newTree(dst)
	if err != nil {
		return fmt.Errorf("stage: cannot copy a tree: %w", err)
	}
	err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return t.mkdir(p)
		case !e.Type().IsRegular():
			return fmt.Errorf("%s is no regular file (%s)", p, e.Type())
		}
		return t.copyFile(root, p)
	})
	if err == nil {
		mode := fs.FileMode(stagedDir)
		if writableDirs {
			mode = 0o755
		}
		err = t.seal(mode)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("stage: cannot copy %s: %w", src, err), t.undo())
	}
	return nil
}

func (t *tree) copyFile(root *os.Root, p string) error {
	// Opened by the name below the root: what became a link since the walk saw
	// it does not lead out of src.
	in, err := root.Open(p)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := t.create(p)
	if err != nil {
		return err
	}
	mode := fs.FileMode(stagedFile)
	if info.Mode()&0o111 != 0 {
		mode = stagedExec
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
