package predicates

import (
	"fmt"
	"strconv"

	"foundry/plan"
	"foundry/plan/document"
)

// Facts is what a predicate may know. The zero value knows nothing.
type Facts struct {
	Outputs      map[string]Output      // by artifact id
	Checks       map[string]CheckResult // by check name
	Iteration    int64                  // from 1; 0 = not in a loop
	WorkerStatus string                 // settled, stopped_length, errored, aborted, none; "" = not recorded
}

// Output is what is recorded of an artifact. An artifact that was declared and
// is not there has Exists false, and everything else of it is then unknown. A
// negative number is one that is not recorded. JSON or YAML is the content of
// an artifact of that kind, nil otherwise.
type Output struct {
	Exists       bool
	Bytes, Lines int64
	JSON, YAML   *document.Value
}

// CheckResult is what is recorded of a check that ran to its end. JSON is its
// standard output where that is one JSON document, nil otherwise.
type CheckResult struct {
	ExitCode int64
	Stdout   string
	JSON     *document.Value
}

// missing says that a fact is not there. Only exists takes it for an answer.
type missing struct{ why string }

func (m *missing) Error() string { return m.why }

// fact looks a fact up, its pointer aside. The result is never nil without an
// error.
func (f *Facts) fact(name *plan.Fact) (*document.Value, error) {
	switch name.Source {
	case plan.FactIteration:
		if f.Iteration < 1 {
			return nil, &missing{"no iteration is recorded: this is not in a loop"}
		}
		return number(f.Iteration), nil
	case plan.FactWorker:
		if f.WorkerStatus == "" {
			return nil, &missing{"no status of a worker is recorded"}
		}
		return text(f.WorkerStatus), nil
	case plan.FactCheck:
		c, ok := f.Checks[name.Name]
		if !ok {
			return nil, &missing{fmt.Sprintf("the check %q has no recorded result: it did not run to its end", name.Name)}
		}
		return c.field(name)
	default:
		o, ok := f.Outputs[name.Name]
		if !ok {
			return nil, &missing{fmt.Sprintf("nothing is recorded of the artifact %q: the step that makes it was skipped or did not end", name.Name)}
		}
		return o.field(name)
	}
}

func (c *CheckResult) field(name *plan.Fact) (*document.Value, error) {
	switch name.Field {
	case fieldExitCode:
		return number(c.ExitCode), nil
	case fieldStdout:
		return text(c.Stdout), nil
	default:
		return within(c.JSON, "its standard output is not one JSON document")
	}
}

func (o *Output) field(name *plan.Fact) (*document.Value, error) {
	if name.Field == fieldExists {
		return &document.Value{Kind: document.Bool, Bool: o.Exists}, nil
	}
	if !o.Exists {
		return nil, &missing{fmt.Sprintf("the artifact %q does not exist", name.Name)}
	}
	switch name.Field {
	case fieldBytes:
		return count(o.Bytes, "size")
	case fieldLines:
		return count(o.Lines, "number of lines")
	case fieldYAML:
		return within(o.YAML, "the artifact was not recorded as YAML")
	default:
		return within(o.JSON, "the artifact was not recorded as JSON")
	}
}

func within(doc *document.Value, absent string) (*document.Value, error) {
	if doc == nil {
		return nil, &missing{absent}
	}
	return doc, nil
}

func count(n int64, what string) (*document.Value, error) {
	if n < 0 {
		return nil, &missing{"the " + what + " is not recorded"}
	}
	return number(n), nil
}

func number(n int64) *document.Value {
	return &document.Value{Kind: document.Number, Number: strconv.FormatInt(n, 10)}
}

func text(s string) *document.Value {
	return &document.Value{Kind: document.String, Str: s}
}
