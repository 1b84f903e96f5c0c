//go:build unix

package local

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"foundry/plan"
	"foundry/sandbox"
)

// Facts implements sandbox.Sandbox.
func (b *box) Facts() sandbox.Facts {
	return sandbox.Facts{
		Mode:       plan.SandboxLocal,
		Program:    sandbox.Program{Digest: b.digest},
		Agent:      b.agent,
		User:       fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()),
		Network:    "host",
		Mounts:     slices.Clone(b.mounts),
		Properties: properties(),
		Spec:       b.spec(),
	}
}

// properties is what this runtime gives and what it does not, sorted by name.
func properties() []sandbox.Property {
	none := func(name, detail string) sandbox.Property {
		return sandbox.Property{Name: name, State: sandbox.NotEnforced, Detail: detail}
	}
	p := []sandbox.Property{
		none(sandbox.PropFilesystem, "the process sees every file that this user sees"),
		none(sandbox.PropReadOnly, "skill and inputs are copies of this attempt's own without write permission; their owner can change that, the originals are out of its way"),
		none(sandbox.PropNetwork, "the process has the host's network"),
		none(sandbox.PropUser, "the process runs as the user of this program"),
		none(sandbox.PropSyscalls, "no filter"),
		none(sandbox.PropMemory, "no limit"),
		none(sandbox.PropPIDs, "no limit"),
		none(sandbox.PropCPU, "no limit"),
		none(sandbox.PropOutputBytes, "counted when the process has ended, before anything is promoted"),
		none(sandbox.PropOutputFiles, "counted when the process has ended, before anything is promoted"),
		{Name: sandbox.PropWall, State: sandbox.Enforced, Detail: "at the deadline everything that process_group covers is killed"},
		processGroup,
	}
	slices.SortFunc(p, func(a, b sandbox.Property) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// spec is the process as it runs, for the record, without the values that only
// the process itself may know.
func (b *box) spec() json.RawMessage {
	lookup := func(token string) (string, bool) {
		if strings.HasSuffix(token, ".token") {
			return "{" + token + "}", true
		}
		return b.lookup(token)
	}
	expand := func(list []string) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i], _ = plan.Expand(s, lookup) // stage expanded the same
		}
		return out
	}
	argv := expand(b.task.Process.Argv)
	if b.agent != nil {
		_, own := start(*b.agent)
		argv = append(own, argv[1:]...)
	}
	data, err := json.MarshalIndent(struct {
		Mode    string   `json:"mode"`
		Program string   `json:"program"`
		Argv    []string `json:"argv"`
		Env     []string `json:"env"`
		Cwd     string   `json:"cwd"`
	}{plan.SandboxLocal, b.path, argv, append([]string{b.marker}, expand(b.task.Process.Env)...), b.cwd}, "", "  ")
	if err != nil {
		return nil // strings always encode
	}
	return data
}
