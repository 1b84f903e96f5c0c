//go:build unix

package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"foundry/plan"
	"foundry/sandbox"
)

// MarkerVar is the one environment variable that is not the plan's. By it the
// descendants of an attempt are found: RUN.ATTEMPT.NONCE.CONTROLLER.
const MarkerVar = "FOUNDRY_ATTEMPT"

// Runtime runs tasks as processes of this user. It is safe for concurrent use.
type Runtime struct {
	controller string                         // this process, for the marker
	agents     map[string]sandbox.ProgramFile // by name

	mu       sync.Mutex
	programs map[string]program // by path
}

type program struct {
	info   os.FileInfo
	digest string
}

var _ sandbox.Runtime = (*Runtime)(nil)

// New returns a runtime. It holds nothing that must be freed. What this process
// was started with beyond the standard streams is kept from the processes that
// it starts. An agent's program is one of those given, by the first word of its
// argv; any other, and that of every check, is found on the plan's PATH.
func New(agents ...sandbox.ProgramFile) *Runtime {
	keepDescriptors()
	r := &Runtime{controller: controllerMark(), agents: map[string]sandbox.ProgramFile{}, programs: map[string]program{}}
	for _, p := range agents {
		r.agents[p.Name] = p
	}
	return r
}

// keepDescriptors marks every open descriptor as one that a new program does
// not get. Go opens its own so; those that a shell or a CI runner left open are
// not.
func keepDescriptors() {
	entries, _ := os.ReadDir("/dev/fd") // where there is none, nothing can be done
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// Mode implements sandbox.Runtime.
func (r *Runtime) Mode() string { return plan.SandboxLocal }

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error { return nil }

// Prepare implements sandbox.Runtime. A Task.Dir that cannot be pasted into a
// JSON file as it stands is refused: the plan's files hold paths as tokens. An
// argv[0] that the plan's PATH does not have is an error that wraps
// exec.ErrNotFound; an agent's program of another version than the task's label
// is a *sandbox.HarnessMismatch.
func (r *Runtime) Prepare(ctx context.Context, task sandbox.Task) (sandbox.Sandbox, error) {
	if err := check(task); err != nil {
		return nil, fmt.Errorf("local sandbox: cannot prepare: %w", err)
	}
	digest, err := r.programDigest(task.Executable)
	if err != nil {
		return nil, fmt.Errorf("local sandbox: cannot prepare: %w", err)
	}
	agent, err := r.agentOf(task)
	if err != nil {
		return nil, fmt.Errorf("local sandbox: cannot prepare: %w", err)
	}
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	b := &box{
		task:   task,
		marker: MarkerVar + "=" + task.Run + "." + task.Attempt + "." + hex.EncodeToString(nonce[:]) + "." + r.controller,
		digest: digest,
		agent:  agent,
		reaped: make(chan struct{}),
		ended:  make(chan struct{}),
	}
	b.lookup = task.Lookup(b.place, task.Executable)
	if err := b.stage(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("local sandbox: cannot prepare: %w", err), b.remove())
	}
	return b, nil
}

// programDigest hashes a program once for each state of its file.
func (r *Runtime) programDigest(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.programs[path]; ok && os.SameFile(p.info, info) && p.info.Size() == info.Size() && p.info.ModTime().Equal(info.ModTime()) {
		return p.digest, nil
	}
	digest, err := hash(f)
	if err != nil {
		return "", err
	}
	r.programs[path] = program{info: info, digest: digest}
	return digest, nil
}

func hash(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// check refuses a task that the rest could not treat safely.
func check(t sandbox.Task) error {
	for _, id := range []string{t.Run, t.Attempt} {
		if !plan.ValidID(id) {
			return fmt.Errorf("%q is no id of a run or an attempt", id)
		}
	}
	if !filepath.IsAbs(t.Dir) || filepath.Clean(t.Dir) != t.Dir {
		return fmt.Errorf("the attempt's folder %q is not an absolute path in its shortest form", t.Dir)
	}
	if t.Executable != "" && !filepath.IsAbs(t.Executable) {
		return fmt.Errorf("the path of this program, %q, is not absolute", t.Executable)
	}
	if err := pasteable("the attempt's folder", t.Dir, "choose another --run-dir or TMPDIR"); err != nil {
		return err
	}
	if err := pasteable("the path of this program", t.Executable, "move it to another folder"); err != nil {
		return err
	}
	for name, value := range t.Tokens {
		if err := pasteable("the value of {"+name+"}", value, "it is made by the executor"); err != nil {
			return err
		}
	}
	for id, p := range t.InputPaths {
		if p == "" || p == "." {
			continue // the input is the folder itself
		}
		if err := errors.Join(sandbox.CheckPath(p), pasteable("the path of input "+id, p, "name the artifact's file otherwise")); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(t.Dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("the attempt's folder %s is not empty", t.Dir)
	}
	return err
}

// pasteable refuses values that would change the meaning of a JSON string or
// look like a token.
func pasteable(what, value, wayOut string) error {
	i := strings.IndexFunc(value, func(r rune) bool {
		return r < 0x20 || r == 0x7f || r == '"' || r == '\\' || r == '{' || r == '}'
	})
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%s, %q, holds %q, which cannot be pasted into configuration files: %s", what, value, value[i], wayOut)
}
