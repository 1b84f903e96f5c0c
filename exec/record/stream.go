package record

import (
	"fmt"
	"io"
	"sync"
)

// Bounds of a kept stream, in bytes.
const (
	StreamHead = 4 << 20
	StreamTail = 1 << 20
)

// StreamWriter keeps the first head bytes and the last tail bytes of a stream
// and says between them how many were dropped. It may be used from several
// goroutines.
type StreamWriter struct {
	mu    sync.Mutex
	w     io.Writer
	head  int64 // still to be written at once
	tail  []byte
	limit int
	held  int64 // bytes that went to the tail, dropped ones included
	total int64
	err   error
}

// NewStreamWriter writes to w.
func NewStreamWriter(w io.Writer, head, tail int) *StreamWriter {
	return &StreamWriter{w: w, head: int64(head), limit: tail}
}

// Write never fails: a worker must not be stopped by a full disk of the
// record. Finish reports the first error.
func (s *StreamWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	s.total += int64(n)
	if s.head > 0 {
		now := min(s.head, int64(len(p)))
		s.put(p[:now])
		s.head -= now
		p = p[now:]
	}
	s.held += int64(len(p))
	if len(p) > s.limit {
		p = p[len(p)-s.limit:]
	}
	s.tail = append(s.tail, p...)
	// Twice the bound is held before it is cut, so that each byte is moved once.
	if len(s.tail) > 2*s.limit {
		s.cut()
	}
	return n, nil
}

func (s *StreamWriter) cut() {
	if over := len(s.tail) - s.limit; over > 0 {
		s.tail = s.tail[:copy(s.tail, s.tail[over:])]
	}
}

func (s *StreamWriter) put(p []byte) {
	if _, err := s.w.Write(p); err != nil && s.err == nil {
		s.err = err
	}
}

// Finish writes the tail and returns what the stream was.
func (s *StreamWriter) Finish() (Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
	dropped := s.held - int64(len(s.tail))
	if dropped > 0 {
		s.put(fmt.Appendf(nil, "\n[foundry: %d bytes dropped here]\n", dropped))
	}
	s.put(s.tail)
	s.tail, s.held = nil, 0
	return Stream{Bytes: s.total, Dropped: dropped}, s.err
}
