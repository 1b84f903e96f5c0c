package contract

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func cost(n int64) *int64 { return &n }

var (
	who    = &Identity{Name: "replay", Version: "1", Model: ""}
	events = []Event{
		{ProtocolVersion: 2, Type: Started, Harness: who},
		{ProtocolVersion: 2, Type: Turn, Turn: 1},
		{ProtocolVersion: 2, Type: Tool, ToolName: "bash", ToolCall: "c1"},
		{ProtocolVersion: 2, Type: UsageType, Usage: &Usage{Message: "m", Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CostMicroUSD: cost(0)}},
		{ProtocolVersion: 2, Type: UsageType, Usage: &Usage{Message: "m", Input: MaxCount}},
		{ProtocolVersion: 2, Type: Submitted, Artifacts: []string{"a", "b"}},
		{ProtocolVersion: 2, Type: Finished, Harness: who, Status: Errored, Message: "<&> \u2028 \n"},
	}
)

func TestEventRoundTrip(t *testing.T) {
	for _, ev := range events {
		line := Encode(ev)
		if n := strings.Count(string(line), "\n"); n != 1 || line[len(line)-1] != '\n' {
			t.Errorf("%s is %d lines: %q", ev.Type, n, line)
		}
		for _, l := range [][]byte{line, line[:len(line)-1], append(line[:len(line)-1:len(line)-1], '\r')} {
			got, err := DecodeEvent(l)
			if err != nil || !reflect.DeepEqual(got, ev) {
				t.Errorf("%q: %v, %v", l, got, err)
			}
		}
	}
}

func TestEventRefused(t *testing.T) {
	const head = `{"protocol_version":2,"type":`
	const id = `"harness":{"name":"r","version":"1","model":""}`
	for _, c := range []struct{ line, want string }{
		{head + `"turn","turn":1}x`, "no event"}, // not JSON at all: noise
		{head + `"boast"}`, "unknown type"},
		{head + `"turn"}`, "counts from 1"},
		{head + `"turn","turn":-1}`, "counts from 1"},
		{head + `"turn","turn":1.5}`, "number"},
		{head + `"turn","turn":"1"}`, "not an integer"},
		{head + `"turn","turn":null}`, "null"},
		{head + `"turn","turn":9223372036854775808}`, "number"},
		{head + `"turn","turn":1,"turn":2}`, "twice"},
		{head + `"turn","Turn":1}`, `unknown key "Turn"`},
		{head + `"turn","turn":1,"note":1}`, `unknown key "note"`},
		{head + `"turn","turn":1,"status":"settled"}`, "does not have"},
		{head + `"started"}`, "needs a name"},
		{head + `"started","harness":{"name":"r","version":"1"}}`, `lacks the key "model"`},
		{head + `"started","harness":{"name":"","version":"1","model":""}}`, "needs a name"},
		{head + `"started","harness":{"name":"r","version":"1","model":"","Model":"x"}}`, "unknown key"},
		{head + `"finished",` + id + `}`, "status"},
		{head + `"finished",` + id + `,"status":"none"}`, "status"},
		{head + `"finished","status":"settled"}`, "needs a name"},
		{head + `"tool","tool_name":"bash"}`, "tool_call"},
		{head + `"usage"}`, "message id"},
		{head + `"usage","usage":{"message":"m","input":1,"output":1,"cache_read":0}}`, `lacks the key "cache_write"`},
		{head + `"usage","usage":{"message":"","input":1,"output":1,"cache_read":0,"cache_write":0}}`, "message id"},
		{head + `"usage","usage":{"message":"m","input":-1,"output":1,"cache_read":0,"cache_write":0}}`, "-1"},
		{head + `"usage","usage":{"message":"m","input":1,"output":1,"cache_read":0,"cache_write":0,"cost_micro_usd":-5}}`, "-5"},
		{head + `"usage","usage":{"message":"m","input":1000000000001,"output":1,"cache_read":0,"cache_write":0}}`, "not in 0"},
		{head + `"submitted","artifacts":[]}`, "no artifact"},
		{head + `"submitted","artifacts":["a","a"]}`, "twice"},
		{head + `"submitted","artifacts":"a"}`, "not an array"},
		{`{"protocol_version":2}`, `lacks the key "type"`},
		{head + "\"turn\xff\"}", "UTF-8"},
	} {
		ev, err := DecodeEvent([]byte(c.line))
		if err == nil || !strings.Contains(err.Error(), c.want) || !reflect.DeepEqual(ev, Event{}) {
			t.Errorf("%s\n got %v, %v; want an error with %q", c.line, ev, err, c.want)
		}
	}
}

func TestNoiseAndVersionAreTold(t *testing.T) {
	for _, line := range []string{"", "hello", "{", "[]", "null", "7", `{"type":"turn"}`, `{"protocol_version":2,"type":"fini`} {
		if _, err := DecodeEvent([]byte(line)); !errors.Is(err, ErrNoEvent) {
			t.Errorf("%q: %v, want ErrNoEvent", line, err)
		}
	}
	for _, line := range []string{
		`{"protocol_version":1,"type":"turn","turn":1}`, `{"protocol_version":3,"new":true}`,
		`{"protocol_version":"2","type":"turn"}`, `{"protocol_version":2.0,"type":"turn"}`,
		`{"protocol_version":[[[[2]]]]}`, `{"protocol_version":"` + strings.Repeat("9", 9999) + `"}`,
	} {
		if _, err := DecodeEvent([]byte(line)); !errors.Is(err, ErrVersion) || len(err.Error()) > 200 {
			t.Errorf("%.60q: %v, want ErrVersion", line, err)
		}
	}
}

func TestInput(t *testing.T) {
	in := Input{ProtocolVersion: 2, Agent: "scripted", Harness: *who, Node: "n", Iteration: 1, Attempt: 2, Prompt: "p", TestStub: true}
	line := EncodeInput(in)
	if got, err := DecodeInput(line); err != nil || got != in {
		t.Fatalf("%v, %v", got, err)
	}
	for from, to := range map[string]string{
		`"agent":"scripted"`: `"agent":""`,
		`"node":"n"`:         `"node":""`,
		`"iteration":1`:      `"iteration":0`,
		`"attempt":2`:        `"attempt":-1`,
		`"version":"1"`:      `"version":""`,
		`"prompt":"p"`:       `"prompt":null`,
		`,"attempt":2`:       ``,
		`"test_stub":true`:   `"test_stub":1`,
		`"protocol_version"`: `"version"`,
	} {
		bad := strings.Replace(string(line), from, to, 1)
		if got, err := DecodeInput([]byte(bad)); err == nil || bad == string(line) || got != (Input{}) {
			t.Errorf("%s is accepted: %v", bad, got)
		}
	}
}

func TestDeepNestingIsBounded(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	if _, err := DecodeEvent([]byte(`{"protocol_version":2,"type":"submitted","artifacts":` + deep + `}`)); err == nil {
		t.Error("deep nesting is accepted")
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for _, ev := range events {
		f.Add(Encode(ev))
	}
	f.Add([]byte(`{"protocol_version":2,"type":"turn","turn":1,"artifacts":[]}`))
	f.Add([]byte(`{"protocol_version":3}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		ev, err := DecodeEvent(line)
		if err != nil {
			return
		}
		// What is accepted means the same after a round trip.
		again, err := DecodeEvent(Encode(ev))
		if err != nil || string(Encode(again)) != string(Encode(ev)) {
			t.Fatalf("%q: %v, then %v, %v", line, ev, again, err)
		}
	})
}

func TestAnswer(t *testing.T) {
	for _, a := range []Answer{{ProtocolVersion: 2, Problems: []string{}}, {ProtocolVersion: 2, Problems: []string{"/a: type", "b"}}} {
		got, err := DecodeAnswer(EncodeAnswer(a))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(a) {
			t.Errorf("%v, %v", got, err)
		}
	}
	if got := string(EncodeAnswer(Answer{ProtocolVersion: 2})); got != "{\"protocol_version\":2,\"problems\":[]}\n" {
		t.Error(got)
	}
	for _, line := range []string{"", "{}", `{"protocol_version":2}`, `{"protocol_version":1,"problems":[]}`, `{"protocol_version":2,"problems":[],"more":1}`, `{"protocol_version":2,"problems":"x"}`} {
		if _, err := DecodeAnswer([]byte(line)); err == nil {
			t.Errorf("%s is accepted", line)
		}
	}
}
