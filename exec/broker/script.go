package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// ScriptVersion is the version of a scripted provider's file.
const ScriptVersion = 1

// Script is what a scripted provider answers, request by request: the replies
// of a node in its iteration, else those of the node, else the default's.
type Script struct {
	Version    int                  `json:"version"`
	Nodes      map[string][]Reply   `json:"nodes,omitempty"`
	Iterations map[string][][]Reply `json:"iterations,omitempty"` // the last list holds for later ones
	Default    []Reply              `json:"default,omitempty"`
}

// Reply is one answer. Strings in tool inputs and text may hold the tokens of a
// plan ({out}, {in:ID}, {skill}), which stand for the paths that the worker
// sees.
type Reply struct {
	Text       string  `json:"text,omitempty"`
	Times      int     `json:"times,omitempty"` // the text so many times, streamed as one
	Thinking   string  `json:"thinking,omitempty"`
	Tools      []Call  `json:"tools,omitempty"`
	StopReason string  `json:"stop_reason,omitempty"` // default: tool_use with tools, else end_turn
	Usage      *Counts `json:"usage,omitempty"`       // default: a token for four bytes
	DelayMS    int64   `json:"delay_ms,omitempty"`    // before each chunk
	Chunk      int     `json:"chunk,omitempty"`       // bytes of a chunk of text, default 64
	Repeat     int     `json:"repeat,omitempty"`      // the reply so many times, for so many requests

	Status     int               `json:"status,omitempty"` // an error instead of an answer
	Body       string            `json:"body,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Drop       string            `json:"drop,omitempty"`            // "before" the answer's head or in its "middle"
	Malformed  bool              `json:"malformed,omitempty"`       // a chunk that is no event, in the middle
	Hang       bool              `json:"hang,omitempty"`            // in the middle, until the request is ended
	NoUsage    bool              `json:"no_usage,omitempty"`        // the answer's end tells no usage
	Credential bool              `json:"echo_credential,omitempty"` // the body of the error repeats the credential that came
}

// Call is a tool call of the model.
type Call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Counts is the usage of a reply.
type Counts struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// maxScript bounds a script file.
const maxScript = 16 << 20

// DecodeScript reads a script file; unknown keys are refused.
func DecodeScript(data []byte) (*Script, error) {
	if len(data) > maxScript {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(data), maxScript)
	}
	s := new(Script)
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("it is no script: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the script's object")
	}
	if s.Version != ScriptVersion {
		return nil, fmt.Errorf("its version is %d, this program reads %d", s.Version, ScriptVersion)
	}
	for _, node := range slices.Sorted(maps.Keys(s.Nodes)) {
		if err := checkReplies(s.Nodes[node]); err != nil {
			return nil, fmt.Errorf("nodes/%s: %w", node, err)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(s.Iterations)) {
		if len(s.Iterations[node]) == 0 || s.Nodes[node] != nil {
			return nil, fmt.Errorf("iterations/%s: it has no list, or stands in nodes, too", node)
		}
		for i, list := range s.Iterations[node] {
			if err := checkReplies(list); err != nil {
				return nil, fmt.Errorf("iterations/%s, list %d: %w", node, i+1, err)
			}
		}
	}
	if err := checkReplies(s.Default); err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	return s, nil
}

// Bounds of what a script can ask this program to hold.
const (
	maxText    = 256 << 20
	maxReplies = 100_000
)

func checkReplies(list []Reply) error {
	replies := 0
	for i, r := range list {
		var problem string
		switch {
		case r.Repeat > maxReplies-replies:
			problem = fmt.Sprintf("with it the list has more than %d replies", maxReplies)
		case r.Drop != "" && r.Drop != "before" && r.Drop != "middle":
			problem = "drop is before or middle"
		case r.Status != 0 && (r.Status < 300 || r.Status > 599):
			problem = "status is an error's, 300 to 599"
		case r.Credential && r.Status == 0:
			problem = "echo_credential needs a status"
		case r.Times < 0 || r.Chunk < 0 || r.Repeat < 0 || r.DelayMS < 0 || r.DelayMS > 600_000:
			problem = "a number is below 0, or a delay above ten minutes"
		case r.Times > maxText/max(1, len(r.Text)):
			problem = "the text has more than 256 MiB"
		}
		for _, c := range r.Tools {
			var input map[string]any
			if c.Name == "" || json.Unmarshal(c.Input, &input) != nil {
				problem = "a tool call has a name and an object as its input"
			}
		}
		if u := r.Usage; u != nil && min(u.Input, u.Output, u.CacheRead, u.CacheWrite) < 0 {
			problem = "a count is below 0"
		}
		if problem != "" {
			return fmt.Errorf("reply %d: %s", i+1, problem)
		}
		replies += max(1, r.Repeat)
	}
	return nil
}

// replies are those of one attempt.
func (s *Script) replies(node string, iteration int64) []Reply {
	list := s.Default
	if lists, ok := s.Iterations[node]; ok {
		list = lists[min(max(iteration, 1), int64(len(lists)))-1]
	} else if own, ok := s.Nodes[node]; ok {
		list = own
	}
	var out []Reply
	for _, r := range list {
		for range max(1, r.Repeat) {
			out = append(out, r)
		}
	}
	return out
}
