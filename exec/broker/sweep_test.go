package broker

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// What a killed broker left is found by its mark; where the mark leads elsewhere,
// nothing but the mark goes.
func TestSweep(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "sockets")
	b, err := Open(Config{Journal: filepath.Join(t.TempDir(), "journal"), Mark: mark})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Readlink(mark)
	if err != nil || dir != b.sockets {
		t.Fatalf("the mark leads to %q, not to %q: %v", dir, b.sockets, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	gone := func(name string) bool { _, err := os.Lstat(name); return os.IsNotExist(err) }
	if !gone(dir) || !gone(mark) {
		t.Error("a closed broker leaves its folder or its mark")
	}

	// Of a killed one: a folder with a socket.
	dead, err := os.MkdirTemp("", socketPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dead)
	l, err := net.Listen("unix", filepath.Join(dead, "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if err := os.Symlink(dead, mark); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(mark); err != nil || !gone(dead) || !gone(mark) {
		t.Errorf("it is left: %v", err)
	}

	other := t.TempDir()
	kept := filepath.Join(other, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	named, err := os.MkdirTemp("", socketPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(named)
	file := filepath.Join(named, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{other, named, filepath.Join(other, socketPrefix+"x"), "/", "nowhere"} {
		if err := os.Symlink(to, mark); err != nil {
			t.Fatal(err)
		}
		_ = Sweep(mark) // it may say that the folder holds something else
		if gone(kept) || gone(file) || gone(other) {
			t.Fatalf("a mark that leads to %s took something else", to)
		}
		os.Remove(mark)
	}
	if err := Sweep(mark); err != nil {
		t.Errorf("without a mark: %v", err)
	}
}
