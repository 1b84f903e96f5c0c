package bundle

import (
	"fmt"
	"slices"

	"foundry/compile/internal/diag"
	"foundry/plan"
	"foundry/plan/document"
)

// knownOptions are the options of an assembly that mean something here.
var knownOptions = []string{"checkpoint", "use-subagents"}

// summaryNotCast says that an assembly names a skill that was not published.
const summaryNotCast = "Skill not cast"

// ReadAssembly decodes the bytes of an _assembly.json strictly: unknown,
// duplicate, missing and wrong-case keys are refused. Display is how the user
// named the file. The assembly is nil when the problems have errors.
func ReadAssembly(data []byte, display string) (*Assembly, diag.List) {
	var problems diag.List
	s := &source{file: display, data: data, problems: &problems}
	a := s.assembly()
	problems.Sort()
	if problems.HasErrors() {
		return nil, problems
	}
	return a, problems
}

func (s *source) assembly() *Assembly {
	v, ok := s.parse(document.ParseJSON, document.Limits{Bytes: 64 << 20, Depth: 16})
	if !ok {
		return nil
	}
	o, ok := s.object(v, "the assembly", refuse,
		"source_pipeline", "source_revision", "harness_name", "options", "required_tools", "phases")
	if !ok {
		return nil
	}
	a := &Assembly{Digest: plan.Digest(s.data), At: s.at(v.Pos)}
	a.Pipeline, _ = o.id("source_pipeline")
	a.SourceRevision, _ = o.count("source_revision")
	o.optText("harness_name")
	a.Options = o.options()
	items, _ := o.list("required_tools")
	a.Tools, _ = s.tools(items)
	if o.need("phases") == nil {
		return nil
	}
	phases, ok := o.list("phases")
	if ok && len(phases) == 0 {
		o.bad("phases", "The assembly has no phases: there is nothing to compile.")
	}
	a.Phases = make([]Phase, 0, len(phases))
	for i, item := range phases {
		if p, ok := s.phase(item, i+1); ok {
			a.Phases = append(a.Phases, p)
		}
	}
	return a
}

// options returns the options, sorted.
func (o object) options() []string {
	options, _ := o.texts("options")
	items, _ := o.list("options")
	slices.Sort(options)
	for i, item := range items {
		if item.Kind != document.String || slices.Contains(knownOptions, item.Str) {
			continue
		}
		o.problems.Warnat(o.at(items[i].Pos), "Unknown option", fmt.Sprintf("The option %q of the assembly has no effect here.%s", item.Str, didYouMean(nearest(item.Str, knownOptions), knownOptions)))
	}
	for i := 1; i < len(options); i++ {
		if options[i] == options[i-1] {
			o.bad("options", fmt.Sprintf("The option %q is listed twice. Keep one.", options[i]))
		}
	}
	return options
}

func (s *source) phase(v *document.Value, number int) (Phase, bool) {
	what := fmt.Sprintf("phase %d", number)
	kinds := map[string][]string{
		"mold":   {"phase", "kind", "skill", "cast_present", "loop"},
		"branch": {"phase", "kind", "pattern", "chain", "cast_present"},
	}
	word := "mold" // whose keys are reported when there is no kind
	if kind := v.Get("kind"); kind != nil && kind.Kind == document.String {
		word = kind.Str
	}
	if kinds[word] == nil {
		known := []string{"branch", "mold"}
		object{s, v, what}.bad("kind", fmt.Sprintf("The kind of %s is %q.%s", what, word, didYouMean(nearest(word, known), known)))
		return Phase{}, false
	}
	o, ok := s.object(v, what, refuse, kinds[word]...)
	if !ok {
		return Phase{}, false
	}
	if _, ok := o.text("kind"); !ok {
		return Phase{}, false
	}
	p := Phase{At: s.at(v.Pos), Branch: word == "branch"}
	if p.Number, ok = o.count("phase"); !ok {
		return Phase{}, false
	}
	if p.Number != int64(number) {
		o.bad("phase", fmt.Sprintf("Phase %d stands at place %d: phases are numbered from 1, in order, without gaps.", p.Number, number))
		return Phase{}, false
	}
	if p.Branch {
		return p, o.branch(&p)
	}
	return p, o.mold(&p)
}

func (o object) mold(p *Phase) bool {
	skill, skillOK := o.id("skill")
	cast, castOK := o.boolean("cast_present")
	loop, loopOK := o.boolean("loop")
	if !skillOK || !castOK || !loopOK {
		return false
	}
	p.Skill, p.Loop = skill, loop
	if skill == UserSupplied {
		o.bad("skill", fmt.Sprintf("%q is what ends the chain of a branch and no skill.", skill))
		return false
	}
	if !cast {
		o.notCast("cast_present", skill)
		return false
	}
	return true
}

func (o object) notCast(key, skill string) {
	o.problems.Errorat(o.at(o.v.Get(key).Pos), summaryNotCast, fmt.Sprintf("%s says that the skill %q was not cast, so there is nothing to run. Cast it, or leave it out of the assembly.", capital(o.what), skill))
}

func (o object) branch(p *Phase) bool {
	pattern, ok := o.id("pattern")
	p.Pattern = pattern
	if o.need("chain") == nil || o.need("cast_present") == nil {
		return false
	}
	chain, chainOK := o.texts("chain")
	cast, castOK := o.list("cast_present")
	if !ok || !chainOK || !castOK {
		return false
	}
	if len(chain) == 0 {
		o.bad("chain", fmt.Sprintf("The chain of %s is empty: a branch needs an alternative.", o.what))
		return false
	}
	if len(chain) != len(cast) {
		o.bad("cast_present", fmt.Sprintf("%s has %d alternatives, but cast_present has %d entries. They belong together one by one.", capital(o.what), len(chain), len(cast)))
		return false
	}
	for i, skill := range chain {
		ok = o.alternative(skill, cast[i], slices.Contains(chain[:i], skill)) && ok
	}
	p.Chain = chain
	return ok
}

// alternative checks one member of a chain. Its cast entry is true for a
// skill and null for what the user supplies.
func (o object) alternative(skill string, cast *document.Value, repeated bool) bool {
	switch {
	case repeated:
		o.problems.Errorat(o.at(o.v.Get("chain").Pos), summaryDuplicate, fmt.Sprintf("%q stands twice in the chain of %s. Keep one.", skill, o.what))
	case !plan.ValidID(skill):
		o.bad("chain", fmt.Sprintf("The chain of %s holds %q: %s.", o.what, skill, idRule))
	case skill == UserSupplied && cast.Kind != document.Null:
		o.wrong(cast, "cast_present", "null for "+UserSupplied)
	case skill != UserSupplied && cast.Kind != document.Bool:
		o.wrong(cast, "cast_present", fmt.Sprintf("true or false for the skill %q", skill))
	case skill != UserSupplied && !cast.Bool:
		o.notCast("cast_present", skill)
	default:
		return true
	}
	return false
}
