package local

import (
	"os/exec"
	"testing"
	"time"
)

// TestSweepRemembers: a process that was found once is killed even when it has
// lost every sign, and another process with its number is not.
func TestSweepRemembers(t *testing.T) {
	cmd := exec.Command(tool(t, "sleep"), "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
	}()
	p, err := readProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	h := newHunt(0, MarkerVar+"=nobody")
	h.known[p.pid] = p.start + 1
	if err := h.sweep(time.Now().Add(killBound)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Fatal("a process was killed for its number alone")
	default:
	}
	h.known[p.pid] = p.start
	if err := h.sweep(time.Now().Add(killBound)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the process lives")
	}
}
