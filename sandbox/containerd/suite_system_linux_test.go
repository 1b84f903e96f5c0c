package containerd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/sandbox"
	"foundry/sandbox/sandboxtest"
)

// systemDaemon starts a containerd of the machine's own version with folders
// and sockets of the test's own; the machine's service is left alone. Its
// binary comes with Debian's package containerd.
func systemDaemon(t *testing.T) (address string) {
	t.Helper()
	need(t)
	binary, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("the test with a system containerd needs one (apt-get install containerd)")
	}
	if _, err := exec.LookPath("containerd-shim-runc-v2"); err != nil {
		t.Skip("the system's containerd has no shim for runc")
	}
	dir, err := os.MkdirTemp("", "foundry-"+marker+"-system-")
	if err != nil {
		t.Fatal(err)
	}
	// As the service's own folders: the root of a user namespace goes through it.
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	address = filepath.Join(dir, "containerd.sock")
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), address)
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(binary, "--config", file)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("the system's containerd does not end")
			_ = cmd.Process.Kill()
			<-ended
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(mounts), dir) {
			t.Errorf("mounts are left below %s (%v)", dir, err)
			return // nothing is removed through a mount
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("its log: %s", log.Bytes()[max(0, log.Len()-4000):])
		}
	})
	for range 600 {
		if _, err := os.Stat(address); err == nil {
			return address
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the system's containerd ended: %v\n%s", err, log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("the system's containerd does not listen: %s", log.String())
	return ""
}

func TestSuiteSystem(t *testing.T) {
	address := systemDaemon(t)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := takeInventory()
	t.Run("suite", func(t *testing.T) {
		sandboxtest.Run(t, func(t *testing.T) sandbox.Runtime {
			rt, err := New(t.Context(), Options{Address: address})
			if err != nil {
				t.Fatal(err)
			}
			return rt
		}, executable)
	})
	if left := takeInventory().since(before); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
