package revision

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Bounds of what is read of one commit.
const (
	maxFileBytes  = 256 << 20
	maxTotalBytes = 1 << 30
	maxLinks      = 40 // that one name may lead through, as Linux does
)

// Tree is the files of one commit.
type Tree struct {
	Commit string // its full hash
	repo   *git.Repository
	tree   *object.Tree
	top    string // the working tree's folder, "" of a bare repository
	from   string // where the repository was looked for, below top
	read   int64
}

// Open finds the repository that dir is in, and the commit that rev names in
// it: a branch, a tag, a hash, HEAD~2.
func Open(dir, rev string) (*Tree, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	repo, err := git.PlainOpenWithOptions(abs, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return nil, fmt.Errorf("%s is in no git repository: %w", dir, err)
	}
	hash, err := repo.ResolveRevision(plumbing.Revision(rev))
	if err != nil {
		return nil, fmt.Errorf("the repository has no revision %q: %w", rev, err)
	}
	commit, err := repo.CommitObject(*hash)
	if err != nil {
		return nil, fmt.Errorf("%q is no commit: %w", rev, err)
	}
	tree, err := commit.Tree()
	if err != nil {
		return nil, fmt.Errorf("the files of %q cannot be read: %w", rev, err)
	}
	t := &Tree{Commit: hash.String(), repo: repo, tree: tree}
	if w, err := repo.Worktree(); err == nil {
		t.top = w.Filesystem.Root()
		// What stands in a path of the working tree may be reached by a link.
		top, errTop := filepath.EvalSymlinks(t.top)
		here, errHere := filepath.EvalSymlinks(abs)
		if rel, err := filepath.Rel(top, here); errors.Join(errTop, errHere, err) == nil && filepath.IsLocal(rel) {
			t.from = filepath.ToSlash(rel)
		}
	}
	return t, nil
}

// Name is a path of a revision as git takes it: from the repository's top, or
// with ./ or ../ in front from where it was opened.
func (t *Tree) Name(name string) string {
	if name == "." || name == ".." || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		name = path.Join(t.from, name)
	}
	return path.Clean(name)
}

// Folder opens a folder of the commit, named from the repository's top, or
// absolutely in the working tree. As with a folder on disk, nothing outside it
// can be reached through what Folder returns.
func (t *Tree) Folder(dir string) (fs.FS, error) {
	name := path.Clean(filepath.ToSlash(dir))
	if filepath.IsAbs(filepath.FromSlash(name)) {
		rel, err := filepath.Rel(t.top, filepath.FromSlash(name))
		if t.top == "" || err != nil {
			return nil, t.outside(dir)
		}
		name = filepath.ToSlash(rel)
	}
	if !fs.ValidPath(name) {
		return nil, t.outside(dir)
	}
	root := &folder{tree: t, root: t.tree}
	at, err := root.resolve("open", name, true)
	if err != nil {
		return nil, err
	}
	if !at.info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is no folder")}
	}
	return &folder{tree: t, root: at.tree}, nil
}

func (t *Tree) outside(dir string) error {
	return fmt.Errorf("%s is outside the repository, and of a revision nothing else is read", dir)
}

// folder is a part of a commit as a file system.
type folder struct {
	tree *Tree
	root *object.Tree
}

// place is what stands at a path: a folder, or a blob.
type place struct {
	info info
	tree *object.Tree // of a folder
	hash plumbing.Hash
}

func refuse(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// resolve follows a path below the root; follow says whether a link at its end
// is followed, too. A link that leads out of the root is refused.
func (f *folder) resolve(op, name string, follow bool) (*place, error) {
	if !fs.ValidPath(name) {
		return nil, refuse(op, name, fs.ErrInvalid)
	}
	at := []*place{{info: info{name: ".", mode: fs.ModeDir | 0o755}, tree: f.root}}
	pending, links := strings.Split(name, "/"), 0
	for len(pending) > 0 {
		step := pending[0]
		pending = pending[1:]
		here := at[len(at)-1]
		switch step {
		case "", ".":
			continue
		case "..":
			if len(at) == 1 {
				return nil, refuse(op, name, errors.New("it leads out of the folder"))
			}
			at = at[:len(at)-1]
			continue
		}
		if here.tree == nil {
			return nil, refuse(op, name, fs.ErrNotExist)
		}
		next, err := f.entry(here.tree, step)
		if err != nil {
			return nil, refuse(op, name, err)
		}
		if next.info.mode&fs.ModeSymlink == 0 || len(pending) == 0 && !follow {
			at = append(at, next)
			continue
		}
		if links++; links > maxLinks {
			return nil, refuse(op, name, errors.New("the links lead in a circle"))
		}
		target, err := f.data(next)
		if err != nil {
			return nil, refuse(op, name, err)
		}
		if strings.HasPrefix(string(target), "/") {
			return nil, refuse(op, name, errors.New("it leads out of the folder"))
		}
		pending = append(strings.Split(string(target), "/"), pending...)
	}
	return at[len(at)-1], nil
}

// entry is one name of a folder.
func (f *folder) entry(t *object.Tree, name string) (*place, error) {
	e, err := t.FindEntry(name)
	if err != nil {
		return nil, fs.ErrNotExist
	}
	return f.placeOf(e)
}

func (f *folder) placeOf(e *object.TreeEntry) (*place, error) {
	p := &place{info: info{name: e.Name}, hash: e.Hash}
	switch e.Mode {
	case filemode.Dir:
		p.info.mode = fs.ModeDir | 0o755
		sub, err := f.tree.repo.TreeObject(e.Hash)
		if err != nil {
			return nil, err
		}
		p.tree = sub
		return p, nil
	case filemode.Regular, filemode.Deprecated:
		p.info.mode = 0o644
	case filemode.Executable:
		p.info.mode = 0o755
	case filemode.Symlink:
		p.info.mode = fs.ModeSymlink | 0o777
	default: // a submodule: its files are in another repository
		p.info.mode = fs.ModeIrregular
		return p, nil
	}
	size, err := f.tree.repo.Storer.EncodedObjectSize(e.Hash)
	if err != nil {
		return nil, err
	}
	p.info.size = size
	return p, nil
}

// data reads a blob.
func (f *folder) data(p *place) ([]byte, error) {
	if p.info.mode&(fs.ModeDir|fs.ModeIrregular) != 0 {
		return nil, errors.New("it is no file")
	}
	if p.info.size > maxFileBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", p.info.size, maxFileBytes)
	}
	if f.tree.read += p.info.size; f.tree.read > maxTotalBytes {
		return nil, fmt.Errorf("more than %d bytes of the revision are read", maxTotalBytes)
	}
	blob, err := f.tree.repo.BlobObject(p.hash)
	if err != nil {
		return nil, err
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, p.info.size+1))
	return data, errors.Join(err, r.Close())
}

// Open, ReadDir, Stat, Lstat and ReadLink make a folder what a folder on disk
// is to its reader.
func (f *folder) Open(name string) (fs.File, error) {
	p, err := f.resolve("open", name, true)
	if err != nil {
		return nil, err
	}
	p.info.name = path.Base(name)
	if p.info.IsDir() {
		list, err := f.list(p)
		if err != nil {
			return nil, refuse("open", name, err)
		}
		return &dir{info: p.info, name: name, list: list}, nil
	}
	data, err := f.data(p)
	if err != nil {
		return nil, refuse("open", name, err)
	}
	return newFile(p.info, data), nil
}

func (f *folder) ReadDir(name string) ([]fs.DirEntry, error) {
	p, err := f.resolve("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if p.tree == nil {
		return nil, refuse("readdir", name, errors.New("it is no folder"))
	}
	return f.list(p)
}

func (f *folder) list(p *place) ([]fs.DirEntry, error) {
	out := make([]fs.DirEntry, 0, len(p.tree.Entries))
	for i := range p.tree.Entries {
		e, err := f.placeOf(&p.tree.Entries[i])
		if err != nil {
			return nil, err
		}
		out = append(out, fs.FileInfoToDirEntry(e.info))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

func (f *folder) Stat(name string) (fs.FileInfo, error) {
	return f.stat("stat", name, true)
}

func (f *folder) Lstat(name string) (fs.FileInfo, error) {
	return f.stat("lstat", name, false)
}

func (f *folder) stat(op, name string, follow bool) (fs.FileInfo, error) {
	p, err := f.resolve(op, name, follow)
	if err != nil {
		return nil, err
	}
	p.info.name = path.Base(name)
	return p.info, nil
}

func (f *folder) ReadLink(name string) (string, error) {
	p, err := f.resolve("readlink", name, false)
	if err != nil {
		return "", err
	}
	if p.info.mode&fs.ModeSymlink == 0 {
		return "", refuse("readlink", name, fs.ErrInvalid)
	}
	data, err := f.data(p)
	if err != nil {
		return "", refuse("readlink", name, err)
	}
	return string(data), nil
}

// info describes an entry. A commit keeps no times.
type info struct {
	name string
	mode fs.FileMode
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
