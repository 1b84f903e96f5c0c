package broker

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxTranscript bounds what is kept of one request, and of one answer.
const maxTranscript = 1 << 20

// transcript opens a file for what went over the wire, without secrets. That it
// cannot be kept stops nobody: the record of the spend is the journal.
func (e *Endpoint) transcript(number int64, name string) io.WriteCloser {
	if e.o.Transcripts == "" || os.MkdirAll(e.o.Transcripts, 0o700) != nil {
		return nowhere{}
	}
	path := filepath.Join(e.o.Transcripts, fmt.Sprintf("%04d.%s", number, name))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nowhere{}
	}
	head := &head{f: f, left: maxTranscript}
	return &kept{WriteCloser: e.secrets.Writer(head), head: head}
}

// transcripts keeps a request, and what is written of its answer, beside the
// exchange: no agent waits for a disk. The files are whole when the endpoint is
// closed.
func (e *Endpoint) transcripts(number int64, request []byte) io.WriteCloser {
	if e.o.Transcripts == "" {
		return nowhere{}
	}
	k := keeper{make(chan []byte, 64)}
	e.requests.Go(func() {
		e.transcribe(number, "request.json", request)
		answer := e.transcript(number, "answer.txt")
		for p := range k.parts {
			_, _ = answer.Write(p) // see transcript
		}
		_ = answer.Close()
	})
	return k
}

// keeper hands on what is written to it.
type keeper struct{ parts chan []byte }

func (k keeper) Write(p []byte) (int, error) {
	k.parts <- bytes.Clone(p)
	return len(p), nil
}

func (k keeper) Close() error {
	close(k.parts)
	return nil
}

func (e *Endpoint) transcribe(number int64, name string, data []byte) {
	t := e.transcript(number, name)
	_, _ = t.Write(data) // see transcript
	_ = t.Close()
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

type kept struct {
	io.WriteCloser
	head *head
}

// Close leaves no file where there was no byte.
func (k *kept) Close() error {
	_ = k.WriteCloser.Close()
	err := k.head.f.Close()
	if k.head.left == maxTranscript {
		return os.Remove(k.head.f.Name())
	}
	return err
}

// head keeps the beginning of what is written to it, and never fails.
type head struct {
	f    *os.File
	left int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	if n > 0 {
		_, _ = h.f.Write(p[:n])
		h.left -= n
	}
	return len(p), nil
}
