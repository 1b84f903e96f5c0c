//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"foundry/sandbox"
)

// Escape is one attempt of a worker to reach what is not its own, or to take a
// right that it was not given. When it succeeds it has done no harm: it reads,
// opens without writing, sets what was set already, or changes itself alone.
type Escape struct {
	Name string
	Kind string
	// Property is what keeps it from succeeding: where a runtime says that it is
	// enforced, a success is a lie.
	Property string
	// try says what it reached; an error says what stopped it.
	try func(h *hostFacts) (evidence string, err error)
}

// EscapeResult is how one attempt ended.
type EscapeResult struct {
	Name      string `json:"name"`
	Succeeded bool   `json:"succeeded"`
	Evidence  string `json:"evidence"`
}

// hostFacts are what attempts aim at. Of the canary they hold its hash alone:
// a worker that knows it has found it.
type hostFacts struct {
	Canary      string   `json:"canary"` // sha256 of the value
	File        string   `json:"file"`   // holds the value
	Folder      string   `json:"folder"` // holds the file
	Shared      string   `json:"shared"` // a file in /dev/shm that holds it
	Victim      int      `json:"victim"` // a process with it in its environment and arguments
	Loopback    string   `json:"loopback"`
	Address     string   `json:"address"` // listens on an address that is not loopback, "" where there is none
	Abstract    string   `json:"abstract"`
	Socket      string   `json:"socket"`
	Daemons     []string `json:"daemons"` // sockets of container daemons
	Segment     int      `json:"segment"` // key of a System V shared memory that holds it
	RootDevice  uint64   `json:"root_device"`
	Skill       string   `json:"skill"` // places of the sandbox
	Input       string   `json:"input"`
	Out         string   `json:"out"`
	Scratch     string   `json:"scratch"`
	Descriptors []string `json:"descriptors"` // open at the worker's start beyond the standard streams
	Network     string   `json:"network"`     // the network namespace of the host
}

// is says that a text is the canary.
func (h *hostFacts) is(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]) == h.Canary
}

func newCanary() (value, hash string) {
	var b [16]byte
	rand.Read(b[:]) // never fails
	value = "canary-" + hex.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(value))
	return value, hex.EncodeToString(sum[:])
}

func init() {
	ops["escapes"] = opEscapes
	ops["escape"] = opEscape
}

// opEscapes tries all of them, each in a process of its own, and prints their
// results.
func opEscapes(args []string) error {
	var h hostFacts
	if err := json.Unmarshal([]byte(args[0]), &h); err != nil {
		return err
	}
	h.Descriptors = openDescriptors()
	facts, err := json.Marshal(h)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	results := []EscapeResult{}
	for _, e := range escapes {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		cmd := exec.CommandContext(ctx, exe, workerWord, "escape", e.Name, string(facts))
		cmd.WaitDelay = time.Second
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		r := EscapeResult{Name: e.Name}
		if err := cmd.Run(); err == nil && out.Len() > 0 {
			r.Succeeded, r.Evidence = true, out.String()
		} else {
			r.Evidence = strings.TrimPrefix(errs.String(), workerWord+" escape: ")
			if r.Evidence == "" {
				r.Evidence = fmt.Sprint(err)
			}
		}
		cancel()
		r.Evidence = strings.TrimSpace(r.Evidence)
		r.Evidence = r.Evidence[:min(len(r.Evidence), 200)]
		results = append(results, r)
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

func opEscape(args []string) error {
	var h hostFacts
	if err := json.Unmarshal([]byte(args[1]), &h); err != nil {
		return err
	}
	i := slices.IndexFunc(escapes, func(e Escape) bool { return e.Name == args[0] })
	if i < 0 {
		return errors.New("no such attempt")
	}
	evidence, err := escapes[i].try(&h)
	if err != nil {
		return err
	}
	if evidence == "" {
		evidence = "done"
	}
	fmt.Print(evidence)
	return nil
}

// Kinds of attempts, with the property that keeps each from succeeding.
var kinds = map[string]string{
	"filesystem": sandbox.PropFilesystem, "link": sandbox.PropFilesystem, "proc": sandbox.PropFilesystem,
	"read-only": sandbox.PropReadOnly, "device": sandbox.PropFilesystem, "mount": sandbox.PropUser,
	"namespace": sandbox.PropSyscalls, "capability": sandbox.PropUser, "setuid": sandbox.PropUser,
	"network": sandbox.PropNetwork, "dns": sandbox.PropNetwork, "socket": sandbox.PropNetwork,
	"ptrace": sandbox.PropFilesystem, "signal": sandbox.PropFilesystem, "ipc": sandbox.PropFilesystem,
	"keyring": sandbox.PropSyscalls, "bpf": sandbox.PropSyscalls, "io_uring": sandbox.PropSyscalls, "kernel": sandbox.PropSyscalls,
	"cgroup": sandbox.PropFilesystem, "time": sandbox.PropUser, "resource": sandbox.PropUser,
	"secret": sandbox.PropFilesystem, "descriptor": sandbox.PropFilesystem,
}
