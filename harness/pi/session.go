package pi

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"foundry/harness"
	"foundry/harness/contract"
)

// Ids of the commands that the session sends.
const (
	askState    = "foundry-state"
	askCommands = "foundry-commands"
	askModels   = "foundry-models"
	askPrompt   = "foundry-prompt"
	askAbort    = "foundry-abort"
)

// session drives one Pi. It first asks what Pi started as; the prompt is sent
// when everything is as the plan has it.
type session struct {
	cfg    harness.SessionConfig
	text   string // of the activation
	seen   bool
	asked  int // answers that are still to come before the prompt
	model  string
	silent bool // a mismatch was found: nothing is sent any more

	mismatch  string
	violation string
	noise     int64

	started  bool
	finished bool
	aborting bool
	turns    int64
	messages int64
	open     bool   // a message of the assistant is under way
	counted  tokens // what was said of it last
	compacts int64
	submits  int64
	stop     string // of the last assistant message
	problem  string // its error
	held     bool   // a submission waits for its answer
}

var (
	_ harness.Prover          = (*session)(nil)
	_ harness.Verifier        = (*session)(nil)
	_ harness.ProviderWitness = (*session)(nil)
	_ harness.Resubmitter     = (*session)(nil)
)

// Session implements harness.Adapter.
func (Adapter) Session(cfg harness.SessionConfig) harness.Session {
	s := &session{cfg: cfg}
	if cfg.Skill != "" {
		s.text = expansion(cfg.Skill, cfg.SkillDir, cfg.SkillFile)
	}
	return s
}

func line(fields map[string]string) []byte {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil // strings alone: it cannot be
	}
	return append(data, '\n')
}

// Begin implements harness.Session.
func (s *session) Begin() []byte {
	s.asked = 3
	return slices.Concat(
		line(map[string]string{"id": askState, "type": "get_state"}),
		line(map[string]string{"id": askCommands, "type": "get_commands"}),
		line(map[string]string{"id": askModels, "type": "get_available_models"}),
	)
}

// message is a line of Pi's, as far as it is looked at.
type message struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Command string          `json:"command"`
	Success *bool           `json:"success"`
	Error   string          `json:"error"`
	Data    json.RawMessage `json:"data"`
	Message *turn           `json:"message"`
	Call    string          `json:"toolCallId"`
	Tool    string          `json:"toolName"`
	Aborted bool            `json:"aborted"`
	Usage   *tokens         `json:"usage"`
	Result  *struct {
		Usage *tokens `json:"usage"`
	} `json:"result"` // of a compaction; a tool's is not looked at
}

// turn is a message of the conversation.
type turn struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Usage      *tokens         `json:"usage"`
	StopReason string          `json:"stopReason"`
	Error      string          `json:"errorMessage"`
}

type tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
}

// read are the types of line that are looked at.
var read = []string{"response", "turn_start", "tool_execution_start", "message_start", "message_update", "message_end", "compaction_end", "agent_settled"}

// Line implements harness.Session. A line of a type that is looked at, and that
// has another form than Pi gives it, breaks the contract: it may be the one that
// tells what was spent.
func (s *session) Line(data []byte) ([]contract.Event, []byte) {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &head) != nil || head.Type == "" {
		if len(data) > 0 {
			s.noise++
		}
		return nil, nil
	}
	if !slices.Contains(read, head.Type) {
		return nil, nil
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		s.broken(fmt.Sprintf("a line of type %s cannot be read: %v", head.Type, err))
		return nil, nil
	}
	switch m.Type {
	case "response":
		return s.response(&m)
	case "turn_start":
		s.turns++
		return s.say(contract.Event{Type: contract.Turn, Turn: s.turns}), nil
	case "tool_execution_start":
		if m.Tool == "" || m.Call == "" {
			s.broken("a call of a tool has no name or no id")
			return nil, nil
		}
		return s.say(contract.Event{Type: contract.Tool, ToolName: m.Tool, ToolCall: m.Call}), nil
	case "message_start":
		return s.began(m.Message), nil
	case "message_update":
		return s.count(m.Usage), nil
	case "message_end":
		return s.ended(m.Message), nil
	case "compaction_end":
		if m.Result == nil {
			return nil, nil // it failed, and does not tell what it spent
		}
		s.compacts++
		return s.usage(fmt.Sprintf("compaction-%d", s.compacts), m.Result.Usage), nil
	case "agent_settled":
		return s.settled(m.Aborted), nil
	}
	return nil, nil
}

// say passes an event on, between the first and the last one.
func (s *session) say(ev contract.Event) []contract.Event {
	if s.finished {
		s.broken("an event of type " + ev.Type + " came after the agent had settled for good")
		return nil
	}
	if !s.started {
		s.broken("an event of type " + ev.Type + " came before the prompt")
		return nil
	}
	ev.ProtocolVersion = contract.ProtocolVersion
	return []contract.Event{ev}
}

func (s *session) broken(what string) {
	if s.violation == "" {
		s.violation = "pi: " + what
	}
}

// identity names who works. Pi does not tell its version over this protocol.
func (s *session) identity() *contract.Identity {
	return &contract.Identity{Name: s.cfg.Harness.Name, Model: s.model}
}

// response takes an answer to a command.
func (s *session) response(m *message) ([]contract.Event, []byte) {
	ok := m.Success != nil && *m.Success
	switch m.ID {
	case askState, askCommands, askModels:
		if s.asked == 0 {
			return nil, nil
		}
		s.asked--
		if !ok {
			s.differs("%s failed: %s", m.Command, m.Error)
		}
		switch m.ID {
		case askState:
			s.checkState(m.Data)
		case askCommands:
			s.checkCommands(m.Data)
		case askModels:
			s.checkModels(m.Data)
		}
		if s.asked > 0 || s.mismatch != "" {
			s.silent = s.mismatch != ""
			return nil, nil
		}
		s.started = true
		return []contract.Event{{ProtocolVersion: contract.ProtocolVersion, Type: contract.Started, Harness: s.identity()}}, s.prompt(s.cfg.Prompt)
	case askPrompt:
		switch {
		case ok || !s.started || s.finished:
		case s.turns == 0: // such as without a key
			s.differs("it does not take the prompt: %s", m.Error)
			s.silent = true
		default:
			return s.finish(contract.Errored, "the prompt was refused: "+m.Error), nil
		}
	}
	if m.Command == "parse" && !ok {
		s.broken("it could not read what was written to it: " + m.Error)
	}
	return nil, nil
}

func (s *session) prompt(text string) []byte {
	return line(map[string]string{"id": askPrompt, "type": "prompt", "message": text})
}

// differs keeps the first difference.
func (s *session) differs(format string, args ...any) {
	if s.mismatch == "" {
		s.mismatch = fmt.Sprintf(format, args...)
	}
}

func (s *session) checkState(data json.RawMessage) {
	var state struct {
		Model *struct {
			ID       string `json:"id"`
			Provider string `json:"provider"`
		} `json:"model"`
		Thinking string `json:"thinkingLevel"`
		Messages int64  `json:"messageCount"`
	}
	want := s.cfg.Harness
	if json.Unmarshal(data, &state) != nil || state.Model == nil {
		s.differs("no model is selected; the plan has %q", want.Model)
		return
	}
	s.model = state.Model.ID
	switch {
	case state.Model.ID != want.Model || state.Model.Provider != providerOf(want):
		s.differs("the model %q of %q is selected; the plan has %q", state.Model.ID, state.Model.Provider, want.Model)
	case state.Thinking != level(want):
		s.differs("the level of thinking is %q; the plan has %q", state.Thinking, level(want))
	case state.Messages != 0:
		s.differs("the conversation has %d messages before it begins", state.Messages)
	}
}

// bringsItself are the commands that a version has of itself. It does not tell
// its number over this protocol: this is how another version shows.
var bringsItself = map[string][]string{"0.84.4": {"llama"}}

// checkCommands requires the plan's skills and no others, the plan's one with
// its whole description, and nothing else that was found on the way.
func (s *session) checkCommands(data json.RawMessage) {
	var list struct {
		Commands []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Source      string `json:"source"`
			Info        struct {
				Path string `json:"path"`
			} `json:"sourceInfo"`
		} `json:"commands"`
	}
	if json.Unmarshal(data, &list) != nil {
		s.differs("its list of commands cannot be read")
		return
	}
	own := "skill:" + s.cfg.Skill
	want := map[string]bool{own: true}
	for _, name := range s.cfg.NestedSkills {
		want["skill:"+name] = true
	}
	for _, name := range bringsItself[s.cfg.Harness.Version] {
		want[name] = true
	}
	for _, c := range list.Commands {
		inline := c.Source == "extension" && strings.HasPrefix(c.Info.Path, "<inline:")
		if !want[c.Name] || c.Source != "skill" && !inline {
			s.differs("it has the %s %q, which is not in the plan", c.Source, c.Name)
		}
		delete(want, c.Name)
		if c.Name != own {
			continue
		}
		if path.Clean(c.Info.Path) != path.Join(s.cfg.SkillDir, "SKILL.md") {
			s.differs("the skill %q comes from %q, not from %q", s.cfg.Skill, c.Info.Path, s.cfg.SkillDir)
		}
		if whole, ok := description(s.cfg.SkillFile); ok && !slices.Equal(strings.Fields(whole), strings.Fields(c.Description)) {
			s.differs("the description of the skill %q is not the bundle's: it has %d of %d bytes", s.cfg.Skill, len(c.Description), len(whole))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if skill, ok := strings.CutPrefix(name, "skill:"); ok {
			s.differs("the skill %s is not there", skill)
		} else {
			s.differs("it is not the version %s: that one has the command %s", s.cfg.Harness.Version, name)
		}
	}
}

func (s *session) checkModels(data json.RawMessage) {
	var list struct {
		Models []struct {
			ID       string `json:"id"`
			Provider string `json:"provider"`
		} `json:"models"`
	}
	if json.Unmarshal(data, &list) != nil {
		s.differs("its list of models cannot be read")
		return
	}
	for _, m := range list.Models {
		if m.ID == s.cfg.Harness.Model && m.Provider == providerOf(s.cfg.Harness) {
			return
		}
	}
	s.differs("the model %q is not available", s.cfg.Harness.Model)
}

// began takes the beginning of a message. Each is one request to the provider,
// a repeated one too.
func (s *session) began(m *turn) []contract.Event {
	if m == nil || m.Role != "assistant" {
		return nil
	}
	s.open, s.counted = true, tokens{}
	s.messages++
	return s.count(m.Usage)
}

// ended takes a finished message of the conversation.
func (s *session) ended(m *turn) []contract.Event {
	if m == nil {
		return nil
	}
	switch m.Role {
	case "user":
		s.witness(m.Content)
	case "assistant":
		if !s.open {
			s.began(&turn{Role: m.Role})
		}
		s.stop, s.problem = m.StopReason, m.Error
		out := s.count(m.Usage)
		s.open = false
		return out
	}
	return nil
}

// count passes on what the message under way has spent so far, when it says
// something new. The ids are the session's own: those of a provider may be
// twice the same.
func (s *session) count(u *tokens) []contract.Event {
	if !s.open || u == nil || *u == s.counted {
		return nil
	}
	out := s.usage(fmt.Sprintf("message-%d", s.messages), u)
	if len(out) > 0 {
		s.counted = *u
	}
	return out
}

// usage is an event of it. A failed call shows zeros, which nobody counted.
func (s *session) usage(id string, u *tokens) []contract.Event {
	if u == nil || *u == (tokens{}) {
		return nil
	}
	for _, n := range []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if n < 0 || n > contract.MaxCount {
			s.broken(fmt.Sprintf("a message has %d tokens", n))
			return nil
		}
	}
	return s.say(contract.Event{Type: contract.UsageType, Usage: &contract.Usage{Message: id,
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}})
}

// witness looks for the activation in what the user is shown to have said.
func (s *session) witness(content json.RawMessage) {
	if s.seen || s.text == "" {
		return
	}
	var whole string
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &whole) == nil {
		s.seen = strings.Contains(whole, s.text)
		return
	}
	if json.Unmarshal(content, &blocks) == nil {
		for _, b := range blocks {
			s.seen = s.seen || strings.Contains(b.Text, s.text)
		}
	}
}

// settled ends the attempt, or submits what there is.
func (s *session) settled(aborted bool) []contract.Event {
	if !s.started || s.finished || s.held {
		return nil
	}
	status := contract.Errored
	switch {
	case aborted || s.aborting || s.stop == "aborted":
		status = contract.Aborted
	case s.stop == "stop":
		status = contract.Settled
	case s.stop == "length":
		status = contract.StoppedLength
	}
	said := s.problem
	if status == contract.Errored && said == "" {
		said = fmt.Sprintf("it settled with the stop reason %q", s.stop)
	}
	if status == contract.Settled && s.cfg.SubmitAttempts > 1 {
		s.held = true
		s.submits++
		return s.say(contract.Event{Type: contract.Submitted})
	}
	return s.finish(status, said)
}

func (s *session) finish(status, said string) []contract.Event {
	out := s.say(contract.Event{Type: contract.Finished, Harness: s.identity(), Status: status, Message: said})
	s.finished = true
	return out
}

// Answer implements harness.Resubmitter.
func (s *session) Answer(problems []string) ([]contract.Event, []byte) {
	if !s.held {
		return nil, nil
	}
	s.held = false
	if len(problems) == 0 || s.submits >= s.cfg.SubmitAttempts {
		return s.finish(contract.Settled, ""), nil
	}
	return nil, s.prompt("What you left is not valid yet:\n- " + strings.Join(problems, "\n- ") +
		"\nMend the files where they are, and then end your turn.")
}

// CloseInput implements harness.Session: an agent without input ends.
func (s *session) CloseInput() bool { return s.finished || s.silent }

// End implements harness.Session.
func (s *session) End() []contract.Event { return nil }

// Abort implements harness.Session.
func (s *session) Abort() []byte {
	s.aborting = true
	return line(map[string]string{"id": askAbort, "type": "abort"})
}

// Noise implements harness.Session.
func (s *session) Noise() int64 { return s.noise }

// Violation implements harness.Session.
func (s *session) Violation() string { return s.violation }
