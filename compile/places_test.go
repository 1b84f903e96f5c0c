package compile_test

import (
	"strings"
	"testing"

	"foundry/compile"
)

// TestPlaces: what a plan says is found where the sources say it: the word, else
// the block, else the file.
func TestPlaces(t *testing.T) {
	p := newPipe().phase("a", []string{"x"}, []string{"in"})
	p.skill("b1", []string{"both"}, []string{"x"})
	p.skill("b2", []string{"both"}, []string{"x"})
	p.branch("pick", "b1", "b2").loop("l", []string{"d"}, []string{"both"}).phase("silent", []string{"end"}, []string{"d"})
	p.put("in.json", "{}")
	res := p.compile(t, `
input "in" {
  path = "in.json"
}
provider "vendor" {
  api        = "openai-responses"
  base_url   = "https://models.example"
  credential = "VENDOR_KEY"
  model "m1" {
    price      = { input = "1", output = "2", cache_read = "0", cache_write = "0" }
    max_output = 1000
  }
}
sandbox {
  memory = "1GiB"
}
phase "a" {
  task = "Do it."
  require_activation = false
  budget {
    turns = 11
  }
  sandbox {
    pids    = 77
    scratch = "5MiB"
  }
  output "x" {
    required = "optional"
  }
  check "right" {
    argv   = ["test", "-s", "{in:x}"]
    image  = "`+testImage+`"
    assert = check.right.exit_code == 0
  }
}
artifact "x" {
  required = "optional"
}
branch "pick" {
  accept    = output.both.bytes > 3
  otherwise = "fail"
}
loop "l" {
  until          = output.d.exists
  max_iterations = 9
}
`)
	if res.Plan == nil {
		t.Fatal(show(res.Diagnostics))
	}
	for path, want := range map[string]string{
		"nodes[a].budget.turns":                                           "11",
		"nodes[a].budget.tokens":                                          "1000",
		"nodes[silent].budget.cost_micro_usd":                             `"0.10"`,
		"nodes[a].prompt":                                                 `"Do it."`,
		"nodes[a].require_activation":                                     "false",
		"nodes[a].sandbox.resources.pids":                                 "77",
		"nodes[a].sandbox.resources.memory_bytes":                         `"1GiB"`,
		"nodes[silent].sandbox.resources.memory_bytes":                    `"1GiB"`,
		"nodes[a].sandbox.mounts[/scratch].bytes":                         `"5MiB"`,
		"nodes[a].outputs[x].required":                                    `output "x"`,
		"nodes[a].process.argv":                                           `phase "a"`,
		"nodes[a].harness":                                                `"stub"`,
		"nodes[a.right].process.argv":                                     `["test", "-s", "{in:x}"]`,
		"nodes[a.right].check.assert":                                     "check.right.exit_code == 0",
		"nodes[a.right].sandbox.mode":                                     `check "right"`,
		"loops[l].until":                                                  "output.d.exists",
		"loops[l].max_iterations":                                         "9",
		"loops[l].carries":                                                `loop "l"`,
		"branches[pick].accept":                                           "output.both.bytes > 3",
		"branches[pick].otherwise":                                        `"fail"`,
		"branches[pick].alternatives":                                     `branch "pick"`,
		"inputs[in].bundle":                                               `"in.json"`,
		"bundles[input:in].files[in.json].digest":                         `"in.json"`,
		"harnesses[stub].version":                                         `"1"`,
		"harnesses[stub]":                                                 `harness "stub"`,
		"providers[vendor].base_url":                                      `"https://models.example"`,
		"providers[vendor].models[m1].max_output_tokens":                  "1000",
		"providers[vendor].models[m1].price_usd_per_million_tokens.input": `"1"`,
		"budget.tokens":                                                   "1000000",
		"worst_case.cost_micro_usd":                                       "budget",
		"pipeline.digest":                                                 `"skills/pipeline-test/_assembly.json"`,
	} {
		at := res.Place(path)
		src := res.Source(at.File)
		if at.Start.Line == 0 || at.End.Byte > len(src) {
			t.Errorf("%s has no place: %+v", path, at)
			continue
		}
		if got := string(src[at.Start.Byte:at.End.Byte]); !strings.HasPrefix(got, want) {
			t.Errorf("%s is at %q, want %q", path, got, want)
		}
	}
	// A file of a skill is its own place; what only the assembly says is there;
	// the rest is the policy.
	for path, want := range map[string]string{
		"bundles[skill:a].files[SKILL.md].digest": "policy/skills/a/SKILL.md",
		"bundles[skill:a].files[../../../x]":      "policy/main.hcl",
		"nodes[silent].process.argv":              "policy/skills/pipeline-test/_assembly.json",
		"nodes[gone].budget.turns":                "policy/main.hcl",
		"format_version":                          "policy/main.hcl",
		"mode":                                    "policy/main.hcl",
		"":                                        "policy/main.hcl",
	} {
		if at := res.Place(path); at.File != want {
			t.Errorf("%s is in %q, want %q", path, at.File, want)
		}
	}
	if at := new(compile.Result).Place("mode"); at != (compile.Range{}) {
		t.Errorf("nothing was compiled: %+v", at)
	}
}
