// Command compile measures `foundry plan` of the real nextflow-to-galaxy and of
// synthetic assemblies of 100, 1,000 and 10,000 phases over 20 bundles, with
// one phase block each, against bench/floor on the same file. Whole processes,
// interleaved; medians.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	runs := flag.Int("runs", 5, "runs of each")
	sizes := flag.String("sizes", "100,1000,10000", "numbers of phases")
	corpus := flag.String("corpus", "../shared/corpus/galaxy-foundry", "the real corpus, left out when absent")
	flag.Parse()
	if err := run(*runs, strings.Split(*sizes, ","), *corpus); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sample is one run of a process.
type sample struct {
	wall time.Duration
	rss  int64 // bytes, the kernel's high-water mark
}

func run(runs int, sizes []string, corpus string) error {
	dir, err := os.MkdirTemp("", "foundry-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	foundry, floor := filepath.Join(dir, "foundry"), filepath.Join(dir, "floor")
	for bin, pkg := range map[string]string{foundry: "./cmd/foundry", floor: "./bench/floor"} {
		cmd := exec.Command("go", "build", "-o", bin, pkg)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	fmt.Printf("%-22s %10s %10s %7s %10s %10s %7s\n", "", "foundry", "floor", "ratio", "foundry", "floor", "ratio")
	if _, err := os.Stat(corpus); err == nil {
		s, err := repeat(runs, foundry, "plan", "--json", "-var", "corpus="+corpus, "examples/galaxy/nextflow-to-galaxy.hcl")
		if err != nil {
			return err
		}
		m := median(s)
		fmt.Printf("%-22s %8.1fms %10s %7s %7.1fMiB\n", "nextflow-to-galaxy", ms(m.wall), "", "", mib(m.rss))
	}
	for _, size := range sizes {
		var n int
		if _, err := fmt.Sscan(size, &n); err != nil {
			return err
		}
		policy := filepath.Join(dir, size, "policy.hcl")
		if err := synthesize(filepath.Dir(policy), n); err != nil {
			return err
		}
		var ours, theirs []sample
		for range runs {
			a, err := measure(foundry, "plan", "--json", policy)
			if err != nil {
				return err
			}
			b, err := measure(floor, policy)
			if err != nil {
				return err
			}
			ours, theirs = append(ours, a), append(theirs, b)
		}
		a, b := median(ours), median(theirs)
		fmt.Printf("%-22s %8.1fms %8.1fms %6.2fx %7.1fMiB %7.1fMiB %6.2fx\n", size+" phases",
			ms(a.wall), ms(b.wall), ms(a.wall)/ms(b.wall), mib(a.rss), mib(b.rss), mib(a.rss)/mib(b.rss))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func mib(n int64) float64        { return float64(n) / (1 << 20) }

func repeat(runs int, argv ...string) ([]sample, error) {
	var out []sample
	for range runs {
		s, err := measure(argv[0], argv[1:]...)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func measure(name string, args ...string) (sample, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", name, err, stderr.String())
	}
	wall := time.Since(start)
	// Linux counts in KiB.
	return sample{wall, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10}, nil
}

// median takes time and memory apart.
func median(s []sample) sample {
	wall, rss := make([]time.Duration, len(s)), make([]int64, len(s))
	for i := range s {
		wall[i], rss[i] = s[i].wall, s[i].rss
	}
	slices.Sort(wall)
	slices.Sort(rss)
	return sample{wall[len(wall)/2], rss[len(rss)/2]}
}

const bundles = 20

// synthesize writes a pipeline of n phases: phase i runs skill i mod 20, which
// writes x(i mod 20), and reads what the two phases before it wrote.
func synthesize(dir string, n int) error {
	put := func(name, text string) error {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		return os.WriteFile(p, []byte(text), 0o644)
	}
	for i := range bundles {
		name := fmt.Sprintf("s%d", i)
		prov, err := json.Marshal(map[string]any{
			"provenance_schema_version": 4, "cast_target": "bench", "cast_at": "2026-01-01T00:00:00.000Z", "refs": []any{},
			"mold":      map[string]any{"name": name, "path": name, "revision": 1, "content_hash": strings.Repeat("0", 64), "commit": strings.Repeat("0", 40)},
			"artifacts": map[string]any{"produces": []any{map[string]any{"id": fmt.Sprintf("x%d", i), "kind": "json", "default_filename": fmt.Sprintf("x%d.json", i)}}, "consumes": []any{}},
		})
		if err != nil {
			return err
		}
		if err := put("skills/"+name+"/_provenance.json", string(prov)); err != nil {
			return err
		}
		if err := put("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: One of twenty.\n---\n\n"+strings.Repeat("Do the work.\n", 200)); err != nil {
			return err
		}
	}
	var phases, blocks strings.Builder
	for i := range n {
		sep := ","
		if i == n-1 {
			sep = ""
		}
		fmt.Fprintf(&phases, "{\"phase\":%d,\"kind\":\"mold\",\"skill\":\"s%d\",\"cast_present\":true,\"loop\":false}%s\n", i+1, i%bundles, sep)
		id := fmt.Sprintf("s%d", i%bundles)
		if k := i / bundles; k > 0 {
			id = fmt.Sprintf("%s#%d", id, k+1)
		}
		var inputs []string
		for back := 2; back >= 1; back-- {
			if i >= back {
				inputs = append(inputs, fmt.Sprintf("%q", fmt.Sprintf("x%d", (i-back)%bundles)))
			}
		}
		fmt.Fprintf(&blocks, "phase %q {\n  inputs = [%s]\n  task   = \"Step %d for ${var.who}.\"\n  budget {\n    wall  = \"%dm\"\n    turns = %d\n  }\n}\n\n",
			id, strings.Join(inputs, ", "), i+1, 1+i%9, 10+i%50)
	}
	if err := put("skills/pipeline/_assembly.json", fmt.Sprintf(
		"{\"source_pipeline\":\"synthetic\",\"source_revision\":1,\"harness_name\":\"pipeline\",\"options\":[],\"required_tools\":[],\"phases\":[\n%s]}\n", phases.String())); err != nil {
		return err
	}
	if err := put("script.json", `{"version":1,"default":{"steps":[]}}`); err != nil {
		return err
	}
	return put("policy.hcl", `assembly = "skills/pipeline/_assembly.json"
skills   = "skills"

variable "who" {
  type    = string
  default = "team"
}

harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
}

budget {
  wall     = "2h"
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
    cost_usd   = "0.10"
    output     = "1MiB"
    files      = 10
  }
}

`+blocks.String())
}
