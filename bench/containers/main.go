//go:build linux

// Command containers measures steps that do nothing, in containers, one after
// another: through sandbox/containerd as a run does it (the next step is
// prepared while the present one runs, removal is behind), against `runc run`
// of the same spec and, where it is installed, `ctr run` on a containerd of its
// own. Interleaved, in the same run; only the ratios travel. Root only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/containerd"
)

func main() {
	containerd.Main()
	steps := flag.Int("steps", 100, "steps of each")
	depth := flag.Int("ahead", 1, "how many steps are prepared while one runs")
	flag.Parse()
	if err := run(context.Background(), *steps, max(1, *depth)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// chunk is how many steps of one kind run before it is the next one's turn.
const chunk = 10

// series is what the steps of one kind took.
type series struct {
	wall     time.Duration // of all
	cpu      time.Duration
	critical []time.Duration // start → drained, or the whole process
}

func (s *series) median() time.Duration {
	slices.Sort(s.critical)
	return s.critical[len(s.critical)/2]
}

func run(ctx context.Context, steps, depth int) error {
	dir, err := os.MkdirTemp("", "foundry-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rt, err := containerd.New(ctx, containerd.Options{Base: filepath.Join(dir, "base")})
	if err != nil {
		return err
	}
	defer rt.Close()
	ours, alone := &runner{rt: rt, dir: dir, base: filepath.Join(dir, "base"), depth: depth}, &runner{rt: rt, dir: dir, base: filepath.Join(dir, "base")}
	if err := ours.warm(ctx); err != nil {
		return err
	}
	peer, err := newPeer(dir, ours.spec)
	if err != nil {
		return err
	}
	defer peer.close()
	kinds := []struct {
		name string
		run  func(ctx context.Context, n int, s *series) error
		s    series
	}{
		{name: "runc run", run: peer.runc},
		{name: "foundry", run: ours.ahead},
		{name: "foundry, one by one", run: alone.alone},
	}
	if peer.ctr(ctx) {
		kinds = append(kinds, struct {
			name string
			run  func(ctx context.Context, n int, s *series) error
			s    series
		}{name: "ctr run", run: peer.ctrRun})
	} else {
		fmt.Println("ctr run: left out,", peer.why)
	}
	for done := 0; done < steps; done += chunk {
		for i := range kinds {
			k := &kinds[i]
			begun := time.Now()
			if err := k.run(ctx, min(chunk, steps-done), &k.s); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			k.s.wall += time.Since(begun)
		}
	}
	fmt.Printf("%-20s %10s %7s %14s %7s %10s\n", "", "per step", "x runc", "start→drained", "x runc", "CPU/step")
	base := kinds[0].s
	for i := range kinds {
		s := &kinds[i].s
		fmt.Printf("%-20s %8.1fms %7.2f %12.1fms %7.2f %8.1fms\n", kinds[i].name,
			ms(s.wall)/float64(steps), float64(s.wall)/float64(base.wall),
			ms(s.median()), float64(s.median())/float64(base.median()), ms(s.cpu)/float64(steps))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// runner runs steps through the runtime.
type runner struct {
	rt        *containerd.Runtime
	dir, base string
	depth     int // of preparing ahead
	count     int
	spec      []byte // of the first step
}

// task is a step that does nothing: its program is the system's own `true`.
func (r *runner) task() (sandbox.Task, error) {
	r.count++
	name := fmt.Sprintf("step-%p-%d", r, r.count)
	own := filepath.Join(r.dir, name)
	if err := os.Mkdir(own, 0o700); err != nil {
		return sandbox.Task{}, err
	}
	noop, err := exec.LookPath("true")
	if err != nil {
		return sandbox.Task{}, err
	}
	if noop, err = filepath.EvalSymlinks(noop); err != nil {
		return sandbox.Task{}, err
	}
	return sandbox.Task{
		Run: "bench", Attempt: name, Dir: own,
		Process: plan.Process{Argv: []string{"{foundry}"}, Env: []string{"HOME={scratch}"}, Cwd: "{scratch}", User: "65534:65534"},
		Sandbox: plan.Sandbox{
			Mode: plan.SandboxContainer, Image: plan.ImageBuiltin, Network: plan.NetworkNone,
			Mounts: []plan.Mount{
				{Source: plan.MountOutput, Destination: "/out", Mode: plan.MountReadWrite, Bytes: 16 << 20},
				{Source: plan.MountScratch, Destination: "/scratch", Mode: plan.MountReadWrite, Bytes: 16 << 20},
				{Source: plan.MountTmpfs, Destination: "/tmp", Mode: plan.MountReadWrite, Bytes: 16 << 20},
			},
			Resources: plan.Resources{MemoryBytes: 512 << 20, PIDs: 64, CPUMillis: 1000},
		},
		Wall: time.Minute, OutputBytes: 16 << 20, OutputFiles: 64, Executable: noop,
	}, nil
}

func (r *runner) prepare(ctx context.Context) (sandbox.Sandbox, error) {
	t, err := r.task()
	if err != nil {
		return nil, err
	}
	return r.rt.Prepare(ctx, t)
}

// warm runs one step that is not counted.
func (r *runner) warm(ctx context.Context) error {
	s, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	var unused series
	if err := r.finish(ctx, s, &unused); err != nil {
		return err
	}
	r.spec = s.Facts().Spec
	return nil
}

// finish starts a step, waits for its end and closes it.
func (r *runner) finish(ctx context.Context, s sandbox.Sandbox, into *series) error {
	begun := time.Now()
	if err := s.Start(ctx, sandbox.Stdio{}); err != nil {
		return err
	}
	exit, err := s.Wait(ctx)
	if err != nil || exit.Code != 0 {
		return fmt.Errorf("it ended with %+v: %w", exit, err)
	}
	into.critical = append(into.critical, time.Since(begun))
	if err := s.Kill(ctx); err != nil {
		return err
	}
	if n := s.Facts().Measured.CPUMicros; n != nil {
		into.cpu += time.Duration(*n) * time.Microsecond
	}
	return s.Close(ctx)
}

// ahead prepares each step while the ones before it run. The steps of a chunk
// are removed within its time.
func (r *runner) ahead(ctx context.Context, n int, into *series) error {
	return r.counted(into, func() error {
		type prepared struct {
			s   sandbox.Sandbox
			err error
		}
		queue := make(chan chan prepared, n)
		begun := 0
		begin := func() error {
			if begun == n {
				return nil
			}
			begun++
			t, err := r.task()
			if err != nil {
				return err
			}
			one := make(chan prepared, 1)
			queue <- one
			go func() {
				s, err := r.rt.Prepare(ctx, t)
				one <- prepared{s, err}
			}()
			return nil
		}
		for range r.depth {
			if err := begin(); err != nil {
				return err
			}
		}
		for range n {
			p := <-<-queue
			if p.err != nil {
				return p.err
			}
			if err := begin(); err != nil {
				return err
			}
			if err := r.finish(ctx, p.s, into); err != nil {
				return err
			}
		}
		return r.rt.Settle(ctx)
	})
}

// alone makes each step when the one before it is closed.
func (r *runner) alone(ctx context.Context, n int, into *series) error {
	return r.counted(into, func() error {
		for range n {
			s, err := r.prepare(ctx)
			if err != nil {
				return err
			}
			if err := r.finish(ctx, s, into); err != nil {
				return err
			}
		}
		return r.rt.Settle(ctx)
	})
}

// counted adds the CPU time of this process, the daemon, the shim and all that
// they started and waited for. The containers' own is the cgroups' word.
func (r *runner) counted(into *series, do func() error) error {
	before, err := processTime(r.base)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := processTime(r.base)
	into.cpu += after - before
	return err
}
