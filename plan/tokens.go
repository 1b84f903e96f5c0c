package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Tokens are the run-time values that argv, env, files and prompt may hold.
// The runtime substitutes them and nothing else; everything that is not one of
// these forms is literal text. {skill:ID} and {in:ID} take an id.
var Tokens = []string{
	"{skill}", "{skill:ID}", "{in:ID}", "{out}", "{scratch}", "{recorded}", "{foundry}",
	"{broker.url}", "{broker.token}", "{subagent.socket}", "{subagent.token}",
}

// Where a container that has its provider alone finds it.
const (
	// BrokerSocketPath is the attempt's socket of the broker.
	BrokerSocketPath = "/.foundry/broker.sock"
	// RelayAddress is where the relay listens and joins every connection to that
	// socket: {broker.url} stands for it.
	RelayAddress = "127.0.0.1:7411"
)

// Relay is what stands before the argv of a worker that reaches its provider
// through the relay.
func Relay() []string {
	return []string{"{foundry}", "worker", "relay", "--listen", RelayAddress, "--socket", BrokerSocketPath, "--"}
}

// Unrelayed is argv without the relay before it.
func Unrelayed(argv []string) []string {
	relay := Relay()
	if len(argv) > len(relay) && slices.Equal(argv[:len(relay)], relay) {
		return argv[len(relay):]
	}
	return argv
}

// Expand replaces every token of s by what lookup gives for it: lookup gets
// the text between the braces ("out", "in:summary-cwl"). Text in braces that
// has not the form of a token stays as it is. A token that lookup does not
// know is an error.
func Expand(s string, lookup func(token string) (string, bool)) (string, error) {
	if !strings.Contains(s, "{") {
		return s, nil
	}
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '{')
		if open < 0 {
			break
		}
		b.WriteString(s[:open])
		s = s[open:]
		name, ok := tokenAt(s)
		if !ok {
			b.WriteByte('{')
			s = s[1:]
			continue
		}
		value, known := lookup(name)
		if !known {
			return "", fmt.Errorf("plan: nothing is known for the token {%s}", name)
		}
		b.WriteString(value)
		s = s[len(name)+2:]
	}
	b.WriteString(s)
	return b.String(), nil
}

// TokensIn lists the tokens of s, without braces, in order of appearance.
func TokensIn(s string) []string {
	var found []string
	for {
		open := strings.IndexByte(s, '{')
		if open < 0 {
			return found
		}
		s = s[open:]
		if name, ok := tokenAt(s); ok {
			found = append(found, name)
			s = s[len(name)+2:]
			continue
		}
		s = s[1:]
	}
}

// tokenAt returns the token that s starts with, without its braces.
func tokenAt(s string) (string, bool) {
	// No token is longer than {skill:ID}; a bounded look keeps many open braces
	// from being searched again and again.
	end := strings.IndexByte(s[:min(len(s), len("{skill:}")+maxIDBytes)], '}')
	if end < 0 {
		return "", false
	}
	name := s[1:end]
	switch name {
	case "skill", "out", "scratch", "recorded", "foundry", "broker.url", "broker.token", "subagent.socket", "subagent.token":
		return name, true
	}
	class, id, ok := strings.Cut(name, ":")
	return name, ok && (class == "skill" || class == "in") && ValidID(id)
}

const maxIDBytes = 128

// ValidID reports whether s may name an artifact, a skill, a harness or a
// check: 1 to 128 of a-z, A-Z, 0-9, '.', '_' and '-', the first no punctuation.
func ValidID(s string) bool {
	if s == "" || len(s) > maxIDBytes {
		return false
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}
