package sandbox

import (
	"path"
	"strings"

	"foundry/plan"
)

// FoundryPath is where this program lies in every container: root-owned,
// read-only, on nobody's PATH.
const FoundryPath = "/.foundry/foundry"

// Lookup returns the values of the tokens of a task, for plan.Expand. Place
// says where the process sees a mount ("" when it does not); foundry is where
// it sees this program. An input that is absent in this attempt stands for its
// mount's place, where the process finds nothing.
func (t Task) Lookup(place func(plan.Mount) string, foundry string) func(token string) (string, bool) {
	find := func(match func(source string) bool) (string, bool) {
		for _, m := range t.Sandbox.Mounts {
			if match(m.Source) {
				p := place(m)
				return p, p != ""
			}
		}
		return "", false
	}
	is := func(source string) func(string) bool {
		return func(s string) bool { return s == source }
	}
	return func(token string) (string, bool) {
		switch token {
		case "out":
			return find(is(plan.MountOutput))
		case "scratch":
			return find(is(plan.MountScratch))
		case "recorded":
			return find(func(s string) bool { return strings.HasPrefix(s, plan.BundleRecorded+":") })
		case "foundry":
			return foundry, foundry != ""
		case "skill":
			if t.Skill == "" {
				return "", false
			}
			return find(is(t.Skill))
		}
		class, id, _ := strings.Cut(token, ":")
		switch class {
		case "skill":
			return find(is(plan.BundleSkill + ":" + id))
		case "in":
			root, ok := find(is("in:" + id))
			if !ok {
				return "", false
			}
			return path.Join(root, t.InputPaths[id]), true
		}
		v, ok := t.Tokens[token]
		return v, ok
	}
}

// ContainerLookup is Lookup as seen from inside a container, where everything
// is at the destination that the plan gives it.
func (t Task) ContainerLookup() func(token string) (string, bool) {
	return t.Lookup(func(m plan.Mount) string { return m.Destination }, FoundryPath)
}

// Absent reports whether a mount is skipped in this attempt: the input that it
// would hold is absent.
func (t Task) Absent(m plan.Mount) bool {
	id, ok := strings.CutPrefix(m.Source, "in:")
	if !ok {
		return false
	}
	_, there := t.InputPaths[id]
	return !there
}
