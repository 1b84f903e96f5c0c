package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"foundry/plan"
)

type collector struct {
	ctx      context.Context
	root     *os.File
	left     Limits          // what the outputs may still take
	declared map[string]bool // filenames of outputs
	artifact string          // the output at work
	fold     folder
	buf      []byte
	result   Result
}

// survey walks the whole folder, opens no file, and counts until a limit is
// broken.
func (c *collector) survey(limits Limits) error {
	dir, err := openDirAt(c.root, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	parents := map[string]bool{"": true}
	for name := range c.declared {
		for p := path.Dir(name); p != "."; p = path.Dir(p) {
			parents[p] = true
		}
	}
	s := surveyor{collector: c, limits: limits, parents: parents}
	if err := s.folder(dir, "", 1, true); err != nil {
		return err
	}
	u := &c.result.Undeclared
	slices.Sort(u.Names)
	u.Names = u.Names[:min(len(u.Names), maxUndeclared)]
	return nil
}

type surveyor struct {
	*collector
	limits  Limits
	parents map[string]bool // folders that hold declared outputs, "" the root
}

// folder counts what is in dir. Where listed is set its entries may be
// undeclared.
func (s *surveyor) folder(dir *os.File, rel string, depth int, listed bool) error {
	r := &s.result
	names, more, err := readNames(dir, s.limits.Files-r.Files+1)
	r.Undeclared.More = r.Undeclared.More || more || err != nil
	for _, name := range names {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if r.Files > s.limits.Files || r.Bytes > s.limits.Bytes {
			r.Undeclared.More = true
			return nil
		}
		r.Files++
		at := path.Join(rel, name)
		st, err := statAt(dir, name)
		if err != nil {
			continue // it has a name and no more that can be said
		}
		holder := s.parents[at] && st.isDir()
		if listed && !s.declared[at] && !holder {
			s.undeclared(at, st)
		}
		if st.isRegular() {
			r.Bytes += min(st.size, math.MaxInt64-r.Bytes)
		}
		if !st.isDir() {
			continue
		}
		if depth >= maxDepth {
			r.Undeclared.More = true
			continue
		}
		sub, err := openDirAt(dir, name)
		if err != nil {
			r.Undeclared.More = true // what it holds cannot be counted
			continue
		}
		err = s.folder(sub, at, depth+1, listed && holder)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *surveyor) undeclared(at string, st stat) {
	u := &s.result.Undeclared
	u.Count++
	if st.isDir() {
		at += "/"
	}
	// Twice the bound, cut after sorting: in one folder names come sorted, so
	// only later folders can add names that sort before.
	if len(u.Names) < 2*maxUndeclared {
		u.Names = append(u.Names, printable(at))
	}
}

// treeWalk freezes one folder output.
type treeWalk struct {
	*collector
	base  string // of the output, below the output folder
	dst   string
	files []plan.BundleFile
}

func (w *treeWalk) folder(dir *os.File, rel string, depth int) error {
	here := filepath.Join(w.dst, filepath.FromSlash(rel))
	if err := os.Mkdir(here, 0o755); err != nil {
		return err
	}
	names, more, err := readNames(dir, max(w.left.Files, 0)+1)
	if err != nil {
		w.refuse(path.Join(w.base, rel), RefusedUnreadable, err.Error())
		return nil
	}
	if more || int64(len(names)) > w.left.Files {
		w.refuse(path.Join(w.base, rel), RefusedTooManyFiles, fmt.Sprintf("more than the %d names that are left of the limit", max(w.left.Files, 0)))
		w.left.Files = 0
		return nil
	}
	w.left.Files -= int64(len(names))
	keys := make(map[string]string, len(names))
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(dir, name, path.Join(rel, name), depth, keys); err != nil {
			return err
		}
	}
	if len(names) == 0 && rel != "" {
		w.files = append(w.files, plan.BundleFile{Path: rel, Mode: plan.ModeDir})
	}
	if rel == "" {
		return nil // the caller may want to move the artifact as a whole
	}
	return os.Chmod(here, stagedDir)
}

func (w *treeWalk) entry(dir *os.File, name, rel string, depth int, keys map[string]string) error {
	at := path.Join(w.base, rel)
	if why := badName(name); why != "" {
		w.refuse(at, RefusedBadName, why)
		return nil
	}
	key := w.fold.key(name)
	if other, taken := keys[key]; taken {
		w.refuse(at, RefusedNameCollision, fmt.Sprintf("it is the same name as %s where letter case or Unicode form is not kept", printable(other)))
		return nil
	}
	keys[key] = name
	if configNames[key] && !w.declared[at] {
		w.refuse(at, RefusedConfigName, "a program could take it for its own configuration: declare it as an output by exactly this filename, or have the skill name it otherwise")
		return nil
	}
	if len(rel) > maxPathBytes {
		w.refuse(at, RefusedTooDeep, fmt.Sprintf("the path has %d bytes, more than %d", len(rel), maxPathBytes))
		return nil
	}
	st, err := statAt(dir, name)
	switch {
	case err != nil:
		w.refuse(at, RefusedChanged, err.Error())
	case st.isRegular():
		f, err := w.copyFile(dir, name, at, st, filepath.Join(w.dst, filepath.FromSlash(rel)))
		f.Path = rel
		w.files = append(w.files, f)
		return err
	case !st.isDir():
		w.refuseType(at, st)
	case depth >= maxDepth:
		w.refuse(at, RefusedTooDeep, fmt.Sprintf("it is more than %d levels deep", maxDepth))
	default:
		sub := w.openDir(dir, name, at, st)
		if sub == nil {
			return nil
		}
		defer sub.Close()
		return w.folder(sub, rel, depth+1)
	}
	return nil
}

// openDir opens a folder that was seen as st, nil if it is refused.
func (c *collector) openDir(parent *os.File, name, at string, st stat) *os.File {
	// Some hosts hand setgid down from the folder above: that is not the
	// worker's doing.
	root, err := statOf(c.root)
	if err != nil {
		c.refuse(at, RefusedUnreadable, err.Error())
		return nil
	}
	if bits := st.special() &^ root.special(); bits != 0 {
		c.refuse(at, RefusedSetuid, fmt.Sprintf("the folder has mode %04o", st.permissions()))
		return nil
	}
	if st.mode&0o500 != 0o500 {
		c.refuse(at, RefusedUnreadable, fmt.Sprintf("the folder has mode %04o: its owner cannot read it", st.permissions()))
		return nil
	}
	dir, err := openDirAt(parent, name)
	if err != nil {
		c.refuse(at, RefusedUnreadable, err.Error())
		return nil
	}
	now, err := statOf(dir)
	if err != nil || !now.same(st) {
		dir.Close()
		c.refuse(at, RefusedChanged, "another folder has taken its place")
		return nil
	}
	return dir
}

// copyFile freezes one regular file that was seen as st. When the artifact is
// refused already, it only goes on to look for further reasons.
func (c *collector) copyFile(dir *os.File, name, at string, st stat, dst string) (plan.BundleFile, error) {
	entry := plan.BundleFile{Mode: plan.ModeRegular}
	mode := fs.FileMode(stagedFile)
	if st.mode&0o111 != 0 {
		entry.Mode, mode = plan.ModeExecutable, stagedExec
	}
	switch {
	case st.special() != 0:
		c.refuse(at, RefusedSetuid, fmt.Sprintf("the file has mode %04o", st.permissions()))
	case st.nlink > 1:
		c.refuse(at, RefusedHardLink, fmt.Sprintf("the file has %d names; the others may be anywhere", st.nlink))
	case st.mode&0o400 == 0:
		c.refuse(at, RefusedUnreadable, fmt.Sprintf("the file has mode %04o: its owner cannot read it", st.permissions()))
	case st.size > c.left.Bytes:
		c.refuse(at, RefusedTooLarge, fmt.Sprintf("the file has %d bytes, %d are left of the limit", st.size, c.left.Bytes))
	}
	if c.refused() {
		c.left.Bytes -= min(st.size, c.left.Bytes)
		return entry, nil
	}
	src, err := openFileAt(dir, name)
	if err != nil {
		c.refuse(at, RefusedUnreadable, err.Error())
		return entry, nil
	}
	defer src.Close()
	if now, err := statOf(src); err != nil || !now.same(st) {
		c.refuse(at, RefusedChanged, "another file has taken its place")
		return entry, nil
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return entry, err
	}
	err = c.copyBytes(out, src, at, &entry)
	if err = errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return entry, err
	}
	if now, err := statOf(src); err != nil || !now.unchanged(st) || entry.Bytes != st.size {
		c.refuse(at, RefusedChanged, "it was written to while it was copied")
	}
	c.left.Bytes -= entry.Bytes
	return entry, nil
}

func (c *collector) refused() bool {
	n := len(c.result.Refusals)
	return n > 0 && c.result.Refusals[n-1].Artifact == c.artifact
}

// copyBytes copies what is left of the limit at most, whatever size the file
// said it has. Only what the host could not write is an error.
func (c *collector) copyBytes(out io.Writer, src io.Reader, at string, entry *plan.BundleFile) error {
	if c.buf == nil {
		c.buf = make([]byte, 256<<10)
	}
	h := sha256.New()
	for {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n, err := src.Read(c.buf)
		if entry.Bytes+int64(n) > c.left.Bytes {
			c.refuse(at, RefusedTooLarge, fmt.Sprintf("more than the %d bytes that are left of the limit", c.left.Bytes))
			return nil
		}
		h.Write(c.buf[:n])
		entry.Bytes += int64(n)
		if _, err := out.Write(c.buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			entry.Digest = hexDigest(h)
			return nil
		}
		if err != nil {
			c.refuse(at, RefusedUnreadable, err.Error())
			return nil
		}
	}
}

// refuseType refuses what is neither file nor folder.
func (c *collector) refuseType(at string, st stat) {
	reason, what := st.refusal()
	c.refuse(at, reason, what)
}

// readNames returns at most limit names of dir, sorted, and whether there are
// more.
func readNames(dir *os.File, limit int64) (names []string, more bool, err error) {
	limit = min(max(limit, 1), math.MaxInt32)
	for int64(len(names)) < limit {
		batch, err := dir.Readdirnames(int(min(limit-int64(len(names)), 4096)))
		names = append(names, batch...)
		if err == io.EOF {
			slices.Sort(names)
			return names, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	_, err = dir.Readdirnames(1)
	slices.Sort(names)
	return names, err != io.EOF, nil
}

// printable keeps text that can be shown as it is and quotes everything else.
func printable(p string) string {
	for name := range strings.SplitSeq(p, "/") {
		if badName(name) != "" {
			return fmt.Sprintf("%+q", p[:min(len(p), maxPathBytes)])
		}
	}
	return p[:min(len(p), maxPathBytes)]
}
