//go:build unix

package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"foundry/plan"
	"foundry/sandbox"
)

// collectBound is what collecting a refused tree may take: seconds, whatever
// the tree is.
const collectBound = 20 * time.Second

// promotion: every hostile tree is refused for its own reason, within seconds,
// nothing of it is frozen, and the folder can be removed.
func (s *suite) promotion(t *testing.T) {
	var together []string
	for _, h := range hostileTrees {
		if !h.alone {
			together = append(together, h.name)
		}
	}
	s.leave(t, together...)
	for _, h := range hostileTrees {
		if h.alone && (!h.long || Long()) {
			s.leave(t, h.name)
		}
	}
}

// leave has a worker make trees and collects each.
func (s *suite) leave(t *testing.T, trees ...string) {
	t.Helper()
	task := s.task(t, append([]string{"trees", "{out}"}, trees...)...)
	r := s.ok(t, task, nil)
	failed := decode[map[string]string](t, r.stdout.Bytes())
	for _, h := range hostileTrees {
		if !slices.Contains(trees, h.name) {
			continue
		}
		if why, ok := failed[h.name]; ok {
			// A device needs a right that a worker has not.
			if h.name != "device" || !strings.Contains(why, "not permitted") {
				t.Errorf("%s was not made: %s", h.name, why)
			}
			continue
		}
		s.refusedTree(t, filepath.Join(r.box.Output(), h.name), h)
	}
	must(t, r.box.Close(t.Context()))
	empty(t, task.Dir)
}

func (s *suite) refusedTree(t *testing.T, out string, h hostileTree) {
	t.Helper()
	frozen := filepath.Join(t.TempDir(), "frozen")
	ctx, cancel := context.WithTimeout(t.Context(), collectBound)
	defer cancel()
	got, err := sandbox.Collect(ctx, out, []plan.NodeOutput{h.output()}, treeLimits, frozen)
	if err != nil {
		t.Errorf("%s: %v", h.name, err)
		return
	}
	if !slices.ContainsFunc(got.Refusals, func(r sandbox.Refusal) bool {
		return r.Artifact == "a" && r.Reason == h.reason && r.Path == h.path && r.Detail != ""
	}) {
		t.Errorf("%s: refusals %+v, want %s of %s", h.name, got.Refusals, h.reason, h.path)
	}
	if got.Collected[0].Present {
		t.Errorf("%s is collected all the same", h.name)
	}
	empty(t, frozen)
}

// linkedInput: a hard link to an input is no output: the input is on another
// file system, or the link is refused; and the input stays what it was.
func (s *suite) linkedInput(t *testing.T) {
	task := s.task(t, "link", "{in:data}", "{out}")
	r := s.ok(t, task, nil)
	got := decode[tried](t, r.stdout.Bytes())
	switch {
	case got.Done == 1:
		s.refusedTree(t, r.box.Output(), hostileTree{name: "a link of an input", reason: sandbox.RefusedHardLink, path: "tree/x"})
	case got.Error == "":
		t.Error("the worker did not try")
	}
	if s.enforced(t, r.box, sandbox.PropFilesystem) && got.Done == 1 {
		t.Error("an input was linked out of where it is read-only")
	}
	if data, err := os.ReadFile(filepath.Join(task.Trees["in:data"], "sub", "data.txt")); err != nil || string(data) != "input bytes" {
		t.Errorf("the staged-from input is %q, %v", data, err)
	}
}

// declaredName: a name of agents' configuration crosses where it is declared by
// exactly that name, and not by its folder.
func (s *suite) declaredName(t *testing.T) {
	r := s.ok(t, s.task(t, "write", "{out}/CLAUDE.md", "declared"), nil)
	file := plan.NodeOutput{Artifact: "memory", Filename: "CLAUDE.md", Kind: plan.KindMarkdown}
	got, err := sandbox.Collect(t.Context(), r.box.Output(), []plan.NodeOutput{file}, treeLimits, filepath.Join(t.TempDir(), "frozen"))
	must(t, err)
	if len(got.Refusals) > 0 || !got.Collected[0].Present {
		t.Errorf("declared by its name: %+v", got)
	}
}

// swapped: while a worker swaps files and folders for links to a secret of the
// host, what is collected is the worker's or nothing.
func (s *suite) swapped(t *testing.T) {
	secretFile := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secretFile, []byte("the host's"), 0o644))
	box := s.prepare(t, s.task(t, "swap", "{out}", secretFile))
	ready := newReady()
	must(t, box.Start(t.Context(), sandbox.Stdio{Stdout: ready}))
	ready.await(t)
	outputs := []plan.NodeOutput{
		{Artifact: "f", Filename: "f", Kind: plan.KindFile},
		{Artifact: "tree", Filename: "tree", Kind: plan.KindDirectory},
	}
	rounds, refused, crossed := 0, 0, 0
	base := t.TempDir()
	for end := time.Now().Add(time.Second); time.Now().Before(end); rounds++ {
		frozen := filepath.Join(base, fmt.Sprint(rounds))
		got, err := sandbox.Collect(t.Context(), box.Output(), outputs, treeLimits, frozen)
		must(t, err)
		refused += len(got.Refusals)
		for _, c := range got.Collected {
			if c.Present {
				crossed++
			}
		}
		must(t, filepath.WalkDir(frozen, func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(p)
			if !d.Type().IsRegular() || strings.Contains(string(data), "host") {
				return fmt.Errorf("%s crossed: %q", p, data)
			}
			return err
		}))
		must(t, sandbox.RemoveTree(frozen))
	}
	dies(t, box)
	if refused == 0 {
		t.Error("nothing was refused in any round")
	}
	t.Logf("%d rounds, %d refusals, %d outputs", rounds, refused, crossed)
}

// noPrograms: collecting and removing a tree that holds configuration of tools
// starts no program, be it declared or not.
func (s *suite) noPrograms(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "MARK")
	task := s.task(t, "programs", "{out}", mark)
	box := s.prepare(t, task)
	must(t, box.Start(t.Context(), sandbox.Stdio{}))
	if exit := wait(t, box); exit.Code != 0 {
		t.Fatalf("exit %+v", exit)
	}
	kill(t, box)
	// Whatever would be started by its name leaves the mark.
	path := t.TempDir()
	for _, name := range []string{"git", "sh", "bash", "direnv", "npm", "node", "python3", "go", "make", "touch", "file", "tar", "diff"} {
		must(t, os.WriteFile(filepath.Join(path, name), []byte("#!/bin/sh\n/bin/echo "+name+" >"+mark+"\n"), 0o755))
	}
	t.Setenv("PATH", path)
	var outputs []plan.NodeOutput
	for i, name := range slices.Sorted(maps.Keys(programFiles)) {
		outputs = append(outputs, plan.NodeOutput{Artifact: fmt.Sprint("a", i), Filename: name, Kind: plan.KindFile})
	}
	for name, declared := range map[string][]plan.NodeOutput{"declared": outputs, "undeclared": nil} {
		got, err := sandbox.Collect(t.Context(), box.Output(), declared, treeLimits, filepath.Join(t.TempDir(), "frozen"))
		must(t, err)
		if len(got.Refusals) > 0 || slices.ContainsFunc(got.Collected, func(c sandbox.Collected) bool { return !c.Present }) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	must(t, box.Close(t.Context()))
	empty(t, task.Dir)
	if what, err := os.ReadFile(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program was started: %q, %v", what, err)
	}
}
