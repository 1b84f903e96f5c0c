package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// ScriptVersion is the only version of a script that is read.
const ScriptVersion = 1

// MaxTimes bounds the times of a step: 1 GiB of one-byte texts.
const MaxTimes = 1 << 30

// Script is what a test stub does in one node. It has Steps, or Iterations:
// one list for each iteration of the loop, the last one holding for all later
// iterations too.
type Script struct {
	Version    int      `json:"version"`
	Steps      []Step   `json:"steps,omitempty"`
	Iterations [][]Step `json:"iterations,omitempty"`
}

// Step is one action; exactly one field is set.
//
// A relative path of write, copy's to, mkdir, symlink and probe's to is below
// the output folder; an absolute one is taken as it is, for tests that try to
// write elsewhere.
type Step struct {
	Write   *Write   `json:"write,omitempty"`
	Copy    *Copy    `json:"copy,omitempty"`
	Mkdir   *Mkdir   `json:"mkdir,omitempty"`
	Symlink *Symlink `json:"symlink,omitempty"`
	SleepMS *int64   `json:"sleep_ms,omitempty"` // milliseconds, at most one day
	Emit    *Emit    `json:"emit,omitempty"`
	Submit  *Submit  `json:"submit,omitempty"`
	Stdout  *Text    `json:"stdout,omitempty"`
	Stderr  *Text    `json:"stderr,omitempty"`
	Finish  *Finish  `json:"finish,omitempty"`
	Exit    *Exit    `json:"exit,omitempty"`
	Probe   *Probe   `json:"probe,omitempty"`
}

// Write makes a file, and the folders above it, with the text as it stands:
// tokens in it are not expanded. Times repeats the text.
type Write struct {
	Path    string  `json:"path"`
	Content Literal `json:"content"`
	Times   int64   `json:"times,omitempty"`
}

// Literal is text in which nothing is expanded. The runtime replaces tokens in
// the whole script file before the worker reads it, so a brace that could
// start a token is encoded as an escape.
type Literal string

// MarshalJSON writes the string with those braces escaped.
func (l Literal) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(string(l)); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	out := make([]byte, 0, len(text))
	for i, c := range text {
		// Every token's name starts with a small letter; JSON's own {" and {} stay
		// readable.
		if c == '{' && i+1 < len(text) && text[i+1] >= 'a' && text[i+1] <= 'z' {
			out = append(out, `\u007b`...)
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// Copy copies a regular file, or a folder of them, following links in From.
type Copy struct {
	From string `json:"from"` // absolute, or starting with a token
	To   string `json:"to"`
}

// Mkdir makes a folder and those above it.
type Mkdir struct {
	Path string `json:"path"`
}

// Symlink makes a symbolic link.
type Symlink struct {
	Target string `json:"target"` // as it stands in the link
	Path   string `json:"path"`
}

// Emit writes one event between started and finished; the worker adds the
// protocol version.
type Emit struct {
	Type      string   `json:"type"` // turn, tool, usage, submitted
	Turn      int64    `json:"turn,omitempty"`
	ToolName  string   `json:"tool_name,omitempty"`
	ToolCall  string   `json:"tool_call,omitempty"`
	Usage     *Usage   `json:"usage,omitempty"`
	Artifacts []string `json:"artifacts,omitempty"`
}

// Event is the event that the worker writes.
func (e Emit) Event() Event {
	return Event{
		ProtocolVersion: ProtocolVersion, Type: e.Type, Turn: e.Turn,
		ToolName: e.ToolName, ToolCall: e.ToolCall, Usage: e.Usage, Artifacts: e.Artifacts,
	}
}

// Submit writes the submitted event and waits for the answer. The steps after it
// mend what was wrong: they are left out when it is accepted, or when nobody
// answers.
type Submit struct {
	Artifacts []string `json:"artifacts,omitempty"`
}

// Event is the event that the worker writes.
func (s Submit) Event() Event {
	return Event{ProtocolVersion: ProtocolVersion, Type: Submitted, Artifacts: s.Artifacts}
}

// Text is written as it stands, without a line end; Times repeats it.
type Text struct {
	Text  string `json:"text"`
	Times int64  `json:"times,omitempty"`
}

// Finish writes the finished event now. Steps after it are still done, so that
// a test can break the contract. Without one, the worker writes settled after
// the last step.
type Finish struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// Exit ends the worker at once, without a finished event of its own.
type Exit struct {
	Code int64 `json:"code"` // 0 to 255
}

// Probe writes a JSON report of what the sandbox looks like from inside. Host
// sockets, link-local and loopback addresses are always tried; the lists add
// to them.
type Probe struct {
	To       string   `json:"to"`
	Exists   []string `json:"exists,omitempty"`   // paths that are looked for
	Writable []string `json:"writable,omitempty"` // files and folders that are opened for writing
	Programs []string `json:"programs,omitempty"` // names that are looked up on PATH
	Connect  []string `json:"connect,omitempty"`  // host:port over TCP
	Lookup   string   `json:"lookup,omitempty"`   // a DNS name; "" is example.com
}

// DecodeScript reads a node's script, strictly.
func DecodeScript(data []byte) (Script, error) {
	var s Script
	if err := DecodeStrict(data, &s); err != nil {
		return Script{}, fmt.Errorf("contract: script refused: %w", err)
	}
	if err := s.Check(); err != nil {
		return Script{}, fmt.Errorf("contract: script refused: %w", err)
	}
	return s, nil
}

// EncodeScript writes a script for people to review: two-space indent, a final
// newline, no HTML escaping.
func EncodeScript(s Script) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(s)
	return b.Bytes(), err
}

// Check applies the rules that the decoder cannot see. An error names the step.
func (s Script) Check() error {
	if s.Version != ScriptVersion {
		return fmt.Errorf("version is %d, this program reads %d", s.Version, ScriptVersion)
	}
	if len(s.Steps) > 0 && len(s.Iterations) > 0 {
		return errors.New("it has both steps and iterations")
	}
	if err := checkSteps(s.Steps, "steps"); err != nil {
		return err
	}
	for i, steps := range s.Iterations {
		if err := checkSteps(steps, fmt.Sprintf("iterations/%d", i)); err != nil {
			return err
		}
	}
	return nil
}

// For returns the steps of one iteration, counted from 1.
func (s Script) For(iteration int64) []Step {
	if len(s.Iterations) == 0 {
		return s.Steps
	}
	last := int64(len(s.Iterations))
	return s.Iterations[max(1, min(iteration, last))-1]
}

func checkSteps(steps []Step, at string) error {
	for i, step := range steps {
		if err := step.check(); err != nil {
			return fmt.Errorf("%s/%d: %w", at, i, err)
		}
	}
	return nil
}

func (s Step) check() error {
	set := 0
	var errs []error
	for _, f := range []struct {
		is    bool
		check func() error
	}{
		{s.Write != nil, func() error { return errors.Join(checkTarget(s.Write.Path), checkTimes(s.Write.Times)) }},
		{s.Copy != nil, func() error { return errors.Join(checkSource(s.Copy.From), checkTarget(s.Copy.To)) }},
		{s.Mkdir != nil, func() error { return checkTarget(s.Mkdir.Path) }},
		{s.Symlink != nil, func() error { return errors.Join(checkPath(s.Symlink.Target), checkTarget(s.Symlink.Path)) }},
		{s.SleepMS != nil, func() error {
			return checkRange("sleep_ms", *s.SleepMS, 0, (24 * time.Hour).Milliseconds())
		}},
		{s.Emit != nil, func() error { return s.Emit.check() }},
		{s.Submit != nil, func() error { return s.Submit.Event().check() }},
		{s.Stdout != nil, func() error { return checkTimes(s.Stdout.Times) }},
		{s.Stderr != nil, func() error { return checkTimes(s.Stderr.Times) }},
		{s.Finish != nil, func() error { return s.Finish.check() }},
		{s.Exit != nil, func() error { return checkRange("code", s.Exit.Code, 0, 255) }},
		{s.Probe != nil, func() error { return checkTarget(s.Probe.To) }},
	} {
		if f.is {
			set++
			errs = append(errs, f.check())
		}
	}
	if set != 1 {
		return fmt.Errorf("a step has exactly one key, this one has %d", set)
	}
	return errors.Join(errs...)
}

func (e Emit) check() error {
	if e.Type == Started || e.Type == Finished {
		return fmt.Errorf("emit cannot write %s: the worker writes started itself, and finish writes finished", e.Type)
	}
	return e.Event().check()
}

func (f Finish) check() error {
	id := Identity{Name: "scripted", Version: "1"}
	return Event{Type: Finished, Harness: &id, Status: f.Status, Message: f.Message}.check()
}

func checkRange(name string, n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf("%s is %d, not in %d to %d", name, n, low, high)
	}
	return nil
}

func checkTimes(n int64) error { return checkRange("times", n, 0, MaxTimes) }

func checkPath(p string) error {
	if p == "" || strings.ContainsRune(p, 0) {
		return fmt.Errorf("the path %q is empty or has a NUL", p)
	}
	return nil
}

// checkTarget refuses a relative path that leaves the output folder: a test
// that wants to write elsewhere says so with an absolute path or a token.
func checkTarget(p string) error {
	if err := checkPath(p); err != nil {
		return err
	}
	if rooted(p) {
		return nil
	}
	if slices.Contains(strings.Split(p, "/"), "..") || path.Clean(p) == "." {
		return fmt.Errorf("the path %q does not lie below the output folder", p)
	}
	return nil
}

func checkSource(p string) error {
	if err := checkPath(p); err != nil {
		return err
	}
	if !rooted(p) {
		return fmt.Errorf("copy from %q: a source is absolute or starts with a token, such as {recorded}/FILE or {in:ID}", p)
	}
	return nil
}

func rooted(p string) bool { return strings.HasPrefix(p, "/") || strings.HasPrefix(p, "{") }
