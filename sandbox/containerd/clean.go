package containerd

// Left is what processes that ended left behind on a machine, by name. What is
// of a living process, or of one that cannot be judged, is not in it. Each list
// is sorted.
type Left struct {
	Containers []string `json:"containers"` // with their tasks and cgroups; known while a daemon runs
	Shims      []string `json:"shims"`      // shared by containers; known while a daemon runs
	Leases     []string `json:"leases"`     // known while a daemon runs
	Mounts     []string `json:"mounts"`
	Folders    []string `json:"folders"` // with named pipes and sockets, and the state of daemons that were killed
}

// Empty reports whether nothing was left.
func (l Left) Empty() bool {
	return len(l.Containers)+len(l.Shims)+len(l.Leases)+len(l.Mounts)+len(l.Folders) == 0
}
