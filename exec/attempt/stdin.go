package attempt

import (
	"io"
	"sync"
)

// stdin is a worker's standard input: pushing never blocks, so that a worker
// that does not read cannot stop the reading of its output.
type stdin struct {
	mu     sync.Mutex
	ready  *sync.Cond
	buf    []byte
	closed bool
}

func newStdin() *stdin {
	s := new(stdin)
	s.ready = sync.NewCond(&s.mu)
	return s
}

func (s *stdin) push(p []byte) {
	if len(p) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.buf = append(s.buf, p...)
		s.ready.Broadcast()
	}
}

// close ends the input after what was pushed.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.ready.Broadcast()
}

func (s *stdin) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) == 0 && !s.closed && len(p) > 0 {
		s.ready.Wait()
	}
	if len(s.buf) == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	return n, nil
}
