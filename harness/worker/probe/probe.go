package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"foundry/harness/contract"
)

// probeTimeout bounds each attempt to reach something.
const probeTimeout = 2 * time.Second

// What is always tried: the metadata address of clouds, and loopback services.
var probeAddresses = []string{"169.254.169.254:80", "[::1]:22", "127.0.0.1:22"}

// Sockets of the host that no sandbox may hold.
var probeSockets = []string{"/run/containerd/containerd.sock", "/var/run/docker.sock"}

// Report is what a sandbox looks like from inside. What could not be read is
// empty; what comes from /proc is there on Linux alone.
type Report struct {
	OS          string            `json:"os"`
	UID         int               `json:"uid"`
	GID         int               `json:"gid"`
	Groups      []int             `json:"groups"`
	Status      map[string]string `json:"status"`  // Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp, from /proc/self/status
	UIDMap      []string          `json:"uid_map"` // lines of /proc/self/uid_map
	Interfaces  []string          `json:"interfaces"`
	Routes      []string          `json:"routes"`     // of /proc/net/route and ipv6_route, without the header
	Resolver    []string          `json:"resolver"`   // lines of /etc/resolv.conf
	Lookup      Attempt           `json:"lookup"`     // of a DNS name
	Connects    []Attempt         `json:"connects"`   // over TCP
	UnixSockets []string          `json:"unix"`       // abstract ones in /proc/net/unix
	Exists      map[string]bool   `json:"exists"`     // asked paths and host sockets
	Writable    map[string]bool   `json:"writable"`   // asked paths
	Programs    map[string]string `json:"programs"`   // asked name → where PATH finds it, "" if nowhere
	Root        []string          `json:"root"`       // entries of /
	Cwd         string            `json:"cwd"`        // working folder
	Environ     []string          `json:"environ"`    // names, never values
	Mounts      []MountPoint      `json:"mounts"`     // of /proc/self/mountinfo
	Processes   []string          `json:"processes"`  // "PID name" of /proc
	OpenFiles   []string          `json:"open_files"` // targets of /proc/self/fd
	Cgroup      []string          `json:"cgroup"`     // lines of /proc/self/cgroup
	Executable  string            `json:"executable"` // path of this program
	Hostname    string            `json:"hostname"`
}

// Attempt is one try to reach something. Error is "" when it was reached.
type Attempt struct {
	Target string `json:"target"`
	Error  string `json:"error,omitempty"`
}

// MountPoint is one line of mountinfo.
type MountPoint struct {
	Path    string `json:"path"`
	Type    string `json:"type"`
	Options string `json:"options"` // of the mount: ro, nosuid, …
}

// Document looks around and returns the Report as JSON.
func Document(p contract.Probe) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(look(p))
	return b.Bytes(), err
}

// look changes nothing: a file that it makes to see whether a folder is
// writable is removed again.
func look(p contract.Probe) Report {
	groups, _ := os.Getgroups()
	cwd, _ := os.Getwd()
	self, _ := os.Executable()
	host, _ := os.Hostname()
	r := Report{
		OS: runtime.GOOS, UID: os.Getuid(), GID: os.Getgid(), Groups: nonNil(groups),
		Status: procStatus(), UIDMap: lines("/proc/self/uid_map"),
		Interfaces: interfaces(), Routes: routes(), Resolver: lines("/etc/resolv.conf"),
		UnixSockets: abstractSockets(), Root: names("/"), Cwd: cwd, Environ: environNames(),
		Mounts: mounts(), Processes: processes(), OpenFiles: openFiles(),
		Cgroup: lines("/proc/self/cgroup"), Executable: self, Hostname: host,
		Exists: map[string]bool{}, Writable: map[string]bool{}, Programs: map[string]string{},
	}
	for _, path := range append(slices.Clone(probeSockets), p.Exists...) {
		_, err := os.Lstat(path)
		r.Exists[path] = err == nil
	}
	for _, path := range p.Writable {
		r.Writable[path] = writable(path)
	}
	for _, name := range append([]string{"foundry"}, p.Programs...) {
		r.Programs[name] = lookPath(name)
	}
	name := p.Lookup
	if name == "" {
		name = "example.com"
	}
	r.Lookup = lookup(name)
	for _, address := range append(slices.Clone(probeAddresses), p.Connect...) {
		r.Connects = append(r.Connects, connect(address))
	}
	return r
}

func lookup(name string) Attempt {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	_, err := net.DefaultResolver.LookupHost(ctx, name)
	return attempt(name, err)
}

func connect(address string) Attempt {
	conn, err := net.DialTimeout("tcp", address, probeTimeout)
	if err == nil {
		conn.Close()
	}
	return attempt(address, err)
}

func attempt(target string, err error) Attempt {
	a := Attempt{Target: target}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// writable opens a file for writing without touching its content, and makes
// and removes a file in a folder.
func writable(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		return err == nil && f.Close() == nil
	}
	f, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(f.Name()) == nil
}

func lookPath(name string) string {
	// An error next to a path means the current folder: the program is found.
	path, _ := exec.LookPath(name)
	return path
}

func interfaces() []string {
	found := []string{}
	all, _ := net.Interfaces()
	for _, i := range all {
		found = append(found, i.Name)
	}
	slices.Sort(found)
	return found
}

func environNames() []string {
	found := []string{}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		found = append(found, name)
	}
	slices.Sort(found)
	return found
}

func names(dir string) []string {
	found := []string{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func openFiles() []string {
	found := []string{}
	for _, fd := range names("/proc/self/fd") {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", fd)); err == nil {
			found = append(found, fd+" "+target)
		}
	}
	return found
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
