package bundle

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"foundry/compile/internal/diag"
	"foundry/plan"
	"foundry/plan/document"
)

// Files of a bundle that the compiler reads.
const (
	skillFile      = "SKILL.md"
	provenanceFile = "_provenance.json"
	verifyFile     = "_verify.json"
	toolsFile      = "_required_tools.json"
)

// ReadSkill reads the skill name of the skills folder root of fsys. Display is
// how the user named that folder: problems name files as display/name/…. The
// skill is nil when the problems have errors.
//
// Problems are warnings where the skill still says what it needs: an unknown
// key in its header, a missing _provenance.json, a file that drifted
// (SummaryDrift).
func ReadSkill(fsys fs.FS, root, name, display string) (*Skill, diag.List) {
	var problems diag.List
	r := &skillReader{display: path.Join(display, name), problems: &problems}
	if !plan.ValidID(name) {
		problems.Errorat(diag.Range{File: display}, "Invalid skill name", fmt.Sprintf("%q is no name of a skill: %s.", name, idRule))
		return nil, problems
	}
	if _, err := fs.Lstat(fsys, path.Join(root, name)); err != nil {
		problems.Errorat(diag.Range{File: display}, "Skill not found", fmt.Sprintf("There is no folder %q: %s.%s", name, reason(err), nearestFolder(fsys, root, name)))
		return nil, problems
	}
	files, data, treeProblems := ReadTree(fsys, path.Join(root, name), r.display, Limits{})
	problems = append(problems, treeProblems...)
	if !problems.HasErrors() {
		r.skill = &Skill{Name: name, Data: data, Bundle: plan.Bundle{ID: plan.BundleSkill + ":" + name, Files: files}}
		r.read()
	}
	problems.Sort()
	if problems.HasErrors() {
		return nil, problems
	}
	return r.skill, problems
}

type skillReader struct {
	skill    *Skill
	display  string
	problems *diag.List
}

func (r *skillReader) source(file string) (*source, bool) {
	data, ok := r.skill.Data[file]
	return &source{file: path.Join(r.display, file), data: data, problems: r.problems}, ok
}

func (r *skillReader) read() {
	sk := r.skill
	digest, err := plan.TreeDigest(sk.Bundle.Files)
	if err != nil { // names are valid UTF-8, and nothing else can fail
		r.problems.Errorat(diag.Range{File: r.display}, "Unreadable folder", capital(err.Error())+".")
		return
	}
	sk.Bundle.Digest = digest
	s, ok := r.source(skillFile)
	sk.At = s.place(0)
	if !ok {
		r.noSkillFile()
		return
	}
	if s, ok := r.source(provenanceFile); ok {
		s.provenance(sk)
	} else {
		r.problems.Warnat(sk.At, "Skill without provenance", fmt.Sprintf("The bundle has no %s: what it reads and writes, and where it comes from, is not known. The policy must say what the skill's phase needs.", provenanceFile))
	}
	if s, ok := r.source(verifyFile); ok {
		s.verify(sk)
	}
	if s, ok := r.source(toolsFile); ok {
		r.tools(s)
	}
	description, body := s.header(sk.Name)
	sk.Description = description
	if body >= 0 {
		s.mentions(sk, body)
	}
}

func (r *skillReader) noSkillFile() {
	detail := fmt.Sprintf("The folder has no %s, so it is no skill.", skillFile)
	for name := range r.skill.Data {
		if foldName(name) == foldName(skillFile) {
			detail = fmt.Sprintf("The file %q must be named %s: some systems keep the two apart.", name, skillFile)
		}
	}
	r.problems.Errorat(diag.Range{File: r.display}, "Skill without SKILL.md", detail)
}

// tools reads _required_tools.json, whose references must be in the bundle.
func (r *skillReader) tools(s *source) {
	v, ok := s.parse(document.ParseJSON, provenanceLimits)
	if !ok {
		return
	}
	if v.Kind != document.Array {
		s.problems.Errorat(s.at(v.Pos), summaryWrongType, fmt.Sprintf("The document must be a list of tools, it is %s.", aKind(v.Kind)))
		return
	}
	tools, ok := s.tools(v.Items)
	if !ok {
		return
	}
	r.skill.Tools = tools
	for _, item := range v.Items {
		ref := item.Get("reference")
		if ref == nil {
			continue
		}
		if _, ok := r.skill.Data[ref.Str]; !ok {
			s.problems.Errorat(s.at(ref.Pos), "File missing from the bundle", fmt.Sprintf("The tool's \"reference\" is %q, but the bundle has no such file.", ref.Str))
		}
	}
}

func nearestFolder(fsys fs.FS, root, name string) string {
	entries, err := fs.ReadDir(fsys, root)
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	if near := nearest(name, names); near != "" {
		return didYouMean(near, names)
	}
	return ""
}

func byPath(f plan.BundleFile, name string) int { return strings.Compare(f.Path, name) }
