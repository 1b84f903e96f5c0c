package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"foundry/plan"
)

var update = flag.Bool("update", false, "write schema.json anew")

// words are the closed sets of the string fields, by JSON name.
var words = map[string][]string{
	"Run.status":        {StatusRunning, StatusSucceeded, StatusFailed, StatusCancelled},
	"Node.status":       {StatusRunning, StatusSucceeded, StatusFailed, StatusSkipped, StatusNotReached, StatusNotAccepted, StatusUnsupported},
	"Loop.status":       {StatusRunning, StatusSucceeded, StatusFailed, StatusNotReached},
	"Branch.status":     {StatusRunning, StatusSucceeded, StatusFailed, StatusNotReached},
	"AttemptRef.status": {StatusRunning, StatusSucceeded, StatusFailed},
	"Failure.class":     {ClassSkill, ClassWorkflow, ClassInfrastructure, ClassGrader, ClassCancelled},
	"Failure.source":    {SourceWorker, SourceController, SourceSandbox, SourceArtifact, SourceCheck},
	"Probe.status":      {ProbeNotRun, ProbePassed, ProbeFailed},
}

// schemaOf writes the JSON Schema of a struct, each struct once in $defs.
func schemaOf(t reflect.Type, defs map[string]any) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), defs)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), defs)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64, reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.String:
		if t == reflect.TypeFor[Count]() {
			return map[string]any{"type": "string", "pattern": "^(unknown|-?[0-9]+)$"}
		}
		return map[string]any{"type": "string"}
	case reflect.Struct:
	default:
		panic("no schema for " + t.String())
	}
	ref := map[string]any{"$ref": "#/$defs/" + t.Name()}
	if defs[t.Name()] != nil {
		return ref
	}
	properties, required := map[string]any{}, []string{}
	defs[t.Name()] = map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		s := schemaOf(t.Field(i).Type, defs)
		if set := words[t.Name()+"."+name]; set != nil {
			s["enum"] = set
		}
		if name == "format_version" {
			s = map[string]any{"const": FormatVersion}
		}
		properties[name] = s
		if opts != "omitempty" {
			required = append(required, name)
		}
	}
	defs[t.Name()].(map[string]any)["required"] = required
	return ref
}

func TestSchema(t *testing.T) {
	defs := map[string]any{}
	schema := schemaOf(reflect.TypeFor[Run](), defs)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "run.json"
	schema["$defs"] = defs
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, buf.Bytes()) {
		t.Fatal("schema.json is not that of the types: go test ./exec/record -update")
	}
}

func full() *Run {
	f := Exceeded(ReasonBudgetExceeded, DimTokens, 10, 12, SourceWorker, "too many")
	return &Run{FormatVersion: FormatVersion, ID: "r", Status: StatusFailed, Failure: f, Usage: NoUsage(),
		Started: "2031-01-01T00:00:00Z", Probes: []Probe{{Tool: "x", Status: ProbeNotRun}},
		Nodes: []Node{{ID: "a", Kind: plan.NodeAgent, Status: StatusFailed, Failure: f, Usage: NoUsage(),
			Invocation: &Invocation{Skill: "skill:a", SkillSHA256: "sha256:0", Provenance: &Mold{Name: "m"}},
			Harness:    &Harness{Name: "h", TestStub: true}, Fixture: &Bundle{ID: "recorded:x"},
			Outputs: []Artifact{{Artifact: "o"}}, Attempts: []AttemptRef{{Iteration: 1, Attempt: 1, Folder: "f", Status: StatusFailed}}}}}
}

// What is written satisfies the schema, and is read back; what has another
// status does not satisfy it.
func TestRunSatisfiesSchema(t *testing.T) {
	folder, err := Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if err := folder.WriteRun(full()); err != nil {
		t.Fatal(err)
	}
	back, err := ReadRun(folder.Dir)
	if err != nil || back.Nodes[0].Failure.Overshoot != "2" {
		t.Fatalf("%+v, %v", back, err)
	}
	schema, err := jsonschema.NewCompiler().Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func() error {
		data, err := os.ReadFile(folder.Path(RunFile))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(doc)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	bad := full()
	bad.Nodes[0].Status = "green"
	if err := folder.WriteRun(bad); err != nil {
		t.Fatal(err)
	}
	if check() == nil {
		t.Error("the schema accepts a status that is none")
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create("relative"); err == nil {
		t.Error("a relative folder was made")
	}
	empty := filepath.Join(dir, "empty")
	os.Mkdir(empty, 0o755)
	f, err := Create(empty)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(empty); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := Create(empty); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a second owner: %v", err)
	}
	if err := f.Discard(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("Discard left %v, %v", entries, err)
	}
	link := filepath.Join(dir, "link")
	os.Symlink(empty, link)
	if _, err := Create(link); err == nil {
		t.Error("a link was taken for a run folder")
	}
	file := filepath.Join(dir, "file")
	os.WriteFile(file, nil, 0o600)
	if _, err := Create(file); err == nil {
		t.Error("a file was taken for a run folder")
	}
	deep := filepath.Join(dir, "a", "b")
	g, err := Create(deep)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(deep); !os.IsNotExist(err) {
		t.Error("Discard left the folder that Create made")
	}
}

func TestJournal(t *testing.T) {
	f, err := Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		e, err := f.Append(Event{Type: EventNodeStarted, Node: fmt.Sprint("n\n", i)})
		if err != nil || e.Seq != int64(i)+1 {
			t.Fatal(e, err)
		}
	}
	f.Close()
	path := f.Path(EventsFile)
	data, _ := os.ReadFile(path)
	// A controller may be killed at any byte: what is whole is read.
	for cut := range data {
		os.WriteFile(path, data[:cut], 0o600)
		events, err := ReadEvents(path)
		if err != nil || len(events) != bytes.Count(data[:cut], []byte{'\n'}) {
			t.Fatalf("cut at %d: %d events, %v", cut, len(events), err)
		}
	}
	os.WriteFile(path, bytes.SplitAfter(data, []byte{'\n'})[1], 0o600)
	if _, err := ReadEvents(path); err == nil {
		t.Error("a journal without its first line was read")
	}
	os.WriteFile(path, []byte("{\"seq\":1,\"sequel\":2}\n"), 0o600)
	if _, err := ReadEvents(path); err == nil {
		t.Error("an unknown key was read")
	}
}

func TestFolderName(t *testing.T) {
	for id, want := range map[string]string{
		"summarize-cwl": "summarize-cwl",
		"validate#2":    "validate%232",
		"branch/alt.v1": "branch%2falt.v1",
		"Ab_c":          "%41b%5fc",
		"..":            "%2e%2e",
		".":             "%2e",
		"a.":            "a%2e",
		"":              "%%" + "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	} {
		if got := FolderName(id); got != want {
			t.Errorf("FolderName(%q) = %q, want %q", id, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if rapid.Bool().Draw(t, "long") {
			long := strings.Repeat("x", 300)
			a, b = long+a, long+b
		}
		na, nb := FolderName(a), FolderName(b)
		if (a == b) != (na == nb) || a != b && strings.EqualFold(na, nb) {
			t.Fatalf("%q and %q: %q and %q", a, b, na, nb)
		}
		if len(na) > maxFolderName || strings.ContainsAny(na, "/\\\x00") || na == "." || na == ".." || na == "" {
			t.Fatalf("%q is no safe name", na)
		}
	})
}

func TestStreamWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(0, 20).Draw(t, "head"), rapid.IntRange(0, 20).Draw(t, "tail")
		var kept, all bytes.Buffer
		w := NewStreamWriter(&kept, head, tail)
		for _, part := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 30)).Draw(t, "parts") {
			all.Write(part)
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		s, err := w.Finish()
		data := all.Bytes()
		want := data
		dropped := max(len(data)-head-tail, 0)
		if dropped > 0 {
			want = fmt.Appendf(nil, "%s\n[foundry: %d bytes dropped here]\n%s", data[:head], dropped, data[len(data)-tail:])
		}
		if err != nil || s.Bytes != int64(len(data)) || s.Dropped != int64(dropped) || !bytes.Equal(kept.Bytes(), want) {
			t.Fatalf("%+v %v: %q, want %q", s, err, kept.Bytes(), want)
		}
	})
}

func TestCounts(t *testing.T) {
	for _, tt := range []struct{ a, b, want Count }{
		{"1", "2", "3"}, {"1", Unknown, Unknown}, {Unknown, "0", Unknown}, {"", "4", "4"}, {"4", "", "4"},
		{Known(math.MaxInt64), "1", Unknown},
	} {
		if got := tt.a.Plus(tt.b); got != tt.want {
			t.Errorf("%q + %q = %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
	if u := NoUsage().Plus(NoUsage()); u != NoUsage() {
		t.Errorf("%+v", u)
	}
}

// Every reason has the class of the design's table.
func TestClasses(t *testing.T) {
	for class, reasons := range map[string][]string{
		ClassSkill: {ReasonMissingArtifact, ReasonInvalidArtifact, ReasonProvenanceMismatch, ReasonWorkerError, ReasonNoFinalEvent,
			ReasonActivationUnproven, ReasonResourceExceeded + DimMemory, ReasonResourceExceeded + DimPIDs, ReasonResourceExceeded + DimStdout,
			ReasonResourceExceeded + DimDisk, ReasonBudgetExceeded + DimWall, ReasonPredicateError},
		ClassWorkflow: {ReasonLoopExhausted, ReasonBranchUnaccepted},
		ClassInfrastructure: {ReasonImageMismatch, ReasonHarnessMismatch, ReasonRuntimeError, ReasonSandboxDied, ReasonLimitNotEnforced,
			ReasonProviderUnreachable, ReasonProviderRefused, ReasonSubagentUnavailable, ReasonToolMissing, ReasonDiskFull},
		ClassGrader:    {ReasonCheckError, ReasonJudgeError, ReasonOracleError},
		ClassCancelled: {ReasonCancelled},
	} {
		for _, r := range reasons {
			if got := ClassOf(r); got != class {
				t.Errorf("ClassOf(%s) = %s, want %s", r, got, class)
			}
		}
	}
}

// An id that the run does not have is refused.
func TestExplainUnknown(t *testing.T) {
	if _, err := Explain(t.TempDir(), "a"); err == nil || !strings.Contains(err.Error(), "no run there") {
		t.Errorf("%v", err)
	}
	folder, err := Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	p := &plan.Plan{FormatVersion: plan.FormatVersion, Mode: plan.ModeTrace, Order: plan.OrderAssembly, Pipeline: plan.Pipeline{Name: "x"}}
	data, err := plan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(folder.Path(PlanFile), data, 0o600), folder.WriteRun(full())); err != nil {
		t.Fatal(err)
	}
	if _, err := Explain(folder.Dir, "zz"); err == nil || !strings.Contains(err.Error(), `no node, loop or branch "zz"`) {
		t.Errorf("%v", err)
	}
}

// The lock belongs to one controller, whatever the file says of an earlier
// one, and a process number that was given out again is nobody's claim.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockFile)
	for _, before := range []string{"", "{torn", `{"pid":1,"ticks":"0","started":"x"}`, `{"pid":999999999,"started":"x"}`} {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := takeLock(path)
		if err != nil {
			t.Fatalf("%q: %v", before, err)
		}
		if _, err := takeLock(path); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
			t.Errorf("%q: %v", before, err)
		}
		if err := dropLock(f); err != nil {
			t.Error(err)
		}
	}
	if (owner{PID: 1, Ticks: "0"}).alive() || (owner{PID: 0}).alive() {
		t.Error("a process with another start is taken for the owner")
	}
	if ticks := startTicks(1); ticks != "" && !(owner{PID: 1, Ticks: ticks}).alive() {
		t.Error("a living owner is taken for dead")
	}
}
