//go:build unix

package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"foundry/sandbox"
)

// versionTime bounds how long a program may take to tell its version.
const versionTime = 30 * time.Second

// FindProgram resolves a program of this machine: at path where that is given,
// else on the PATH of this process. With versionArgs it is asked for its
// version, in an empty folder and without this process's environment. An error
// wraps exec.ErrNotFound where there is no such program.
func FindProgram(ctx context.Context, name, path string, versionArgs []string) (sandbox.ProgramFile, error) {
	p := sandbox.ProgramFile{Name: name}
	if path == "" {
		path = name
	}
	fail := func(err error) (sandbox.ProgramFile, error) {
		return sandbox.ProgramFile{}, fmt.Errorf("local sandbox: the program %s: %w", path, err)
	}
	var err error
	if p.Path, p.Digest, err = resolve(path); err != nil {
		return fail(err)
	}
	interpreter, err := throughEnv(p.Path)
	if err != nil {
		return fail(err)
	}
	if interpreter != "" {
		if p.Interpreter, p.InterpreterDigest, err = resolve(interpreter); err != nil {
			return fail(fmt.Errorf("its first line names %s: %w", interpreter, err))
		}
	}
	if versionArgs != nil {
		if p.Version, err = tellVersion(ctx, p, versionArgs); err != nil {
			return fail(fmt.Errorf("it does not tell its version: %w", err))
		}
	}
	return p, nil
}

// resolve finds an executable file and hashes it.
func resolve(name string) (path, digest string, err error) {
	found, err := exec.LookPath(name)
	if err != nil {
		return "", "", err
	}
	if found, err = filepath.Abs(found); err != nil {
		return "", "", err
	}
	if path, err = filepath.EvalSymlinks(found); err != nil {
		return "", "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	digest, err = hash(f)
	return path, digest, err
}

// throughEnv is the program that a script's first line asks env to find: it
// would be sought on the plan's PATH. "" is a first line of any other form.
func throughEnv(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	rest, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !ok || len(words) != 2 || filepath.Base(words[0]) != "env" || strings.HasPrefix(words[1], "-") || strings.Contains(words[1], "=") {
		return "", nil
	}
	return words[1], nil
}

// start is what is executed, and the argv of it before the program's arguments.
func start(p sandbox.ProgramFile) (path string, argv []string) {
	if p.Interpreter != "" {
		return p.Interpreter, []string{filepath.Base(p.Interpreter), p.Path}
	}
	return p.Path, []string{p.Name}
}

func tellVersion(ctx context.Context, p sandbox.ProgramFile, args []string) (string, error) {
	dir, err := os.MkdirTemp("", "foundry-version-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	path, argv := start(p)
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append(argv, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &limitedBuffer{b: &errs}
	var out bytes.Buffer
	cmd.Stdout = &limitedBuffer{b: &out}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %q", err, strings.TrimSpace(errs.String()))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", errors.New("it says nothing")
	}
	return line, nil
}

// limitedBuffer keeps the first kilobyte and never fails.
type limitedBuffer struct{ b *bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), max(0, 1024-l.b.Len()))])
	return len(p), nil
}

// agentOf is the program that stands for the agent of a task; nil where argv[0]
// is found on the plan's PATH, as everything else is.
func (r *Runtime) agentOf(task sandbox.Task) (*sandbox.ProgramFile, error) {
	if len(task.Process.Argv) == 0 {
		return nil, nil
	}
	p, ok := r.agents[task.Process.Argv[0]]
	version, agent := "", false
	for name, value := range task.ImageLabels {
		if strings.HasPrefix(name, sandbox.LabelHarness) {
			version, agent = value, true
		}
	}
	if !ok || !agent {
		return nil, nil
	}
	for _, f := range [][2]string{{p.Path, p.Digest}, {p.Interpreter, p.InterpreterDigest}} {
		digest, err := r.programDigest(f[0])
		if err != nil {
			return nil, err
		}
		if digest != f[1] {
			return nil, &sandbox.HarnessMismatch{Program: f[0], Problem: "has changed since the run began", Fix: "let it be while a run is under way"}
		}
	}
	if p.Version != "" && version != "" && p.Version != version {
		return nil, &sandbox.HarnessMismatch{Program: p.Path, Problem: "says that it is version " + p.Version + ", and the plan has " + version,
			Fix: "install that version and name it with --program " + p.Name + "=PATH, or change the version that the policy pins"}
	}
	return &p, nil
}
