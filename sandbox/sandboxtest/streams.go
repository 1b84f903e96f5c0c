//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"foundry/sandbox"
)

// Long reports whether the long variants run: FOUNDRY_LONG=1.
func Long() bool { return os.Getenv("FOUNDRY_LONG") == "1" }

// size is a number of bytes in normal and in long tests.
func size(normal, long int64) int64 {
	if Long() {
		return long
	}
	return normal
}

const mib = 1 << 20

// tally hashes a stream, keeps none of it, and sees how much memory this
// process takes meanwhile.
type tally struct {
	hash  hash.Hash
	n     int64
	pause time.Duration // after each write
	look  int64         // bytes since the last look at the memory
	peak  uint64
}

func newTally(pause time.Duration) *tally { return &tally{hash: sha256.New(), pause: pause} }

func (y *tally) Write(p []byte) (int, error) {
	y.hash.Write(p)
	y.n += int64(len(p))
	if y.look += int64(len(p)); y.look > 4*mib {
		y.look = 0
		y.peak = max(y.peak, heap())
	}
	time.Sleep(y.pause)
	return len(p), nil
}

func (y *tally) sum() string { return hex.EncodeToString(y.hash.Sum(nil)) }

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// heapSlack is how much more memory this process may take while a stream runs
// through it: a runtime that kept the stream would need more.
const heapSlack = 24 * mib

// poured runs a worker that pours into one stream, and checks that all of it
// and nothing else came.
func (s *suite) poured(t *testing.T, stream int, n int64, form string, pause time.Duration) {
	t.Helper()
	want := newTally(0)
	must(t, pour(want, n, form))
	got, other := newTally(pause), newTally(0)
	stdio := sandbox.Stdio{Stdout: got, Stderr: other}
	if stream == 2 {
		stdio = sandbox.Stdio{Stdout: other, Stderr: got}
	}
	task := s.task(t, "pour", strconv.Itoa(stream), strconv.FormatInt(n, 10), form)
	task.Wall = 10 * time.Minute
	box := s.prepare(t, task)
	runtime.GC() // what was taken to prepare is not the stream's
	before := heap()
	begin := time.Now()
	must(t, box.Start(t.Context(), stdio))
	ctx, cancel := context.WithTimeout(t.Context(), task.Wall)
	defer cancel()
	exit, err := box.Wait(ctx)
	must(t, err)
	took := time.Since(begin)
	kill(t, box)
	if exit.Code != 0 || got.n != n || got.sum() != want.sum() || other.n > 0 {
		t.Errorf("exit %+v; %d bytes came of %d, or other ones; %d in the other stream", exit, got.n, n, other.n)
	}
	grown := int64(max(got.peak, before) - before)
	if grown > heapSlack {
		t.Errorf("this process took %d MiB more for a stream of %d MiB", grown/mib, n/mib)
	}
	t.Logf("%d MiB in %v, heap +%d KiB", n/mib, took.Round(time.Millisecond), grown>>10)
}

func (s *suite) bigStdout(t *testing.T) { s.poured(t, 1, size(64*mib, 1<<30), formBytes, 0) }
func (s *suite) bigStderr(t *testing.T) { s.poured(t, 2, size(32*mib, 1<<30), formBytes, 0) }
func (s *suite) bigLine(t *testing.T)   { s.poured(t, 1, size(30*mib, 300*mib), formLine, 0) }

// slowReader: a reader that takes its time loses nothing, and what waits for it
// waits in the worker.
func (s *suite) slowReader(t *testing.T) {
	s.poured(t, 1, size(4*mib, 64*mib), formBytes, 5*time.Millisecond)
}

// closedByWorker: a worker that closes its streams is still waited for.
func (s *suite) closedByWorker(t *testing.T) {
	task := s.task(t, "shut", "stdin")
	r := s.run(t, task, bytes.NewReader(make([]byte, 8*mib)))
	if r.exit.Code != 3 {
		t.Errorf("stdin closed: exit %+v", r.exit)
	}
	r = s.run(t, s.task(t, "shut", "output"), nil)
	if r.exit.Code != 3 || r.stdout.String() != "before" {
		t.Errorf("output closed: exit %+v, stdout %q", r.exit, r.stdout.String())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the reader is gone") }

// failingWriter: a worker does not hang because nobody takes what it writes.
func (s *suite) failingWriter(t *testing.T) {
	box := s.prepare(t, s.task(t, "pour", "1", strconv.Itoa(4*mib), formBytes))
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: failing{}, Stderr: failing{}}))
	wait(t, box)
	kill(t, box)
}

// cancellation: a context that has ended prepares and starts nothing; one that
// ends later ends nothing, for that is what Kill is for.
func (s *suite) cancellation(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	task := s.task(t, "sleep")
	if box, err := s.runtime.Prepare(ended, task); err == nil {
		t.Error("an attempt was prepared for a context that has ended")
		must(t, box.Close(t.Context()))
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("the error does not say that it was cancelled: %v", err)
	}
	empty(t, task.Dir)

	box := s.prepare(t, s.task(t, "write", "{out}/x", "x"))
	if err := box.Start(ended, sandbox.Stdio{}); err == nil {
		t.Error("a process was started for a context that has ended")
	}
	kill(t, box)
	if left, err := os.ReadDir(box.Output()); err != nil || len(left) > 0 {
		t.Errorf("what was not started wrote %v, %v", left, err)
	}

	living, cancel := context.WithCancel(t.Context())
	box = s.prepare(t, s.task(t, "echo"))
	in, w := io.Pipe()
	out := &bytes.Buffer{}
	must(t, box.Start(living, sandbox.Stdio{Stdin: in, Stdout: out}))
	cancel()
	if _, err := io.WriteString(w, "after the end of the context"); err != nil {
		t.Error(err)
	}
	w.Close()
	if exit := wait(t, box); exit.Code != 0 || out.String() != "after the end of the context" {
		t.Errorf("exit %+v, stdout %q", exit, out.String())
	}
	kill(t, box)
}
