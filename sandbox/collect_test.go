package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"foundry/plan"
)

var smallLimits = Limits{Bytes: 1 << 20, Files: 1000}

func collect(t *testing.T, out string, outputs ...plan.NodeOutput) (Result, string) {
	t.Helper()
	frozen := filepath.Join(t.TempDir(), "frozen")
	got, err := Collect(t.Context(), out, outputs, smallLimits, frozen)
	if err != nil {
		t.Fatal(err)
	}
	return got, frozen
}

func TestCollect(t *testing.T) {
	out := t.TempDir()
	for p, content := range map[string]string{
		"summary.json": "{}\n", "CLAUDE.md": "declared by name", "sub/notes.md": "notes", "sub/other.md": "no",
		"tree/a/b.txt": "b", "tree/a-b": "a-b", "tree/run": "#!", "junk/deep/x": "x", "debug.log": "log",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(out, p)), 0o755))
		must(t, os.WriteFile(filepath.Join(out, p), []byte(content), 0o644))
	}
	must(t, os.Chmod(filepath.Join(out, "tree/run"), 0o700))
	must(t, os.Mkdir(filepath.Join(out, "tree/empty"), 0o755))
	got, frozen := collect(t, out,
		plan.NodeOutput{Artifact: "summary", Filename: "summary.json", Kind: plan.KindJSON},
		plan.NodeOutput{Artifact: "missing", Filename: "missing.json", Kind: plan.KindJSON},
		plan.NodeOutput{Artifact: "missing-dir", Filename: "nowhere/missing.json", Kind: plan.KindJSON},
		plan.NodeOutput{Artifact: "memory", Filename: "CLAUDE.md", Kind: plan.KindMarkdown},
		plan.NodeOutput{Artifact: "notes", Filename: "sub/notes.md", Kind: plan.KindMarkdown},
		plan.NodeOutput{Artifact: "tree", Filename: "tree", Kind: plan.KindDirectory},
	)
	if len(got.Refusals) > 0 {
		t.Fatalf("refused: %+v", got.Refusals)
	}
	present := map[string]bool{}
	for _, c := range got.Collected {
		present[c.Output.Artifact] = c.Present
	}
	if diff := cmp.Diff(map[string]bool{"summary": true, "missing": false, "missing-dir": false, "memory": true, "notes": true, "tree": true}, present); diff != "" {
		t.Error(diff)
	}
	summary := got.Collected[0]
	want := []plan.BundleFile{{Path: "summary.json", Mode: plan.ModeRegular, Bytes: 3, Digest: plan.Digest([]byte("{}\n"))}}
	if diff := cmp.Diff(want, summary.Files); diff != "" || summary.Digest != want[0].Digest || summary.Bytes != 3 {
		t.Errorf("%+v\n%s", summary, diff)
	}
	if data, err := os.ReadFile(summary.Path); err != nil || string(data) != "{}\n" || summary.Path != filepath.Join(frozen, "summary", "summary.json") {
		t.Errorf("%s: %q, %v", summary.Path, data, err)
	}
	tree := got.Collected[5]
	var paths []string
	for _, f := range tree.Files {
		paths = append(paths, f.Path+" "+f.Mode)
	}
	if diff := cmp.Diff([]string{"a-b 0644", "a/b.txt 0644", "empty dir", "run 0755"}, paths); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tree.Files, list(t, tree.Path)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Undeclared{Count: 3, Names: []string{"debug.log", "junk/", "sub/other.md"}}, got.Undeclared); diff != "" {
		t.Error(diff)
	}
	if got.Files != 15 || got.Bytes != 36 {
		t.Errorf("the folder holds %d names and %d bytes", got.Files, got.Bytes)
	}
	must(t, RemoveTree(frozen))
}

// TestCollectHostile: each tree is refused with its own reason within seconds,
// leaves nothing frozen, and can be removed.
func TestCollectHostile(t *testing.T) {
	dir := []plan.NodeOutput{{Artifact: "a", Filename: "tree", Kind: plan.KindDirectory}}
	one := []plan.NodeOutput{{Artifact: "a", Filename: "f", Kind: plan.KindFile}}
	nested := []plan.NodeOutput{{Artifact: "a", Filename: "sub/f", Kind: plan.KindFile}}
	write := func(p string) error { return os.WriteFile(p, []byte("x"), 0o644) }
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, write(secret))

	for _, tc := range []struct {
		name    string
		outputs []plan.NodeOutput
		reason  string
		path    string
		make    func(out string) error // out/tree exists where the output is a folder
	}{
		{"absolute link", dir, RefusedLink, "tree/x", func(o string) error { return os.Symlink(secret, o+"/tree/x") }},
		{"relative link", dir, RefusedLink, "tree/x", func(o string) error { return os.Symlink("../../../etc/passwd", o+"/tree/x") }},
		{"link to itself", dir, RefusedLink, "tree/x", func(o string) error { return os.Symlink("x", o+"/tree/x") }},
		{"link to a folder", dir, RefusedLink, "tree/x", func(o string) error { return os.Symlink("/", o+"/tree/x") }},
		{"file is a link", one, RefusedLink, "f", func(o string) error { return os.Symlink(secret, o+"/f") }},
		{"folder is a link", []plan.NodeOutput{{Artifact: "a", Filename: "l", Kind: plan.KindDirectory}}, RefusedLink, "l", func(o string) error { return os.Symlink("/etc", o+"/l") }},
		{"way is a link", nested, RefusedLink, "sub", func(o string) error { return os.Symlink(filepath.Dir(secret), o+"/sub") }},
		{"way is a file", nested, RefusedWrongKind, "sub", func(o string) error { return write(o + "/sub") }},
		{"hard link", one, RefusedHardLink, "f", func(o string) error { return errors.Join(write(o+"/g"), os.Link(o+"/g", o+"/f")) }},
		{"fifo", one, RefusedFIFO, "f", func(o string) error { return syscall.Mkfifo(o+"/f", 0o644) }},
		{"fifo inside", dir, RefusedFIFO, "tree/x", func(o string) error { return syscall.Mkfifo(o+"/tree/x", 0o644) }},
		{"fifo on the way", nested, RefusedFIFO, "sub", func(o string) error { return syscall.Mkfifo(o+"/sub", 0o644) }},
		{"socket", dir, RefusedSocket, "tree/s", func(o string) error {
			// Bound by a relative name: the path may be longer than a socket's.
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			short, err := os.MkdirTemp("", "s")
			if err != nil {
				return err
			}
			defer os.RemoveAll(short)
			l, err := net.Listen("unix", short+"/s")
			if err != nil {
				return err
			}
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			return errors.Join(os.Rename(short+"/s", o+"/tree/s"), l.Close())
		}},
		{"device", one, RefusedDevice, "f", func(o string) error {
			if err := unix.Mknod(o+"/f", unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))); err != nil {
				return errors.Join(errSkip, err)
			}
			return nil
		}},
		{"setuid", one, RefusedSetuid, "f", func(o string) error {
			return errors.Join(write(o+"/f"), os.Chmod(o+"/f", 0o755|fs.ModeSetuid))
		}},
		{"setgid inside", dir, RefusedSetuid, "tree/x", func(o string) error {
			return errors.Join(write(o+"/tree/x"), os.Chmod(o+"/tree/x", 0o755|fs.ModeSetgid))
		}},
		{"sticky folder", dir, RefusedSetuid, "tree/x", func(o string) error {
			return errors.Join(os.Mkdir(o+"/tree/x", 0o755), os.Chmod(o+"/tree/x", 0o755|fs.ModeSticky))
		}},
		{"mode 0000", one, RefusedUnreadable, "f", func(o string) error { return os.WriteFile(o+"/f", nil, 0) }},
		{"folder of mode 0000", dir, RefusedUnreadable, "tree/x", func(o string) error { return os.Mkdir(o+"/tree/x", 0) }},
		{"sparse terabyte", one, RefusedTooLarge, "f", func(o string) error { return sparse(o+"/f", 1<<40) }},
		{"sparse terabytes inside", dir, RefusedTooLarge, "tree/x", func(o string) error {
			return errors.Join(sparse(o+"/tree/x", 1<<43), sparse(o+"/tree/y", 1<<43))
		}},
		{"many small make too much", dir, RefusedTooLarge, "tree/19", func(o string) error {
			var err error
			for i := 10; i < 20; i++ {
				err = errors.Join(err, sparse(fmt.Sprintf("%s/tree/%d", o, i), 110_000))
			}
			return err
		}},
		{"20,000 names", dir, RefusedTooManyFiles, "tree", func(o string) error { return many(o+"/tree", 20_000) }},
		{"2,000 names below", dir, RefusedTooManyFiles, "tree/sub", func(o string) error {
			return errors.Join(os.Mkdir(o+"/tree/sub", 0o755), many(o+"/tree/sub", 2_000))
		}},
		{"4,000 levels", dir, RefusedTooDeep, "tree" + strings.Repeat("/d", 64), func(o string) error { return deep(o+"/tree", 4000) }},
		{"invalid UTF-8", dir, RefusedBadName, `"tree/\xff"`, func(o string) error { return write(o + "/tree/\xff") }},
		{"control character", dir, RefusedBadName, `"tree/\x1b[2J"`, func(o string) error { return write(o + "/tree/\x1b[2J") }},
		{"turned text", dir, RefusedBadName, `"tree/a\u202etxt.exe"`, func(o string) error { return write(o + "/tree/a\u202etxt.exe") }},
		{"CLAUDE.md", dir, RefusedConfigName, "tree/CLAUDE.md", func(o string) error { return write(o + "/tree/CLAUDE.md") }},
		{"claude.md", dir, RefusedConfigName, "tree/Claude.MD", func(o string) error { return write(o + "/tree/Claude.MD") }},
		{"hidden .git", dir, RefusedConfigName, "tree/.g\u200dit", func(o string) error { return os.Mkdir(o+"/tree/.g\u200dit", 0o755) }},
		{".git below", dir, RefusedConfigName, "tree/x/.git", func(o string) error { return os.MkdirAll(o+"/tree/x/.git", 0o755) }},
		{".envrc", dir, RefusedConfigName, "tree/.envrc", func(o string) error { return write(o + "/tree/.envrc") }},
		{"case", dir, RefusedNameCollision, "tree/readme", func(o string) error { return errors.Join(write(o+"/tree/README"), write(o+"/tree/readme")) }},
		{"Unicode form", dir, RefusedNameCollision, "tree/\u00e9", func(o string) error { return errors.Join(write(o+"/tree/\u00e9"), write(o+"/tree/e\u0301")) }},
		{"folding", dir, RefusedNameCollision, "tree/straße", func(o string) error { return errors.Join(write(o+"/tree/STRASSE"), write(o+"/tree/straße")) }},
		{"folder for file", one, RefusedWrongKind, "f", func(o string) error { return os.Mkdir(o+"/f", 0o755) }},
		{"file for folder", []plan.NodeOutput{{Artifact: "a", Filename: "t", Kind: plan.KindDirectory}}, RefusedWrongKind, "t", func(o string) error { return write(o + "/t") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := t.TempDir()
			out := filepath.Join(base, "out")
			must(t, os.MkdirAll(filepath.Join(out, "tree"), 0o755))
			if err := tc.make(out); errors.Is(err, errSkip) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			frozen := filepath.Join(base, "frozen")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			got, err := Collect(ctx, out, tc.outputs, smallLimits, frozen)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(got.Refusals, func(r Refusal) bool {
				return r.Artifact == "a" && r.Reason == tc.reason && r.Path == tc.path && r.Detail != ""
			}) {
				t.Errorf("refusals %+v, want %s of %s", got.Refusals, tc.reason, tc.path)
			}
			if got.Collected[0].Present {
				t.Error("it is collected all the same")
			}
			if left, err := os.ReadDir(frozen); err != nil || len(left) > 0 {
				t.Errorf("frozen: %v, %v", left, err)
			}
			must(t, RemoveTree(base))
		})
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "x" {
		t.Errorf("the file outside: %q, %v", data, err)
	}
}

var errSkip = errors.New("this machine cannot make such a tree")

func sparse(p string, size int64) error {
	f, err := os.Create(p)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func many(dir string, n int) error {
	for i := range n {
		f, err := os.Create(fmt.Sprintf("%s/%d", dir, i))
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// deep makes a tree whose path is longer than any path can be.
func deep(dir string, levels int) error {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range levels {
		if err != nil {
			return err
		}
		if err = unix.Mkdirat(fd, "d", 0o755); err != nil {
			break
		}
		var next int
		next, err = unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	return err
}

func TestCollectWholeFolder(t *testing.T) {
	one := plan.NodeOutput{Artifact: "a", Filename: "f", Kind: plan.KindFile}
	for name, tc := range map[string]struct {
		reason string
		make   func(out string) error
	}{
		"undeclared names": {RefusedTooManyFiles, func(o string) error { return errors.Join(os.Mkdir(o+"/junk", 0o755), many(o+"/junk", 1001)) }},
		"undeclared bytes": {RefusedTooLarge, func(o string) error { return sparse(o+"/big", 1<<60) }},
		"two of 2^62":      {RefusedTooLarge, func(o string) error { return errors.Join(sparse(o+"/a", 1<<43), sparse(o+"/b", 1<<43)) }},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			must(t, os.WriteFile(out+"/f", []byte("x"), 0o644))
			if err := tc.make(out); err != nil {
				t.Skipf("this file system cannot hold it: %v", err)
			}
			got, _ := collect(t, out, one)
			if len(got.Refusals) != 1 || got.Refusals[0].Reason != tc.reason || got.Refusals[0].Artifact != "" {
				t.Errorf("refusals %+v, want %s of the folder", got.Refusals, tc.reason)
			}
			if !got.Collected[0].Present {
				t.Error("the declared output is fine in itself")
			}
		})
	}
}

func TestCollectConfigNameDeclared(t *testing.T) {
	out := t.TempDir()
	must(t, os.Mkdir(out+"/tree", 0o755))
	must(t, os.WriteFile(out+"/tree/AGENTS.md", nil, 0o644))
	got, _ := collect(t, out,
		plan.NodeOutput{Artifact: "tree", Filename: "tree", Kind: plan.KindDirectory},
		plan.NodeOutput{Artifact: "agents", Filename: "tree/AGENTS.md", Kind: plan.KindMarkdown})
	if len(got.Refusals) > 0 {
		t.Errorf("refused: %+v", got.Refusals)
	}
}

func TestCollectBoundsRefusals(t *testing.T) {
	out := t.TempDir()
	must(t, os.Mkdir(out+"/tree", 0o755))
	for i := range 500 {
		must(t, os.Symlink("x", fmt.Sprintf("%s/tree/%03d", out, i)))
	}
	must(t, os.WriteFile(out+"/tree/zz-setuid", nil, 0o644))
	must(t, os.Chmod(out+"/tree/zz-setuid", 0o755|fs.ModeSetuid))
	got, _ := collect(t, out, plan.NodeOutput{Artifact: "a", Filename: "tree", Kind: plan.KindDirectory})
	if n := len(got.Refusals); n != maxRefusals+1 || got.Refusals[n-1].Reason != RefusedSetuid {
		t.Errorf("%d refusals, the last %+v", n, got.Refusals[n-1])
	}
}

// TestCollectWhileSwapped: whatever a process that should be dead does, no
// byte of what a link points to is collected.
func TestCollectWhileSwapped(t *testing.T) {
	base := t.TempDir()
	secret := filepath.Join(base, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	out := filepath.Join(base, "out")
	must(t, os.MkdirAll(out+"/tree", 0o755))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tmp := fmt.Sprintf("%s/tmp%d", out, i%2)
			if i%2 == 0 {
				_ = os.Symlink(secret, tmp)
			} else {
				_ = os.WriteFile(tmp, []byte("mine"), 0o644)
			}
			_ = os.Rename(tmp, out+"/tree/f")
		}
	}()
	for i := range 300 {
		frozen := filepath.Join(base, fmt.Sprint("frozen", i))
		got, err := Collect(t.Context(), out, []plan.NodeOutput{{Artifact: "a", Filename: "tree", Kind: plan.KindDirectory}}, smallLimits, frozen)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range got.Collected[0].Files {
			if f.Path != "f" || f.Digest != plan.Digest([]byte("mine")) && f.Bytes != 0 {
				t.Fatalf("collected %+v", f)
			}
		}
	}
	close(stop)
	<-done
}

func TestCollectCannot(t *testing.T) {
	out := t.TempDir()
	for name, outputs := range map[string][]plan.NodeOutput{
		"dots": {{Artifact: "a", Filename: "../x"}},
		"id":   {{Artifact: "../a", Filename: "x"}},
	} {
		if _, err := Collect(t.Context(), out, outputs, smallLimits, filepath.Join(t.TempDir(), "f")); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(out, link))
	if _, err := Collect(t.Context(), link, nil, smallLimits, filepath.Join(t.TempDir(), "f")); err == nil {
		t.Error("an output folder that is a link was read")
	}
	must(t, os.WriteFile(out+"/f", nil, 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Collect(ctx, out, nil, smallLimits, filepath.Join(t.TempDir(), "f")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestCollectSwappedBetweenLooks: what is opened must be what was looked at,
// and neither the look nor the opening follows a link.
func TestCollectSwappedBetweenLooks(t *testing.T) {
	base := t.TempDir()
	must(t, os.WriteFile(base+"/a", []byte("a"), 0o644))
	must(t, os.WriteFile(base+"/b", []byte("b"), 0o644))
	must(t, os.Mkdir(base+"/d", 0o755))
	must(t, os.Mkdir(base+"/e", 0o755))
	must(t, os.Symlink("a", base+"/file-link"))
	must(t, os.Symlink("d", base+"/dir-link"))
	root, err := os.Open(base)
	must(t, err)
	defer root.Close()
	if f, err := openFileAt(root, "file-link"); err == nil {
		f.Close()
		t.Error("a link was opened as a file")
	}
	if f, err := openDirAt(root, "dir-link"); err == nil {
		f.Close()
		t.Error("a link was opened as a folder")
	}
	seen := func(name string) stat {
		st, err := statAt(root, name)
		must(t, err)
		return st
	}
	c := collector{ctx: t.Context(), root: root, left: smallLimits}
	if _, err := c.copyFile(root, "b", "b", seen("a"), base+"/copy"); err != nil {
		t.Fatal(err)
	}
	if dir := c.openDir(root, "e", "e", seen("d")); dir != nil {
		dir.Close()
		t.Error("another folder was opened")
	}
	for i, want := range []string{"b", "e"} {
		if len(c.result.Refusals) != 2 || c.result.Refusals[i].Reason != RefusedChanged || c.result.Refusals[i].Path != want {
			t.Fatalf("refusals %+v", c.result.Refusals)
		}
	}
	if _, err := os.Lstat(base + "/copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file was copied: %v", err)
	}
}
