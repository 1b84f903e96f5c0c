package attempt

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"foundry/exec/broker/redact"
	"foundry/exec/record"
)

// streams are the files that a process's output goes to. One that gets no byte
// is not made: on some file systems a file costs as much as starting a process.
type streams struct {
	files          [3]lateFile
	kept           [2]*record.StreamWriter
	stdout, stderr io.WriteCloser // without secrets, to what is kept; they never fail
	trace          *bufio.Writer
	traced         io.Closer
}

func newStreams(dir string, secrets *redact.Set) *streams {
	s := new(streams)
	for i, name := range [...]string{record.StdoutFile, record.StderrFile, record.TraceFile} {
		s.files[i].path = filepath.Join(dir, name)
	}
	for i := range s.kept {
		s.kept[i] = record.NewStreamWriter(&s.files[i], record.StreamHead, record.StreamTail)
	}
	s.stdout, s.stderr = secrets.Writer(s.kept[0]), secrets.Writer(s.kept[1])
	trace := secrets.Writer(&s.files[2])
	s.trace, s.traced = bufio.NewWriter(trace), trace
	return s
}

// finish writes what is held back and closes the files. The error is the first
// of each stream.
func (s *streams) finish() (out, errs record.Stream, err error) {
	err = errors.Join(s.stdout.Close(), s.stderr.Close())
	out, errOut := s.kept[0].Finish()
	errs, errErrs := s.kept[1].Finish()
	err = errors.Join(err, errOut, errErrs, s.trace.Flush(), s.traced.Close())
	for i := range s.files {
		err = errors.Join(err, s.files[i].close())
	}
	return out, errs, err
}

// lateFile is made with its first byte.
type lateFile struct {
	path string
	file *os.File
}

func (f *lateFile) Write(p []byte) (int, error) {
	if f.file == nil {
		if len(p) == 0 {
			return 0, nil
		}
		file, err := os.OpenFile(f.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	return f.file.Write(p)
}

func (f *lateFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
