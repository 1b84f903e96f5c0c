package plan

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema.json is made of the types and of this table; go test -update writes
// it. The keys of the table are TYPE.FIELD.

const (
	nameForm   = `^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`
	nodeForm   = `^([a-zA-Z0-9][a-zA-Z0-9._-]{0,127}/)?[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}(#([2-9]|[1-9][0-9]{1,5})(\.[a-zA-Z0-9][a-zA-Z0-9._-]{0,127})?)?$`
	digestForm = `^sha256:[0-9a-f]{64}$`
	priceForm  = `^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`
	bundleForm = `^(skill|schema|input|recorded|package|oracle):[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`
	skillForm  = `^(skill|package):`
	schemaForm = `^schema:`
)

type limits struct{ least, most int64 }

var schemaEnums = map[string][]string{
	"Plan.Mode": modes, "Plan.Order": orders, "Input.Kind": kinds, "BundleFile.Mode": fileModes, "Node.Kind": nodeKinds,
	"NodeInput.Kind": kinds, "NodeOutput.Kind": kinds, "NodeOutput.Required": required, "Sandbox.Mode": sandboxes,
	"Sandbox.Network": networks, "Mount.Mode": mountModes, "Tool.By": toolWays, "Guard.Result": verdicts,
	"Property.Kind": properties, "Evaluation.Require": requires, "RunBudget.Unknown": append([]string{""}, unknowns...), "Fact.Source": sources, "Literal.Type": literals,
	"Expr.Op":    {OpAll, OpAny, OpNot, OpEq, OpNe, OpLt, OpLe, OpGt, OpGe, OpContains, OpMatches, OpExists, OpLength, OpEvery, OpSome, OpFact, OpLiteral, OpItem},
	"Fact.Field": {"exists", "bytes", "lines", "json", "yaml", "exit_code", "stdout", "status"},
}

// schemaPatterns hold for each entry where the field is a list.
var schemaPatterns = map[string]string{
	"Pipeline.Name": nameForm, "Pipeline.Options": nameForm, "Pipeline.Digest": digestForm, "Pipeline.Scenario": nameForm,
	"Input.ID": nameForm, "Input.Bundle": `^input:`, "Bundle.ID": bundleForm, "Bundle.Digest": digestForm, "Mold.ProvenanceDigest": digestForm,
	"BundleFile.Digest": digestForm, "BundleFile.Path": `^[^/\\]`, "Provider.Name": nameForm, "Provider.API": nameForm, "Provider.BaseURL": `^https?://`,
	"Provider.Credential": credentialForm.String(), "Price.Input": priceForm, "Price.Output": priceForm, "Price.CacheRead": priceForm, "Price.CacheWrite": priceForm,
	"Harness.Name": nameForm, "Harness.Adapter": nameForm, "Harness.Thinking": nameForm, "Node.ID": nodeForm, "Node.Needs": nodeForm, "Node.Skill": skillForm,
	"Node.NestedSkills": `^skill:`, "Node.NotApplicable": nameForm, "Check.Name": nameForm, "Process.Env": `^[A-Za-z_][A-Za-z0-9_]*=`,
	"Process.User": `^([1-9][0-9]{0,8}:[1-9][0-9]{0,8})?$`, "File.Path": `^\{scratch\}/`, "NodeInput.Artifact": nameForm, "NodeInput.From": `^((input|node|branch):.+|none)$`,
	"NodeInput.CarriedFrom": nodeForm, "NodeInput.Schema": schemaForm, "NodeOutput.Artifact": nameForm, "NodeOutput.Filename": `^[^/\\]`,
	"NodeOutput.Schema": schemaForm, "Sandbox.Image": `^(builtin|.+@sha256:[0-9a-f]{64})$`, "Sandbox.EgressHosts": hostForm.String(),
	"Sandbox.Credentials": credentialForm.String(), "Sandbox.WorkerCredentials": credentialForm.String(), "Mount.Destination": `^/.`,
	"Loop.ID": nameForm, "Loop.Body": nodeForm, "Loop.Carries": nameForm, "Branch.ID": nameForm, "Branch.Alternatives": nodeForm,
	"Branch.Otherwise": `^(input:.+|fail)$`, "Branch.Artifacts": nameForm, "Probe.Tool": nameForm, "Probe.Image": `^(builtin|.+@sha256:[0-9a-f]{64})$`,
	"Tool.Name": nameForm, "Tool.Image": `^(builtin|.+@sha256:[0-9a-f]{64})$`, "Package.Bundle": `^package:`, "Callable.Skill": `^skill:`, "Callable.Harness": nameForm,
	"Guard.Name": nameForm, "Guard.Digest": digestForm, "Property.Digest": digestForm, "Case.Digest": digestForm,
	"Expr.Pointer": `^(/|$)`, "Fact.Pointer": `^(/|$)`,
}

var schemaLimits = map[string]limits{
	"Plan.FormatVersion": {FormatVersion, FormatVersion}, "Pipeline.SourceRevision": {0, -1}, "Mold.Revision": {0, -1}, "BundleFile.Bytes": {0, MaxBytes},
	"Model.MaxOutput": {1, maxOutputTokensCap}, "RunBudget.WallSeconds": {0, MaxWallSeconds}, "RunBudget.CostMicroUSD": {0, MaxRunCost}, "RunBudget.Tokens": {0, MaxRunTokens},
	"WorstCase.UncappedCostMicroUSD": {0, -1}, "WorstCase.CostMicroUSD": {0, MaxRunCost}, "WorstCase.UncappedWallSeconds": {0, -1}, "WorstCase.WallSeconds": {0, MaxWallSeconds},
	"WorstCase.UncappedTokens": {0, -1}, "WorstCase.Tokens": {0, MaxRunTokens}, "Node.Phase": {0, MaxNodes}, "Node.SubmitAttempts": {0, MaxSubmitAttempts}, "Mount.Bytes": {1, MaxBytes},
	"Resources.MemoryBytes": {1, MaxMemoryBytes}, "Resources.PIDs": {1, MaxPIDs}, "Resources.CPUMillis": {1, MaxCPUMillis},
	"NodeBudget.WallSeconds": {1, MaxWallSeconds}, "NodeBudget.Turns": {0, MaxTurns}, "NodeBudget.ToolCalls": {0, MaxTurns}, "NodeBudget.Tokens": {0, MaxAttemptTokens},
	"NodeBudget.CostMicroUSD": {0, MaxAttemptCost}, "NodeBudget.OutputBytes": {0, MaxBytes}, "NodeBudget.OutputFiles": {0, MaxFiles},
	"Loop.MaxIterations": {MinIterations, MaxIterations}, "Callable.MaxCalls": {1, MaxCalls},
}

// schemaFilled lists have at least one entry.
var schemaFilled = map[string]bool{"Plan.Nodes": true, "Bundle.Files": true, "Process.Argv": true, "Loop.Body": true, "Branch.Alternatives": true, "Probe.Argv": true}

// object is a JSON object with the order of its keys.
type object []any // key, value, key, value …

func (o object) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i < len(o); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(o[i])
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(o[i+1])
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

type schemaMaker struct {
	defs object
	done map[reflect.Type]bool
	used map[string]bool

	unlimited []string // numbers without limits
}

func (m *schemaMaker) of(t reflect.Type, key string) any {
	switch t.Kind() {
	case reflect.Pointer:
		return m.of(t.Elem(), key)
	case reflect.Struct:
		if !m.done[t] {
			m.done[t] = true
			place := len(m.defs) + 1
			m.defs = append(m.defs, t.Name(), nil)
			m.defs[place] = m.object(t)
		}
		return object{"$ref", "#/$defs/" + t.Name()}
	case reflect.Slice:
		list := object{"type", "array", "items", m.of(t.Elem(), key)}
		if schemaFilled[key] {
			m.used[key] = true
			list = append(list, "minItems", 1)
		}
		return list
	case reflect.Bool:
		return object{"type", "boolean"}
	case reflect.String:
		out := object{"type", "string"}
		if words := schemaEnums[key]; words != nil {
			out = append(out, "enum", words)
		}
		if form := schemaPatterns[key]; form != "" {
			out = append(out, "pattern", form)
		}
		m.used[key] = true
		return out
	case reflect.Int, reflect.Int64:
		m.used[key] = true
		l, ok := schemaLimits[key]
		if !ok {
			m.unlimited = append(m.unlimited, key)
		}
		out := object{"type", "integer", "minimum", l.least}
		if l.most < l.least {
			return append(out, "maximum", int64(1<<63-1))
		}
		return append(out, "maximum", l.most)
	}
	panic("the format has a " + t.String())
}

func (m *schemaMaker) object(t reflect.Type) object {
	var properties object
	required := []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties = append(properties, name, m.of(f.Type, t.Name()+"."+f.Name))
		if opts != "omitempty" {
			required = append(required, name)
		}
	}
	return object{"type", "object", "additionalProperties", false, "required", required, "properties", properties}
}

func makeSchema(t *testing.T) []byte {
	t.Helper()
	m := &schemaMaker{done: map[reflect.Type]bool{}, used: map[string]bool{}}
	root := m.of(reflect.TypeFor[Plan](), "")
	doc := object{
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"title", "foundry plan",
		"description", "The form of plan.json, format_version 1. A plan must also be in canonical form and satisfy the rules that the program checks: references, order, sums.",
	}
	doc = append(doc, root.(object)...)
	doc = append(doc, "$defs", m.defs)
	for _, table := range []any{schemaEnums, schemaPatterns, schemaLimits, schemaFilled} {
		for _, key := range reflect.ValueOf(table).MapKeys() {
			if !m.used[key.String()] {
				t.Errorf("the table names %s, which is no field of the format", key)
			}
		}
	}
	for _, key := range m.unlimited {
		t.Errorf("the number %s has no limits", key)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(json.RawMessage(data)); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaIsThatOfTheTypes(t *testing.T) {
	golden(t, "schema.json", makeSchema(t))
}

func TestSchemaTakesThePlansAndNothingElse(t *testing.T) {
	s := compileSchema(t)
	validate := func(data string) error {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(doc)
	}
	for name, build := range samples() {
		data, err := Encode(build())
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(string(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	good, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"unknown key":         {`"mode": "trace"`, `"mode": "trace", "note": "x"`},
		"unknown key deeper":  {`"mode": "rw"`, `"mode": "rw", "uid": 0`},
		"missing key":         {`"order": "dataflow",`, ``},
		"key in another case": {`"max_iterations"`, `"Max_Iterations"`},
		"wrong type":          {`"max_iterations": 10000`, `"max_iterations": "10000"`},
		"null list":           {`"needs": []`, `"needs": null`},
		"fraction":            {`"max_iterations": 10000`, `"max_iterations": 0.5`},
		"out of bounds":       {`"max_iterations": 10000`, `"max_iterations": 10001`},
		"other version":       {`"format_version": 1`, `"format_version": 2`},
		"wrong mode":          {`"mode": "trace"`, `"mode": "dream"`},
		"wrong kind":          {`"kind": "agent"`, `"kind": "wizard"`},
		"wrong operator":      {`"op": "every"`, `"op": "exec"`},
		"wrong network":       {`"network": "egress"`, `"network": "host"`},
		"image by tag":        {`"image": "` + sampleImage + `"`, `"image": "images.example/agents/pi:latest"`},
		"short digest":        {`"digest": "sha256:`, `"digest": "sha256:0`},
		"price as number":     {`"input": "3"`, `"input": 3`},
		"price not canonical": {`"input": "3"`, `"input": "3.0"`},
		"empty argv":          {"\"argv\": [\n        \"planemo\",\n        \"--version\"\n      ]", `"argv": []`},
	} {
		bad := strings.Replace(string(good), c[0], c[1], 1)
		if bad == string(good) {
			t.Errorf("%s: the sample does not hold %s", name, c[0])
		} else if validate(bad) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// The patterns of the schema and the functions of the package say the same.
func TestSchemaPatternsAgreeWithTheRules(t *testing.T) {
	s := compileSchema(t)
	accepts := func(p *Plan) bool {
		data, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(doc) == nil
	}
	for _, id := range []string{"a", "a#2", "a#12", "a#1", "a#02", "a#1000000", "a#2.check", "a.check", "b/a", "b/a#2.c", "b/c/a", "#2", "a#", "a#x", "/a", "a/", "-a", "a b", "é", ".", "a#2.", strings.Repeat("x", 128), strings.Repeat("x", 129)} {
		p := minimal()
		p.Nodes[0].ID = id
		if got := accepts(p); got != ValidNodeID(id) {
			t.Errorf("node id %q: schema %v, ValidNodeID %v", id, got, ValidNodeID(id))
		}
	}
	for _, price := range []string{"0", "1", "10.5", "0.05", "00", "01", "1.0", ".5", "1.", "-1", "1e3", "", "+1", "NaN"} {
		p := full()
		p.Providers[0].Models[0].Price.Input = price
		if got := accepts(p); got != (ValidDecimal(price) && price[0] != '-') {
			t.Errorf("price %q: schema %v, ValidDecimal %v", price, got, ValidDecimal(price))
		}
	}
	for _, digest := range []string{digestOf("x"), strings.ToUpper(digestOf("x")), "sha256:", "sha512:" + digestOf("x")[7:], digestOf("x") + "0", digestOf("x") + "\n"} {
		p := minimal()
		p.Pipeline.Digest = digest
		if got := accepts(p); got != ValidDigest(digest) {
			t.Errorf("digest %q: schema %v, ValidDigest %v", digest, got, ValidDigest(digest))
		}
	}
}
