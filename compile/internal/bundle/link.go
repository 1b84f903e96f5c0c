package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxHops bounds the links that one name may lead through, as Linux does.
const maxHops = 40

// hop is a link and its target.
type hop struct{ link, target string }

// linkError says why a name does not lead to a file below its root. It has no
// hops when no link is to blame.
type linkError struct {
	first, last hop
	why         string
}

func (e *linkError) Error() string {
	if e.first.link == "" {
		return e.why
	}
	through := ""
	if e.last != e.first {
		through = fmt.Sprintf(" (and there the link %q to %q)", e.last.link, e.last.target)
	}
	return fmt.Sprintf("the link %q points to %q%s: %s", e.first.link, e.first.target, through, e.why)
}

// resolve follows rel below root, one name at a time, reading links itself so
// that nothing is left to the operating system: a target that is absolute or
// leaves root is refused even where the file system would allow it. It returns
// the real path below root ("." for root itself) and what stands there. Root
// must be real already.
func resolve(fsys fs.FS, root, rel string) (string, fs.FileInfo, error) {
	var (
		real    []string
		pending = strings.Split(rel, "/")
		hops    int
		first   hop
		last    hop
	)
	fail := func(why string) error { return &linkError{first, last, why} }
	info, err := fs.Lstat(fsys, root)
	if err != nil {
		return "", nil, fail(reason(err))
	}
	for len(pending) > 0 {
		name := pending[0]
		pending = pending[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(real) == 0 {
				return "", nil, fail("the target is outside the folder")
			}
			real = real[:len(real)-1]
			continue
		}
		here := path.Join(root, path.Join(real...), name)
		info, err = fs.Lstat(fsys, here)
		if err != nil {
			return "", nil, fail(reason(err))
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if len(pending) > 0 && !info.IsDir() {
				return "", nil, fail(fmt.Sprintf("%q is no folder", name))
			}
			real = append(real, name)
			continue
		}
		target, err := fs.ReadLink(fsys, here)
		if err != nil {
			return "", nil, fail(reason(err))
		}
		last = hop{path.Join(path.Join(real...), name), target}
		if hops == 0 {
			first = last
		}
		if hops++; hops > maxHops {
			return "", nil, fail("the links lead in a circle")
		}
		if target == "" || strings.HasPrefix(target, "/") {
			return "", nil, fail("an absolute target means another file on another machine")
		}
		pending = append(strings.Split(target, "/"), pending...)
	}
	joined := path.Join(real...)
	if joined == "" {
		joined = "."
	}
	// After ".." the last Lstat was of something else.
	info, err = fs.Lstat(fsys, path.Join(root, joined))
	if err != nil {
		return "", nil, fail(reason(err))
	}
	return joined, info, nil
}

// reason is the text of err without paths, which could be the host's.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file or folder"
	case errors.Is(err, fs.ErrPermission):
		return "it may not be read"
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
