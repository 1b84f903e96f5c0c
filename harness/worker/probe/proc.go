package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// lines reads a small text file; empty where there is none.
func lines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return []string{}
	}
	text := strings.TrimRight(string(data), "\n")
	if text == "" {
		return []string{}
	}
	return strings.Split(text, "\n")
}

// statusKeys are what the report takes from /proc/self/status.
var statusKeys = []string{
	"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
}

func procStatus() map[string]string {
	found := map[string]string{}
	for _, line := range lines("/proc/self/status") {
		key, value, _ := strings.Cut(line, ":")
		if slices.Contains(statusKeys, key) {
			found[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	return found
}

func routes() []string {
	found := []string{}
	if v4 := lines("/proc/net/route"); len(v4) > 1 {
		found = append(found, v4[1:]...)
	}
	return append(found, lines("/proc/net/ipv6_route")...)
}

// abstractSockets lists the names that start with "@": they belong to a
// network namespace and to no file, so a read-only root does not hide them.
func abstractSockets() []string {
	found := []string{}
	for _, line := range lines("/proc/net/unix") {
		if fields := strings.Fields(line); len(fields) > 7 && strings.HasPrefix(fields[7], "@") {
			found = append(found, fields[7])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// mounts reads mountinfo: "id parent maj:min root point options … - type source super".
func mounts() []MountPoint {
	found := []MountPoint{}
	for _, line := range lines("/proc/self/mountinfo") {
		left, right, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if ok && len(fields) > 5 && len(kind) > 0 {
			found = append(found, MountPoint{Path: fields[4], Type: kind[0], Options: fields[5]})
		}
	}
	return found
}

func processes() []string {
	found := []string{}
	for _, name := range names("/proc") {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		if comm := lines(filepath.Join("/proc", name, "comm")); len(comm) > 0 {
			found = append(found, name+" "+comm[0])
		}
	}
	return found
}
