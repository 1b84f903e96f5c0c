package harness

import (
	"cmp"
	"fmt"
	"slices"

	"foundry/harness/contract"
)

// Versioned is an adapter that lists the versions it knows, sorted. Every
// adapter that SelfTest reports is one.
type Versioned interface {
	Versions() []string
}

// Player is an adapter that plays script files. Nodes lists the node ids that a
// script names, sorted, so that the compiler can refuse one that the pipeline
// does not have. Every test stub is one.
type Player interface {
	Nodes(script []byte) ([]string, error)
}

// SelfTest reports every adapter for `foundry worker --self-test`, sorted by
// name: its versions must have capabilities, and its session must call noise
// noise and end without a finished event when it saw none. It starts nothing.
func SelfTest(adapters []Adapter) []contract.AdapterReport {
	reports := make([]contract.AdapterReport, 0, len(adapters))
	for _, a := range adapters {
		r := contract.AdapterReport{Name: a.Name()}
		if v, ok := a.(Versioned); ok {
			r.Versions = v.Versions()
		}
		if err := selfTest(a, r.Versions); err != nil {
			r.Error = err.Error()
		}
		reports = append(reports, r)
	}
	slices.SortFunc(reports, func(x, y contract.AdapterReport) int { return cmp.Compare(x.Name, y.Name) })
	return reports
}

func selfTest(a Adapter, versions []string) error {
	if len(versions) == 0 {
		return fmt.Errorf("harness: the adapter %s lists no version", a.Name())
	}
	for _, version := range versions {
		if _, err := a.Capabilities(version); err != nil {
			return err
		}
		cfg := SessionConfig{Node: "self-test", Iteration: 1, Attempt: 1, Prompt: "self-test"}
		cfg.Harness.Name, cfg.Harness.Adapter, cfg.Harness.Version = "self-test", a.Name(), version
		s := a.Session(cfg)
		s.Begin()
		events, _ := s.Line([]byte("this is no event"))
		events = append(events, s.End()...)
		if len(events) != 0 || s.Noise() != 1 || s.Violation() != "" {
			return fmt.Errorf("harness: the session of %s %s does not take noise for noise", a.Name(), version)
		}
	}
	return nil
}
