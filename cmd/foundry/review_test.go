package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"

	"foundry/cmd/foundry/internal/view"
)

// manyPhases writes a pipeline of n phases over twenty skills, one block of the
// policy for each.
func manyPhases(t testing.TB, dir string, n int, cost, tmp, line string) {
	t.Helper()
	put := func(name, text string) {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const skills = 20
	for i := range skills {
		name := fmt.Sprintf("s%d", i)
		put("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: One of twenty.\n---\n\n"+strings.Repeat("Do the work.\n", 50)+line+"\n")
		put("skills/"+name+"/_provenance.json", fmt.Sprintf(`{"provenance_schema_version":4,"cast_target":"test","cast_at":"2026-01-01T00:00:00.000Z","refs":[],`+
			`"mold":{"name":%q,"path":"x","revision":1,"content_hash":%q,"commit":%q},"artifacts":{"produces":[{"id":"x%d","kind":"json","default_filename":"x%d.json"}],"consumes":[]}}`,
			name, strings.Repeat("0", 64), strings.Repeat("0", 40), i, i))
	}
	var phases []string
	var blocks strings.Builder
	for i := range n {
		phases = append(phases, fmt.Sprintf(`{"phase":%d,"kind":"mold","skill":"s%d","cast_present":true,"loop":false}`, i+1, i%skills))
		id, inputs := fmt.Sprintf("s%d", i%skills), ""
		if i >= skills {
			id += fmt.Sprintf("#%d", i/skills+1)
		}
		if i > 0 {
			inputs = fmt.Sprintf("\"x%d\"", (i-1)%skills)
		}
		fmt.Fprintf(&blocks, "phase %q {\n  inputs = [%s]\n  task   = \"Step %d. %s\"\n  budget { turns = %d }\n}\n", id, inputs, i+1, line, 10+i%50)
	}
	put("skills/pipeline/_assembly.json", `{"source_pipeline":"many","source_revision":1,"harness_name":"pipeline","options":[],"required_tools":[],"phases":[`+strings.Join(phases, ",\n")+"]}")
	put("skills/pipeline/SKILL.md", "---\nname: pipeline\ndescription: A pipeline.\n---\n")
	put("script.json", `{"version":1,"default":{"steps":[]}}`)
	put("policy.hcl", fmt.Sprintf(`assembly = "skills/pipeline/_assembly.json"
skills   = "skills"
guards   = ["baseline", "untrusted-pull-request"]
harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
}
sandbox { tmp = %q }
budget {
  wall     = "10h"
  cost_usd = "100.00"
  tokens   = 1000000
}
defaults {
  harness = "stub"
  budget {
    wall       = "1m"
    turns      = 10
    tool_calls = 10
    tokens     = 1000
    cost_usd   = %q
    output     = "1MiB"
    files      = 10
  }
}
`, tmp, cost)+blocks.String())
}

// commitOf commits all of a folder, which becomes a git repository.
func commitOf(t testing.TB, dir string) {
	t.Helper()
	repo, err := git.PlainOpen(dir)
	if err != nil {
		if repo, err = git.PlainInit(dir, false); err != nil {
			t.Fatal(err)
		}
	}
	w, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	who := &object.Signature{Name: "author", Email: "author@example.com", When: time.Unix(1_700_000_000, 0)}
	if _, err := w.Commit("a change", &git.CommitOptions{Author: who}); err != nil {
		t.Fatal(err)
	}
}

// TestReviewOfManyPhases: 2,000 phases, each with a wider mount, a larger
// budget, another prompt and a skill with another line: one comment, and what
// matters is in it.
func TestReviewOfManyPhases(t *testing.T) {
	dir := t.TempDir()
	manyPhases(t, dir, 2000, "0.10", "64MiB", "As ever.")
	commitOf(t, dir)
	manyPhases(t, dir, 2000, "0.15", "128MiB", "In another way.")
	commitOf(t, dir)
	t.Chdir(dir)
	for _, sides := range [][2]string{{"HEAD~1:policy.hcl", "HEAD:policy.hcl"}, {"HEAD~1:policy.hcl", "policy.hcl"}} {
		var out, told bytes.Buffer
		start := time.Now()
		code := run(context.Background(), []string{"review", sides[0], sides[1]}, nil, &out, &told)
		took := time.Since(start)
		t.Logf("%v: %d characters, %v", sides, utf8.RuneCount(out.Bytes()), took)
		if code != exitOK || told.Len() > 0 {
			t.Fatalf("exit code %d: %s", code, told.String())
		}
		if n := utf8.RuneCount(out.Bytes()); n > view.MaxMarkdown || n < 5_000 || took > time.Minute {
			t.Errorf("%d characters, %v", n, took)
		}
		for _, want := range []string{
			"## Review of <code>many</code>", // the summary
			"untrusted-pull-request</code>: 3 rules kept",
			"**$200.00 → $300.00**", // what all steps may spend
			"<code>64MiB</code> | <code>128MiB</code>",
			"<code>&#36;0.10</code> | <code>&#36;0.15</code>",
			"\n-As ever.\n+In another way.\n", // of a skill
			"left out for length",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: it lacks %q:\n%s", sides, want, out.String()[:min(3000, out.Len())])
			}
		}
	}
}

// BenchmarkReview compiles, compares and describes 2,000 phases, all changed, of
// two commits.
func BenchmarkReview(b *testing.B) {
	dir := b.TempDir()
	manyPhases(b, dir, 2000, "0.10", "64MiB", "As ever.")
	commitOf(b, dir)
	manyPhases(b, dir, 2000, "0.15", "128MiB", "In another way.")
	commitOf(b, dir)
	b.Chdir(dir)
	for b.Loop() {
		var out, told bytes.Buffer
		if code := run(context.Background(), []string{"review", "HEAD~1:policy.hcl", "HEAD:policy.hcl"}, nil, &out, &told); code != exitOK {
			b.Fatalf("exit code %d: %s", code, told.String())
		}
		b.ReportMetric(float64(utf8.RuneCount(out.Bytes())), "characters")
	}
}
