// Package synthetic makes pipelines of any size for measurements.
package synthetic

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const bundles = 20

// Pipeline writes a policy.hcl and all it names below dir: n phases, of which
// phase i runs skill i mod 20, which writes x(i mod 20), and reads what the two
// phases before it wrote. Each phase has one block in the policy. The worker is
// a test stub whose every step writes one small file.
func Pipeline(dir string, n int) error {
	put := func(name, text string) error {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		return os.WriteFile(p, []byte(text), 0o644)
	}
	for i := range bundles {
		name := fmt.Sprintf("s%d", i)
		prov, err := json.Marshal(map[string]any{
			"provenance_schema_version": 4, "cast_target": "bench", "cast_at": "2026-01-01T00:00:00.000Z", "refs": []any{},
			"mold":      map[string]any{"name": name, "path": name, "revision": 1, "content_hash": strings.Repeat("0", 64), "commit": strings.Repeat("0", 40)},
			"artifacts": map[string]any{"produces": []any{map[string]any{"id": fmt.Sprintf("x%d", i), "kind": "json", "default_filename": fmt.Sprintf("x%d.json", i)}}, "consumes": []any{}},
		})
		if err != nil {
			return err
		}
		if err := put("skills/"+name+"/_provenance.json", string(prov)); err != nil {
			return err
		}
		if err := put("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: One of twenty.\n---\n\n"+strings.Repeat("Do the work.\n", 200)); err != nil {
			return err
		}
	}
	var phases, blocks strings.Builder
	for i := range n {
		sep := ","
		if i == n-1 {
			sep = ""
		}
		fmt.Fprintf(&phases, "{\"phase\":%d,\"kind\":\"mold\",\"skill\":\"s%d\",\"cast_present\":true,\"loop\":false}%s\n", i+1, i%bundles, sep)
		id := nodeID(i)
		var inputs []string
		for back := 2; back >= 1; back-- {
			if i >= back {
				inputs = append(inputs, fmt.Sprintf("%q", fmt.Sprintf("x%d", (i-back)%bundles)))
			}
		}
		fmt.Fprintf(&blocks, "phase %q {\n  inputs = [%s]\n  task   = \"Step %d for ${var.who}.\"\n  budget {\n    wall  = \"%dm\"\n    turns = %d\n  }\n}\n\n",
			id, strings.Join(inputs, ", "), i+1, 1+i%9, 10+i%50)
	}
	if err := put("skills/pipeline/_assembly.json", fmt.Sprintf(
		"{\"source_pipeline\":\"synthetic\",\"source_revision\":1,\"harness_name\":\"pipeline\",\"options\":[],\"required_tools\":[],\"phases\":[\n%s]}\n", phases.String())); err != nil {
		return err
	}
	if err := put("script.json", script(n)); err != nil {
		return err
	}
	return put("policy.hcl", `assembly = "skills/pipeline/_assembly.json"
skills   = "skills"

variable "who" {
  type    = string
  default = "team"
}

harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
}

budget {
  wall     = "2h"
  cost_usd = "10000.00"
  tokens   = 1000000000
}

defaults {
  harness = "stub"
  budget {
    wall       = "1m"
    turns      = 10
    tool_calls = 10
    tokens     = 1000
    cost_usd   = "0.10"
    output     = "1MiB"
    files      = 10
  }
}

`+blocks.String())
}

func nodeID(i int) string {
	if k := i / bundles; k > 0 {
		return fmt.Sprintf("s%d#%d", i%bundles, k+1)
	}
	return fmt.Sprintf("s%d", i%bundles)
}

func script(n int) string {
	var b strings.Builder
	b.WriteString(`{"version":1,"nodes":{`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:[{\"write\":{\"path\":\"x%d.json\",\"content\":\"{}\"}}]\n", nodeID(i), i%bundles)
	}
	b.WriteString("}}")
	return b.String()
}
