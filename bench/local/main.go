// Command local measures a chain of no-op steps in the local sandbox, each
// staged, hashed, validated and recorded, against raw fork+exec+wait: of
// /bin/true, and of the same worker without anything around it. Interleaved, in
// one run; the figures are per step.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"foundry/bench/internal/synthetic"
)

func main() {
	steps := flag.Int("steps", 1000, "steps of the chain")
	flag.Parse()
	if err := run(*steps); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(steps int) error {
	dir, err := os.MkdirTemp("", "foundry-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	foundry := filepath.Join(dir, "foundry")
	if err := command("go", "build", "-o", foundry, "./cmd/foundry"); err != nil {
		return err
	}
	if err := synthetic.Pipeline(filepath.Join(dir, "pipeline"), steps); err != nil {
		return err
	}
	if err := command(foundry, "plan", "--json", "-o", filepath.Join(dir, "closure"), filepath.Join(dir, "pipeline", "policy.hcl")); err != nil {
		return err
	}
	script := filepath.Join(dir, "script.json")
	if err := os.WriteFile(script, []byte(`{"version":1,"steps":[{"write":{"path":"x.json","content":"{}"}}]}`), 0o644); err != nil {
		return err
	}
	floor, err := repeat(steps, "/bin/true", "")
	if err != nil {
		return err
	}
	input := `{"protocol_version":2,"agent":"scripted","harness":{"name":"stub","version":"1","model":""},"node":"n","iteration":1,"attempt":1,"prompt":"","test_stub":true}` + "\n"
	worker, err := repeat(steps, foundry, input, "worker", "--test-stub", "--script", script, "--out", dir)
	if err != nil {
		return err
	}
	start := time.Now()
	cmd := exec.Command(foundry, "apply", "--yes", "--run-dir", filepath.Join(dir, "run"), filepath.Join(dir, "closure"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, stderr.String())
	}
	ours := time.Since(start) / time.Duration(steps)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	fmt.Printf("%d steps, per step:\n", steps)
	fmt.Printf("  fork+exec of /bin/true    %8.3f ms\n", ms(floor))
	fmt.Printf("  fork+exec of the worker   %8.3f ms  %.1fx\n", ms(worker), ms(worker)/ms(floor))
	fmt.Printf("  foundry apply, all of it  %8.3f ms  %.1fx of /bin/true, %.1fx of the worker, %d MiB\n", ms(ours), ms(ours)/ms(floor), ms(ours)/ms(worker), usage.Maxrss>>10)
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(append([]string{name}, args...), " "), err, out)
	}
	return nil
}

func repeat(n int, name, stdin string, args ...string) (time.Duration, error) {
	start := time.Now()
	for range n {
		cmd := exec.Command(name, args...)
		cmd.Stdin = strings.NewReader(stdin)
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return time.Since(start) / time.Duration(n), nil
}
