package plan

import (
	"slices"
	"strconv"
	"strings"
)

func (v *validator) bundleList() {
	for i := range v.p.Bundles {
		b := &v.p.Bundles[i]
		where := at("bundles", i, b.ID)
		class, name, _ := strings.Cut(b.ID, ":")
		if !slices.Contains(classes, class) {
			v.add("unknown class of bundle", quote(b.ID)+" does not start with one of "+strings.Join(classes, ", "), where, ".id")
		}
		v.name(name, where, ".id")
		v.digest(b.Digest, where, ".digest")
		v.mold(b.Mold, class, where)
		v.bundleFiles(b.Files, where)
		if len(b.Files) == 0 {
			v.add("empty bundle", "it has neither a file nor an empty folder", where, ".files")
		}
		if sum, err := TreeDigest(b.Files); err == nil && sum != b.Digest && ValidDigest(b.Digest) {
			v.add("wrong digest", "the file list has "+sum+": the list or the digest was changed by hand", where, ".digest")
		}
	}
}

func (v *validator) mold(m *Mold, class, where string) {
	if m == nil {
		return
	}
	if class != BundleSkill && class != BundlePackage {
		v.add("misplaced mold", "only a skill or a package was cast from one", where, ".mold")
	}
	if m.Revision < 0 {
		v.add("number out of range", "a revision is not below 0", where, ".mold.revision")
	}
	v.text(m.Name, where, ".mold.name")
	v.text(m.Commit, where, ".mold.commit")
	v.text(m.ContentHash, where, ".mold.content_hash")
	v.text(m.CastBundleSHA256, where, ".mold.cast_bundle_sha256")
	v.digest(m.ProvenanceDigest, where, ".mold.provenance_digest")
}

func (v *validator) bundleFiles(files []BundleFile, where string) {
	names := newNames()
	for i := range files {
		f := &files[i]
		if i > 0 && files[i-1].Path >= f.Path {
			v.add("not sorted", quote(f.Path)+" stands after "+quote(files[i-1].Path)+": files are sorted by the bytes of their paths, without doubles", where, ".files[", strconv.Itoa(i), "].path")
		}
		if fault := pathFault(f.Path); fault != "" {
			v.add("invalid path", quote(f.Path)+": "+fault, where, ".files[", strconv.Itoa(i), "].path")
		} else if clash := names.take(f.Path, f.Mode == ModeDir); clash != "" {
			v.add("colliding names", quote(f.Path)+clash, where, ".files[", strconv.Itoa(i), "].path")
		}
		switch f.Mode {
		case ModeDir:
			if f.Bytes != 0 || f.Digest != "" {
				v.add("misplaced content", "a folder has no bytes and no digest", where, ".files[", strconv.Itoa(i), "]")
			}
		case ModeRegular, ModeExecutable:
			if f.Bytes < 0 || f.Bytes > MaxBytes {
				v.within(f.Bytes, 0, MaxBytes, where, ".files[", strconv.Itoa(i), "].bytes")
			}
			if !ValidDigest(f.Digest) {
				v.digest(f.Digest, where, ".files[", strconv.Itoa(i), "].digest")
			}
		default:
			v.word(f.Mode, fileModes, where, ".files[", strconv.Itoa(i), "].mode")
		}
	}
}

// names finds paths that a file system which folds letter case or Unicode forms
// could not hold side by side.
type names struct {
	spelled map[string]string // folded path of a file or folder → as it was spelled
	file    map[string]bool   // folded path → it is a file or an empty folder, so nothing is below it
	parent  string            // the last folder that was taken
}

func newNames() *names {
	return &names{spelled: map[string]string{}, file: map[string]bool{}}
}

// take adds a path and says with what it collides.
func (n *names) take(path string, dir bool) string {
	folder, _, nested := cutLast(path)
	for nested && folder != n.parent {
		// All folders above the path, from the deepest; the loop ends at the
		// first that is known in the same spelling.
		key := foldKey(folder)
		switch spelled, known := n.spelled[key]; {
		case known && n.file[key]:
			return " lies below " + quote(spelled) + ", which is no folder with content"
		case known && spelled != folder:
			return " and " + quote(spelled) + " differ only by letter case or Unicode form: rename one"
		case known:
			nested = false
		default:
			n.spelled[key] = folder
			folder, _, nested = cutLast(folder)
		}
	}
	if folder, _, nested := cutLast(path); nested {
		n.parent = folder
	}
	key := foldKey(path)
	spelled, known := n.spelled[key]
	switch {
	case known && spelled == path && !dir && n.file[key]:
		return " is used twice"
	case known && spelled == path:
		return " is both a file or an empty folder and a folder with content"
	case known:
		return " and " + quote(spelled) + " differ only by letter case or Unicode form: rename one"
	}
	n.spelled[key] = path
	n.file[key] = true
	return ""
}

// takeFolder adds a folder that may hold others, such as a mount point.
func (n *names) takeFolder(path string) string {
	clash := n.take(path+"/.", true)
	n.parent = ""
	return clash
}

func cutLast(path string) (folder, name string, nested bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// bundle requires that id names a bundle of one of the classes.
func (v *validator) bundle(id string, classes []string, path ...string) {
	class, _, _ := strings.Cut(id, ":")
	switch {
	case v.bundles[id] == nil:
		v.add("dangling reference", "there is no bundle "+quote(id), path...)
	case !slices.Contains(classes, class):
		v.add("wrong class of bundle", quote(id)+" is no "+strings.Join(classes, " and no "), path...)
	}
}
