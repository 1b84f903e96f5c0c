package scripted

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"foundry/harness"
	"foundry/harness/contract"
)

// MaxScriptBytes bounds a script file: 16 MiB.
const MaxScriptBytes = 16 << 20

// Book is a script file: what the stub does in each node of a pipeline.
type Book struct {
	Version    int                          `json:"version"`
	Nodes      map[string][]contract.Step   `json:"nodes,omitempty"`      // node id → steps
	Iterations map[string][][]contract.Step `json:"iterations,omitempty"` // node id → steps of each iteration; the last list holds for later ones
	Default    *Default                     `json:"default,omitempty"`    // for nodes that stand in neither
}

// Default is what the stub does in a node that the script does not name.
type Default struct {
	Steps []contract.Step `json:"steps"`
}

// Decode reads a script file strictly: unknown, duplicate and wrong-case keys
// are refused.
func Decode(data []byte) (*Book, error) {
	if len(data) > MaxScriptBytes {
		return nil, fmt.Errorf("scripted: the script has %d bytes, more than %d", len(data), MaxScriptBytes)
	}
	b := new(Book)
	if err := contract.DecodeStrict(data, b); err != nil {
		return nil, fmt.Errorf("scripted: script refused: %w", err)
	}
	if b.Version != contract.ScriptVersion {
		return nil, fmt.Errorf("scripted: script refused: version is %d, this program reads %d", b.Version, contract.ScriptVersion)
	}
	for _, node := range b.names() {
		if _, twice := b.Iterations[node]; twice && b.Nodes[node] != nil {
			return nil, fmt.Errorf("scripted: script refused: %s stands in both nodes and iterations", node)
		}
		if lists, ok := b.Iterations[node]; ok && len(lists) == 0 {
			return nil, fmt.Errorf("scripted: script refused: iterations/%s has no list", node)
		}
		if err := b.part(node).Check(); err != nil {
			return nil, fmt.Errorf("scripted: script refused: node %s: %w", node, err)
		}
	}
	if b.Default != nil {
		if err := (contract.Script{Version: contract.ScriptVersion, Steps: b.Default.Steps}).Check(); err != nil {
			return nil, fmt.Errorf("scripted: script refused: default: %w", err)
		}
	}
	return b, nil
}

// memo keeps the script that was read last: a pipeline of thousands of nodes
// lowers each of them with the same file.
var memo struct {
	sync.Mutex
	script []byte
	book   *Book
}

// read is Decode, with the memo. The comparison is by content, and at no cost
// for the same slice.
func read(script []byte) (*Book, error) {
	memo.Lock()
	defer memo.Unlock()
	if memo.book != nil && bytes.Equal(memo.script, script) {
		return memo.book, nil
	}
	b, err := Decode(script)
	if err == nil {
		memo.script, memo.book = script, b
	}
	return b, err
}

// Nodes lists the node ids that a script file names, sorted.
func (Adapter) Nodes(script []byte) ([]string, error) {
	b, err := Decode(script)
	if err != nil {
		return nil, err
	}
	return b.names(), nil
}

func (b *Book) names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(b.Nodes)), maps.Keys(b.Iterations))
	slices.Sort(names)
	return slices.Compact(names)
}

func (b *Book) part(node string) contract.Script {
	return contract.Script{Version: contract.ScriptVersion, Steps: b.Nodes[node], Iterations: b.Iterations[node]}
}

// partOf returns the script of one node.
func (b *Book) partOf(node string) (contract.Script, error) {
	_, listed := b.Nodes[node]
	if _, looped := b.Iterations[node]; listed || looped {
		return b.part(node), nil
	}
	if b.Default != nil {
		return contract.Script{Version: contract.ScriptVersion, Steps: b.Default.Steps}, nil
	}
	return contract.Script{}, fmt.Errorf("scripted: the script has no steps for the node %s and no default%s",
		node, harness.DidYouMean(node, b.names()))
}

// recorded lists what the steps copy from the recorded folder, as clean paths
// below it, sorted. The paths are files or folders.
func recorded(s contract.Script) ([]string, error) {
	paths := []string{}
	for _, steps := range append(slices.Clone(s.Iterations), s.Steps) {
		for i, step := range steps {
			if step.Copy == nil {
				continue
			}
			rest, ok := strings.CutPrefix(step.Copy.From, "{recorded}")
			if !ok {
				continue
			}
			p := path.Clean(strings.TrimPrefix(rest, "/"))
			if !strings.HasPrefix(rest, "/") || p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
				return nil, fmt.Errorf("step %d copies from %q, which is no path below {recorded}: name a file or folder in it", i, step.Copy.From)
			}
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
