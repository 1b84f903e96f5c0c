package bundle

import (
	"strings"
	"testing"
)

func TestCompileSchema(t *testing.T) {
	good := map[string]string{
		"plain":      `{"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}}`,
		"draft 7":    `{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {}}, "items": {"$ref": "#/definitions/n"}}`,
		"own id":     `{"$id": "https://example.org/a.json", "$ref": "a.json#/$defs/n", "$defs": {"n": {}}}`,
		"metaschema": `{"$ref": "https://json-schema.org/draft/2020-12/schema"}`,
		"recursive":  `{"properties": {"next": {"$ref": "#"}}}`,
	}
	for name, text := range good {
		if err := CompileSchema(name, []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := map[string][2]string{
		"not json":      {`{`, `schema "not json": `},
		"duplicate key": {`{"type": "object", "type": "array"}`, "twice"},
		"wrong type":    {`{"type": "objekt"}`, "/type"},
		"dangling":      {`{"$ref": "#/$defs/no"}`, "there is nothing"},
		"network":       {`{"$ref": "https://example.org/x.json"}`, "whole in itself"},
		"file":          {`{"$ref": "file:///etc/passwd"}`, "whole in itself"},
		"sibling":       {`{"$ref": "other.schema.json"}`, "whole in itself"},
		"metaschema":    {`{"$schema": "https://example.org/meta"}`, "whole in itself"},
		"same id twice": {`{"$defs": {"a": {"$id": "http://x/y"}, "b": {"$id": "http://x/y"}}}`, "http://x/y"},
		"bad pattern":   {`{"pattern": "("}`, "pattern"},
		"deep":          {strings.Repeat(`{"not":`, 1000) + "{}" + strings.Repeat("}", 1000), "deep"},
	}
	for name, c := range bad {
		err := CompileSchema(name, []byte(c[0]))
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
	}
}

func TestCompileSchemaIsDeterministic(t *testing.T) {
	for _, text := range []string{
		`{"type": 1, "required": 2, "items": 3, "properties": 4, "minimum": "x", "$defs": {"a": {"type": 5}}}`,
		`{"properties": {"a": {"pattern": "("}, "b": {"pattern": "["}, "c": {"$ref": "#/no"}, "d": {"$ref": "x.json"}}, "patternProperties": {"*": {}}}`,
		`{"$defs": {"a": {"$id": "http://x/y"}, "b": {"$id": "http://x/y"}, "c": {"$id": "http://x/z"}, "d": {"$id": "http://x/z"}}}`,
	} {
		want := CompileSchema("s", []byte(text))
		if want == nil {
			t.Fatal("compiled")
		}
		for range 30 {
			if got := CompileSchema("s", []byte(text)); got == nil || got.Error() != want.Error() {
				t.Fatalf("%v\nthen\n%v", want, got)
			}
		}
	}
}

func TestCorpusSchemas(t *testing.T) {
	root := corpus(t)
	for _, name := range []string{"cwl-summary-to-galaxy-template", "nextflow-summary-to-galaxy-template"} {
		data, err := root.ReadFile(name + "/references/notes/gxformat2.schema.json")
		if err != nil {
			t.Fatal(err)
		}
		first := CompileSchema("gxformat2", data)
		if first == nil || !strings.Contains(first.Error(), "stands at") {
			t.Errorf("%s: %v", name, first)
		}
		for range 3 {
			if again := CompileSchema("gxformat2", data); again == nil || again.Error() != first.Error() {
				t.Errorf("%s: %v, then %v", name, first, again)
			}
		}
	}
}
