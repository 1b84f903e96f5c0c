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
)

// Check validates the bytes of one artifact of a kind, against a schema where
// there is one. A schema on a kind that has no document is judged as JSON.
func Check(kind string, data []byte, schema *Schema) ([]record.Problem, int64) {
	if len(data) == 0 {
		return one(ruleEmpty, "the file has 0 bytes"), 0
	}
	parse := document.ParseJSON
	switch kind {
	case plan.KindYAML:
		parse = document.ParseYAML
	case plan.KindJSON, plan.KindProvenance:
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
	if kind == plan.KindYAML {
		return "YAML"
	}
	return "JSON"
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
