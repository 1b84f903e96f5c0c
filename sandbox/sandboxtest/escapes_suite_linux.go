package sandboxtest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"foundry/plan"
	"foundry/sandbox"
)

func init() { platformCases = append(platformCases, suiteCase{"escapes", (*suite).escapes}) }

// aims makes what the attempts aim at on the host.
func aims(t *testing.T, s *suite) hostFacts {
	t.Helper()
	value, hash := newCanary()
	h := hostFacts{Canary: hash, Folder: t.TempDir(), Segment: os.Getpid()<<8 | 0x5f}
	h.File = filepath.Join(h.Folder, "canary")
	must(t, os.WriteFile(h.File, []byte(value), 0o644))
	if f, err := os.CreateTemp("/dev/shm", "sandboxtest-"); err == nil {
		h.Shared = f.Name()
		t.Cleanup(func() { os.Remove(h.Shared) })
		must(t, f.Chmod(0o644))
		_, err := f.WriteString(value)
		must(t, err)
		f.Close()
	}
	t.Setenv("SANDBOXTEST_CANARY", value)
	h.Victim = victim(t, s.exe, value)
	segment(t, h.Segment, value)
	listen := func(network, address string) string {
		l, err := net.Listen(network, address)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		return l.Addr().String()
	}
	h.Loopback = listen("tcp", "127.0.0.1:0")
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			h.Address = listen("tcp", net.JoinHostPort(n.IP.String(), "0"))
			break
		}
	}
	h.Abstract = listen("unix", fmt.Sprintf("@sandboxtest-%d", os.Getpid()))
	short, err := os.MkdirTemp("", "s") // a socket's path is short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(short) })
	must(t, os.Chmod(short, 0o755))
	h.Socket = listen("unix", filepath.Join(short, "s"))
	must(t, os.Chmod(h.Socket, 0o666))
	open, err := os.ReadFile("/proc/net/unix")
	must(t, err)
	for line := range strings.Lines(string(open)) {
		if f := strings.Fields(line); len(f) == 8 && strings.Contains(f[7], "containerd") && len(h.Daemons) < 10 {
			h.Daemons = append(h.Daemons, f[7])
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat("/", &st))
	h.RootDevice = st.Dev
	h.Network, err = os.Readlink("/proc/self/ns/net")
	must(t, err)
	return h
}

// victim is a process of the host that holds the canary.
func victim(t *testing.T, exe, value string) int {
	t.Helper()
	cmd := exec.Command(exe, workerWord, "sleep", value)
	cmd.Env = []string{"CANARY=" + value}
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		if err := unix.Kill(cmd.Process.Pid, 0); err != nil {
			t.Errorf("the host's process: %v", err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_, err = out.Read(make([]byte, 5)) // it is there
	must(t, err)
	return cmd.Process.Pid
}

func segment(t *testing.T, key int, value string) {
	t.Helper()
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	must(t, err)
	t.Cleanup(func() {
		if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
			t.Errorf("removing the shared memory: %v", err)
		}
	})
	b, err := unix.SysvShmAttach(id, 0, 0)
	must(t, err)
	copy(b, value)
	must(t, unix.SysvShmDetach(b))
}

// escapes: what a runtime says is enforced holds against the whole list; a
// boundary is crossed by none. What succeeds where nothing is promised is told.
func (s *suite) escapes(t *testing.T) {
	h := aims(t, s)
	task := s.task(t, "escapes", "")
	task.Sandbox.Resources.CPUMillis = 2000
	for i, m := range task.Sandbox.Mounts {
		if m.Source == plan.MountScratch {
			task.Sandbox.Mounts[i].Bytes = 256 * mib // a copy of this program goes there
		}
	}
	h.Skill, h.Input, h.Out, h.Scratch = "{skill}/SKILL.md", "{in:data}", "{out}", "{scratch}"
	facts, err := json.Marshal(h)
	must(t, err)
	task.Process.Argv[3] = string(facts)
	r := &ran{box: s.prepare(t, task)}
	must(t, r.box.Start(t.Context(), sandbox.Stdio{Stdout: &r.stdout, Stderr: &r.stderr}))
	r.exit = wait(t, r.box)
	kill(t, r.box)
	if r.exit.Code != 0 {
		t.Fatalf("exit %+v, stderr %s", r.exit, r.stderr.String())
	}
	results := decode[[]EscapeResult](t, r.stdout.Bytes())
	if len(results) != len(escapes) || len(escapes) < 50 {
		t.Fatalf("%d results of %d attempts", len(results), len(escapes))
	}
	boundary := r.box.Facts().SecurityBoundary
	succeeded, kinds := 0, map[string]bool{}
	var report strings.Builder
	for i, e := range escapes {
		word := "blocked"
		if results[i].Succeeded {
			word = "SUCCEEDED"
			succeeded++
			kinds[e.Kind] = true
			if boundary || s.enforced(t, r.box, e.Property) {
				t.Errorf("%s (%s) succeeded, and the runtime says that %s is enforced: %s", e.Name, e.Kind, e.Property, results[i].Evidence)
			}
		}
		fmt.Fprintf(&report, "%-10s %-38s %-9s %s\n", e.Kind, e.Name, word, results[i].Evidence)
	}
	t.Logf("%d of %d attempts succeeded\n%s", succeeded, len(escapes), report.String())
	// A list of which nothing can succeed would show nothing.
	if !boundary {
		for _, kind := range []string{"filesystem", "network", "socket", "signal", "secret", "ipc"} {
			if !kinds[kind] {
				t.Errorf("nothing of the kind %s succeeded where nothing stops it", kind)
			}
		}
	}
	if data, err := os.ReadFile(h.File); err != nil || !h.is(string(data)) {
		t.Errorf("the host's file: %q, %v", data, err)
	}
}
