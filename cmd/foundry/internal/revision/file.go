package revision

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
)

// file is an open blob.
type file struct {
	*bytes.Reader
	info info
}

func newFile(i info, data []byte) *file {
	i.size = int64(len(data))
	return &file{bytes.NewReader(data), i}
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

// dir is an open folder.
type dir struct {
	info info
	name string
	list []fs.DirEntry
}

func (d *dir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dir) Close() error               { return nil }
func (d *dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a folder")}
}

func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		out := d.list
		d.list = nil
		return out, nil
	}
	if len(d.list) == 0 {
		return nil, io.EOF
	}
	out := d.list[:min(n, len(d.list))]
	d.list = d.list[len(out):]
	return out, nil
}
