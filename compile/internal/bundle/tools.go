package bundle

import (
	"fmt"

	"foundry/plan/document"
)

// tools reads a list of required tools, of a skill or of an assembly. All keys
// of all real ones are known, so an unknown one is refused. Nothing is
// interpolated: "${HOME}" stays as it is.
func (s *source) tools(items []*document.Value) ([]RequiredTool, bool) {
	var tools []RequiredTool
	seen := map[string]bool{}
	ok := true
	for i, item := range items {
		o, good := s.object(item, fmt.Sprintf("required tool %d", i+1), refuse,
			"tool", "origin", "package", "package_version", "invoke", "invoke_fallback",
			"availability_check", "docs_url", "source", "implied_by", "reference")
		if !good {
			ok = false
			continue
		}
		for _, key := range []string{"origin", "package", "package_version", "invoke", "invoke_fallback", "docs_url", "source", "reference"} {
			_, good := o.optText(key)
			ok = ok && good
		}
		_, impliedOK := o.texts("implied_by")
		name, nameOK := o.id("tool")
		check, checkOK := o.optText("availability_check")
		if !impliedOK || !nameOK || !checkOK {
			ok = false
			continue
		}
		if seen[name] {
			s.problems.Errorat(s.at(item.Pos), summaryDuplicate, fmt.Sprintf("The tool %q is listed twice. Keep one.", name))
			ok = false
			continue
		}
		seen[name] = true
		t := RequiredTool{Tool: name, Check: check, At: s.at(item.Pos)}
		t.Argv, t.Expect, t.Bad = ParseCheck(name, check)
		tools = append(tools, t)
	}
	return tools, ok
}
