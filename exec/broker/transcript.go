package broker

import (
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
	return &kept{WriteCloser: e.secrets.Writer(head), f: f}
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
	f *os.File
}

func (k *kept) Close() error {
	_ = k.WriteCloser.Close()
	return k.f.Close()
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
