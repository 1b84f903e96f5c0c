package containerd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// probeArg is the first argument of this test binary when it runs as a worker
// in a container.
const probeArg = "@probe"

// probeResult is what a worker finds out about its sandbox.
type probeResult struct {
	Status     map[string]string // /proc/self/status
	Pids       []string
	Interfaces []string
	Routes     int
	Connect    map[string]string // address → error, "" when it connected
	Resolve    string
	Write      map[string]string // path → error, "" when it could write
	Root       []string
	Foundry    string // where PATH finds it
	Env        []string
	Cwd        string
	Hostname   string
	Files      []string // all below /skills, /in, /out, /scratch, /recorded, /.foundry
	Suspicious []string // .git and the like, anywhere
	Mounts     string
	Core       uint64
	Unshare    string
}

func probeMain(args []string) {
	switch args[0] {
	case "inspect":
		inspect(args[1:])
	case "exit":
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "echo": // lines of stdin, until it ends
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			fmt.Println("got " + in.Text())
		}
		fmt.Fprintln(os.Stderr, "end of input")
	case "write": // path, megabytes: until it fails
		n, _ := strconv.Atoi(args[2])
		err := fill(args[1], n)
		fmt.Println(errno(err))
	case "files": // folder, count
		n, _ := strconv.Atoi(args[2])
		var err error
		for i := 0; i < n && err == nil; i++ {
			err = os.WriteFile(filepath.Join(args[1], strconv.Itoa(i)), nil, 0o600)
		}
		fmt.Println(errno(err))
	case "eat": // memory
		var kept [][]byte
		for {
			b := make([]byte, 8<<20)
			for i := range b {
				b[i] = byte(i)
			}
			kept = append(kept, b)
		}
	case "child": // runs a probe as a child, and says how that ended
		fmt.Println(exec.Command(os.Args[0], append([]string{probeArg}, args[1:]...)...).Run())
	case "threads": // count of children
		n, _ := strconv.Atoi(args[1])
		for range n {
			cmd := exec.Command(os.Args[0], probeArg, "sleep")
			if err := cmd.Start(); err != nil {
				fmt.Println(errno(err))
				os.Exit(0)
			}
		}
	case "flood": // stdout, megabytes; a word on stderr
		n, _ := strconv.Atoi(args[1])
		line := []byte(strings.Repeat("0123456789abcde\n", 64))
		w := bufio.NewWriterSize(os.Stdout, 1<<16)
		for range n << 10 {
			w.Write(line)
		}
		w.Flush()
		fmt.Fprint(os.Stderr, "done")
	case "daemonize": // leaves a child that writes to /out for ever, in its own session
		cmd := exec.Command(os.Args[0], probeArg, "tick", "/out/tick")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "tick":
		for i := 0; ; i++ {
			_ = os.WriteFile(args[1], []byte(strconv.Itoa(i)), 0o600)
			time.Sleep(time.Millisecond)
		}
	case "stubborn": // deaf, and its writer has left it: session, group and parent
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		if len(args) > 1 && args[1] == "middle" {
			start(probeArg, "tick", "/out/tick")
			os.Exit(0)
		}
		if err := start(probeArg, "stubborn", "middle").Wait(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {}
	case "bomb": // forks until it cannot
		for {
			if exec.Command(os.Args[0], probeArg, "bomb").Start() != nil {
				fmt.Println("refused")
				time.Sleep(time.Millisecond)
			}
		}
	case "spin": // CPU, milliseconds
		n, _ := strconv.Atoi(args[1])
		for range 4 {
			go func() {
				for {
				}
			}()
		}
		time.Sleep(time.Duration(n) * time.Millisecond)
	case "cat":
		for _, f := range args[1:] {
			b, err := os.ReadFile(f)
			fmt.Println(string(b) + errno(err))
		}
	case "pour": // megabytes to stdout, megabytes to /out
		out, _ := strconv.Atoi(args[1])
		kept, _ := strconv.Atoi(args[2])
		if err := fill("/out/big", kept); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		line := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
		for range out {
			os.Stdout.Write(line)
		}
	case "short": // writes, for some milliseconds
		n, _ := strconv.Atoi(args[1])
		for range n {
			_ = os.WriteFile("/out/tick", []byte("x"), 0o600)
			time.Sleep(time.Millisecond)
		}
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "produce":
		fmt.Println(errno(os.WriteFile("/out/result.json", []byte("{}\n"), 0o644)))
	default:
		fmt.Println("no such probe")
		os.Exit(2)
	}
	os.Exit(0)
}

// start starts this program in a session of its own.
func start(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return cmd
}

func errno(err error) string {
	if err == nil {
		return ""
	}
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.EAGAIN} {
		if strings.HasSuffix(err.Error(), e.Error()) {
			return e.Error()
		}
	}
	return err.Error()
}

func fill(name string, megabytes int) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	for range megabytes {
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// inspect tells everything as JSON; args are addresses to connect to.
func inspect(args []string) {
	r := probeResult{Status: map[string]string{}, Connect: map[string]string{}, Write: map[string]string{}}
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		r.Status[k] = strings.Join(strings.Fields(v), " ")
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	r.Pids = procs
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		r.Interfaces = append(r.Interfaces, i.Name+" "+i.Flags.String())
	}
	routes, _ := os.ReadFile("/proc/net/route")
	r.Routes = strings.Count(string(routes), "\n") - 1
	for _, a := range args {
		network, address, _ := strings.Cut(a, "=")
		c, err := net.DialTimeout(network, address, 2*time.Second)
		r.Connect[a] = ""
		if err != nil {
			r.Connect[a] = err.Error()
		} else {
			c.Close()
		}
	}
	if _, err := net.LookupHost("example.com"); err != nil {
		r.Resolve = err.Error()
	}
	for _, folder := range []string{"/", "/skills/demo", "/skills", "/in/data", "/recorded", "/.foundry", "/etc", "/out", "/scratch", "/tmp", "/dev", "/sys", "/proc/sys/kernel"} {
		name := filepath.Join(folder, "written")
		err := os.WriteFile(name, nil, 0o600)
		if err == nil {
			os.Remove(name)
		}
		r.Write[folder] = errno(err)
	}
	for _, name := range []string{"/.foundry/foundry", "/skills/demo/SKILL.md"} {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		r.Write[name] = errno(err)
		r.Write["chmod "+name] = errno(os.Chmod(name, 0o777))
	}
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		r.Root = append(r.Root, e.Name())
	}
	r.Foundry, _ = exec.LookPath("foundry")
	r.Env = os.Environ()
	r.Cwd, _ = os.Getwd()
	r.Hostname, _ = os.Hostname()
	_ = filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error {
		if p == "/proc" || p == "/sys" {
			return fs.SkipDir
		}
		if err != nil {
			return nil
		}
		switch d.Name() {
		case ".git", "go.mod", "eval.md", "scenarios.md", "resolv.conf":
			r.Suspicious = append(r.Suspicious, p)
		}
		if d.Type()&fs.ModeSocket != 0 {
			r.Suspicious = append(r.Suspicious, p)
		}
		for _, top := range []string{"/skills", "/in", "/out", "/scratch", "/recorded", "/.foundry"} {
			if d.Type().IsRegular() && strings.HasPrefix(p, top+"/") {
				r.Files = append(r.Files, p)
			}
		}
		return nil
	})
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	r.Mounts = string(mounts)
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_CORE, &limit)
	r.Core = limit.Max
	r.Unshare = errno(syscall.Unshare(syscall.CLONE_NEWUSER))
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
