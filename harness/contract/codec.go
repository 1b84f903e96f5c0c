package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// MaxCount bounds every number of an event: 10^12 tokens or micro-dollars of
// one message is beyond any provider, and sums stay inside an int64.
const MaxCount = 1_000_000_000_000

// Kinds of decoding error, for errors.Is. Any other error of DecodeEvent means
// a line that claims to be an event of this version and is not a valid one.
var (
	// ErrNoEvent: the line is no JSON object with a protocol_version. Agents
	// print such lines, so it is noise and no breach of the contract.
	ErrNoEvent = errors.New("contract: the line is no event")
	// ErrVersion: it speaks another protocol version.
	ErrVersion = errors.New("contract: another protocol version")
)

// Encode writes ev as one line with its line end. It does not validate.
func Encode(ev Event) []byte { return encodeLine(ev) }

// EncodeInput writes in as one line with its line end. It does not validate.
func EncodeInput(in Input) []byte { return encodeLine(in) }

// EncodeAnswer writes a as one line with its line end. It does not validate.
func EncodeAnswer(a Answer) []byte {
	if a.Problems == nil {
		a.Problems = []string{}
	}
	return encodeLine(a)
}

// DecodeAnswer reads the answer to a submission, as strictly as DecodeEvent.
func DecodeAnswer(line []byte) (Answer, error) {
	if err := checkVersion(line); err != nil {
		return Answer{}, err
	}
	var a Answer
	if err := DecodeStrict(line, &a); err != nil {
		return Answer{}, fmt.Errorf("contract: answer refused: %w", err)
	}
	return a, nil
}

// encodeLine cannot fail: the types hold strings, integers and slices of them.
func encodeLine(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil
	}
	return b.Bytes()
}

// DecodeEvent reads one line, with or without its line end. It is strict (see
// DecodeStrict), refuses another version and an unknown type, requires the
// fields of the type and refuses those of other types.
func DecodeEvent(line []byte) (Event, error) {
	if err := checkVersion(line); err != nil {
		return Event{}, err
	}
	var ev Event
	if err := DecodeStrict(line, &ev); err != nil {
		return Event{}, fmt.Errorf("contract: event refused: %w", err)
	}
	if err := ev.check(); err != nil {
		return Event{}, fmt.Errorf("contract: event refused: %w", err)
	}
	return ev, nil
}

// DecodeInput reads what a worker gets on its standard input, as strictly as
// DecodeEvent.
func DecodeInput(line []byte) (Input, error) {
	if err := checkVersion(line); err != nil {
		if errors.Is(err, ErrNoEvent) {
			return Input{}, errors.New("contract: input refused: it is no JSON object with a protocol_version")
		}
		return Input{}, err
	}
	var in Input
	if err := DecodeStrict(line, &in); err != nil {
		return Input{}, fmt.Errorf("contract: input refused: %w", err)
	}
	switch {
	case in.Agent == "":
		return Input{}, errors.New("contract: input refused: agent is empty")
	case in.Node == "":
		return Input{}, errors.New("contract: input refused: node is empty")
	case in.Iteration < 1 || in.Attempt < 1:
		return Input{}, errors.New("contract: input refused: iteration and attempt count from 1")
	}
	if err := in.Harness.check(); err == nil && in.Harness.Version == "" {
		return Input{}, errors.New("contract: input refused: harness needs a version")
	} else if err != nil {
		return Input{}, fmt.Errorf("contract: input refused: %w", err)
	}
	return in, nil
}

// checkVersion comes first, because a line of another version may have keys
// that this one does not know.
func checkVersion(line []byte) error {
	var head struct {
		Version json.RawMessage `json:"protocol_version"`
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Version == nil {
		return ErrNoEvent
	}
	if string(head.Version) != fmt.Sprint(ProtocolVersion) {
		return fmt.Errorf("%w: it speaks %.20s, this program speaks %d", ErrVersion, head.Version, ProtocolVersion)
	}
	return nil
}

func (id *Identity) check() error {
	if id == nil || id.Name == "" {
		return errors.New("harness needs a name")
	}
	return nil
}

// check applies the rules of the event's type.
func (ev Event) check() error {
	rest := ev // what is left when the fields of the type are taken away
	rest.ProtocolVersion, rest.Type = 0, ""
	var err error
	switch ev.Type {
	case Started:
		err = ev.Harness.check()
		rest.Harness = nil
	case Finished:
		err = ev.Harness.check()
		if err == nil && !slices.Contains([]string{Settled, StoppedLength, Errored, Aborted}, ev.Status) {
			err = fmt.Errorf("status %.40q is none of settled, stopped_length, errored, aborted", ev.Status)
		}
		rest.Harness, rest.Status, rest.Message = nil, "", ""
	case Turn:
		if ev.Turn < 1 || ev.Turn > MaxCount {
			err = errors.New("turn counts from 1")
		}
		rest.Turn = 0
	case Tool:
		if ev.ToolName == "" || ev.ToolCall == "" {
			err = errors.New("tool needs a tool_name and a tool_call")
		}
		rest.ToolName, rest.ToolCall = "", ""
	case UsageType:
		err = ev.Usage.check()
		rest.Usage = nil
	case Submitted:
		err = checkArtifacts(ev.Artifacts)
		rest.Artifacts = nil
	default:
		return fmt.Errorf("unknown type %.40q", ev.Type)
	}
	if err == nil && !rest.empty() {
		err = fmt.Errorf("it has a key that %s does not have", ev.Type)
	}
	return err
}

func (ev Event) empty() bool {
	return ev.Harness == nil && ev.Turn == 0 && ev.ToolName == "" && ev.ToolCall == "" &&
		ev.Usage == nil && len(ev.Artifacts) == 0 && ev.Status == "" && ev.Message == ""
}

func (u *Usage) check() error {
	if u == nil || u.Message == "" {
		return errors.New("usage needs a message id")
	}
	counts := []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite}
	if u.CostMicroUSD != nil {
		counts = append(counts, *u.CostMicroUSD)
	}
	for _, n := range counts {
		if n < 0 || n > MaxCount {
			return fmt.Errorf("usage has the number %d, not in 0 to %d", n, int64(MaxCount))
		}
	}
	return nil
}

func checkArtifacts(ids []string) error {
	if ids != nil && len(ids) == 0 {
		return errors.New("submitted names no artifact: without the key it is whatever the worker left")
	}
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if id == "" || seen[id] {
			return errors.New("submitted names an artifact twice, or an empty one")
		}
		seen[id] = true
	}
	return nil
}
