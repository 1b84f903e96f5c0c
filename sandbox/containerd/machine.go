package containerd

import (
	"fmt"
	"strconv"
	"strings"

	"foundry/sandbox"
)

// States of a Fact.
const (
	FactOK      = "ok"
	FactWarning = "warning" // containers run, but less safely, or not all of them
	FactMissing = "missing" // no container runs without it
)

// Fact is one thing that containers need or profit from, as this machine has
// it.
type Fact struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Detail  string `json:"detail"`
	Fix     string `json:"fix,omitempty"`     // what to do about it
	Package string `json:"package,omitempty"` // of Debian and Ubuntu, to install
}

// Machine is what Inspect finds: nothing of it is promised, each attempt reads
// back what holds.
type Machine struct {
	Facts []Fact // in an order of their own, always the same ones
	// Properties are what a container would have here, sorted by name; empty
	// where there can be none.
	Properties []sandbox.Property
}

// Missing lists what keeps containers from running here; none where they run.
func (m Machine) Missing() []Fact {
	var list []Fact
	for _, f := range m.Facts {
		if f.State == FactMissing {
			list = append(list, f)
		}
	}
	return list
}

// runcFault says which known faults of a runc let a hostile container or image
// write outside, by its version; "" if it is known to be good, and an error for
// a version that cannot be read. A distribution may have mended an old one.
//
// The fixed versions are those of the advisories GHSA-xr7r-f8xq-vfvv
// (CVE-2024-21626) and GHSA-9493-h29p-rfm2, GHSA-qw9x-cqr3-wc7r and
// GHSA-cgrx-mc8f-2prm (of November 2025).
func runcFault(version string) (string, error) {
	core, suffix, _ := strings.Cut(version, "-")
	core, _, _ = strings.Cut(core, "+")
	var n [3]int
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("the version %q cannot be read", version)
	}
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil {
			return "", fmt.Errorf("the version %q cannot be read", version)
		}
		n[i] = v
	}
	before := func(major, minor, patch int) bool {
		for i, w := range [3]int{major, minor, patch} {
			if n[i] != w {
				return n[i] < w
			}
		}
		return false
	}
	var faults []string
	if before(1, 1, 12) {
		faults = append(faults, "CVE-2024-21626 (fixed in 1.1.12)")
	}
	early := n == [3]int{1, 4, 0} && (strings.HasPrefix(suffix, "rc.1") || strings.HasPrefix(suffix, "rc.2"))
	if before(1, 2, 8) || !before(1, 3, 0) && before(1, 3, 3) || early {
		faults = append(faults, "CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881 (fixed in 1.2.8, 1.3.3 and 1.4.0-rc.3)")
	}
	return strings.Join(faults, "; "), nil
}
