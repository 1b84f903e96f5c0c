package containerd

import (
	"context"
	"fmt"
	"testing"

	"foundry/sandbox"
)

// BenchmarkNoop is one step that does nothing, from Prepare to Close, and what
// of it lies between start and end of the process.
func BenchmarkNoop(b *testing.B) {
	rt := runtimeOf(b)
	task := demo(b, "noop", "exit", "0")
	// The image is made once for all attempts.
	if _, err := rt.builtin(context.Background(), task.Executable); err != nil {
		b.Fatal(err)
	}
	step := func(b *testing.B, i int, whole bool) {
		ctx := context.Background()
		task.Attempt = fmt.Sprint("noop-", i)
		if !whole {
			b.StopTimer()
		}
		s, err := rt.Prepare(ctx, task)
		if err != nil {
			b.Fatal(err)
		}
		if !whole {
			b.StartTimer()
		}
		if err := s.Start(ctx, sandbox.Stdio{}); err != nil {
			b.Fatal(err)
		}
		if exit, err := s.Wait(ctx); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		if !whole {
			b.StopTimer()
		}
		if err := s.Kill(ctx); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(ctx); err != nil {
			b.Fatal(err)
		}
		if !whole {
			b.StartTimer()
		}
	}
	b.Run("whole", func(b *testing.B) {
		for i := range b.N {
			step(b, i, true)
		}
	})
	b.Run("start-to-end", func(b *testing.B) {
		for i := range b.N {
			step(b, i, false)
		}
	})
}
