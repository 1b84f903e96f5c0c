package attempt

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"

	"foundry/exec/record"
)

// streams are the files that a process's output goes to. One that gets no byte
// is not made: on some file systems a file costs as much as starting a process.
type streams struct {
	files          [3]lateFile
	stdout, stderr *record.StreamWriter
	trace          *bufio.Writer
}

func newStreams(dir string) *streams {
	s := new(streams)
	for i, name := range [...]string{record.StdoutFile, record.StderrFile, record.TraceFile} {
		s.files[i].path = filepath.Join(dir, name)
	}
	s.stdout = record.NewStreamWriter(&s.files[0], record.StreamHead, record.StreamTail)
	s.stderr = record.NewStreamWriter(&s.files[1], record.StreamHead, record.StreamTail)
	s.trace = bufio.NewWriter(&s.files[2])
	return s
}

// finish writes what is held back and closes the files. The error is the first
// of each stream.
func (s *streams) finish() (out, errs record.Stream, err error) {
	out, errOut := s.stdout.Finish()
	errs, errErrs := s.stderr.Finish()
	err = errors.Join(errOut, errErrs, s.trace.Flush())
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
