package broker

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// usage is what a provider counts for one answer.
type usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

// maxCount is more than any answer has: a usage beyond it is none.
const maxCount = 1 << 40

func (u usage) sane() bool {
	return min(u.Input, u.Output, u.CacheRead, u.CacheWrite) >= 0 && max(u.Input, u.Output, u.CacheRead, u.CacheWrite) <= maxCount
}

func (u usage) tokens() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// maxEvent bounds one event of a stream, and an answer that is not streamed, in
// what the broker keeps of it: all of it goes on in any case.
const maxEvent = 64 << 20

// bytesPerToken is how many bytes of an answer one token may stand for before
// the answer is cut: twice the four that the provider's documentation gives as
// usual for English text. So an answer of usual text that is cut has at most
// twice the tokens that it may have.
const bytesPerToken = 8

// cutSlack spares short answers, whose bytes are few.
const cutSlack = 256

// answer follows an answer on its way to the worker.
type answer struct {
	limit int64 // output tokens that it may have

	known  bool // the provider has told a usage of the whole answer
	begun  bool // of the input at least
	usage  usage
	stop   string // stop_reason
	bytes  int64  // of the output, as far as it came
	over   bool   // there is more of it than limit can be
	events bytes.Buffer
	lost   bool // an event was too large to look at
	broken bool // an event is no JSON: no agent can go on from it
}

// stream takes the bytes of an event stream and looks at whole events. It
// returns how many of them may go on.
func (a *answer) stream(p []byte) int {
	if a.events.Len()+len(p) > maxEvent {
		a.lost = true
		a.events.Reset()
	}
	a.events.Write(p)
	for {
		line, rest, whole := bytes.Cut(a.events.Bytes(), []byte("\n"))
		if !whole {
			break
		}
		a.line(bytes.TrimSuffix(line, []byte("\r")))
		a.events.Next(a.events.Len() - len(rest))
	}
	a.over = a.over || a.bytes > a.limit*bytesPerToken+cutSlack || a.usage.Output > a.limit
	return len(p)
}

// line looks at one line of an event stream. The type of an event stands in its
// data, too.
func (a *answer) line(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return
	}
	var ev struct {
		Type    string `json:"type"`
		Message struct {
			Usage json.RawMessage `json:"usage"`
		} `json:"message"`
		Usage json.RawMessage `json:"usage"`
		Delta struct {
			Text        string `json:"text"`
			Thinking    string `json:"thinking"`
			PartialJSON string `json:"partial_json"`
			StopReason  string `json:"stop_reason"`
		} `json:"delta"`
	}
	if json.Unmarshal(data, &ev) != nil {
		a.broken = a.broken || !json.Valid(data)
		return
	}
	switch ev.Type {
	case "message_start":
		a.begun = a.take(ev.Message.Usage) || a.begun
	case "content_block_delta":
		a.bytes += int64(len(ev.Delta.Text) + len(ev.Delta.Thinking) + len(ev.Delta.PartialJSON))
	case "message_delta":
		if ev.Delta.StopReason != "" {
			a.stop = ev.Delta.StopReason
		}
		if a.take(ev.Usage) {
			a.known = true
		}
	}
}

// take reads a usage. Its numbers are totals: each that is there replaces the
// one before.
func (a *answer) take(raw json.RawMessage) bool {
	if len(raw) == 0 {
		return false
	}
	u := a.usage
	if json.Unmarshal(raw, &u) != nil || !u.sane() {
		return false
	}
	a.usage = u
	return true
}

// whole looks at an answer that is not streamed.
func (a *answer) whole(body []byte) {
	var m struct {
		Usage      json.RawMessage `json:"usage"`
		StopReason string          `json:"stop_reason"`
	}
	if json.Unmarshal(body, &m) != nil {
		return
	}
	a.stop, a.bytes = m.StopReason, int64(len(body))
	a.known = a.take(m.Usage)
	a.begun = a.known
	a.over = a.usage.Output > a.limit
}

// settlement is the usage to settle with; nil where the provider told none. Of
// an answer that was cut the output was never told: it is what it may have had,
// or what its bytes make it where that is more.
func (a *answer) settlement() *usage {
	switch {
	case a.known:
		u := a.usage
		return &u
	case a.begun && a.over:
		u := a.usage
		u.Output = max(u.Output, a.limit, min((a.bytes+3)/4, 2*a.limit))
		return &u
	}
	return nil
}

// copyAnswer hands an answer's body on, follows it, and stops where it must be
// cut.
func copyAnswer(w io.Writer, flush func(), from io.Reader, streamed bool, a *answer) error {
	buf := make([]byte, 32<<10)
	var kept bytes.Buffer
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if streamed {
				a.stream(buf[:n])
			} else if kept.Len()+n <= maxEvent {
				kept.Write(buf[:n])
			}
			if a.over && streamed {
				return errCut
			}
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			flush()
		}
		if err == io.EOF {
			if !streamed {
				a.whole(kept.Bytes())
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// streamed reports whether an answer is an event stream.
func streamed(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}
