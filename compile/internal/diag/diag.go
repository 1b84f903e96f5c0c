package diag

import (
	"cmp"
	"slices"
)

// Severity of a diagnostic.
type Severity int

// Severities, the worst first.
const (
	Error Severity = iota
	Warning
)

// Pos is a place in a file. Line and Column count from 1, Column in Unicode
// grapheme clusters as HCL does; Byte counts from 0.
type Pos struct{ Line, Column, Byte int }

// Range is a part of a file; the zero Range is "no place".
type Range struct {
	File       string // as the user named it, slash-separated
	Start, End Pos
}

// Diagnostic is one finding. Summary is constant text for its kind; Detail
// says what, why and the way out, in full sentences.
type Diagnostic struct {
	Severity Severity
	Summary  string
	Detail   string
	Subject  Range
}

// List is a set of diagnostics.
type List []Diagnostic

// HasErrors reports whether one of l is an error.
func (l List) HasErrors() bool {
	return slices.ContainsFunc(l, func(d Diagnostic) bool { return d.Severity == Error })
}

// Errorat appends an error.
func (l *List) Errorat(at Range, summary, detail string) {
	*l = append(*l, Diagnostic{Error, summary, detail, at})
}

// Warnat appends a warning.
func (l *List) Warnat(at Range, summary, detail string) {
	*l = append(*l, Diagnostic{Warning, summary, detail, at})
}

// Sort orders l by file, place, severity and text, and drops exact repeats, so
// that the same input gives the same bytes.
func (l *List) Sort() {
	slices.SortFunc(*l, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Subject.File, b.Subject.File),
			cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte),
			cmp.Compare(a.Subject.Start.Line, b.Subject.Start.Line),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Summary, b.Summary),
			cmp.Compare(a.Detail, b.Detail),
			cmp.Compare(a.Subject.End.Byte, b.Subject.End.Byte),
		)
	})
	*l = slices.Compact(*l)
}
