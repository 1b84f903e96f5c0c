// Command floor is the least that any compiler of HCL policies does with a
// file: parse it with hcl/v2, decode it with gohcl, build the dependency graph,
// evaluate, and write JSON. It is the peer of the compile benchmark: the same
// file, the same run, a whole process.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
)

type file struct {
	Phases []phase  `hcl:"phase,block"`
	Rest   hcl.Body `hcl:",remain"`
}

type phase struct {
	Name   string         `hcl:"name,label"`
	Inputs hcl.Expression `hcl:"inputs"`
	Task   hcl.Expression `hcl:"task"`
	Budget *budget        `hcl:"budget,block"`
}

type budget struct {
	Wall  string `hcl:"wall"`
	Turns int    `hcl:"turns"`
}

type node struct {
	ID     string   `json:"id"`
	Needs  []string `json:"needs"`
	Inputs []string `json:"inputs"`
	Task   string   `json:"task"`
	Wall   string   `json:"wall"`
	Turns  int      `json:"turns"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string) error {
	parsed, diags := hclparse.NewParser().ParseHCLFile(name)
	if diags.HasErrors() {
		return diags
	}
	var f file
	if diags := gohcl.DecodeBody(parsed.Body, nil, &f); diags.HasErrors() {
		return diags
	}
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{"who": cty.StringVal("team")})}}
	last := map[string]string{} // artifact → the phase that wrote it last
	nodes := make([]node, 0, len(f.Phases))
	for i, p := range f.Phases {
		n := node{ID: p.Name, Wall: p.Budget.Wall, Turns: p.Budget.Turns}
		inputs, diags := p.Inputs.Value(ctx)
		if diags.HasErrors() {
			return diags
		}
		for it := inputs.ElementIterator(); it.Next(); {
			_, v := it.Element()
			n.Inputs = append(n.Inputs, v.AsString())
			if from := last[v.AsString()]; from != "" {
				n.Needs = append(n.Needs, from)
			}
		}
		task, diags := p.Task.Value(ctx)
		if diags.HasErrors() {
			return diags
		}
		n.Task = task.AsString()
		last[fmt.Sprintf("x%d", i%20)] = p.Name
		nodes = append(nodes, n)
	}
	return json.NewEncoder(os.Stdout).Encode(nodes)
}
