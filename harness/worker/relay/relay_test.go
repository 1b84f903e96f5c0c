//go:build unix

package relay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is the relay, or an agent behind it, when the environment
// says so.
func TestMain(m *testing.M) {
	switch os.Getenv("RELAY_TEST") {
	case "relay":
		os.Setenv("RELAY_TEST", "agent")
		os.Exit(Main(os.Args[1:], os.Stderr))
	case "agent":
		agent(os.Args[1:])
	}
	os.Exit(m.Run())
}

// agent does what its first argument says.
func agent(args []string) {
	switch args[0] {
	case "exit":
		os.Exit(7)
	case "ask": // one line to the address, the answer to stdout
		c, err := net.Dial("tcp", args[1])
		if err != nil {
			fmt.Println("refused")
			os.Exit(3)
		}
		fmt.Fprintln(c, "question")
		_ = c.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(c)
		fmt.Printf("%s%v\n", answer, err)
		os.Exit(0)
	case "orphan": // leaves a child behind, which PID 1 would have to reap
		_ = exec.Command("true").Start()
		os.Exit(0)
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
		os.Exit(0)
	case "wait":
		fmt.Println("waiting")
		time.Sleep(time.Minute)
	}
	os.Exit(9)
}

func relayCmd(t *testing.T, listen, socket string, agent ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"--listen", listen, "--socket", socket, "--", self}, agent...)...)
	cmd.Env = []string{"RELAY_TEST=relay", "PATH=/usr/bin:/bin"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	return cmd, &out, &errs
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestRelayJoinsTheSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "b.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			fmt.Fprintf(c, "answer to %s", line)
			c.Close()
		}
	}()
	address := freeAddress(t)
	cmd, out, errs := relayCmd(t, address, socket, "ask", address)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	if got := out.String(); got != "answer to question\n<nil>\n" {
		t.Errorf("the agent got %q", got)
	}
}

// A broker that is gone is no empty answer.
func TestNoBrokerIsAReset(t *testing.T) {
	address := freeAddress(t)
	cmd, out, _ := relayCmd(t, address, filepath.Join(t.TempDir(), "none.sock"), "ask", address)
	_ = cmd.Run() // what the agent saw is what counts
	if got := out.String(); !strings.Contains(got, "reset") && !strings.Contains(got, "refused") {
		t.Errorf("the agent got %q", got)
	}
}

func TestEndsAsTheAgentDoes(t *testing.T) {
	for _, c := range []struct {
		agent  []string
		signal syscall.Signal
		want   int
	}{
		{[]string{"exit"}, 0, 7},
		{[]string{"orphan"}, 0, 0},
		{[]string{"wait"}, syscall.SIGTERM, 128 + 15},
	} {
		cmd, _, errs := relayCmd(t, freeAddress(t), "none", c.agent...)
		var out io.ReadCloser
		cmd.Stdout = nil
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if c.signal != 0 {
			if line, _ := bufio.NewReader(out).ReadString('\n'); line != "waiting\n" {
				t.Errorf("the agent said %q", line)
			}
			_ = cmd.Process.Signal(c.signal)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%v: exit code %d, want %d: %s", c.agent, got, c.want, errs)
		}
	}
}

func TestStandardStreamsAreTheAgents(t *testing.T) {
	cmd, out, errs := relayCmd(t, freeAddress(t), "none", "echo")
	cmd.Stdin = strings.NewReader("line\n")
	if err := cmd.Run(); err != nil || out.String() != "line\n" {
		t.Errorf("%v: %q, %s", err, out, errs)
	}
}

func TestRefusals(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{}, ExitRefused, "needs --listen"},
		{[]string{"--listen", "127.0.0.1:1", "--socket", "x"}, ExitRefused, "needs --listen"},
		{[]string{"--listen", "0.0.0.0:1", "--socket", "x", "--", "true"}, ExitRefused, "loopback interface alone"},
		{[]string{"--listen", "127.0.0.1:1", "--socket", "x", "--", "no-such-program"}, ExitNotFound, "not found"},
		{[]string{"--listen", busy.Addr().String(), "--socket", "x", "--", "true"}, ExitNoListen, "in use"},
	} {
		var errs bytes.Buffer
		if got := Main(c.args, &errs); got != c.want || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: %d, %s", c.args, got, errs.String())
		}
	}
}
