package attempt

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"foundry/exec/record"
	"foundry/sandbox"
)

// MaxCheckStdout is how many bytes of a check's standard output are facts: 1
// MiB. More is kept in the record only, and is then no JSON document.
const MaxCheckStdout = 1 << 20

// driveCheck runs a check to its end and keeps what it said.
func (a *attempt) driveCheck(ctx context.Context, sb sandbox.Sandbox) *record.Failure {
	files := newStreams(a.dir, a.secret)
	halt := &stopper{ch: make(chan struct{})}
	said := &said{kept: files.stdout, stop: halt.stop}
	end := a.supervise(ctx, sb, nil, halt, sandbox.Stdio{Stdout: said, Stderr: &stderr{kept: files.stderr, max: MaxStdout, stop: halt.stop}})
	a.rec.Dead = end.killErr == nil
	a.rec.Usage = record.NoUsage()
	if end.exited {
		a.rec.Exit = &record.Exit{Code: int64(end.exit.Code), Signal: end.exit.Signal, OOM: end.exit.OOM, Killed: end.ordered}
	}
	var err error
	a.rec.Stdout, a.rec.Stderr, err = files.finish()
	failure := a.hostVerdict(end, halt.first(), err)
	switch {
	case failure != nil && failure.Class == record.ClassSkill:
		failure.Class = record.ClassGrader
	case failure == nil && (end.exit.Signal != "" || end.exit.OOM):
		failure = record.Fail(record.ReasonCheckError, "the check did not run to its end: "+exitText(end))
	}
	if failure != nil {
		return failure
	}
	text, n, cut := said.result()
	digest, err := a.Store.Put(text)
	if err != nil {
		return HostFailure("keeping the output of the check", err)
	}
	a.rec.Check = &record.CheckResult{ExitCode: int64(end.exit.Code), Stdout: digest, Bytes: n, Truncated: cut}
	return nil
}

// said keeps the beginning of a check's output for its facts.
type said struct {
	kept io.Writer
	stop func(*record.Failure)

	mu   sync.Mutex
	head bytes.Buffer
	n    int64
}

func (s *said) Write(p []byte) (int, error) {
	s.kept.Write(p) //nolint:errcheck // it never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head.Write(p[:min(len(p), MaxCheckStdout-s.head.Len())])
	before := s.n
	if s.n += int64(len(p)); s.n > MaxStdout && before <= MaxStdout {
		s.stop(tooMuch("standard output", MaxStdout, s.n))
	}
	return len(p), nil
}

// result is what is kept, and how much there was. A cut ends at a whole line
// where there is one, so that the text does not end within a character.
func (s *said) result() (kept []byte, written int64, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.head.String()
	if cut = s.n > int64(len(text)); cut {
		if at := strings.LastIndexByte(text, '\n'); at > 0 {
			text = text[:at+1]
		}
	}
	return []byte(strings.ToValidUTF8(text, "\uFFFD")), s.n, cut
}
