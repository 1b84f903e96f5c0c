package contract

import (
	"bufio"
	"errors"
	"io"
)

// MaxLineBytes is the longest line that a LineReader hands out: 64 MiB. Agents
// repeat a tool's whole output in one line, 1 to 2 MB in what was measured.
const MaxLineBytes = 64 << 20

// keptBuffer is how much memory a LineReader keeps after a long line.
const keptBuffer = 1 << 20

// LineReader splits a stream at LF alone: U+2028 and CR are text inside JSON.
// A line that is too long is skipped and counted, and reading goes on: no
// later event is lost to it. A last line without its LF counts as a line.
type LineReader struct {
	r       *bufio.Reader
	max     int
	buf     []byte
	skipped int64
	err     error
}

// NewLineReader reads from r; max is the longest line in bytes without its LF,
// MaxLineBytes where it is 0.
func NewLineReader(r io.Reader, max int) *LineReader {
	if max <= 0 {
		max = MaxLineBytes
	}
	return &LineReader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// Next returns the next line without its LF; it is valid until the next call.
// At the end of the stream it returns io.EOF; another error of the reader
// comes after what was read before it.
func (l *LineReader) Next() ([]byte, error) {
	for l.err == nil {
		line, ok := l.one()
		if ok {
			return line, nil
		}
	}
	return nil, l.err
}

// Skipped counts the lines that were too long.
func (l *LineReader) Skipped() int64 { return l.skipped }

// one reads up to one LF or the end of the stream; false means that there was
// no line, or a too long one.
func (l *LineReader) one() ([]byte, bool) {
	if cap(l.buf) > keptBuffer {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			l.err = err
		}
		if long = long || len(l.buf)+len(part) > l.max; !long {
			if ended && len(l.buf) == 0 {
				return part, true // the common case needs no copy
			}
			l.buf = append(l.buf, part...)
		} else {
			l.buf = l.buf[:0]
		}
		if !ended && l.err == nil {
			continue
		}
		if long {
			l.skipped++
			return nil, false
		}
		return l.buf, ended || len(l.buf) > 0
	}
}
