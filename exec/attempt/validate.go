package attempt

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"foundry/exec/record"
	"foundry/plan"
	"foundry/plan/document"
)

// Rules of a problem that no schema states.
const (
	ruleEmpty    = "empty"
	ruleEncoding = "encoding"
	ruleFormat   = "format"
	ruleSize     = "size"
	ruleSecret   = "secret"
	ruleCast     = "cast_artifact_sha"
)

// castPointer is where a provenance says which bundle its artifact was made by.
const castPointer = "/generated/cast_artifact_sha"

// Check validates the bytes of one artifact of a kind, against a schema where
// there is one. A schema on a kind that has no document is judged as JSON.
func Check(kind string, data []byte, schema *Schema) ([]record.Problem, int64) {
	if len(data) == 0 {
		return one(ruleEmpty, "the file has 0 bytes"), 0
	}
	parse := document.ParseJSON
	switch kind {
	case plan.KindYAML, plan.KindProvenance:
		parse = document.ParseYAML
	case plan.KindJSON:
	case plan.KindMarkdown, plan.KindText:
		if !utf8.Valid(data) {
			return one(ruleEncoding, "the text is not valid UTF-8"), 0
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return one(ruleEncoding, "the text holds a NUL byte"), 0
		}
		if schema == nil {
			return nil, 0
		}
	default:
		if schema == nil {
			return nil, 0
		}
	}
	doc, err := parse(data, document.Limits{})
	if err != nil {
		return one(ruleFormat, clip(fmt.Sprintf("it is no strict %s document: %v", format(kind), err))), 0
	}
	if schema == nil {
		return nil, 0
	}
	return schema.Validate(doc)
}

func format(kind string) string {
	if kind == plan.KindYAML || kind == plan.KindProvenance {
		return "YAML"
	}
	return "JSON"
}

// castProblem holds what a provenance says of the bundle against the bundle's
// own hash, which the worker was told; "" is none.
func castProblem(data []byte, want string) string {
	doc, err := document.ParseYAML(data, document.Limits{})
	if err != nil {
		return "the document says nothing that can be read"
	}
	v, err := doc.Pointer(castPointer)
	switch {
	case err != nil:
		return "it does not say which bundle made it: " + clip(err.Error())
	case v.Kind != document.String:
		return "it is no text"
	case v.Str != want:
		return clip(fmt.Sprintf("it says %q, and the bundle is %s", v.Str, want))
	}
	return ""
}

func one(rule, msg string) []record.Problem {
	return []record.Problem{{Rule: rule, Message: msg}}
}

// readWhole reports whether bytes of a kind are read whole in order to be
// checked.
func readWhole(kind, schema string) bool {
	switch kind {
	case plan.KindJSON, plan.KindYAML, plan.KindMarkdown, plan.KindText, plan.KindProvenance:
		return true
	}
	return schema != ""
}
