package exec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"foundry/exec/attempt"
	"foundry/exec/record"
	"foundry/plan"
	"foundry/plan/document"
	"foundry/predicates"
	"foundry/sandbox"
)

// knowledge is what one predicate may look at: the recorded facts of the
// iteration, and nothing else.
type knowledge struct {
	store     *sandbox.Store
	iteration int64                           // 0: in no loop
	worker    func() (status, from string)    // "": not recorded
	output    func(id string) (*made, bool)   // false: nothing is recorded of it
	check     func(name string) (*made, bool) // with a result
	facts     predicates.Facts                // filled by gather
	named     []record.Fact                   // filled by gather
	wanted    map[plan.Fact]bool              // without pointers
}

// made is an artifact or the result of a check, and who made it. An artifact
// that was declared and not left is nil.
type made struct {
	from     string
	artifact *attempt.Artifact
	check    *record.CheckResult
}

// maxSaid bounds a check's kept output: what is no text in it became longer.
const maxSaid = 3 * attempt.MaxCheckStdout

// decide evaluates the predicate of a loop or of a branch.
func (e *engine) decide(c Command) record.Event {
	ev := record.Event{Type: record.EventDecided, Node: c.Node, Iteration: c.Iteration}
	if c.Decision == record.DecidedAccept {
		u := &e.walk.units[e.walk.branches[c.Of]]
		nodes := []int{c.Index}
		for _, a := range u.alts {
			if a.node == c.Index {
				nodes = append(nodes, a.checks...)
			}
		}
		var in int64
		if e.walk.loopOf[c.Index] >= 0 {
			in = c.Iteration
		}
		ev.Decision, _ = evaluate(record.DecidedAccept, c.Of, &u.branch.Accept, e.known(nodes, c.Iteration, in))
		return ev
	}
	l := e.walk.units[e.walk.loops[c.Of]].loop
	nodes := e.body(l)
	d, err := evaluate(record.DecidedUntil, c.Of, &l.Until, e.known(nodes, c.Iteration, c.Iteration))
	ev.Decision = d
	switch {
	case err != nil:
		ev.Failure = record.Fail(record.ReasonPredicateError, fmt.Sprintf("loop %s, iteration %d: %s", l.ID, c.Iteration, d.Line))
		ev.Failure.Class = record.ClassWorkflow
	case d.Verdict == record.VerdictTrue:
		ev.Failure = e.missingAtEnd(l, nodes, c.Iteration)
	}
	return ev
}

// body lists the nodes of a loop that count in an iteration: of a branch the
// accepted alternative alone.
func (e *engine) body(l *plan.Loop) []int {
	var nodes []int
	for _, id := range l.Body {
		i := e.walk.index[id]
		if u := &e.walk.units[e.walk.unitOf[i]]; u.kind == branchUnit {
			n := &e.opts.Plan.Nodes[i]
			if ended := e.accepted[u.id]; ended != n.ID && (n.Check == nil || ended != n.Check.Of) {
				continue
			}
		}
		nodes = append(nodes, i)
	}
	return nodes
}

// missingAtEnd is the failure of a loop that ends without an output that is
// required at its end.
func (e *engine) missingAtEnd(l *plan.Loop, nodes []int, iteration int64) *record.Failure {
	for _, i := range nodes {
		n := &e.opts.Plan.Nodes[i]
		for _, o := range n.Outputs {
			v := e.made[i].at(iteration)
			if o.Required == plan.RequiredAtEnd && (v == nil || v.artifacts[o.Artifact] == nil) {
				return record.Fail(record.ReasonMissingArtifact, fmt.Sprintf(
					"loop %s: its predicate holds in iteration %d, and node %s left no %s (output %s), which is required at the end", l.ID, iteration, n.ID, o.Filename, o.Artifact))
			}
		}
	}
	return nil
}

// known is what the given nodes recorded in an iteration; a later node hides
// an earlier one.
func (e *engine) known(nodes []int, iteration, in int64) *knowledge {
	return &knowledge{
		store: e.store, iteration: in,
		worker: func() (string, string) {
			for _, i := range slices.Backward(nodes) {
				n := &e.opts.Plan.Nodes[i]
				if v := e.made[i].at(iteration); v != nil && n.Kind == plan.NodeAgent {
					return v.worker, n.ID
				}
			}
			return "", ""
		},
		output: func(id string) (*made, bool) {
			for _, i := range slices.Backward(nodes) {
				n := &e.opts.Plan.Nodes[i]
				v := e.made[i].at(iteration)
				if v != nil && slices.ContainsFunc(n.Outputs, func(o plan.NodeOutput) bool { return o.Artifact == id }) {
					return &made{from: n.ID, artifact: v.artifacts[id]}, true
				}
			}
			return nil, false
		},
		check: func(name string) (*made, bool) {
			for _, i := range slices.Backward(nodes) {
				n := &e.opts.Plan.Nodes[i]
				v := e.made[i].at(iteration)
				if v != nil && v.check != nil && n.Check != nil && n.Check.Name == name {
					return &made{from: n.ID, check: v.check}, true
				}
			}
			return nil, false
		},
	}
}

// assert evaluates what a check has to prove, over its own result and its
// inputs. Without an assert it proves nothing and stops nobody.
func (e *engine) assert(job *attempt.Job, result *record.CheckResult, looped bool) (*record.Decision, *record.Failure) {
	c := job.Node.Check
	if c.Assert == nil || result == nil {
		return nil, nil
	}
	k := &knowledge{
		store:  e.store,
		worker: func() (string, string) { return "", "" },
		output: func(id string) (*made, bool) {
			for _, in := range job.Inputs {
				if in.Spec.Artifact == id {
					return &made{from: in.From, artifact: in.Artifact}, true
				}
			}
			return nil, false
		},
		check: func(name string) (*made, bool) {
			return &made{from: job.Node.ID, check: result}, name == c.Name
		},
	}
	if looped {
		k.iteration = job.Iteration
	}
	d, err := evaluate(record.DecidedAssert, job.Node.ID, c.Assert, k)
	switch {
	case err != nil:
		f := record.Fail(record.ReasonPredicateError, "check "+job.Node.ID+": "+d.Line)
		f.Source = record.SourceCheck
		if k.blames(plan.FactCheck) {
			f.Class = record.ClassGrader // the tool's own answer is no answer
		}
		return d, f
	case d.Verdict == record.VerdictTrue:
		return d, nil
	}
	f := record.Fail(record.ReasonCheckFailed, "check "+job.Node.ID+" does not hold: "+d.Line)
	f.Source = record.SourceCheck
	return d, f
}

// blames reports whether a source of facts had no document where the predicate
// wants one.
func (k *knowledge) blames(source string) bool {
	return slices.ContainsFunc(k.named, func(f record.Fact) bool { return f.Note != "" && strings.HasPrefix(f.Name, source+".") })
}

// evaluate decides a predicate, and says on what.
func evaluate(kind, of string, expr *plan.Expr, k *knowledge) (*record.Decision, error) {
	k.gather(expr)
	ok, trace, err := predicates.Eval(*expr, k.facts)
	d := &record.Decision{Kind: kind, Of: of, Verdict: record.VerdictFalse, Line: trace.Line(), Facts: k.named}
	if ok {
		d.Verdict = record.VerdictTrue
	}
	if err != nil {
		d.Verdict = record.VerdictError
		for _, f := range k.named {
			if f.Note != "" {
				d.Line += "; " + f.Name + ": " + f.Note
			}
		}
	}
	var bad error
	if d.Trace, bad = json.Marshal(trace); bad != nil { // strings, bools and integers: never
		d.Verdict, err = record.VerdictError, bad
	}
	return d, err
}

// gather collects the facts that a predicate names, and reads no others.
func (k *knowledge) gather(expr *plan.Expr) {
	k.facts = predicates.Facts{Outputs: map[string]predicates.Output{}, Checks: map[string]predicates.CheckResult{}, Iteration: k.iteration}
	k.wanted = map[plan.Fact]bool{}
	var order []plan.Fact
	var walk func(e *plan.Expr)
	walk = func(e *plan.Expr) {
		if e.Fact != nil {
			f := plan.Fact{Source: e.Fact.Source, Name: e.Fact.Name}
			if !k.wanted[f] {
				order = append(order, f)
			}
			k.wanted[f] = true
			f.Field = e.Fact.Field
			k.wanted[f] = true
		}
		for i := range e.Args {
			walk(&e.Args[i])
		}
	}
	walk(expr)
	for _, f := range order {
		switch f.Source {
		case plan.FactIteration:
			k.named = append(k.named, record.Fact{Name: f.Source, Value: strconv.FormatInt(k.iteration, 10)})
		case plan.FactWorker:
			status, from := k.worker()
			k.facts.WorkerStatus = status
			k.named = append(k.named, record.Fact{Name: "worker.status", From: from, Value: status})
		case plan.FactCheck:
			k.gatherCheck(f)
		default:
			k.gatherOutput(f)
		}
	}
}

func (k *knowledge) wants(f plan.Fact, field string) bool {
	f.Field = field
	return k.wanted[f]
}

func (k *knowledge) gatherCheck(f plan.Fact) {
	fact := record.Fact{Name: f.Source + "." + f.Name}
	defer func() { k.named = append(k.named, fact) }()
	m, ok := k.check(f.Name)
	if !ok {
		fact.Note = "nothing is recorded of it in this iteration"
		return
	}
	fact.From, fact.Digest, fact.Value = m.from, m.check.Stdout, "exit code "+strconv.FormatInt(m.check.ExitCode, 10)
	r := predicates.CheckResult{ExitCode: m.check.ExitCode}
	if k.wants(f, "stdout") || k.wants(f, "json") {
		data, err := k.store.ReadAll(m.check.Stdout, maxSaid)
		if err == nil {
			r.Stdout = string(data)
		}
		switch {
		case err != nil:
			fact.Note = "its output cannot be read: " + err.Error()
		case !k.wants(f, "json"):
		case m.check.Truncated:
			fact.Note = fmt.Sprintf("it wrote %d bytes, more than the %d that are kept", m.check.Bytes, attempt.MaxCheckStdout)
		default:
			if r.JSON, err = document.ParseJSON(data, document.Limits{}); err != nil {
				r.JSON, fact.Note = nil, "its output is no JSON document: "+err.Error()
			}
		}
	}
	k.facts.Checks[f.Name] = r
}

func (k *knowledge) gatherOutput(f plan.Fact) {
	fact := record.Fact{Name: f.Source + "." + f.Name}
	defer func() { k.named = append(k.named, fact) }()
	m, ok := k.output(f.Name)
	if !ok {
		fact.Note = "nothing is recorded of it in this iteration"
		return
	}
	fact.From = m.from
	if m.artifact == nil {
		fact.Value = "absent"
		k.facts.Outputs[f.Name] = predicates.Output{}
		return
	}
	a := m.artifact
	fact.Digest = a.Digest
	out := predicates.Output{Exists: true, Bytes: a.Bytes, Lines: -1}
	if (k.wants(f, "lines") || k.wants(f, "json") || k.wants(f, "yaml")) && !a.Directory() {
		data, err := k.store.ReadAll(a.Digest, document.DefaultBytes)
		if err != nil {
			fact.Note = err.Error()
		} else {
			out.Lines = lines(data)
			parse := func(field string, with func([]byte, document.Limits) (*document.Value, error)) *document.Value {
				if !k.wants(f, field) {
					return nil
				}
				doc, err := with(data, document.Limits{})
				if err != nil {
					fact.Note = "it is no strict " + strings.ToUpper(field) + " document: " + err.Error()
					return nil
				}
				return doc
			}
			out.JSON, out.YAML = parse("json", document.ParseJSON), parse("yaml", document.ParseYAML)
		}
	}
	k.facts.Outputs[f.Name] = out
}

// lines counts lines; a last one without its line end is one.
func lines(data []byte) int64 {
	n := int64(bytes.Count(data, []byte{'\n'}))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}
