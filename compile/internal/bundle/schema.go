package bundle

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"foundry/plan/document"
)

const (
	schemaAddress = "schema:///schema.json"
	wholeRule     = "a schema must be whole in itself, with other documents' definitions under $defs"

	schemaFolder = "references/schemas/"
	schemaSuffix = ".schema.json"
)

func schemaPath(name string) string { return schemaFolder + name + schemaSuffix }

// Schemas returns the schemas that s brings, by name: the bytes of its files
// references/schemas/NAME.schema.json.
func Schemas(s *Skill) map[string][]byte {
	schemas := map[string][]byte{}
	for p, data := range s.Data {
		name, ok := strings.CutPrefix(p, schemaFolder)
		name, suffix := strings.CutSuffix(name, schemaSuffix)
		if ok && suffix && name != "" && !strings.Contains(name, "/") {
			schemas[name] = data
		}
	}
	return schemas
}

// schemaLimits bounds a schema: 8 MiB and 200,000 values, forty times the
// largest real one.
var schemaLimits = document.Limits{Bytes: 8 << 20, Depth: 128, Values: 200_000}

// CompileSchema reports why data is no usable JSON Schema, nil when it is one.
// Nothing is loaded from the network or a disk: a reference to another
// document, except to the published metaschemas, is an error. Name is for the
// error alone.
func CompileSchema(name string, data []byte) error {
	v, err := document.ParseJSON(data, schemaLimits)
	if err != nil {
		return fmt.Errorf("schema %q: %w", name, err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaAddress, v.Any()); err != nil {
		return fmt.Errorf("schema %q: %s", name, schemaWhy(v, err))
	}
	if _, err := c.Compile(schemaAddress); err != nil {
		return fmt.Errorf("schema %q: %s", name, schemaWhy(v, err))
	}
	return nil
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New(wholeRule)
}

// schemaWhy is the text of err, the same on every run. The library reports the
// first failure that it meets in an order that changes, so the usual ones are
// looked for again in the order of the document.
func schemaWhy(v *document.Value, err error) string {
	f := &faults{root: v, ids: map[string]string{}}
	f.walk(v, "", false)
	for _, r := range f.refs {
		f.ref(r.to, r.at)
	}
	if len(f.found) > 0 {
		return strings.Join(f.found, "; ")
	}
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(err.Error(), schemaAddress, "")) {
		line = strings.TrimSpace(line)
		if !strings.HasSuffix(line, "'allOf' failed") && !strings.HasSuffix(line, "validation failed") {
			lines = append(lines, line)
		}
	}
	if len(lines) > 1 {
		slices.Sort(lines[1:])
	}
	return strings.Join(lines, "; ")
}

// faults finds what makes a schema fail to compile, in document order.
type faults struct {
	root  *document.Value
	ids   map[string]string // $id → where it stands first
	refs  []reference
	found []string
}

type reference struct{ to, at string }

// maxFaults bounds what one message lists.
const maxFaults = 5

func (f *faults) add(format string, args ...any) {
	if len(f.found) < maxFaults {
		f.found = append(f.found, fmt.Sprintf(format, args...))
	}
}

// walk looks at a value at a pointer. Names says that the keys of v are names
// that the author chose, not words of JSON Schema.
func (f *faults) walk(v *document.Value, at string, names bool) {
	for i, item := range v.Items {
		f.walk(item, fmt.Sprintf("%s/%d", at, i), false)
	}
	for _, m := range v.Members {
		here := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m.Key)
		if names {
			f.walk(m.Value, here, false)
			continue
		}
		switch m.Key {
		case "enum", "const", "default", "examples":
			continue
		case "$id", "id":
			f.id(m.Value, here)
		case "$ref", "$dynamicRef":
			if m.Value.Kind == document.String {
				f.refs = append(f.refs, reference{m.Value.Str, here})
			}
		case "pattern":
			f.pattern(m.Value.Str, here)
		case "patternProperties":
			for _, p := range m.Value.Members {
				f.pattern(p.Key, here)
			}
		}
		chosen := m.Key == "properties" || m.Key == "patternProperties" || m.Key == "$defs" || m.Key == "definitions" || m.Key == "dependentSchemas"
		f.walk(m.Value, here, chosen)
	}
}

func (f *faults) id(v *document.Value, at string) {
	if v.Kind != document.String || strings.HasPrefix(v.Str, "#") {
		return
	}
	if first, ok := f.ids[v.Str]; ok {
		f.add("the $id %q at %q stands at %q already", v.Str, at, first)
		return
	}
	f.ids[v.Str] = at
}

// ref checks a reference to another document, and a pointer into this one
// where no $id changes what it is relative to.
func (f *faults) ref(to, at string) {
	document, pointer, _ := strings.Cut(to, "#")
	if document != "" {
		if !f.holds(document) {
			f.add("%q refers to %q, which this schema does not hold: %s", at, to, wholeRule)
		}
		return
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil || !strings.HasPrefix(pointer, "/") || len(f.ids) > 0 {
		return
	}
	if _, err := f.root.Pointer(pointer); err != nil {
		f.add("%q refers to %q, and there is nothing", at, to)
	}
}

// holds reports whether a reference may be to a part of this schema, or to one
// of the metaschemas, which the library brings.
func (f *faults) holds(document string) bool {
	for _, scheme := range []string{"http://", "https://"} {
		if strings.HasPrefix(document, scheme+"json-schema.org/") {
			return true
		}
	}
	for id := range f.ids {
		id, _, _ = strings.Cut(id, "#")
		if id == document || strings.HasSuffix(id, "/"+strings.TrimPrefix(document, "./")) {
			return true
		}
	}
	return false
}

func (f *faults) pattern(expr, at string) {
	if _, err := regexp.Compile(expr); err != nil {
		f.add("the pattern %q at %q is no regular expression of RE2", clip(expr), at)
	}
}
