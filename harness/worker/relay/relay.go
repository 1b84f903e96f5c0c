//go:build unix

package relay

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Exit codes of the relay itself; else it exits as the agent does, with 128 +
// signal where a signal ended it.
const (
	ExitRefused  = 2   // wrong flags
	ExitNoListen = 70  // the address cannot be listened on
	ExitNoStart  = 126 // the agent could not be started
	ExitNotFound = 127 // there is no such program
)

// maxConnections bounds what is open at once. An agent has a few.
const maxConnections = 64

// lingering is how long the connections may still carry what is under way when
// the agent has ended.
const lingering = 200 * time.Millisecond

// Main runs the agent behind the relay and returns the exit code. The agent
// gets the standard streams as they are. The relay ends with the agent, and
// with it everything in its PID namespace.
func Main(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("worker relay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "", "the loopback `address` that the agent connects to")
	socket := flags.String("socket", "", "the `file` of the broker's socket")
	if err := flags.Parse(args); err != nil {
		return ExitRefused
	}
	refuse := func(code int, err error) int {
		fmt.Fprintf(stderr, "worker relay: %v\n", err)
		return code
	}
	if *listen == "" || *socket == "" || flags.NArg() == 0 {
		return refuse(ExitRefused, errors.New("it needs --listen, --socket and, after --, the agent's argv"))
	}
	host, _, err := net.SplitHostPort(*listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return refuse(ExitRefused, fmt.Errorf("it listens on the loopback interface alone, not on %q", *listen))
	}
	program, err := exec.LookPath(flags.Arg(0))
	if err != nil {
		return refuse(ExitNotFound, err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return refuse(ExitNoListen, err)
	}
	defer l.Close()
	var open sync.WaitGroup
	go serve(l, *socket, &open)

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	agent, err := os.StartProcess(program, flags.Args(), &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return refuse(ExitNoStart, err)
	}
	go func() {
		for s := range signals {
			_ = agent.Signal(s) // an error says that it has ended
		}
	}()
	// What the agent holds open must not be held open by the relay.
	os.Stdin.Close()
	os.Stdout.Close()
	code := reap(agent.Pid)
	l.Close()
	closed := make(chan struct{})
	go func() { open.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(lingering):
	}
	return code
}

// reap waits for the agent and for every orphan that falls to the first process
// of a PID namespace.
func reap(agent int) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return ExitNoStart // no child is left: the agent's end was taken by somebody else
		case pid != agent:
		case status.Signaled():
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}

func serve(l net.Listener, socket string, open *sync.WaitGroup) {
	slots := make(chan struct{}, maxConnections)
	for {
		slots <- struct{}{}
		c, err := l.Accept()
		if err != nil {
			return
		}
		open.Go(func() {
			defer func() { <-slots }()
			join(c.(*net.TCPConn), socket)
		})
	}
}

// join copies both ways and hands on each end of input, so that a request's end
// is seen at the broker and a cut answer at the agent.
func join(agent *net.TCPConn, socket string) {
	defer agent.Close()
	up, err := net.Dial("unix", socket)
	if err != nil {
		_ = agent.SetLinger(0) // a reset, and not the end of an answer
		return
	}
	defer up.Close()
	broker := up.(*net.UnixConn)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(broker, agent)
		_ = broker.CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(agent, broker)
		_ = agent.CloseWrite()
	})
	both.Wait()
}
