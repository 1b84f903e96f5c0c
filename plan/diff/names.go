package diff

import (
	"fmt"
	"unicode/utf8"

	"github.com/mtibben/confusables"

	"foundry/plan"
)

// lookalikes refuses a plan in which two names of one kind look the same: a
// reader would take one for the other.
func lookalikes(p *plan.Plan) error {
	var steps, artifacts, harnesses, credentials, bundles, tools []string
	var err error
	foreign := func(kind string, list []string) {
		if err == nil {
			err = alike(kind, list, false)
		}
	}
	for i := range p.Inputs {
		artifacts = append(artifacts, p.Inputs[i].ID)
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		steps = append(steps, n.ID)
		var files, mounts []string
		for k := range n.Outputs {
			artifacts = append(artifacts, n.Outputs[k].Artifact)
			files = append(files, n.Outputs[k].Filename)
		}
		for k := range n.Sandbox.Mounts {
			mounts = append(mounts, n.Sandbox.Mounts[k].Destination)
		}
		foreign("outputs of "+n.ID, files)
		foreign("mounts of "+n.ID, mounts)
	}
	for i := range p.Harnesses {
		harnesses = append(harnesses, p.Harnesses[i].Name)
		foreign("tools of "+p.Harnesses[i].Name, p.Harnesses[i].Tools)
	}
	for i := range p.Providers {
		x := &p.Providers[i]
		credentials = append(credentials, x.Credential)
		var models []string
		for k := range x.Models {
			models = append(models, x.Models[k].ID)
		}
		foreign("models of "+x.Name, models)
	}
	for i := range p.Bundles {
		b := &p.Bundles[i]
		bundles = append(bundles, b.ID)
		var files []string
		for k := range b.Files {
			files = append(files, b.Files[k].Path)
		}
		foreign("files of "+b.ID, files)
	}
	for i := range p.Tools {
		tools = append(tools, p.Tools[i].Name)
	}
	for _, l := range []struct {
		kind  string
		names []string
	}{{"steps", steps}, {"artifacts", artifacts}, {"harnesses", harnesses}, {"credentials", credentials}, {"bundles", bundles}, {"tools", tools}} {
		if err == nil {
			err = alike(l.kind, l.names, true)
		}
	}
	return err
}

// alike is an error when two different names look the same. Names that others
// choose, as paths are, may be as much alike as l.md and 1.md: there only what
// is not ASCII may not pass for something else.
func alike(kind string, names []string, strict bool) error {
	if !strict {
		plain := true
		for _, s := range names {
			plain = plain && ascii(s)
		}
		if plain {
			return nil
		}
	}
	seen := make(map[string]string, len(names))
	for _, s := range names {
		k := confusables.Skeleton(s)
		other, ok := seen[k]
		if ok && other != s && (strict || !ascii(other) || !ascii(s)) {
			return fmt.Errorf("two %s have names that look the same, %+q and %+q: rename one of them", kind, other, s)
		}
		if !ok || ascii(other) { // what is not ASCII is kept, to be found
			seen[k] = s
		}
	}
	return nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
