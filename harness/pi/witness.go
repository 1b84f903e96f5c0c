package pi

import (
	"fmt"
	"strings"

	"foundry/harness"
)

// Mismatch implements harness.Verifier.
func (s *session) Mismatch() string { return s.mismatch }

// Activation implements harness.Prover.
func (s *session) Activation() harness.Activation {
	return harness.Activation{Requested: command(s.cfg.Skill), Text: s.text, Seen: s.seen}
}

// ProviderFailure implements harness.ProviderWitness: the last message's error
// begins with the status of HTTP, or tells of the connection.
func (s *session) ProviderFailure() string {
	if s.stop != "error" {
		return ""
	}
	status := 0
	_, _ = fmt.Sscanf(s.problem, "%d", &status) // not every error begins with one
	switch {
	case status == 429 || status == 408 || status >= 500:
		return harness.ProviderUnreachable
	case status >= 400:
		return harness.ProviderRefused
	}
	for _, word := range []string{"Connection error", "fetch failed", "terminated", "overloaded", "socket", "Could not parse Anthropic SSE event"} {
		if strings.Contains(s.problem, word) {
			return harness.ProviderUnreachable
		}
	}
	return ""
}
