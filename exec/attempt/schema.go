package attempt

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"foundry/exec/record"
	"foundry/plan"
	"foundry/plan/document"
	"foundry/sandbox"
)

// Bounds of what is said about one artifact.
const (
	maxProblems      = 1000
	maxProblemText   = 300 // bytes
	maxSchemaBytes   = 16 << 20
	maxDocumentBytes = document.DefaultBytes
)

// Schemas compiles each JSON Schema of a plan once. It never uses a network or
// a file of the host: a reference that leads out of the bundle is an error.
type Schemas struct {
	store   *sandbox.Store
	bundles map[string]*plan.Bundle

	mu   sync.Mutex
	done map[string]*Schema // by bundle id
}

// Schema is a compiled schema; Digest is its file's, or the bundle's where the
// bundle has several files.
type Schema struct {
	Digest   string
	compiled *jsonschema.Schema
}

// NewSchemas serves the schema bundles of p from the store.
func NewSchemas(p *plan.Plan, store *sandbox.Store) *Schemas {
	s := &Schemas{store: store, bundles: map[string]*plan.Bundle{}, done: map[string]*Schema{}}
	for i := range p.Bundles {
		s.bundles[p.Bundles[i].ID] = &p.Bundles[i]
	}
	return s
}

// noLoader refuses every reference to something outside of the bundle.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("the reference leads out of the schema's bundle, and nothing is fetched")
}

// Get compiles the schema of a bundle. In a bundle with several files the
// first one, by path, is the schema, and the others are what it refers to.
func (s *Schemas) Get(id string) (*Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sch := s.done[id]; sch != nil {
		return sch, nil
	}
	b := s.bundles[id]
	if b == nil {
		return nil, fmt.Errorf("attempt: the plan has no bundle %s", id)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	root := ""
	files := 0
	digest := b.Digest
	for _, f := range b.Files {
		if f.Mode == plan.ModeDir {
			continue
		}
		data, err := s.store.ReadAll(f.Digest, maxSchemaBytes)
		if err != nil {
			return nil, err
		}
		doc, err := document.ParseJSON(data, document.Limits{})
		if err != nil {
			return nil, fmt.Errorf("attempt: schema %s: %s: %w", id, f.Path, err)
		}
		at := (&url.URL{Scheme: "bundle", Host: "schema", Path: "/" + f.Path}).String()
		if err := c.AddResource(at, doc.Any()); err != nil {
			return nil, fmt.Errorf("attempt: schema %s: %s: %w", id, f.Path, err)
		}
		if files++; files == 1 {
			root, digest = at, f.Digest
		} else {
			digest = b.Digest
		}
	}
	if root == "" {
		return nil, fmt.Errorf("attempt: schema %s has no file", id)
	}
	compiled, err := c.Compile(root)
	if err != nil {
		return nil, fmt.Errorf("attempt: schema %s does not compile: %w", id, err)
	}
	sch := &Schema{Digest: digest, compiled: compiled}
	s.done[id] = sch
	return sch, nil
}

// Validate lists what is wrong with a document, sorted by pointer, without
// repetitions, at most maxProblems of them; the second result counts the rest.
func (s *Schema) Validate(doc *document.Value) ([]record.Problem, int64) {
	err := s.compiled.Validate(doc.Any())
	if err == nil {
		return nil, 0
	}
	ve, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []record.Problem{{Rule: "schema", Message: clip(err.Error())}}, 0
	}
	var found []record.Problem
	leaves(ve, message.NewPrinter(language.English), &found)
	slices.SortFunc(found, func(a, b record.Problem) int {
		if c := strings.Compare(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		if c := strings.Compare(a.Rule, b.Rule); c != 0 {
			return c
		}
		return strings.Compare(a.Message, b.Message)
	})
	found = slices.Compact(found)
	if len(found) > maxProblems {
		return found[:maxProblems], int64(len(found) - maxProblems)
	}
	return found, 0
}

// leaves collects the innermost errors. What is missing or not allowed is
// reported at its own pointer, not at the object around it: that is where the
// author of the artifact has to look.
func leaves(e *jsonschema.ValidationError, p *message.Printer, found *[]record.Problem) {
	if len(e.Causes) > 0 {
		for _, c := range e.Causes {
			leaves(c, p, found)
		}
		return
	}
	at := pointer(e.InstanceLocation)
	rule := "schema"
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		rule = clip(path[0])
	}
	below := func(names []string, msg string) {
		for _, n := range names {
			*found = append(*found, record.Problem{Pointer: clip(at + pointer([]string{n})), Rule: rule, Message: msg})
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		below(k.Missing, "it is required and missing")
	case *kind.DependentRequired:
		below(k.Missing, clip(fmt.Sprintf("it is required beside %q and missing", k.Prop)))
	case *kind.Dependency:
		below(k.Missing, clip(fmt.Sprintf("it is required beside %q and missing", k.Prop)))
	case *kind.AdditionalProperties:
		below(k.Properties, "the schema does not allow it")
	default:
		*found = append(*found, record.Problem{Pointer: clip(at), Rule: rule, Message: clip(e.ErrorKind.LocalizedString(p))})
	}
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(steps []string) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteByte('/')
		b.WriteString(escapePointer.Replace(s))
	}
	return b.String()
}

// clip bounds a text that may hold a worker's words.
func clip(s string) string { return bounded(s, maxProblemText) }
