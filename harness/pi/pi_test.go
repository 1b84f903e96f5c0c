package pi

import (
	"encoding/json"
	"strings"
	"testing"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/plan"
)

func request() harness.Request {
	return harness.Request{
		Node: "hello", Skill: "hello", NestedSkills: []string{"other"}, Task: "Say it.",
		Harness: plan.Harness{Name: "worker", Adapter: Name, Version: "0.84.4", Provider: "lab", Model: "m", Thinking: "low", Tools: []string{"read", "write"}},
		Provider: &plan.Provider{Name: "lab", API: "anthropic-messages", BaseURL: "https://api.example", Credential: "LAB_KEY",
			Models: []plan.Model{{ID: "m", MaxOutput: 64000, Price: plan.Price{Input: "3", Output: "15", CacheRead: "0.3", CacheWrite: "3.75"}}}},
	}
}

func TestLower(t *testing.T) {
	low, err := Adapter{}.Lower(request())
	if err != nil {
		t.Fatal(err)
	}
	want := "pi --mode rpc --no-session --no-context-files --no-extensions --no-prompt-templates --no-themes --no-skills --skill {skill} " +
		"--skill {skill:other} --tools read,write --provider foundry --model m --thinking low --offline --no-approve"
	if got := strings.Join(low.Process.Argv, " "); got != want {
		t.Errorf("argv %s", got)
	}
	if !strings.HasPrefix(low.Prompt, "/skill:hello ") || low.Network != plan.NetworkProvider {
		t.Errorf("network %s, prompt %s", low.Network, low.Prompt)
	}
	models := low.Files[0].Content
	for _, part := range []string{`"baseUrl": "{broker.url}"`, `"apiKey": "{broker.token}"`, `"cacheRead": 0.3`, `"reasoning": true`, `"maxTokens": 64000`} {
		if !strings.Contains(models, part) {
			t.Errorf("no %s in %s", part, models)
		}
	}
	all := strings.Join(low.Process.Argv, " ") + strings.Join(low.Process.Env, " ")
	for _, secret := range []string{"LAB_KEY", "api.example", "broker.token", "proxy", "PROXY"} {
		if strings.Contains(all, secret) || strings.Contains(models, "LAB_KEY") {
			t.Errorf("%s is in %s", secret, all)
		}
	}

	later := request()
	later.Harness.Version, later.Harness.Tools, later.Harness.Thinking = "1.6.0", nil, ""
	low, err = Adapter{}.Lower(later)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(low.Process.Argv, " "); !strings.HasSuffix(got, "--no-tools --provider foundry --model m --thinking off --offline --no-approve --no-mcp") {
		t.Errorf("argv %s", got)
	}

	own := request()
	own.Harness.AuthStore = "pi-test-auth"
	low, err = Adapter{}.Lower(own)
	if err != nil || low.Network != plan.NetworkBridge || strings.Contains(low.Files[0].Content, "broker") || !strings.Contains(strings.Join(low.Process.Argv, " "), "--provider lab") {
		t.Errorf("with a login of its own: %+v, %v", low, err)
	}
	known := request()
	known.Harness.Model, known.Harness.Thinking, known.Provider.Models[0].ID = "claude-opus-4-6", "max", "claude-opus-4-6"
	low, err = Adapter{}.Lower(known)
	if err != nil || !strings.Contains(strings.Join(low.Process.Argv, " "), "--provider anthropic --model claude-opus-4-6 --thinking max") {
		t.Errorf("a model of Pi's own: %v, %v", low.Process.Argv, err)
	}
	var file struct {
		Providers map[string]struct {
			Overrides map[string]json.RawMessage `json:"modelOverrides"`
			Models    []any                      `json:"models"`
		} `json:"providers"`
	}
	if err := json.Unmarshal([]byte(low.Files[0].Content), &file); err != nil {
		t.Fatal(err)
	}
	if got := file.Providers["anthropic"]; len(got.Models) > 0 || !strings.Contains(string(got.Overrides["claude-opus-4-6"]), `"allowedFallbackModels": []`) {
		t.Errorf("its configuration: %s", low.Files[0].Content)
	}
	for name, change := range map[string]func(*harness.Request){
		"no such level":  func(r *harness.Request) { r.Harness.Thinking = "xhigh" },
		"level of Pi's":  func(r *harness.Request) { *r = known; r.Harness.Thinking = "xhigh" },
		"not to be kept": func(r *harness.Request) { *r = known; r.Harness.Model, r.Harness.Thinking = "claude-fable-5", "" },
		"version":        func(r *harness.Request) { r.Harness.Version = "1.6.1" },
		"provider":       func(r *harness.Request) { r.Provider = nil },
		"model":          func(r *harness.Request) { r.Harness.Model = "n" },
	} {
		r := request()
		change(&r)
		if _, err := (Adapter{}).Lower(r); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestBody(t *testing.T) {
	for in, want := range map[string]string{
		"---\nname: x\n---\n\n# X\n\nb\n": "# X\n\nb", "---\r\nname: x\r\n---\r\n\r\n# X\r\nb": "# X\nb",
		"no header\n": "no header", "\uFEFF---\nname: x\n---\nb": "b", "---\nno end": "---\nno end",
	} {
		if got := body(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// play feeds a session and returns its events and what it wrote.
func play(s harness.Session, lines ...string) (events []contract.Event, wrote string) {
	wrote = string(s.Begin())
	for _, l := range lines {
		ev, reply := s.Line([]byte(l))
		events, wrote = append(events, ev...), wrote+string(reply)
	}
	return append(events, s.End()...), wrote
}

const (
	state    = `{"id":"foundry-state","type":"response","command":"get_state","success":true,"data":{"model":{"id":"m","provider":"foundry"},"thinkingLevel":"low","messageCount":0}}`
	commands = `{"id":"foundry-commands","type":"response","command":"get_commands","success":true,"data":{"commands":[{"name":"llama","source":"extension","sourceInfo":{"path":"<inline:llama.cpp>"}},{"name":"skill:hello","description":"Says hello.","source":"skill","sourceInfo":{"path":"/skills/hello/SKILL.md"}}]}}`
	models   = `{"id":"foundry-models","type":"response","command":"get_available_models","success":true,"data":{"models":[{"id":"m","provider":"foundry"}]}}`
)

func config() harness.SessionConfig {
	return harness.SessionConfig{Harness: request().Harness, Node: "hello", Iteration: 1, Attempt: 1, Prompt: "/skill:hello go",
		Skill: "hello", SkillDir: "/skills/hello", SkillFile: []byte("---\nname: hello\ndescription: Says\n  hello.\n---\n\nBody.\n"), SubmitAttempts: 1}
}

// The prompt is sent only when Pi is what the plan asks for.
func TestMismatch(t *testing.T) {
	for name, c := range map[string]struct{ from, to, says string }{
		"another model":    {`"id":"m","provider":"foundry"},"thinking`, `"id":"n","provider":"foundry"},"thinking`, `the model "n"`},
		"no model":         {`"model":{"id":"m","provider":"foundry"},"thinking`, `"thinking`, "no model is selected"},
		"thinking off":     {`"low"`, `"off"`, `level of thinking is "off"`},
		"a conversation":   {`"messageCount":0`, `"messageCount":3`, "3 messages"},
		"no skill":         {`,{"name":"skill:hello","description":"Says hello.","source":"skill","sourceInfo":{"path":"/skills/hello/SKILL.md"}}`, ``, "the skill hello is not there"},
		"another skill":    {`{"name":"llama"`, `{"name":"skill:more","source":"skill","sourceInfo":{"path":"/x"}},{"name":"llama"`, `it has the skill "skill:more"`},
		"another place":    {`/skills/hello/SKILL.md`, `/home/x/SKILL.md`, `comes from "/home/x/SKILL.md"`},
		"an extension":     {`<inline:llama.cpp>`, `/home/x/ext.ts`, `it has the extension "llama"`},
		"half a text":      {`Says hello.`, `Says`, "not the bundle's: it has 4 of 11 bytes"},
		"another version":  {`{"name":"llama","source":"extension","sourceInfo":{"path":"<inline:llama.cpp>"}},`, ``, "not the version 0.84.4"},
		"a failed command": {`"command":"get_state","success":true`, `"command":"get_state","success":false,"error":"no"`, "get_state failed: no"},
		"no such model":    {`{"models":[{"id":"m"`, `{"models":[{"id":"n"`, `"m" is not available`},
	} {
		s := Adapter{}.Session(config())
		change := func(l string) string { return strings.Replace(l, c.from, c.to, 1) }
		if change(state+commands+models) == state+commands+models {
			t.Fatalf("%s changes nothing", name)
		}
		events, wrote := play(s, change(state), change(commands), change(models))
		if got := s.(harness.Verifier).Mismatch(); !strings.Contains(got, c.says) || len(events) > 0 || strings.Contains(wrote, "/skill:hello go") || !s.CloseInput() {
			t.Errorf("%s: %q, events %v", name, got, events)
		}
	}
}

func TestWholeStream(t *testing.T) {
	s := Adapter{}.Session(config())
	events, wrote := play(s, models, commands, state, `noise`,
		`{"id":"foundry-prompt","type":"response","command":"prompt","success":true}`, `{"type":"turn_start"}`,
		`{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"<skill name=\"hello\" location=\"/skills/hello/SKILL.md\">\nReferences are relative to /skills/hello.\n\nBody.\n</skill>\n\ngo"}]}}`,
		`{"type":"message_end","message":{"role":"assistant","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"stopReason":"error","errorMessage":"529 overloaded"}}`,
		`{"type":"agent_end"}`,
		`{"type":"message_end","message":{"role":"assistant","responseId":"r1","usage":{"input":10,"output":5,"cacheRead":1,"cacheWrite":2},"stopReason":"toolUse"}}`,
		`{"type":"tool_execution_start","toolCallId":"t1","toolName":"write"}`, `{"type":"turn_start"}`,
		`{"type":"message_end","message":{"role":"assistant","responseId":"r2","usage":{"input":20,"output":7,"cacheRead":0,"cacheWrite":0},"stopReason":"stop"}}`,
		`{"type":"agent_end"}`, `{"type":"agent_settled"}`)
	var kinds []string
	var checker contract.Checker
	for _, ev := range events {
		kinds = append(kinds, ev.Type)
		if err := checker.Add(ev); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(kinds, " "); got != "started turn usage tool turn usage finished" {
		t.Errorf("events %s", got)
	}
	u := checker.Usage()
	if u.Input != 30 || u.Output != 12 || checker.Status() != contract.Settled || s.Noise() != 1 || s.Violation() != "" || !s.CloseInput() {
		t.Errorf("%+v, %s, noise %d, %s", u, checker.Status(), s.Noise(), s.Violation())
	}
	a := s.(harness.Prover).Activation()
	if !a.Seen || a.Requested != "/skill:hello" || !strings.Contains(wrote, `"message":"/skill:hello go"`) {
		t.Errorf("%+v, wrote %s", a, wrote)
	}
}

func TestEndings(t *testing.T) {
	for name, c := range map[string]struct {
		stop, settled string
		abort         bool
		status, fail  string
	}{
		"stop":         {`"stop"`, ``, false, contract.Settled, ""},
		"length":       {`"length"`, ``, false, contract.StoppedLength, ""},
		"refused":      {`"error","errorMessage":"401 {}"`, ``, false, contract.Errored, harness.ProviderRefused},
		"overloaded":   {`"error","errorMessage":"529 {}"`, ``, false, contract.Errored, harness.ProviderUnreachable},
		"connection":   {`"error","errorMessage":"Connection error."`, ``, false, contract.Errored, harness.ProviderUnreachable},
		"its request":  {`"error","errorMessage":"400 {}"`, ``, false, contract.Errored, harness.ProviderRefused},
		"its own":      {`"error","errorMessage":"it broke"`, ``, false, contract.Errored, ""},
		"tool use":     {`"toolUse"`, ``, false, contract.Errored, ""},
		"aborted":      {`"aborted"`, ``, false, contract.Aborted, ""},
		"said aborted": {`"error"`, `,"aborted":true`, false, contract.Aborted, ""},
		"told to":      {`"error"`, ``, true, contract.Aborted, ""},
	} {
		s := Adapter{}.Session(config())
		play(s, state, commands, models)
		if c.abort && !strings.Contains(string(s.Abort()), `"abort"`) {
			t.Error("Abort says nothing")
		}
		s.Line([]byte(`{"type":"message_end","message":{"role":"assistant","stopReason":` + c.stop + `}}`))
		events, _ := s.Line([]byte(`{"type":"agent_settled"` + c.settled + `}`))
		if len(events) != 1 || events[0].Status != c.status || s.(harness.ProviderWitness).ProviderFailure() != c.fail {
			t.Errorf("%s: %+v, %q", name, events, s.(harness.ProviderWitness).ProviderFailure())
		}
		if again, _ := s.Line([]byte(`{"type":"agent_settled"}`)); len(again) > 0 {
			t.Errorf("%s: it finished twice", name)
		}
	}
	s := Adapter{}.Session(config())
	play(s, state, commands, models)
	refused := []byte(`{"id":"foundry-prompt","type":"response","command":"prompt","success":false,"error":"no key"}`)
	if events, _ := s.Line(refused); len(events) != 0 || !strings.Contains(s.(harness.Verifier).Mismatch(), "no key") || !s.CloseInput() {
		t.Errorf("%+v, %q", events, s.(harness.Verifier).Mismatch())
	}
	s = Adapter{}.Session(config())
	play(s, state, commands, models, `{"type":"turn_start"}`)
	if events, _ := s.Line(refused); len(events) != 1 || events[0].Status != contract.Errored || !strings.Contains(events[0].Message, "no key") {
		t.Errorf("%+v", events)
	}
}

// What was spent is told as soon as it is known, and once for each message; a
// message that failed later keeps what it was said to have spent.
func TestUsage(t *testing.T) {
	start := func(role string) string {
		return `{"type":"message_start","message":{"role":"` + role + `","usage":{"input":100,"output":1}}}`
	}
	update := `{"type":"message_update","usage":{"input":100,"output":20},"assistantMessageEvent":{}}`
	for name, c := range map[string]struct {
		lines    []string
		events   int
		in, out  int64
		messages int64
		broken   bool
	}{
		"in the middle":     {[]string{start("assistant"), update, update}, 2, 100, 20, 1, false},
		"a user's":          {[]string{start("user")}, 0, 0, 0, 0, false},
		"failed":            {[]string{start("assistant"), `{"type":"message_end","message":{"role":"assistant","usage":{},"stopReason":"error"}}`}, 1, 100, 1, 1, false},
		"two":               {[]string{start("assistant"), update, `{"type":"message_end","message":{"role":"assistant","usage":{"input":100,"output":20},"stopReason":"stop"}}`, start("assistant")}, 3, 200, 21, 2, false},
		"no beginning":      {[]string{`{"type":"message_end","message":{"role":"assistant","usage":{"input":7},"stopReason":"stop"}}`}, 1, 7, 0, 1, false},
		"a compaction":      {[]string{`{"type":"compaction_end","result":{"usage":{"input":50,"output":5}}}`, `{"type":"compaction_end","aborted":true}`}, 1, 50, 5, 1, false},
		"below zero":        {[]string{`{"type":"message_end","message":{"role":"assistant","usage":{"input":-1},"stopReason":"stop"}}`}, 0, 0, 0, 0, true},
		"too many":          {[]string{`{"type":"message_end","message":{"role":"assistant","usage":{"input":1000000000001},"stopReason":"stop"}}`}, 0, 0, 0, 0, true},
		"no number":         {[]string{`{"type":"message_end","message":{"role":"assistant","usage":{"input":"x"}}}`}, 0, 0, 0, 0, true},
		"no name":           {[]string{`{"type":"tool_execution_start","toolCallId":"c"}`}, 0, 0, 0, 0, true},
		"not looked at":     {[]string{`{"type":"turn_end","message":7}`}, 0, 0, 0, 0, false},
		"outside a message": {[]string{update}, 0, 0, 0, 0, false},
	} {
		s := Adapter{}.Session(config())
		play(s, state, commands, models)
		var checker contract.Checker
		checker.Add(contract.Event{Type: contract.Started})
		n := 0
		for _, l := range c.lines {
			events, _ := s.Line([]byte(l))
			for _, ev := range events {
				n++
				if err := checker.Add(ev); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		u := checker.Usage()
		if n != c.events || u.Input != c.in || u.Output != c.out || u.Messages != c.messages || (s.Violation() != "") != c.broken {
			t.Errorf("%s: %d events, %+v, violation %q", name, n, u, s.Violation())
		}
	}
}

// What is not valid is handed back as often as the plan allows.
func TestResubmits(t *testing.T) {
	cfg := config()
	cfg.SubmitAttempts = 3
	s := Adapter{}.Session(cfg)
	play(s, state, commands, models)
	settle := func() string {
		s.Line([]byte(`{"type":"message_end","message":{"role":"assistant","stopReason":"stop"}}`))
		events, _ := s.Line([]byte(`{"type":"agent_settled"}`))
		if len(events) != 1 {
			t.Fatalf("%+v", events)
		}
		return events[0].Type
	}
	re := s.(harness.Resubmitter)
	for range 2 {
		if got := settle(); got != contract.Submitted || s.CloseInput() {
			t.Fatalf("it says %s", got)
		}
		if events, reply := re.Answer([]string{"/class: const"}); len(events) > 0 || !strings.Contains(string(reply), "/class: const") {
			t.Fatalf("%v %s", events, reply)
		}
	}
	settle()
	if events, reply := re.Answer([]string{"/class: const"}); len(events) != 1 || events[0].Type != contract.Finished || reply != nil || !s.CloseInput() {
		t.Errorf("the third time: %v %s", events, reply)
	}
}

func FuzzSession(f *testing.F) {
	for _, l := range []string{state, commands, models, `{"type":"agent_settled"}`, `{"type":"message_end","message":{"role":"assistant","stopReason":"stop"}}`} {
		f.Add([]byte(l))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Adapter{}.Session(config())
		var checker contract.Checker
		events, _ := play(s, state, commands, models, string(data), `{"type":"message_end","message":{"role":"assistant","stopReason":"stop"}}`, `{"type":"agent_settled"}`)
		for _, ev := range events {
			if err := checker.Add(ev); err != nil && s.Violation() == "" {
				t.Errorf("%v", err)
			}
		}
	})
}
