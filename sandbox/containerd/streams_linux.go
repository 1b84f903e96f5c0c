package containerd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"foundry/sandbox"

	"github.com/containerd/containerd/v2/pkg/cio"
)

// streams are the standard streams of a container: pipes by name, made when it
// is prepared and connected when it starts.
type streams struct {
	pipes *cio.DirectIO

	copying sync.WaitGroup // of stdout and stderr
	mu      sync.Mutex
	errs    []error
}

var _ cio.IO = (*streams)(nil)

// newStreams makes the pipes in a folder, which is removed at Close.
func newStreams(folder string) (*streams, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	set := cio.NewFIFOSet(cio.Config{
		Stdin:  filepath.Join(folder, "stdin"),
		Stdout: filepath.Join(folder, "stdout"),
		Stderr: filepath.Join(folder, "stderr"),
	}, func() error { return os.RemoveAll(folder) })
	pipes, err := cio.NewDirectIO(context.Background(), set)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &streams{pipes: pipes}, nil
}

// connect hands on what is written until the pipes end. A writer that fails,
// which its owner knows of, does not stop the process: the rest is read and
// dropped.
func (s *streams) connect(to sandbox.Stdio, closeStdin func()) {
	for _, p := range []struct {
		from io.Reader
		to   io.Writer
	}{{s.pipes.Stdout, to.Stdout}, {s.pipes.Stderr, to.Stderr}} {
		s.copying.Go(func() {
			if p.to == nil {
				p.to = io.Discard
			}
			if _, err := io.Copy(&sink{to: p.to}, p.from); err != nil && !errors.Is(err, os.ErrClosed) {
				s.note(err)
			}
		})
	}
	go func() {
		if to.Stdin != nil {
			// A process may end before it has read its input: no error.
			_, _ = io.Copy(s.pipes.Stdin, to.Stdin)
		}
		s.pipes.Stdin.Close()
		closeStdin()
	}()
}

// sink writes until its writer fails, and swallows from then on.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err == nil {
		_, s.err = s.to.Write(p)
	}
	return len(p), nil
}

func (s *streams) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// err is what went wrong while reading; complete after Wait.
func (s *streams) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

func (s *streams) Config() cio.Config { return s.pipes.Config() }
func (s *streams) Cancel()            { s.pipes.Cancel() }
func (s *streams) Wait()              { s.copying.Wait() }
func (s *streams) Close() error       { return s.pipes.Close() }
