package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"foundry/plan"
)

// Limits bound what an attempt may leave in its output folder: declared or
// not, all of it counts.
type Limits struct {
	Bytes int64 // apparent size, so that a sparse file counts in full
	Files int64 // files, folders and everything else that has a name
}

// Collected is one declared output after the freeze.
type Collected struct {
	Output  plan.NodeOutput
	Present bool
	// Digest is that of the file's bytes, or the tree digest of a folder.
	Digest string
	Bytes  int64
	// Files is the content: of a file one entry with its base name, of a folder
	// the sorted list that Digest covers.
	Files []plan.BundleFile
	// Path is the frozen copy on the host: the file, or the folder.
	Path string
}

// Refusal is why something of the output folder does not cross the border.
type Refusal struct {
	Artifact string // "" where the folder as a whole breaks a limit
	Path     string // below the output folder; bytes that are no text are quoted
	Reason   string // one of the Refused constants
	Detail   string
}

// Reasons of a Refusal.
const (
	RefusedLink          = "link"
	RefusedHardLink      = "hard_link"
	RefusedFIFO          = "fifo"
	RefusedSocket        = "socket"
	RefusedDevice        = "device"
	RefusedSetuid        = "setuid" // setuid, setgid or sticky
	RefusedTooLarge      = "too_large"
	RefusedTooManyFiles  = "too_many_files"
	RefusedTooDeep       = "too_deep"
	RefusedBadName       = "bad_name"
	RefusedConfigName    = "config_name"
	RefusedNameCollision = "name_collision"
	RefusedNotRegular    = "not_regular"
	RefusedUnreadable    = "unreadable"
	RefusedWrongKind     = "wrong_kind"
	RefusedChanged       = "changed" // somebody still wrote to it
)

// Bounds of Collect that no plan changes.
const (
	maxDepth      = 64  // levels below the output folder; real trees have under 20
	maxRefusals   = 100 // per call; the rest would say nothing new
	maxUndeclared = 100 // names kept for the record
)

// Undeclared is what the output folder holds beside the declared outputs. None
// of it is copied. A folder that holds nothing declared is one entry.
type Undeclared struct {
	Count int64    // entries seen
	Names []string // the first 100 in order; bytes that are no text are quoted
	More  bool     // the walk stopped at a limit: there may be more
}

// Result is what Collect found.
type Result struct {
	Collected  []Collected // one for each output, in their order
	Refusals   []Refusal   // any: nothing may be promoted
	Undeclared Undeclared
	// Bytes and Files are what the whole folder holds, as far as it was walked:
	// the walk ends where a limit is broken.
	Bytes, Files int64
}

// Collect freezes the declared outputs of an attempt: regular files and
// folders of them are copied to frozenDir/<artifact>/, which must not exist
// yet, and hashed while they are copied. Files become 0444 or 0555.
//
// It is called when every process of the attempt is dead, and still trusts
// nothing: it follows no link, waits for no FIFO, opens no device, and reads
// no more than the limits. Its time is bounded by the limits, not by the tree.
// A refused output is not Present and leaves nothing in frozenDir. The error
// is for what the host could not do.
func Collect(ctx context.Context, outputDir string, outputs []plan.NodeOutput, limits Limits, frozenDir string) (Result, error) {
	c := collector{ctx: ctx, left: limits, fold: newFolder(), declared: map[string]bool{}}
	for _, o := range outputs {
		if err := CheckPath(o.Filename); err != nil {
			return Result{}, fmt.Errorf("collect: output %s: %w", o.Artifact, err)
		}
		if !plan.ValidID(o.Artifact) {
			return Result{}, fmt.Errorf("collect: %q is no artifact id", o.Artifact)
		}
		c.declared[o.Filename] = true
	}
	root, err := os.OpenFile(outputDir, os.O_RDONLY|openDirFlags, 0)
	if err != nil {
		return Result{}, fmt.Errorf("collect: cannot open the output folder: %w", err)
	}
	defer root.Close()
	if err := os.Mkdir(frozenDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return Result{}, fmt.Errorf("collect: cannot make the frozen folder: %w", err)
	}
	c.root = root
	if err := c.survey(limits); err != nil {
		return Result{}, fmt.Errorf("collect: %w", err)
	}
	for _, o := range outputs {
		got, err := c.output(o, filepath.Join(frozenDir, o.Artifact))
		if err != nil {
			return Result{}, fmt.Errorf("collect: output %s: %w", o.Artifact, err)
		}
		c.result.Collected = append(c.result.Collected, got)
	}
	c.wholeFolder(limits)
	return c.result, nil
}

// wholeFolder adds the refusal of the folder as a whole, where no output has
// been refused for the same limit already.
func (c *collector) wholeFolder(limits Limits) {
	over := func(reason string, seen, limit int64, unit string) {
		if seen > limit && !slices.ContainsFunc(c.result.Refusals, func(r Refusal) bool { return r.Reason == reason }) {
			c.result.Refusals = append(c.result.Refusals, Refusal{Path: ".", Reason: reason,
				Detail: fmt.Sprintf("the output folder holds at least %d %s, the limit is %d", seen, unit, limit)})
		}
	}
	over(RefusedTooManyFiles, c.result.Files, limits.Files, "names")
	over(RefusedTooLarge, c.result.Bytes, limits.Bytes, "bytes")
}

// output freezes one output in dst.
func (c *collector) output(o plan.NodeOutput, dst string) (Collected, error) {
	got := Collected{Output: o}
	before := len(c.result.Refusals)
	c.artifact = o.Artifact
	parent, base, found, err := c.parentOf(o.Filename)
	if err != nil || !found {
		return got, err
	}
	defer parent.Close()
	st, err := statAt(parent, base)
	if errors.Is(err, fs.ErrNotExist) {
		return got, nil
	}
	if err != nil {
		c.refuse(o.Filename, RefusedUnreadable, err.Error())
		return got, nil
	}
	var files []plan.BundleFile
	switch {
	case o.Kind == plan.KindDirectory && st.isDir():
		files, err = c.folderOutput(parent, base, o.Filename, st, dst)
		got.Path = dst
	case o.Kind != plan.KindDirectory && st.isRegular():
		files, err = c.fileOutput(parent, base, o.Filename, st, dst)
		got.Path = filepath.Join(dst, path.Base(o.Filename))
	case st.isDir() || st.isRegular():
		c.refuse(o.Filename, RefusedWrongKind, fmt.Sprintf("the plan says %q, the worker left a %s", o.Kind, st.word()))
	default:
		c.refuseType(o.Filename, st)
	}
	if err != nil || len(c.result.Refusals) > before {
		return Collected{Output: o}, errors.Join(err, RemoveTree(dst))
	}
	got.Present, got.Files = true, files
	for _, f := range files {
		got.Bytes += f.Bytes
	}
	if o.Kind == plan.KindDirectory {
		got.Digest, err = plan.TreeDigest(files)
	} else {
		got.Digest = files[0].Digest
	}
	return got, err
}

// parentOf opens the folder of a declared path, one component at a time.
func (c *collector) parentOf(filename string) (dir *os.File, base string, found bool, err error) {
	names := strings.Split(filename, "/")
	dir, err = openDirAt(c.root, ".")
	for i, name := range names[:len(names)-1] {
		if err != nil {
			break
		}
		at := path.Join(names[:i+1]...)
		st, serr := statAt(dir, name)
		var next *os.File
		switch {
		case errors.Is(serr, fs.ErrNotExist):
			dir.Close()
			return nil, "", false, nil
		case serr != nil:
			c.refuse(at, RefusedUnreadable, serr.Error())
		case st.isRegular():
			c.refuse(at, RefusedWrongKind, "a folder is declared, the worker left a file")
		case !st.isDir():
			c.refuseType(at, st)
		default:
			next = c.openDir(dir, name, at, st)
		}
		dir.Close()
		if next == nil {
			return nil, "", false, nil
		}
		dir = next
	}
	return dir, names[len(names)-1], err == nil, err
}

func (c *collector) fileOutput(parent *os.File, base, rel string, st stat, dst string) ([]plan.BundleFile, error) {
	if err := os.Mkdir(dst, 0o755); err != nil {
		return nil, err
	}
	c.left.Files--
	f, err := c.copyFile(parent, base, rel, st, filepath.Join(dst, base))
	f.Path = base
	return []plan.BundleFile{f}, err
}

func (c *collector) folderOutput(parent *os.File, base, rel string, st stat, dst string) ([]plan.BundleFile, error) {
	dir := c.openDir(parent, base, rel, st)
	if dir == nil {
		return nil, nil
	}
	defer dir.Close()
	w := treeWalk{collector: c, base: rel, dst: dst}
	if err := w.folder(dir, "", 1); err != nil {
		return nil, err
	}
	// The order of path bytes is not that of a walk: "a-b" comes before "a/b".
	slices.SortFunc(w.files, func(a, b plan.BundleFile) int { return strings.Compare(a.Path, b.Path) })
	return w.files, nil
}

// refuse notes a refusal; beyond the bound only the first of a reason is kept,
// so that no flood of one hides another.
func (c *collector) refuse(rel, reason, detail string) {
	if len(c.result.Refusals) >= maxRefusals && slices.ContainsFunc(c.result.Refusals, func(r Refusal) bool {
		return r.Reason == reason && r.Artifact == c.artifact
	}) {
		return
	}
	c.result.Refusals = append(c.result.Refusals, Refusal{Artifact: c.artifact, Path: printable(rel), Reason: reason, Detail: detail})
}
