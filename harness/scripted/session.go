package scripted

import (
	"errors"

	"foundry/harness"
	"foundry/harness/contract"
)

// session drives a worker that speaks the contract itself.
type session struct {
	cfg       harness.SessionConfig
	checker   contract.Checker
	begun     bool
	submits   int64 // how often it submitted
	last      bool  // nothing is answered any more
	noise     int64
	violation string
}

var _ harness.Resubmitter = (*session)(nil)

// Session implements harness.Adapter.
func (Adapter) Session(cfg harness.SessionConfig) harness.Session {
	return &session{cfg: cfg}
}

func (s *session) Begin() []byte {
	s.begun = true
	h := s.cfg.Harness
	return contract.EncodeInput(contract.Input{
		ProtocolVersion: contract.ProtocolVersion,
		Agent:           Name,
		Harness:         contract.Identity{Name: h.Name, Version: h.Version, Model: h.Model},
		Node:            s.cfg.Node,
		Iteration:       s.cfg.Iteration,
		Attempt:         s.cfg.Attempt,
		Prompt:          s.cfg.Prompt,
		TestStub:        true,
	})
}

// Line drops an event that breaks the contract, except that usage is passed
// on: what was spent is spent.
func (s *session) Line(line []byte) ([]contract.Event, []byte) {
	ev, err := contract.DecodeEvent(line)
	if errors.Is(err, contract.ErrNoEvent) {
		s.noise++
		return nil, nil
	}
	if err != nil {
		s.broken(err)
		return nil, nil
	}
	if err := s.identity(ev); err != nil {
		s.broken(err) // passed on all the same: the executor tells a mismatch from a failure
	}
	if err := s.checker.Add(ev); err != nil {
		s.broken(err)
		if ev.Type != contract.UsageType {
			return nil, nil
		}
	}
	if ev.Type == contract.Submitted {
		s.submits++
	}
	return []contract.Event{ev}, nil
}

// identity finds a worker that names another harness than it was started as.
func (s *session) identity(ev contract.Event) error {
	h := s.cfg.Harness
	if ev.Harness == nil || *ev.Harness == (contract.Identity{Name: h.Name, Version: h.Version, Model: h.Model}) {
		return nil
	}
	return errors.New("scripted: the worker names another harness, version or model than it was started as")
}

// broken keeps the first breach: later ones follow from it.
func (s *session) broken(err error) {
	if s.violation == "" {
		s.violation = err.Error()
	}
}

// Answer implements harness.Resubmitter: the worker waits for it, and holds its
// final event back itself.
func (s *session) Answer(problems []string) ([]contract.Event, []byte) {
	if s.CloseInput() {
		return nil, nil
	}
	if len(problems) == 0 || s.submits >= s.cfg.SubmitAttempts {
		s.last = true
	}
	if s.last && len(problems) > 0 {
		return nil, nil // it learns from the end of its input that it may not try again
	}
	return nil, contract.EncodeAnswer(contract.Answer{ProtocolVersion: contract.ProtocolVersion, Problems: problems})
}

// CloseInput says that nothing is answered: from the beginning where the worker
// submits once.
func (s *session) CloseInput() bool {
	return s.begun && (s.last || s.cfg.SubmitAttempts <= 1 || s.checker.Finished() != nil)
}

func (s *session) End() []contract.Event { return nil }
func (s *session) Abort() []byte         { return nil }
func (s *session) Noise() int64          { return s.noise }
func (s *session) Violation() string     { return s.violation }
