package attempt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"foundry/exec/broker"
	"foundry/exec/broker/redact"
	"foundry/exec/record"
	"foundry/harness"
	"foundry/plan"
	"foundry/sandbox"
)

// OpenBroker opens the broker of a run, or that of a killed controller again.
// Scripts of scripted providers come from the run's store.
func OpenBroker(folder *record.Folder, p *plan.Plan, store *sandbox.Store, credential func(name string) (string, error)) (*broker.Broker, error) {
	scripts := map[string]*plan.Bundle{}
	for i := range p.Bundles {
		scripts[p.Bundles[i].ID] = &p.Bundles[i]
	}
	return broker.Open(broker.Config{
		Journal: folder.Path(record.SpendFile), Mark: brokerMark(folder), Providers: p.Providers, Credential: credential,
		Script: func(id string) ([]byte, error) {
			b := scripts[id]
			if b == nil || len(b.Files) != 1 {
				return nil, fmt.Errorf("the plan has no bundle %s of one file", id)
			}
			return store.ReadAll(b.Files[0].Digest, maxDocumentBytes)
		},
	})
}

func brokerMark(folder *record.Folder) string { return folder.Path(record.WorkDir, "sockets") }

// SweepWork removes the working folder of a run, and the sockets of its broker.
func SweepWork(folder *record.Folder) error {
	return errors.Join(broker.Sweep(brokerMark(folder)), sandbox.RemoveTree(folder.Path(record.WorkDir)))
}

// way is an attempt's way to its provider; nil where it has none.
type way struct {
	*broker.Endpoint
	sb sandbox.Sandbox // set when it is prepared
}

// wayOf opens the way of a job. The sandbox that the scripted provider's paths
// are those of is set later.
func (r *Runner) wayOf(job *Job) (*way, error) {
	if job.Node.Sandbox.Network != plan.NetworkProvider {
		return nil, nil
	}
	if r.Broker == nil || job.Harness == nil {
		return nil, fmt.Errorf("attempt: node %s has the network %s, and there is no broker", job.Node.ID, plan.NetworkProvider)
	}
	w := &way{}
	var err error
	w.Endpoint, err = r.Broker.Endpoint(broker.EndpointOptions{
		Attempt: job.ID, Provider: job.Harness.Provider, Model: job.Harness.Model,
		TCP:  job.Runtime.Mode() == plan.SandboxLocal, // no relay stands between
		Node: job.Node.ID, Iteration: job.Iteration,
		Expand: func(s string) (string, error) { return w.sb.Expand(s) },
		Transcripts: filepath.Join(r.Folder.Path(filepath.FromSlash(record.AttemptFolder(job.Node.ID, job.Iteration, job.Attempt))),
			record.BrokerDir),
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// apply tells a task of the way.
func (w *way) apply(t *sandbox.Task, mode string) {
	if w == nil {
		return
	}
	url := w.URL()
	if mode == plan.SandboxContainer {
		url, t.BrokerSocket = "http://"+plan.RelayAddress, w.Socket()
	}
	t.Tokens = map[string]string{"broker.url": url, "broker.token": w.Token()}
}

// close ends the way, if there is one.
func (w *way) close() *broker.Report {
	if w == nil {
		return nil
	}
	r := w.Close()
	return &r
}

// account records what the broker saw, and makes it what the attempt spent. The
// worker's own figures stand beside it. Of a login of the agent's own nobody but
// the worker saw anything.
func (a *attempt) account(r *broker.Report) {
	if r == nil {
		if a.login() != "" {
			// It went past the broker, and the price that the agent knows is its own.
			a.rec.Usage.CostMicroUSD = record.Unknown
		}
		return
	}
	claimed, s := a.rec.Usage, r.Spend
	claimed.WallMillis = record.Unknown // nobody asks a worker for it
	b := &record.Broker{
		Requests: r.Requests, Forwarded: r.Forwarded, Clamped: r.Clamped, Cut: r.Cut,
		InputTokens: s.Input, OutputTokens: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite,
		CostMicroUSD: s.CostMicroUSD, UnsettledTokens: s.UnsettledTokens, UnsettledCost: s.UnsettledCost, Worker: &claimed,
	}
	if f := r.Failure; f != nil {
		b.Provider = text(fmt.Sprintf("%s: %s", f.Kind, failureText(f)))
	}
	u := &a.rec.Usage
	u.InputTokens, u.OutputTokens = record.Known(s.Input), record.Known(s.Output)
	u.CacheRead, u.CacheWrite = record.Known(s.CacheRead), record.Known(s.CacheWrite)
	u.Tokens, u.CostMicroUSD = record.Known(s.Tokens()), record.Known(s.Cost())
	u.Source, u.Partial = record.SourceBroker, false
	b.Differs = claimed.Tokens != record.Unknown && claimed.Tokens != u.Tokens
	a.rec.Broker = b
}

func failureText(f *broker.Failure) string {
	if f.Status == 0 {
		return f.Detail
	}
	return fmt.Sprintf("status %d, %s", f.Status, f.Detail)
}

// exceeded is the failure of a budget that the broker held to. Where the budget
// ran out alone for answers that broke off, and the worker did not come to an end
// of its own, it is the provider that failed.
func exceeded(r *broker.Report, ownEnd bool) *record.Failure {
	if r == nil || r.Exceeded == nil {
		return nil
	}
	x := r.Exceeded
	if x.Held && r.Failure != nil && !ownEnd {
		return nil
	}
	return record.Exceeded(record.ReasonBudgetExceeded, x.Dimension, x.Limit, x.Observed, record.SourceBroker, text(x.How))
}

// providerFailure is the failure of a worker that could not go on because of
// what its provider did. Where there is a broker its word counts.
func (a *attempt) providerFailure(r *broker.Report, s harness.Session) *record.Failure {
	kind, detail, source := "", "the worker tells so", record.SourceWorker
	if r != nil {
		if r.Failure == nil {
			return nil
		}
		kind, detail, source = r.Failure.Kind, failureText(r.Failure), record.SourceBroker
	} else if w, ok := s.(harness.ProviderWitness); ok {
		kind = w.ProviderFailure()
	}
	reason := record.ReasonProviderUnreachable
	switch kind {
	case "":
		return nil
	case harness.ProviderRefused:
		reason = record.ReasonProviderRefused
	}
	if w := a.rec.Worker.Message; w != "" {
		detail += fmt.Sprintf("; the worker says %q", w)
	}
	f := record.Fail(reason, text("the provider "+kind+" the last request: "+detail))
	if kind == harness.ProviderUnreachable {
		f.Detail = text("the provider was unreachable: " + detail)
	}
	f.Source = source
	return f
}

// activation records how the skill was asked for, and what proves that it came
// before the model.
func (a *attempt) activation(s harness.Session, r *broker.Report) {
	p, ok := s.(harness.Prover)
	if !ok || a.rec.Activation == nil {
		return
	}
	act, rec := p.Activation(), a.rec.Activation
	rec.Requested, rec.Stream = act.Requested, act.Seen
	if act.Text == "" {
		return
	}
	rec.Text = plan.Digest([]byte(act.Text))
	if r != nil && r.Evidence != nil {
		rec.Request = &record.Request{Number: r.Evidence.Request, SHA256: r.Evidence.SHA256}
	}
	if rec.Stream && (r == nil || rec.Request != nil) {
		rec.State = record.ActivationProven
	}
}

// unproven is the failure of a skill that may not have been activated.
func (a *attempt) unproven() *record.Failure {
	act := a.rec.Activation
	if !a.job.Node.RequireActivation || act == nil || act.State == record.ActivationProven {
		return nil
	}
	lacks := "neither the worker's stream nor a request to the provider shows it"
	switch {
	case act.Stream:
		lacks = "the worker's stream shows it, and no request to the provider does"
	case act.Request != nil:
		lacks = "a request to the provider shows it, and the worker's stream does not"
	}
	return record.Fail(record.ReasonActivationUnproven, "nothing proves that the worker activated the skill "+a.job.Node.Skill+": "+lacks)
}

// armed is the budget that is watched in the worker's own words: what the broker
// meters is not.
func armed(b plan.NodeBudget, w *way) plan.NodeBudget {
	if w != nil {
		b.Tokens, b.CostMicroUSD = math.MaxInt64, math.MaxInt64
	}
	return b
}

// secrets are the values that no file of the run may hold.
func (a *attempt) secrets() *redact.Set {
	var values []string
	if a.Broker != nil {
		values = a.Broker.Secrets()
	}
	if file := a.login(); file != "" {
		values = append(values, loginValues(file)...)
	}
	set, err := redact.New(values...)
	if err != nil || len(values) == 0 {
		return nil // neither the broker nor a login gives a value that is too short
	}
	return set
}

// clean takes them out of a record. They stand in strings, in whatever form JSON
// gives them.
func (a *attempt) clean(set *redact.Set) error {
	if set == nil {
		return nil
	}
	data, err := json.Marshal(a.rec)
	if err != nil || !set.Contains(data) {
		return err
	}
	clean := new(record.Attempt)
	if err := json.Unmarshal(set.Bytes(data), clean); err != nil {
		return fmt.Errorf("attempt: taking secrets out of the record of %s: %w", a.job.ID, err)
	}
	*a.rec = *clean
	return nil
}

// holdsSecret looks through a file, whatever its size.
func holdsSecret(set *redact.Set, path string) (bool, error) {
	if set == nil {
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var found seeker
	w := set.Writer(&found)
	if _, err := io.Copy(w, f); err != nil {
		return false, err
	}
	return found.mask, w.Close()
}

// seeker notes whether a mask was written.
type seeker struct{ mask bool }

func (s *seeker) Write(p []byte) (int, error) {
	s.mask = s.mask || bytes.Contains(p, []byte(redact.Mask))
	return len(p), nil
}
