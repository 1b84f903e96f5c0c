package view

import (
	"bytes"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"foundry/compile"
	"foundry/plan/diff"
)

// Places says where the sources of a plan say what stands at a path of it.
type Places interface {
	Place(path string) compile.Range
	Source(file string) []byte
}

// DiffSARIF writes what differs as SARIF 2.1.0. places are those of the plan
// after the change; nil where it comes from no policy.
func DiffSARIF(w io.Writer, r *diff.Report, version string, places Places) error {
	run := sarif.NewRun().WithTool(sarif.NewTool().WithDriver(sarif.NewToolComponent().WithName("foundry").WithVersion(version))).WithColumnKind("unicodeCodePoints")
	report := sarif.NewReport()
	report.AddRun(run)
	rules := map[string]bool{}
	for _, c := range r.Changes {
		if !rules[c.Row] {
			rules[c.Row] = true
			run.AddRule(c.Row).WithShortDescription(sarif.NewMultiformatMessageString().WithText("A change of " + c.Row + " of a plan"))
		}
		level := sarif.LevelNote
		if c.Class == diff.Widens {
			level = sarif.LevelWarning
		}
		message := string(c.Class) + ": " + c.Path + " " + string(c.Kind)
		if c.Before != "" || c.After != "" {
			message += ": " + orNone(fit(c.Before, maxCell)) + " → " + orNone(fit(c.After, maxCell))
		}
		result := run.CreateResultForRule(c.Row)
		result.WithLevel(level).WithMessage(sarif.NewTextMessage(Safe(message + ": " + c.Reason)))
		at := sarif.NewLocation()
		at.AddLogicalLocation(sarif.NewLogicalLocation().WithFullyQualifiedName(Safe(c.Path)))
		if places != nil {
			if p := places.Place(c.Path); p.File != "" {
				at.WithPhysicalLocation(physical(p, places.Source(p.File)))
			}
		}
		result.AddLocation(at)
	}
	return safeJSON(w, report)
}

// physical is a place in a file.
func physical(p compile.Range, src []byte) *sarif.PhysicalLocation {
	u := url.URL{Path: p.File}
	if strings.HasPrefix(p.File, "/") {
		u.Scheme = "file"
	}
	at := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(u.String()))
	if p.Start.Line == 0 {
		return at
	}
	region := sarif.NewRegion().WithStartLine(p.Start.Line).WithStartColumn(column(src, p.Start))
	if p.End.Line >= p.Start.Line && p.End.Byte > p.Start.Byte {
		region.WithEndLine(p.End.Line).WithEndColumn(column(src, p.End))
	}
	return at.WithRegion(region)
}

// column counts code points, as the file says; a place counts what a reader
// takes for one character.
func column(src []byte, p compile.Pos) int {
	if p.Byte > len(src) || len(src) == 0 {
		return max(1, p.Column)
	}
	line := src[bytes.LastIndexByte(src[:p.Byte], '\n')+1 : p.Byte]
	return 1 + utf8.RuneCount(line)
}
