package containerd

import (
	"strings"
	"testing"
)

// Versions that are known to be bad are named (field case C14).
func TestRuncFault(t *testing.T) {
	for version, want := range map[string]string{
		"1.0.3": "CVE-2024-21626 CVE-2025-31133", "1.1.5+ds1": "CVE-2024-21626 CVE-2025-31133", "1.1.11": "CVE-2024-21626 CVE-2025-31133",
		"1.1.12": "CVE-2025-31133", "1.1.15": "CVE-2025-31133", "1.2.0-rc.3": "CVE-2025-31133", "1.2.7": "CVE-2025-31133",
		"1.2.8": "", "1.2.10": "", "1.3.0": "CVE-2025-31133", "1.3.2": "CVE-2025-31133", "1.3.3": "", "1.3.4+dfsg1": "",
		"1.4.0-rc.1": "CVE-2025-31133", "1.4.0-rc.2+dev": "CVE-2025-31133", "1.4.0-rc.3": "", "1.4.0": "", "2.0.0": "",
	} {
		got, err := runcFault(version)
		if err != nil {
			t.Errorf("%s: %v", version, err)
		}
		for _, cve := range []string{"CVE-2024-21626", "CVE-2025-31133"} {
			if strings.Contains(got, cve) != strings.Contains(want, cve) {
				t.Errorf("%s: %q, not %q", version, got, want)
			}
		}
	}
	for _, version := range []string{"", "unknown", "1.2", "1.2.x", "1.2.3.4"} {
		if got, err := runcFault(version); err == nil {
			t.Errorf("%q is read as %q", version, got)
		}
	}
}
