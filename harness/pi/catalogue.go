package pi

import (
	"fmt"
	"slices"
	"strings"

	"foundry/harness"
	"foundry/plan"
)

// Levels of thinking, as a model may have them.
const (
	budgeted  = "off minimal low medium high" // also of a model that Pi does not know
	withMax   = budgeted + " max"
	every     = budgeted + " xhigh max"
	neverOff  = "minimal low medium high xhigh max"
	effort    = "low medium high xhigh max"
	effortOff = "off " + effort
)

// catalogue is what each version describes itself, under its own provider
// anthropic: the model's id and its levels of thinking. Pi knows in which form
// each of these models is asked to think, and how much it remembers; the policy
// does not. A test holds the table against the real programs.
var catalogue = map[string]map[string]string{
	"0.84.4": {
		"claude-fable-5":             neverOff,
		"claude-haiku-4-5":           budgeted,
		"claude-haiku-4-5-20251001":  budgeted,
		"claude-opus-4-5":            budgeted,
		"claude-opus-4-5-20251101":   budgeted,
		"claude-opus-4-6":            withMax,
		"claude-opus-4-7":            every,
		"claude-opus-4-8":            every,
		"claude-opus-5":              every,
		"claude-sonnet-4-5":          budgeted,
		"claude-sonnet-4-5-20250929": budgeted,
		"claude-sonnet-4-6":          withMax,
		"claude-sonnet-5":            every,
	},
	"1.6.0": {
		"claude-fable-5":             neverOff,
		"claude-fable-5-1":           neverOff,
		"claude-fable-5-2":           neverOff,
		"claude-haiku-4-5":           budgeted,
		"claude-haiku-4-5-20251001":  budgeted,
		"claude-haiku-5-5":           effortOff,
		"claude-opus-4-5":            budgeted,
		"claude-opus-4-5-20251101":   budgeted,
		"claude-opus-4-6":            withMax,
		"claude-opus-4-7":            every,
		"claude-opus-4-8":            every,
		"claude-opus-5":              every,
		"claude-opus-5-5":            effort,
		"claude-sonnet-4-5":          budgeted,
		"claude-sonnet-4-5-20250929": budgeted,
		"claude-sonnet-4-6":          withMax,
		"claude-sonnet-5":            every,
		"claude-sonnet-5-5":          effort,
	},
}

// Names of providers in the agent's configuration.
const (
	// ownProvider has the models that Pi does not know. It is none of Pi's own, so
	// that nothing is merged in.
	ownProvider = "foundry"
	builtin     = "anthropic"
)

// providerOf is the provider that the agent is started with. Its own login is
// for one of its own providers, by its name.
func providerOf(h plan.Harness) string {
	if h.AuthStore != "" {
		return h.Provider
	}
	if _, known := catalogue[h.Version][h.Model]; known {
		return builtin
	}
	return ownProvider
}

// checkLevel refuses a level of thinking that Pi would silently turn into
// another one. With a login of its own the provider may be any: the agent is
// asked when it has started.
func checkLevel(h plan.Harness) error {
	if h.AuthStore != "" {
		return nil
	}
	list, known := catalogue[h.Version][h.Model]
	if !known {
		list = budgeted
	}
	levels := strings.Fields(list)
	if slices.Contains(levels, level(h)) {
		return nil
	}
	what := fmt.Sprintf("the model %s has no level of thinking %q in Pi %s", h.Model, level(h), h.Version)
	if h.Thinking == "" {
		what = fmt.Sprintf("the model %s cannot be kept from thinking, and the harness %s names no level", h.Model, h.Name)
	}
	return fmt.Errorf("pi: %s: write thinking as one of %s%s", what, strings.Join(levels, ", "), harness.DidYouMean(h.Thinking, levels))
}
