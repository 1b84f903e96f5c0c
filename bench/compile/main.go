// Command compile measures `foundry plan` of the real nextflow-to-galaxy and of
// synthetic assemblies of 100, 1,000 and 10,000 phases over 20 bundles, with
// one phase block each, against bench/floor on the same file. Whole processes,
// interleaved; medians.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"foundry/bench/internal/synthetic"
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
		if err := synthetic.Pipeline(filepath.Dir(policy), n); err != nil {
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
