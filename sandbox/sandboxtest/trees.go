//go:build unix

package sandboxtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"foundry/plan"
	"foundry/sandbox"
)

// hostileTree is something that a worker leaves in its output folder and that
// must be refused for a reason of its own.
type hostileTree struct {
	name   string
	reason string // one of sandbox.Refused…
	path   string // that the refusal names
	make   func(out string) error
	// alone: it takes so much that it gets an attempt of its own.
	alone bool
	// long: it is made in long tests alone.
	long bool
	// filename of the declared output; the folder "tree" where it is empty.
	filename string
}

// treeLimits bound what is collected of each tree.
var treeLimits = sandbox.Limits{Bytes: mib, Files: 1000}

func (h hostileTree) output() plan.NodeOutput {
	if h.filename == "" {
		return plan.NodeOutput{Artifact: "a", Filename: "tree", Kind: plan.KindDirectory}
	}
	return plan.NodeOutput{Artifact: "a", Filename: h.filename, Kind: plan.KindFile}
}

// configNames are those that a worker must not leave for the next agent, or
// for a program of the host, unless they are declared.
var configNames = []string{
	"CLAUDE.md", "claude.md", "AGENTS.md", "GEMINI.md", ".mcp.json", ".claude/settings.json", ".codex/config.toml", ".pi/settings.json",
	".cursor/rules", ".git/config", ".gitattributes", ".gitmodules", ".envrc", ".npmrc", ".vscode/tasks.json", ".pre-commit-config.yaml",
}

func writeSmall(p string) error {
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, []byte("x"), 0o644)
}

func linkTo(target, name string) func(string) error {
	return func(o string) error { return os.Symlink(target, filepath.Join(o, name)) }
}

func smallWithMode(name string, mode os.FileMode) func(string) error {
	return func(o string) error {
		p := filepath.Join(o, name)
		return errors.Join(writeSmall(p), os.Chmod(p, mode))
	}
}

func small(name string) func(string) error {
	return func(o string) error { return writeSmall(filepath.Join(o, name)) }
}

var hostileTrees = buildTrees()

func buildTrees() []hostileTree {
	list := []hostileTree{
		{name: "absolute-link", reason: sandbox.RefusedLink, path: "tree/x", make: linkTo("/etc/passwd", "tree/x")},
		{name: "relative-link", reason: sandbox.RefusedLink, path: "tree/x", make: linkTo("../../../../../../etc/passwd", "tree/x")},
		{name: "link-to-itself", reason: sandbox.RefusedLink, path: "tree/x", make: linkTo("x", "tree/x")},
		{name: "link-loop", reason: sandbox.RefusedLink, path: "tree/x", make: func(o string) error {
			return errors.Join(os.Symlink("y", o+"/tree/x"), os.Symlink("x", o+"/tree/y"))
		}},
		{name: "link-up", reason: sandbox.RefusedLink, path: "tree/x", make: linkTo("..", "tree/x")},
		{name: "link-to-the-root", reason: sandbox.RefusedLink, path: "tree/x", make: linkTo("/", "tree/x")},
		{name: "link-to-proc", reason: sandbox.RefusedLink, path: "tree/x", make: linkTo("/proc/self/root", "tree/x")},
		{name: "link-for-the-output", reason: sandbox.RefusedLink, path: "f", filename: "f", make: linkTo("/etc/passwd", "f")},
		{name: "link-on-the-way", reason: sandbox.RefusedLink, path: "sub", filename: "sub/f", make: linkTo("/etc", "sub")},
		{name: "hard-link", reason: sandbox.RefusedHardLink, path: "tree/x", make: func(o string) error {
			return errors.Join(writeSmall(o+"/tree/x"), os.Link(o+"/tree/x", o+"/y"))
		}},
		{name: "fifo", reason: sandbox.RefusedFIFO, path: "tree/x", make: func(o string) error { return syscall.Mkfifo(o+"/tree/x", 0o644) }},
		{name: "fifo-for-the-output", reason: sandbox.RefusedFIFO, path: "f", filename: "f", make: func(o string) error { return syscall.Mkfifo(o+"/f", 0o644) }},
		{name: "socket", reason: sandbox.RefusedSocket, path: "tree/x", make: makeSocket},
		{name: "device", reason: sandbox.RefusedDevice, path: "tree/x", make: func(o string) error {
			return syscall.Mknod(o+"/tree/x", syscall.S_IFCHR|0o644, 1<<8|5) // zero
		}},
		{name: "setuid", reason: sandbox.RefusedSetuid, path: "tree/x", make: smallWithMode("tree/x", 0o755|os.ModeSetuid)},
		{name: "setgid", reason: sandbox.RefusedSetuid, path: "f", filename: "f", make: smallWithMode("f", 0o755|os.ModeSetgid)},
		{name: "mode-0000", reason: sandbox.RefusedUnreadable, path: "tree/x", make: smallWithMode("tree/x", 0)},
		{name: "folder-of-mode-0000", reason: sandbox.RefusedUnreadable, path: "tree/x", make: func(o string) error { return os.Mkdir(o+"/tree/x", 0) }},
		{name: "sparse-terabytes", reason: sandbox.RefusedTooLarge, path: "tree/x", alone: true, make: func(o string) error {
			return errors.Join(sparse(o+"/tree/x", 1<<40), sparse(o+"/tree/y", 1<<43))
		}},
		{name: "20000-names", reason: sandbox.RefusedTooManyFiles, path: "tree", alone: true, make: func(o string) error { return manyNames(o+"/tree", 20_000) }},
		{name: "200000-names", reason: sandbox.RefusedTooManyFiles, path: "tree", alone: true, long: true, make: func(o string) error { return manyNames(o+"/tree", 200_000) }},
		{name: "4000-levels", reason: sandbox.RefusedTooDeep, path: "tree" + strings.Repeat("/d", 64), alone: true, make: func(o string) error { return levels(o + "/tree") }},
		{name: "invalid-utf-8", reason: sandbox.RefusedBadName, path: `"tree/\xff\xfe"`, make: small("tree/\xff\xfe")},
		{name: "terminal-codes", reason: sandbox.RefusedBadName, path: `"tree/\x1b]0;x\a"`, make: small("tree/\x1b]0;x\a")},
		{name: "turned-text", reason: sandbox.RefusedBadName, path: `"tree/a\u202etxt.exe"`, make: small("tree/a\u202etxt.exe")},
		{name: "letter-case", reason: sandbox.RefusedNameCollision, path: "tree/readme", make: func(o string) error {
			return errors.Join(writeSmall(o+"/tree/README"), writeSmall(o+"/tree/readme"))
		}},
		{name: "folder-for-a-file", reason: sandbox.RefusedWrongKind, path: "f", filename: "f", make: func(o string) error { return os.Mkdir(o+"/f", 0o755) }},
	}
	for i, name := range configNames {
		top, _, _ := strings.Cut(name, "/")
		list = append(list, hostileTree{name: fmt.Sprintf("config-%d", i), reason: sandbox.RefusedConfigName, path: "tree/sub/" + top, make: small("tree/sub/" + name)})
	}
	return list
}

func makeSocket(o string) error {
	// By a relative name: a socket's path is short.
	if err := os.Chdir(o + "/tree"); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "x", Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return errors.Join(l.Close(), os.Chdir("/"))
}

func sparse(p string, n int64) error {
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(n), f.Close())
}

// manyNames makes so many names, or as many as the sandbox lets it.
func manyNames(dir string, n int) error {
	for i := range n {
		f, err := os.OpenFile(fmt.Sprintf("%s/n%d", dir, i), os.O_WRONLY|os.O_CREATE, 0o644)
		if i > int(treeLimits.Files) && errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// levels makes 4,000 folders within each other, or as many as the sandbox
// lets it.
func levels(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for i := range 4000 {
		err := os.Mkdir("d", 0o755)
		if i > 100 && errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err := errors.Join(err, os.Chdir("d")); err != nil {
			return err
		}
	}
	return os.Chdir("/")
}

func init() {
	ops["trees"] = opTrees
	ops["link"] = opLink
	ops["swap"] = opSwap
	ops["programs"] = opPrograms
}

// opTrees makes trees by their names, each in a folder of its own name, and
// prints the errors of those that it could not make.
func opTrees(args []string) error {
	failed := map[string]string{}
	for _, h := range hostileTrees {
		for _, name := range args[1:] {
			if h.name != name {
				continue
			}
			out := filepath.Join(args[0], name)
			if err := os.MkdirAll(filepath.Join(out, "tree"), 0o755); err != nil {
				return err
			}
			if err := h.make(out); err != nil {
				failed[name] = err.Error()
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(failed)
}

// opLink makes a hard link in the folder tree of another.
func opLink(args []string) error {
	var r tried
	tree := filepath.Join(args[1], "tree")
	err := os.Mkdir(tree, 0o755)
	if err == nil {
		err = os.Link(args[0], filepath.Join(tree, "x"))
	}
	if err == nil {
		r.Done = 1
	}
	return r.tell(err)
}

// opSwap swaps a file and a folder for links to what a path names, for ever.
func opSwap(args []string) error {
	out, target := args[0], args[1]
	tree := filepath.Join(out, "tree")
	for i := 0; ; i++ {
		for _, name := range []string{"f", "tree"} {
			_ = os.RemoveAll(filepath.Join(out, name))
		}
		if i%2 == 0 {
			_ = os.Symlink(target, filepath.Join(out, "f"))
			_ = os.Symlink(filepath.Dir(target), tree)
		} else {
			_ = os.WriteFile(filepath.Join(out, "f"), []byte("the worker's"), 0o644)
			_ = os.MkdirAll(filepath.Join(tree, "sub"), 0o755)
			_ = os.WriteFile(filepath.Join(tree, "x"), []byte("the worker's"), 0o644)
			_ = os.RemoveAll(filepath.Join(tree, "x"))
			_ = os.Symlink(target, filepath.Join(tree, "x"))
		}
		if i == 2 {
			fmt.Println("ready")
		}
	}
}

// programFiles start programs where a tool of the host that looks up its
// configuration is run beside them. %s is the file that would show it.
var programFiles = map[string]string{
	".git/config":    "[core]\n\tfsmonitor = touch %[1]s\n\tsshCommand = touch %[1]s\n\tpager = touch %[1]s\n[filter \"x\"]\n\tclean = touch %[1]s\n\tsmudge = touch %[1]s\n[diff]\n\texternal = touch %[1]s\n",
	".git/HEAD":      "ref: refs/heads/main\n",
	".gitattributes": "* filter=x diff=x\n",
	".envrc":         "touch %[1]s\n",
	"package.json":   `{"scripts":{"preinstall":"touch %[1]s","test":"touch %[1]s"}}`,
	"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"mark\"\nbackend-path = [\".\"]\n",
	"mark.py":        "open('%[1]s', 'w')\n",
	"go.mod":         "module x\n\ngo 1.99\n\ntoolchain go1.99.9\n",
	"Makefile":       "all:\n\ttouch %[1]s\n",
}

// opPrograms writes them.
func opPrograms(args []string) error {
	for name, text := range programFiles {
		p := filepath.Join(args[0], name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if strings.Contains(text, "%") {
			text = fmt.Sprintf(text, args[1])
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}
