package sandbox

import (
	"slices"
	"strings"

	"foundry/plan"
)

// OwnFolders are the folders that a process expects to find and that the plan
// puts below its scratch folder: the working folder and those of HOME, TMPDIR
// and XDG_…. Without them programs fail in odd ways. They are slash-separated,
// below scratch, sorted, so that a folder comes before what lies in it. Expand
// replaces tokens; scratch is the scratch folder as the process sees it.
func OwnFolders(p plan.Process, expand func(string) (string, error), scratch string) ([]string, error) {
	var found []string
	add := func(s string) error {
		dir, err := expand(s)
		if err != nil {
			return err
		}
		if rel, below := strings.CutPrefix(dir, scratch+"/"); below && CheckPath(rel) == nil {
			found = append(found, rel)
		}
		return nil
	}
	if err := add(p.Cwd); err != nil {
		return nil, err
	}
	for _, e := range p.Env {
		key, value, _ := strings.Cut(e, "=")
		if key == "HOME" || key == "TMPDIR" || strings.HasPrefix(key, "XDG_") {
			if err := add(value); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
