package compile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"foundry/compile/internal/bundle"
	"foundry/compile/internal/diag"
	"foundry/compile/internal/policy"
	"foundry/plan"
)

// maxFileBytes bounds every single file that is read outside a bundle: 64 MiB.
const maxFileBytes = 64 << 20

// open opens a folder once.
func (c *compiler) open(dir string) (fs.FS, error) {
	dir = path.Clean(dir)
	if fsys, ok := c.roots[dir]; ok {
		return fsys, nil
	}
	fsys, err := c.opts.Open(dir)
	if err != nil {
		return nil, err
	}
	c.roots[dir] = fsys
	return fsys, nil
}

// readFile reads one file that the policy names at a place.
func (c *compiler) readFile(name string, at diag.Range, summary string) ([]byte, bool) {
	fsys, err := c.open(path.Dir(name))
	if err == nil {
		var info fs.FileInfo
		if info, err = fs.Stat(fsys, path.Base(name)); err == nil {
			switch {
			case !info.Mode().IsRegular():
				err = errors.New("it is no regular file")
			case info.Size() > maxFileBytes:
				err = fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxFileBytes)
			default:
				var data []byte
				if data, err = fs.ReadFile(fsys, path.Base(name)); err == nil {
					return data, true
				}
			}
		}
	}
	c.diags.Errorat(at, summary, fileError(name, err))
	return nil, false
}

// fileError names the file as the user did: an error of fs.FS names it
// relative to its folder.
func fileError(name string, err error) string {
	if pe, ok := err.(*fs.PathError); ok {
		err = pe.Err
	}
	return "`" + name + "`: " + strings.TrimSuffix(err.Error(), ".") + "."
}

// addBundle registers a bundle and its bytes.
func (c *compiler) addBundle(b plan.Bundle, data map[string][]byte) string {
	if _, ok := c.bundles[b.ID]; !ok {
		c.bundles[b.ID] = &b
		for _, f := range b.Files {
			if f.Mode != plan.ModeDir {
				c.blobs[f.Digest] = data[f.Path]
			}
		}
	}
	return b.ID
}

// useSkill puts a skill's bundle into the plan and returns its id.
func (c *compiler) useSkill(s *bundle.Skill) string { return c.addBundle(s.Bundle, s.Data) }

// input is a policy input whose bytes were read.
type input struct {
	plan.Input
	decl *policy.Input
	used bool
}

// readInputs reads the policy's inputs, with those of the chosen scenario over
// them.
func (c *compiler) readInputs() {
	decls := map[string]*policy.Input{}
	for _, in := range c.pol.Inputs {
		decls[in.Name] = in
	}
	if name := c.opts.Scenario; name != "" {
		var chosen *policy.Scenario
		var names []string
		for _, s := range c.pol.Scenarios {
			names = append(names, s.Name)
			if s.Name == name {
				chosen = s
			}
		}
		if chosen == nil {
			c.diags.Errorat(fromCommandLine, "Unknown scenario", "The policy has no scenario `"+name+"`. "+hint(name, names))
		} else {
			for _, in := range chosen.Inputs {
				decls[in.Name] = in
			}
		}
	}
	for _, name := range sortedKeys(decls) {
		if in := c.readInput(decls[name]); in != nil {
			c.inputs[name] = in
		} else {
			c.unread[name] = true
		}
	}
}

func (c *compiler) readInput(decl *policy.Input) *input {
	if !decl.Path.Set() {
		c.diags.Errorat(decl.At, "Input without a path", "The input `"+decl.Name+"` says nothing of where its bytes are: write `path = \"…\"`, a file or a folder.")
		return nil
	}
	name := path.Clean(decl.Path.Value)
	fsys, err := c.open(path.Dir(name))
	if err != nil {
		c.diags.Errorat(decl.Path.At, "Input cannot be read", fileError(path.Dir(name), err))
		return nil
	}
	info, err := fs.Stat(fsys, path.Base(name))
	if err != nil {
		c.diags.Errorat(decl.Path.At, "Input cannot be read", fileError(name, err))
		return nil
	}
	files, data, ds := bundle.ReadTree(fsys, path.Base(name), name, bundle.Limits{})
	for i := range ds {
		ds[i].Subject = decl.Path.At
	}
	c.diags = append(c.diags, ds...)
	if ds.HasErrors() {
		return nil
	}
	digest, err := plan.TreeDigest(files)
	if err != nil {
		c.diags.Errorat(decl.Path.At, "Input cannot be read", sentence(err.Error()))
		return nil
	}
	in := &input{decl: decl, Input: plan.Input{ID: decl.Name, Bundle: plan.BundleInput + ":" + decl.Name, Kind: plan.KindDirectory}}
	pinned := digest
	if !info.IsDir() {
		in.Filename = path.Base(name)
		in.Kind = kindOf(in.Filename)
		pinned = files[0].Digest
	}
	if decl.Kind.Set() {
		if folder := decl.Kind.Value == plan.KindDirectory; folder != info.IsDir() {
			is := map[bool]string{true: "a folder", false: "a file"}[info.IsDir()]
			c.diags.Errorat(decl.Kind.At, "Input has another form", "`"+name+"` is "+is+", and `kind` says "+quote(decl.Kind.Value)+". Leave `kind` out, or name what it is.")
			return nil
		}
		in.Kind = decl.Kind.Value
	}
	if decl.Digest.Set() && decl.Digest.Value != pinned {
		c.diags.Errorat(decl.Digest.At, "Input differs from its pin", "`"+name+"` has the digest "+pinned+"; the policy pins "+decl.Digest.Value+". Restore the file, or pin the new digest after review.")
	}
	c.addBundle(plan.Bundle{ID: in.Bundle, Digest: digest, Files: files}, data)
	return in
}

// kindOf is the artifact kind that a file name's ending says.
func kindOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".json":
		return plan.KindJSON
	case ".yml", ".yaml":
		return plan.KindYAML
	case ".md", ".markdown":
		return plan.KindMarkdown
	case ".txt":
		return plan.KindText
	}
	return plan.KindFile
}

// schema is a JSON Schema of a skill bundle.
type schema struct {
	id   string // bundle id
	data []byte
	bad  string // why it does not compile, "" if it does
}

// useSchema binds an artifact to the schema that a skill publishes under a
// name, and returns its bundle id. A bound schema must compile.
func (c *compiler) useSchema(s *bundle.Skill, name string, at diag.Range) string {
	key := [2]string{s.Name, name}
	id, ok := c.bound[key]
	if !ok {
		id = c.bindSchema(s, name, at)
		c.bound[key] = id
	}
	return id
}

func (c *compiler) bindSchema(s *bundle.Skill, name string, at diag.Range) string {
	data, ok := bundle.Schemas(s)[name]
	if !ok {
		c.diags.Errorat(at, "Schema is not in the bundle", "`"+s.Name+"` binds an artifact to the schema `"+name+"`, but has no references/schemas/"+name+".schema.json. Publish the skill again with it.")
		return ""
	}
	digest := plan.Digest(data)
	// Two skills may publish different schemas under one name: both are kept.
	key := name
	for n := 1; c.schemas[key] != nil && plan.Digest(c.schemas[key].data) != digest; n++ {
		key = name + "." + s.Name
		if n > 1 {
			key += "." + strconv.Itoa(n)
		}
	}
	known := c.schemas[key]
	if known == nil {
		known = &schema{id: plan.BundleSchema + ":" + key, data: data}
		if err := bundle.CompileSchema(name, data); err != nil {
			known.bad = err.Error()
		}
		c.schemas[key] = known
	}
	if known.bad != "" {
		c.diags.Errorat(at, "Schema does not compile", "The schema `"+name+"` of `"+s.Name+"` is bound to an artifact but does not compile: "+sentence(known.bad))
		return ""
	}
	file := plan.BundleFile{Path: name + ".schema.json", Mode: plan.ModeRegular, Bytes: int64(len(data)), Digest: digest}
	tree, err := plan.TreeDigest([]plan.BundleFile{file})
	if err != nil {
		c.diags.Errorat(at, "Schema is not in the bundle", sentence(err.Error()))
		return ""
	}
	return c.addBundle(plan.Bundle{ID: known.id, Digest: tree, Files: []plan.BundleFile{file}}, map[string][]byte{file.Path: data})
}

// warnUnusedSchemas reports the schemas of the used skills that do not compile
// and are bound to nothing.
func (c *compiler) warnUnusedSchemas() {
	for _, name := range sortedKeys(c.skills) {
		s := c.skills[name]
		if s == nil {
			continue
		}
		schemas := bundle.Schemas(s)
		for _, sn := range sortedKeys(schemas) {
			if known := c.schemas[sn]; known != nil && bytes.Equal(known.data, schemas[sn]) {
				continue
			}
			if _, bound := c.bound[[2]string{name, sn}]; bound {
				continue
			}
			if err := bundle.CompileSchema(sn, schemas[sn]); err != nil {
				c.diags.Warnat(s.At, "Unused schema does not compile", "references/schemas/"+sn+".schema.json of `"+name+"` is bound to no artifact of this pipeline, and does not compile: "+sentence(err.Error()))
			}
		}
	}
}

// collectBundles lists the bundles that the plan names, sorted by id.
func (c *compiler) collectBundles() {
	for _, id := range sortedKeys(c.bundles) {
		c.plan.Bundles = append(c.plan.Bundles, *c.bundles[id])
	}
	for _, name := range sortedKeys(c.inputs) {
		c.plan.Inputs = append(c.plan.Inputs, c.inputs[name].Input)
	}
}
