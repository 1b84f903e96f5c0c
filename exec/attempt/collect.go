package attempt

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"foundry/exec/record"
	"foundry/harness"
	"foundry/plan"
	"foundry/sandbox"
)

// problems is what is wrong with one artifact; dropped counts those beyond the
// list.
type problems struct {
	list    []record.Problem
	dropped int64
}

func tooLarge(bytes int64) problems {
	return problems{list: one(ruleSize, fmt.Sprintf("it has %d bytes; more than %d are not parsed", bytes, int64(maxDocumentBytes)))}
}

// failure names the schema and every pointer.
func (p problems) failure(what, schema string) *record.Failure {
	var b strings.Builder
	b.WriteString(what)
	if schema != "" {
		b.WriteString(" does not satisfy schema " + schema)
	} else {
		b.WriteString(" is not valid")
	}
	// One line for each pointer: a reader looks for one of them.
	b.WriteString(":")
	for i := 0; i < len(p.list); {
		end := i + 1
		for end < len(p.list) && p.list[end].Pointer == p.list[i].Pointer {
			end++
		}
		b.WriteString("\n" + about(p.list[i:end]))
		i = end
	}
	if p.dropped > 0 {
		fmt.Fprintf(&b, "\nand %d more", p.dropped)
	}
	f := record.Fail(record.ReasonInvalidArtifact, b.String())
	f.Source = record.SourceArtifact
	return f
}

// about says what is wrong at one pointer. Alternatives of a schema fail with
// one problem each: their rules are enough here, attempt.json has them all.
func about(list []record.Problem) string {
	at := list[0].Pointer
	if at == "" {
		at = "the document"
	}
	if len(list) == 1 {
		return at + " (" + list[0].Rule + ": " + list[0].Message + ")"
	}
	var rules []string
	for _, p := range list {
		if !slices.Contains(rules, p.Rule) {
			rules = append(rules, p.Rule)
		}
	}
	return fmt.Sprintf("%s (%d problems: %s)", at, len(list), strings.Join(rules, ", "))
}

// collect freezes the outputs, judges them, and promotes them if nothing
// failed. What stays unpromoted is kept under rejected/.
func (a *attempt) collect(ctx context.Context, output string, failure *record.Failure) *record.Failure {
	b := a.budget()
	frozen := filepath.Join(a.dir, record.PartialDir)
	// A worker that was killed may have left much; freezing it is bounded by the
	// same limits, and goes on when the run is interrupted meanwhile.
	clean, cancel := cleanup(ctx)
	defer cancel()
	result, err := sandbox.Collect(clean, output, a.job.Node.Outputs, sandbox.Limits{Bytes: b.OutputBytes, Files: b.OutputFiles}, frozen)
	if err != nil {
		a.leftover(sandbox.RemoveTree(frozen))
		return first(failure, HostFailure("freezing the outputs", err))
	}
	failure = first(failure, a.judge(result))
	if failure == nil {
		if err := a.promote(result); err != nil {
			a.out.Artifacts = nil
			failure = HostFailure("promoting the outputs", err)
		}
	}
	if failure == nil || a.leaks() || !slices.ContainsFunc(result.Collected, func(c sandbox.Collected) bool { return c.Present }) {
		a.leftover(sandbox.RemoveTree(frozen))
		return failure
	}
	if err := os.Rename(frozen, filepath.Join(a.dir, record.RejectedDir)); err != nil {
		a.leftover(err)
	}
	return failure
}

// submitted judges what a living worker has left so far, on a copy: what counts
// is judged after its death. The problems are all that it is told.
func (a *attempt) submitted(ctx context.Context, sb sandbox.Sandbox) []string {
	trial := &attempt{Runner: a.Runner, job: a.job, dir: a.dir, rec: a.blank(a.job), secret: a.secret}
	b := a.budget()
	copied := filepath.Join(a.Folder.Path(record.WorkDir), a.job.ID+".submitted")
	defer func() { a.leftover(sandbox.RemoveTree(copied)) }()
	result, err := sandbox.Collect(ctx, sb.Output(), a.job.Node.Outputs, sandbox.Limits{Bytes: b.OutputBytes, Files: b.OutputFiles}, copied)
	if err != nil {
		return []string{"the output folder could not be read"}
	}
	failure := trial.judge(result)
	if failure == nil {
		return nil
	}
	var found []string
	for _, r := range trial.rec.Refused {
		found = append(found, fmt.Sprintf("%s: %s", r.Path, r.Reason))
	}
	for _, o := range trial.rec.Outputs {
		for _, p := range o.Problems {
			found = append(found, fmt.Sprintf("%s %s: %s: %s", o.Filename, p.Pointer, p.Rule, p.Message))
		}
	}
	if len(found) == 0 {
		found = append(found, failure.Detail)
	}
	const most = 50
	if n := len(found); n > most {
		found = append(found[:most], fmt.Sprintf("and %d more", n-most))
	}
	return found
}

// leaks reports whether an output held a secret: then not even the refused bytes
// are kept.
func (a *attempt) leaks() bool {
	return slices.ContainsFunc(a.rec.Outputs, func(o record.Output) bool {
		return slices.ContainsFunc(o.Problems, func(p record.Problem) bool { return p.Rule == ruleSecret })
	})
}

func first(a, b *record.Failure) *record.Failure {
	if a != nil {
		return a
	}
	return b
}

// judge records the state of every output and returns the first failure: a
// refusal of the folder, else that of the first output, as the plan lists them.
func (a *attempt) judge(result sandbox.Result) *record.Failure {
	var failure *record.Failure
	for _, r := range result.Refusals {
		a.rec.Refused = append(a.rec.Refused, record.Refused{Artifact: r.Artifact, Path: text(r.Path), Reason: r.Reason, Detail: text(r.Detail)})
		failure = first(failure, a.refusal(r, result))
	}
	if len(result.Refusals) > 1 {
		failure.Detail = text(failure.Detail + "\n" + alsoRefused(result.Refusals[1:]))
	}
	for _, name := range result.Undeclared.Names {
		a.rec.Undeclared.Names = append(a.rec.Undeclared.Names, text(name))
	}
	a.rec.Undeclared.Count, a.rec.Undeclared.More = result.Undeclared.Count, result.Undeclared.More
	for i, c := range result.Collected {
		out := &a.rec.Outputs[i]
		if !c.Present {
			refused := slices.ContainsFunc(result.Refusals, func(r sandbox.Refusal) bool { return r.Artifact == c.Output.Artifact })
			if refused {
				out.State = record.OutputInvalid
			} else if c.Output.Required == plan.RequiredAlways {
				failure = first(failure, record.Fail(record.ReasonMissingArtifact,
					fmt.Sprintf("output %s: the worker left no %s", c.Output.Artifact, c.Output.Filename)))
			}
			continue
		}
		out.Digest, out.Bytes, out.Files = c.Digest, c.Bytes, countFiles(c.Files)
		found, schema, err := a.outputProblems(c)
		if err == nil {
			err = a.secretProblems(c, &found)
		}
		if err != nil {
			failure = first(failure, HostFailure("checking the output "+c.Output.Artifact, err))
			continue
		}
		out.Schema, out.Problems, out.Dropped, out.State = schema, found.list, found.dropped, record.OutputValid
		if len(found.list) > 0 {
			out.State = record.OutputInvalid
			f := found.failure(fmt.Sprintf("output %s (%s)", c.Output.Artifact, c.Output.Filename), schema)
			if slices.ContainsFunc(found.list, func(p record.Problem) bool { return p.Rule == ruleCast }) {
				f.Reason = record.ReasonProvenanceMismatch
			}
			failure = first(failure, f)
		}
	}
	return failure
}

// refusal is the failure that a refusal of the collector stands for.
func (a *attempt) refusal(r sandbox.Refusal, result sandbox.Result) *record.Failure {
	b := a.budget()
	detail := text(fmt.Sprintf("%s: %s: %s", r.Path, r.Reason, r.Detail))
	switch r.Reason {
	case sandbox.RefusedTooLarge:
		return record.Exceeded(record.ReasonBudgetExceeded, record.DimOutputBytes, b.OutputBytes, result.Bytes, record.SourceArtifact, detail)
	case sandbox.RefusedTooManyFiles:
		return record.Exceeded(record.ReasonBudgetExceeded, record.DimOutputFiles, b.OutputFiles, result.Files, record.SourceArtifact, detail)
	}
	f := record.Fail(record.ReasonInvalidArtifact, detail)
	if r.Artifact != "" {
		f.Detail = "output " + r.Artifact + ": " + f.Detail
	}
	f.Source = record.SourceArtifact
	return f
}

// alsoRefused names what was refused beside the first one; all of it is in the
// record.
func alsoRefused(list []sandbox.Refusal) string {
	const most = 5
	var named []string
	for _, r := range list[:min(len(list), most)] {
		named = append(named, fmt.Sprintf("%s (%s)", cmp.Or(r.Path, "the output folder"), r.Reason))
	}
	if n := len(list) - most; n > 0 {
		named = append(named, fmt.Sprintf("and %d more", n))
	}
	return "also refused: " + strings.Join(named, ", ")
}

// secretProblems refuses an artifact that holds the value of a credential, or a
// token: nothing of the run may keep it.
func (a *attempt) secretProblems(c sandbox.Collected, found *problems) error {
	for _, f := range c.Files {
		if f.Mode == plan.ModeDir {
			continue
		}
		at := c.Path
		if c.Output.Kind == plan.KindDirectory {
			at = filepath.Join(c.Path, filepath.FromSlash(f.Path))
		}
		holds, err := holdsSecret(a.secret, at)
		if err != nil {
			return err
		}
		if holds || a.secret.Contains([]byte(f.Path)) {
			found.list = append(found.list, record.Problem{Rule: ruleSecret, Message: "it holds the value of a credential or of a token"})
			return nil
		}
	}
	return nil
}

func (a *attempt) outputProblems(c sandbox.Collected) (problems, string, error) {
	if c.Output.Kind == plan.KindDirectory {
		return problems{}, "", nil
	}
	var schema *Schema
	digest := ""
	if c.Output.Schema != "" {
		s, err := a.Schemas.Get(c.Output.Schema)
		if err != nil {
			return problems{}, "", err
		}
		schema, digest = s, s.Digest
	}
	if !readWhole(c.Output.Kind, c.Output.Schema) {
		if c.Bytes == 0 {
			return problems{list: one(ruleEmpty, "the file has 0 bytes")}, digest, nil
		}
		return problems{}, digest, nil
	}
	if c.Bytes > maxDocumentBytes {
		return tooLarge(c.Bytes), digest, nil
	}
	data, err := os.ReadFile(c.Path)
	if err != nil {
		return problems{}, digest, err
	}
	if got := plan.Digest(data); got != c.Digest {
		return problems{}, digest, fmt.Errorf("the frozen bytes changed: %s was %s", got, c.Digest)
	}
	list, dropped := Check(c.Output.Kind, data, schema)
	if want := harness.CastArtifactSHA(a.Bundles[a.job.Node.Skill]); c.Output.Kind == plan.KindProvenance && want != "" {
		if p := castProblem(data, want); p != "" {
			list = append(list, record.Problem{Pointer: castPointer, Rule: ruleCast, Message: p})
		}
	}
	return problems{list, dropped}, digest, nil
}

// promote puts every present output into the store.
func (a *attempt) promote(result sandbox.Result) error {
	for i, c := range result.Collected {
		if !c.Present {
			continue
		}
		for _, f := range c.Files {
			if f.Mode == plan.ModeDir {
				continue
			}
			at := c.Path
			if c.Output.Kind == plan.KindDirectory {
				at = filepath.Join(c.Path, filepath.FromSlash(f.Path))
			}
			digest, _, err := a.Store.PutFile(at)
			if err != nil {
				return err
			}
			if digest != f.Digest {
				return fmt.Errorf("%s changed after it was frozen: it was %s and is %s", f.Path, f.Digest, digest)
			}
		}
		art := Artifact{Tree: c.Files, Artifact: record.Artifact{Artifact: c.Output.Artifact, Filename: c.Output.Filename,
			Kind: c.Output.Kind, Digest: c.Digest, Bytes: c.Bytes, Files: countFiles(c.Files)}}
		art.Exec = !art.Directory() && len(c.Files) == 1 && c.Files[0].Mode == plan.ModeExecutable
		if art.Directory() {
			if err := PutTree(a.Store, c.Files, c.Digest); err != nil {
				return err
			}
		}
		a.rec.Outputs[i].State = record.OutputPromoted
		a.out.Artifacts = append(a.out.Artifacts, art)
	}
	return nil
}

// tree is what a tree digest covers.
type tree struct {
	Files []plan.BundleFile `json:"files"`
}

// maxTreeBytes bounds a file list that is read again.
const maxTreeBytes = 256 << 20

// ArtifactOf makes an artifact from its record and the store alone.
func ArtifactOf(store *sandbox.Store, rec record.Artifact) (*Artifact, error) {
	a := &Artifact{Artifact: rec}
	if a.Directory() {
		data, err := store.ReadAll(rec.Digest, maxTreeBytes)
		if err != nil {
			return nil, err
		}
		var t tree
		if err := plan.DecodeCanonical(data, &t); err != nil {
			return nil, err
		}
		a.Tree = t.Files
		return a, nil
	}
	mode := plan.ModeRegular
	if rec.Exec {
		mode = plan.ModeExecutable
	}
	a.Tree = []plan.BundleFile{{Path: path.Base(rec.Filename), Mode: mode, Bytes: rec.Bytes, Digest: rec.Digest}}
	return a, nil
}

// PutTree stores the file list of a folder under the tree's own digest, so
// that the folder can be read again from its digest alone.
func PutTree(store *sandbox.Store, files []plan.BundleFile, digest string) error {
	data, err := plan.EncodeCanonical(tree{files})
	if err != nil {
		return err
	}
	got, err := store.Put(data)
	if err == nil && got != digest {
		err = fmt.Errorf("the file list has the digest %s, not %s", got, digest)
	}
	return err
}

func countFiles(files []plan.BundleFile) int64 {
	n := int64(0)
	for _, f := range files {
		if f.Mode != plan.ModeDir {
			n++
		}
	}
	return n
}
