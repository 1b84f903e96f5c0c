package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// passed are the variables of the machine that the programs are given: where
// they and the user's settings are, and the way to the network.
var passed = []string{"PATH", "HOME", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}

// programs that a build starts, and the Debian package of each.
var programs = map[string]string{"apt-cache": "apt", "apt-get": "apt", "dpkg-deb": "dpkg", "mmdebstrap": "mmdebstrap", "node": "nodejs", "npm": "npm"}

// needPrograms fails when one is missing.
func needPrograms() error {
	var missing []string
	for _, name := range []string{"mmdebstrap", "apt-get", "apt-cache", "dpkg-deb", "npm", "node"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name+" (package "+programs[name]+")")
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("image build: this machine lacks %s; install them, or build elsewhere and `foundry image import` the archive", strings.Join(missing, ", "))
	}
	return nil
}

// command is a program to start.
type command struct {
	dir  string // where it works
	env  []string
	argv []string
}

// run starts a program, waits, and returns what it printed. The end of the
// context ends it and all that it started.
func (c command) run(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, &out, &said
	cmd.Env = append([]string{"LC_ALL=C.UTF-8", "TZ=UTC"}, c.env...)
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(passed, name) || strings.HasPrefix(strings.ToLower(name), "npm_config_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.SysProcAttr = apart()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	if err != nil && cmd.Process != nil { // what it may have left of its group
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("image build: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, &programError{c.argv[0], err, tail(said.Bytes(), 20)}
	}
	return out.Bytes(), nil
}

// programError is a program that failed, with the last that it said.
type programError struct {
	name string
	err  error
	said string
}

func (e *programError) Error() string {
	return fmt.Sprintf("image build: %s: %v\n%s", e.name, e.err, e.said)
}

func (e *programError) Unwrap() error { return e.err }

// tail is the last lines of a text.
func tail(b []byte, lines int) string {
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
