package compile_test

import (
	"slices"
	"strings"

	"foundry/compile"
	"foundry/harness"
)

func brokenPipelines() []broken {
	return slices.Concat(brokenHarnesses(), brokenOverrides(), brokenInputs(), brokenLayouts(), brokenFlows(), brokenChecks(), brokenPredicates(), brokenRuns())
}

// dash is a digest that no image has.
var dash = "lab.example/tool@sha256:" + strings.Repeat("0", 64)

func agentHarness(lines string) string {
	return first + agentBlocks + "harness \"other\" {\n" + lines + "\n}\n"
}

func brokenHarnesses() []broken {
	real := "adapter = \"agent\"\nversion = \"1\"\n"
	stub := "adapter = \"scripted\"\nversion = \"1\"\n"
	script := func(text string) *pipe { return with(one(), func(p *pipe) { p.put("other.json", text) }) }
	return []broken{
		{"harness: adapter unknown", one(), agentHarness(`adapter = "agnet"`)},
		{"harness: version unknown", one(), agentHarness("adapter = \"agent\"\nversion = \"3\"\nprovider = \"lab\"\nmodel = \"small\"")},
		{"harness: version missing", one(), agentHarness("adapter = \"agent\"\nprovider = \"lab\"\nmodel = \"small\"")},
		{"harness: provider missing", one(), agentHarness(real)},
		{"harness: model without provider", one(), agentHarness(real + `model = "small"`)},
		{"harness: provider unknown", one(), agentHarness(real + "provider = \"lap\"\nmodel = \"small\"")},
		{"harness: model unknown", one(), agentHarness(real + "provider = \"lab\"\nmodel = \"smal\"")},
		{"harness: model unknown, in use", one(), "phase \"a\" {\n  inputs  = []\n  harness = \"other\"\n  sandbox { network = \"provider\" }\n}\n" + agentHarness(real + "provider = \"lab\"\nmodel = \"smal\"")[len(first):]},
		{"harness: model missing", one(), agentHarness(real + `provider = "lab"`)},
		{"harness: another API", one(), agentHarness(real+"provider = \"strange\"\nmodel = \"m\"") + `
provider "strange" {
  api = "test-message"
  model "m" {
    price      = { input = "1", output = "1", cache_read = "1", cache_write = "1" }
    max_output = 10
  }
}`},
		{"harness: prices missing", one(), first + `
provider "lab" {
  api = "test-messages"
  model "m" {
    price      = { input = "1", output = "1" }
    max_output = 10
  }
}`},
		{"harness: thinking unknown", one(), agentHarness(real + "provider = \"lab\"\nmodel = \"small\"\nthinking = \"higth\"")},
		{"harness: tool unknown", one(), agentHarness(real + "provider = \"lab\"\nmodel = \"small\"\ntools = [\"read\", \"bush\"]")},
		{"harness: tool twice", one(), agentHarness(real + "provider = \"lab\"\nmodel = \"small\"\ntools = [\"read\", \"read\"]")},
		{"harness: agent called a stub", one(), agentHarness(real + "provider = \"lab\"\nmodel = \"small\"\ntest_stub = true")},
		{"harness: agent with a script", one(), agentHarness(real + "provider = \"lab\"\nmodel = \"small\"\nscript = \"script.json\"\nrecorded = \"rec\"")},
		{"harness: stub without the word", one(), agentHarness(stub + `script = "script.json"`)},
		{"harness: stub without a script", one(), agentHarness(stub + `test_stub = true`)},
		{"harness: script missing", one(), agentHarness(stub + "test_stub = true\nscript = \"nowhere.json\"")},
		{"harness: script in a missing folder", one(), agentHarness(stub + "test_stub = true\nscript = \"no/where.json\"")},
		{"harness: script is a folder", one(), agentHarness(stub + "test_stub = true\nscript = \"skills\"")},
		{"harness: script refused", script(`{"version":1,"nodez":{}}`), agentHarness(stub + "test_stub = true\nscript = \"other.json\"")},
		{"harness: script for an unknown phase", script(`{"version":1,"nodes":{"aa":[]}}`), agentHarness(stub + "test_stub = true\nscript = \"other.json\"")},
		{"harness: no steps for a phase", with(two(), func(p *pipe) { p.put("script.json", `{"version":1,"nodes":{"a":[]}}`) }), first},
		{"harness: recorded not named", with(one(), func(p *pipe) {
			p.put("script.json", `{"version":1,"default":{"steps":[{"copy":{"from":"{recorded}/x.json","to":"{out}/x.json"}}]}}`)
		}), first},
		{"harness: unknown in a phase", one(), "phase \"a\" {\n  inputs  = []\n  harness = \"stup\"\n}\n"},
		{"harness: unknown provider of a used harness", one(), "phase \"a\" {\n  inputs  = []\n  harness = \"other\"\n}\n" + agentHarness(real + "provider = \"lap\"\nmodel = \"small\"")[len(first):]},
		{"harness: none", with(one(), func(p *pipe) { p.common = strings.Replace(p.common, "harness = \"stub\"", "", 1) }), first},
		{"harness: network none", one(), "phase \"a\" {\n  inputs  = []\n  harness = \"real\"\n}\n" + agentBlocks},
		{"harness: step cannot be lowered", one(), "phase \"a\" {\n  inputs  = []\n  harness = \"real\"\n  task    = \"do not lower\"\n  sandbox { network = \"provider\" }\n}\n" + agentBlocks},
		{"harness: lowers to a shell", one(), "phase \"a\" {\n  inputs  = []\n  harness = \"real\"\n  task    = \"shell\"\n  sandbox { network = \"provider\" }\n}\n" + agentBlocks},
		{"harness: lowers to a runner", one(), "phase \"a\" {\n  inputs  = []\n  harness = \"real\"\n  task    = \"fetch\"\n  sandbox { network = \"provider\" }\n}\n" + agentBlocks},
	}
}

func brokenOverrides() []broken {
	worker := "phase \"a\" {\n  inputs  = []\n  harness = \"real\"\n}\nsandbox { network = \"provider\" }\n" + agentBlocks
	o := func(v compile.Override) *pipe { return one().over(v) }
	return []broken{
		{"override: sandbox", o(compile.Override{Sandbox: "contaner"}), first},
		{"override: network", o(compile.Override{Network: "nine"}), first},
		{"override: image by tag", o(compile.Override{Sandbox: "container", Image: "lab.example/worker:latest"}), first},
		{"override: image builtin for an agent", o(compile.Override{Sandbox: "container", Image: "builtin"}), worker},
		{"override: no image for an agent", o(compile.Override{Sandbox: "container"}), worker},
		{"override: harness unknown", o(compile.Override{Harness: map[string]string{"stub": "reel", "stob": "real"}}), first + agentBlocks},
		{"override: provider unknown", o(compile.Override{Provider: "lap"}), worker},
		{"override: model unknown", o(compile.Override{Model: "larg"}), worker},
		{"override: thinking unknown", o(compile.Override{Thinking: "hi"}), worker},
		{"override: credential unknown", o(compile.Override{Credentials: []string{"NO_KEY"}}), worker},
		{"override: without effect", o(compile.Override{Provider: "lab", Model: "large", Thinking: "high"}), first},
		{"override: scenario unknown", with(one(), func(p *pipe) { p.options = append(p.options, func(o *compile.Options) { o.Scenario = "larg" }) }), first + `scenario "large" {}`},
		{"override: no adapters", with(one(), func(p *pipe) {
			p.options = append(p.options, func(o *compile.Options) { o.Adapters = map[string]harness.Adapter{} })
		}), first},
	}
}

func brokenInputs() []broken {
	in := func(lines string) string { return first + "input \"q\" {\n" + lines + "\n}\n" }
	reads := func() *pipe {
		return with(one().phase("b", []string{"y"}, []string{"q"}), func(p *pipe) {
			p.put("q.json", "{}")
			p.put("folder/one.txt", "1")
		})
	}
	zero := "sha256:" + strings.Repeat("0", 64)
	return []broken{
		{"input: file missing", reads(), in(`path = "p.json"`)},
		{"input: folder missing", reads(), in(`path = "no/q.json"`)},
		{"input: pin of a file", reads(), in("path = \"q.json\"\ndigest = \"" + zero + "\"")},
		{"input: pin of a folder", reads(), in("path = \"folder\"\ndigest = \"" + zero + "\"")},
		{"input: pin without a path", reads(), in("digest = \"" + zero + "\"")},
		{"input: file called a folder", reads(), in("path = \"q.json\"\nkind = \"directory\"")},
		{"input: folder called a file", reads(), in("path = \"folder\"\nkind = \"json\"")},
		{"input: not read", with(two(), func(p *pipe) { p.put("q.json", "{}") }), in(`path = "q.json"`)},
		{"input: scenario's file missing", with(reads(), func(p *pipe) {
			p.options = append(p.options, func(o *compile.Options) { o.Scenario = "big" })
		}), in(`path = "q.json"`) + "scenario \"big\" {\n  input \"q\" { path = \"big.json\" }\n}\n"},
	}
}

func brokenLayouts() []broken {
	loop := func(name, lines string) string {
		return "loop \"" + name + "\" {\n  max_iterations = 3\n  until          = iteration >= 2\n" + lines + "}\n"
	}
	l, m := loop("l", ""), loop("m", "")
	return []broken{
		{"layout: no assembly", with(one(), func(p *pipe) { p.common = strings.Replace(p.common, "assembly = ", "# ", 1) }), first},
		{"layout: no skills", with(one(), func(p *pipe) { p.common = strings.Replace(p.common, "skills   = ", "# ", 1) }), first},
		{"layout: assembly missing", with(one(), func(p *pipe) { p.common = strings.Replace(p.common, "pipeline-test/", "pipeline-tost/", 1) }), first},
		{"layout: assembly refused", with(one(), func(p *pipe) { p.phases = append(p.phases, `{"phase":2,"kind":"mould"}`) }), first},
		{"layout: skills folder missing", with(one(), func(p *pipe) { p.common = strings.Replace(p.common, `"skills"`, `"skill"`, 1) }), first},
		{"layout: skill missing", with(one(), func(p *pipe) {
			p.phases = append(p.phases, `{"phase":2,"kind":"mold","skill":"aa","cast_present":true,"loop":false}`)
		}), first},
		{"layout: loop not configured", rounds(), first + l},
		{"layout: loop over an unknown phase", rounds(), first + m + loop("ll", "")},
		{"layout: loop over an unknown one of several", rounds(), first + loop("both", "  phases = [\"l\", \"n\"]\n")},
		{"layout: loop over a phase that is none", rounds(), first + l + m + loop("z", "")},
		{"layout: loop over a branch", with(fork(), func(p *pipe) {}), first + loop("pick", "") + `branch "pick" { accept = output.both.exists }`},
		{"layout: loop over an alternative", fork(), first + loop("pick/b1", "") + `branch "pick" { accept = output.both.exists }`},
		{"layout: loop in the wrong order", rounds(), first + loop("both", "  phases = [\"m\", \"l\"]\n")},
		{"layout: loop with a gap", with(rounds(), func(p *pipe) { p.loop("n", []string{"more"}, []string{"end"}) }), first + m + loop("far", "  phases = [\"l\", \"n\"]\n")},
		{"layout: phase in two loops", rounds(), first + l + loop("both", "  phases = [\"l\", \"m\"]\n")},
		{"layout: loop named as another phase", rounds(), first + l + loop("z", "  phases = [\"m\"]\n")},
		{"layout: loop named as a branch", with(fork(), func(p *pipe) { p.loop("l", []string{"d"}, []string{"z"}) }), first + loop("pick", "  phases = [\"l\"]\n") + `branch "pick" { accept = output.both.exists }`},
		{"layout: unknown phase in a loop", rounds(), first + l + loop("m", "  phase \"n\" {}\n")},
		{"layout: phase in a loop twice", rounds(), first + "phase \"l\" { task = \"x\" }\n" + loop("l", "  task = \"y\"\n") + m},
		{"layout: phase words in a loop of several", rounds(), first + loop("both", "  phases = [\"l\", \"m\"]\n  task = \"y\"\n")},
		{"layout: unknown phase", two(), first + `phase "bb" {}`},
		{"layout: alternative at the top", fork(), first + `phase "b1" {}` + "\n" + `branch "pick" { accept = output.both.exists }`},
		{"layout: alternative by its id", fork(), first + `phase "pick/b1" {}` + "\n" + `branch "pick" { accept = output.both.exists }`},
		{"layout: unknown branch", fork(), first + `branch "pik" { accept = output.both.exists }`},
		{"layout: unknown alternative", fork(), first + "branch \"pick\" {\n  accept = output.both.exists\n  phase \"b3\" {}\n}\n"},
		{"layout: branch without accept", fork(), first + "branch \"pick\" {\n  otherwise = \"fail\"\n}\n"},
		{"layout: branch called a phase", fork(), first + `phase "pick" {}` + "\n" + `branch "pick" { accept = output.both.exists }`},
	}
}

func brokenFlows() []broken {
	out := func(lines string) string {
		return "phase \"a\" {\n  inputs = []\n  output \"x\" {\n    " + lines + "\n  }\n}\n"
	}
	loop := func(name, lines string) string {
		return "loop \"" + name + "\" {\n  max_iterations = 3\n  until          = iteration >= 2\n" + lines + "}\n"
	}
	accept := "branch \"pick\" {\n  accept = output.both.exists\n"
	forms := with(one(), func(p *pipe) {
		p.skill("b1", []string{"both=both.json"}, []string{"x"})
		p.skill("b2", []string{"both=both.md"}, []string{"x"})
		p.branch("pick", "b1", "b2").phase("c", []string{"z"}, []string{"both"})
	})
	sibling := with(one(), func(p *pipe) {
		p.skill("b1", []string{"both", "draft"}, []string{"x"})
		p.skill("b2", []string{"both"}, []string{"draft"})
		p.branch("pick", "b1", "b2").phase("c", []string{"z"}, []string{"both"})
	})
	bring := func(p *pipe) *pipe {
		return with(p, func(p *pipe) {
			p.put("both.json", "{}")
			p.put("both.md", "x")
			p.put("other.json", "{}")
		})
	}
	return []broken{
		{"flow: no producer, its skill named", with(one(), func(p *pipe) {
			p.skill("b", []string{"y"}, []string{"q"})
			f := p.files["policy/skills/b/_provenance.json"]
			f.Data = []byte(strings.Replace(string(f.Data), `"producers": []`, `"producers": ["[[make-q]]", "the user"]`, 1))
			p.phase("b", nil, nil)
		}), first},
		{"flow: no producer, a near name", one().phase("b", []string{"y"}, []string{"xx"}), first},
		{"flow: no producer in a branch", with(one(), func(p *pipe) {
			p.skill("b1", []string{"both"}, []string{"q"})
			p.skill("b2", []string{"both"}, []string{"x"})
			p.branch("pick", "b1", "b2")
		}), first + accept + "}\n"},
		{"flow: a sibling alternative's output", sibling, first + accept + "}\n"},
		{"flow: written before, and by one alternative", with(newPipe().phase("a", []string{"x", "draft"}, nil), func(p *pipe) {
			p.skill("b1", []string{"both", "draft"}, []string{"x"})
			p.skill("b2", []string{"both"}, []string{"x"})
			p.branch("pick", "b1", "b2").phase("c", []string{"z"}, []string{"draft"})
		}), first + accept + "}\n"},
		{"flow: no producer in a loop of one", one().loop("l", []string{"d"}, []string{"q"}), first + loop("l", "")},
		{"flow: no producer in a loop of two", one().loop("l", []string{"d"}, []string{"q"}).loop("m", []string{"e"}, []string{"d"}), first + loop("both", "  phases = [\"l\", \"m\"]\n")},
		{"flow: inputs not declared in a branch", with(one(), func(p *pipe) {
			p.skill("b1", []string{"both"}, nil)
			p.skill("b2", []string{"both"}, []string{"x"})
			p.branch("pick", "b1", "b2")
		}), first + accept + "}\n"},
		{"flow: input named twice", two(), first + `phase "b" { inputs = ["x"] }`},
		{"flow: not applicable to nothing", two(), first + `phase "b" { not_applicable = ["xx"] }`},
		{"flow: optional of nothing", two(), first + `phase "b" { optional = ["xx"] }`},
		{"flow: optional of nothing in defaults", with(two(), func(p *pipe) {
			p.common = strings.Replace(p.common, "defaults {", "defaults {\n  optional = [\"xx\"]", 1)
		}), first},
		{"flow: not applicable, and an input gives it", with(one().phase("b", []string{"y"}, []string{"q"}), func(p *pipe) { p.put("q.json", "{}") }),
			first + "input \"q\" { path = \"q.json\" }\n" + `phase "b" { not_applicable = ["q"] }`},
		{"flow: not applicable, and the branch gives it", fork(), first + accept + "}\n" + `phase "c" { not_applicable = ["both"] }`},
		{"flow: not applicable, and the loop carries it", rounds(), first + loop("l", "  not_applicable = [\"d\"]\n") + loop("m", "")},
		{"flow: optional output read in a branch", with(one(), func(p *pipe) {
			p.skill("b1", []string{"both"}, []string{"x"})
			p.skill("b2", []string{"both"}, []string{"x"})
			p.branch("pick", "b1", "b2")
		}), out(`required = "optional"`) + accept + "}\n"},
		{"flow: one alternative may leave it out", fork(), first + accept + "  phase \"b2\" {\n    output \"both\" { required = \"optional\" }\n  }\n}\n"},
		{"flow: at_end output read within the body", one().loop("l", []string{"d"}, []string{"x"}).loop("m", []string{"e"}, []string{"d"}),
			first + loop("both", "  phases = [\"l\", \"m\"]\n  phase \"l\" {\n    output \"d\" { required = \"at_end\" }\n  }\n")},
		{"flow: carried output that may be missing", newPipe().phase("a", []string{"d"}, nil).loop("l", []string{"d", "e"}, []string{"d"}),
			first + loop("l", "  output \"d\" { required = \"at_end\" }\n")},
		{"flow: carried in two forms", one().phase("s", []string{"d=d.md"}, []string{"x"}).loop("l", []string{"d"}, []string{"d"}), first + loop("l", "")},
		{"flow: at_end outside a loop", one(), out(`required = "at_end"`)},
		{"flow: required is no word", one(), out(`required = "allways"`)},
		{"flow: unknown output", one(), "phase \"a\" {\n  inputs = []\n  output \"xx\" { required = \"optional\" }\n}\n"},
		{"flow: output's schema missing", one(), out(`schema = "x"`)},
		{"flow: output outside", one(), out(`filename = "../x.json"`)},
		{"flow: outputs collide", with(newPipe().phase("a", []string{"x", "y"}, nil), func(p *pipe) {}), out(`filename = "Y.json"`)},
		{"flow: unknown artifact block", two(), first + `artifact "z" { required = "optional" }`},
		{"flow: artifact block with another word", two(), first + `artifact "x" { required = "always" }`},
		{"flow: alternatives differ in form", forms, first + accept + "}\n"},
		{"flow: otherwise is no input", bring(fork()), first + accept + "  otherwise = input.both\n}\n"},
		{"flow: otherwise is another word", bring(fork()), first + accept + "  otherwise = \"succeed\"\n}\n"},
		{"flow: otherwise is an output", bring(fork()), first + accept + "  otherwise = output.both\n}\n"},
		{"flow: otherwise has another name", bring(fork()), first + "input \"other\" { path = \"other.json\" }\n" + accept + "  otherwise = input.other\n}\n"},
		{"flow: otherwise has another kind", bring(fork()), first + "input \"both\" { path = \"both.md\" }\n" + accept + "  otherwise = input.both\n}\n"},
		{"flow: otherwise needs a word", bring(fork("b1", "b2", "user-supplied")), first + accept + "}\n"},
	}
}

func brokenChecks() []broken {
	check := func(lines string) string {
		return "phase \"a\" {\n  inputs = []\n  check \"good\" {\n    " + lines + "\n  }\n}\n"
	}
	image := "tool \"lint\" { image = \"" + dash + "\" }\n"
	verified := func(direction string) *pipe {
		return with(two(), func(p *pipe) {
			artifact := map[string]string{"input": "x", "output": "y"}[direction]
			p.put("skills/b/_verify.json", verifyFile(direction, artifact, "shape"))
			p.put("skills/b/references/schemas/shape.schema.json", `{"type":"object"}`)
		})
	}
	loop := "loop \"l\" {\n  max_iterations = 3\n  until          = iteration >= 2\n"
	return []broken{
		{"check: tool unknown", one(), check("tool = \"lnt\"\n    argv = [\"lnt\"]") + image},
		{"check: no tool is known", one(), check("tool = \"lint\"\n    argv = [\"lint\"]")},
		{"check: by schema", one(), check("tool = \"lint\"\n    argv = [\"lint\"]") + `tool "lint" { by = "schema" }`},
		{"check: reads what is not there", one(), check(`argv = ["lint", "{in:y}", "{in:x}"]`)},
		{"check: no image, in a container wherever its step is", one(), "\nsandbox {}\n" + check(`argv = ["lint", "{in:x}"]`)},
		{"check: a step's and its loop's", rounds(), first + loop + "  check \"good\" { argv = [\"lint\"] }\n  phase \"l\" {\n    check \"good\" { argv = [\"lint\"] }\n  }\n}\n" + strings.Replace(loop, `"l"`, `"m"`, 1) + "}\n"},
		{"check: an alternative's and its branch's", fork(), first + "branch \"pick\" {\n  accept = check.good.exit_code == 0\n  check \"good\" { argv = [\"lint\"] }\n  phase \"b1\" {\n    check \"good\" { argv = [\"lint\"] }\n  }\n}\n"},
		{"check: ambiguous in a loop", rounds(), first + "loop \"both\" {\n  phases         = [\"l\", \"m\"]\n  max_iterations = 3\n  until          = check.good.exit_code == 0\n  phase \"l\" {\n    check \"good\" { argv = [\"lint\"] }\n  }\n  phase \"m\" {\n    check \"good\" { argv = [\"lint\"] }\n  }\n}\n"},
		{"check: assert is no question", one(), check("argv = [\"lint\"]\n    assert = check.good.exit_code")},
		{"check: assert over a path variable", one(), check("argv = [\"lint\"]\n    assert = check.good.stdout == var.where") + "\nvariable \"where\" {\n  type    = path\n  default = \"skills\"\n}\n"},
		{"check: shell behind a wrapper", one(), check(`argv = ["timeout", "5", "sh", "-c", "true"]`)},
		{"check: a file name that starts a shell", one(), check(`argv = ["/bin/bash"]`)},
		{"validator: no tool", verified("output"), first},
		{"validator: no tool for an input", verified("input"), first},
		{"validator: by schema, schema missing", with(verified("input"), func(p *pipe) { delete(p.files, "policy/skills/b/references/schemas/shape.schema.json") }), first + `tool "lint" { by = "schema" }`},
		{"validator: by schema, schema broken", with(verified("output"), func(p *pipe) {
			p.put("skills/b/references/schemas/shape.schema.json", `{"type":"objekt"}`)
		}), first + `tool "lint" { by = "schema" }`},
		{"schema: unused and broken", with(one(), func(p *pipe) {
			p.put("skills/a/references/schemas/old.schema.json", `{"type":"objekt"}`)
		}), first},
		{"schema: of one name, one of them broken and unused", with(two(), func(p *pipe) {
			p.put("skills/a/references/schemas/same.schema.json", `{"type":"object"}`)
			p.put("skills/b/references/schemas/same.schema.json", `{"type":"objekt"}`)
		}), "phase \"a\" {\n  inputs = []\n  output \"x\" { schema = \"same\" }\n}\n"},
		{"schema: bound and broken", with(one(), func(p *pipe) {
			p.put("skills/a/references/schemas/same.schema.json", `{"type":"objekt"}`)
		}), "phase \"a\" {\n  inputs = []\n  output \"x\" { schema = \"same\" }\n}\n"},
		{"drift: a warning", drifted(), first},
		{"drift: an error under strict", drifted(), "strict = true\n" + first},
		{"probe: of no tool", one(), first + `probe "lint" { argv = ["lint"] }`},
		{"nested skill: missing", one(), "phase \"a\" {\n  inputs        = []\n  nested_skills = [\"helper\"]\n}\n"},
		{"nested skill: itself", one(), "phase \"a\" {\n  inputs        = []\n  nested_skills = [\"a\"]\n}\n"},
	}
}

// drifted is a pipeline whose skill a has a file that is not the cast one.
func drifted() *pipe {
	return with(one(), func(p *pipe) {
		p.put("skills/a/references/notes.md", "changed")
		f := p.files["policy/skills/a/_provenance.json"]
		f.Data = []byte(strings.Replace(string(f.Data), `"refs": []`, `"refs": [{"dst": "references/notes.md", "dst_hash": "`+strings.Repeat("0", 64)+`"}]`, 1))
	})
}

func verifyFile(direction, artifact, schema string) string {
	return `{"verify_schema_version":1,"entries":[{"artifact_id":"` + artifact + `","direction":"` + direction + `","kind":"json","default_filename":"` + artifact +
		`.json","schema":"[[` + schema + `]]","validator_bin":"lint","args":["--strict","{artifact_path}"]}]}`
}

func brokenRuns() []broken {
	less := func(word string) *pipe {
		return with(one(), func(p *pipe) {
			var kept []string
			for _, line := range strings.Split(common, "\n") {
				if !strings.HasPrefix(strings.TrimSpace(line), word) {
					kept = append(kept, line)
				}
			}
			p.common = strings.Join(kept, "\n")
		})
	}
	budget := func(line string) string {
		return "phase \"a\" {\n  inputs = []\n  budget {\n    " + line + "\n  }\n}\n"
	}
	noRun := with(one(), func(p *pipe) {
		p.common = strings.Replace(common, "budget {\n  wall     = \"1h\"\n  cost_usd = \"10.00\"\n  tokens   = 1000000\n}\n", "", 1)
	})
	return []broken{
		{"budget: no wall", less("wall"), first},
		{"budget: no cost", less("cost_usd"), first},
		{"budget: no tokens", less("tokens"), first},
		{"budget: no turns", less("turns"), first},
		{"budget: no tool calls", less("tool_calls"), first},
		{"budget: no output", less("output"), first},
		{"budget: no files", less("files"), first},
		{"budget: none of the run", noRun, first},
		{"budget: no defaults", with(one(), func(p *pipe) { p.common = common[:strings.Index(common, "defaults {")] }), "phase \"a\" {\n  inputs  = []\n  harness = \"stub\"\n}\n"},
		{"budget: wall of nothing", one(), budget(`wall = "0s"`)},
		{"budget: no output at all", one(), budget(`files = 0`)},
		{"budget: too many turns", one(), budget(`turns = 9007199254740993`)},
		{"budget: too many tokens", one(), budget(`tokens = 9223372036854775807`)},
		{"order: no word", one(), "order = \"alphabet\"\n" + first},
		{"guards: broken", one(), "guards = [\"conformance\"]\n" + first},
		{"guards: unknown set", one(), "guards = [\"basline\"]\n" + first},
		{"guards: nothing of the plan", one(), first + "guard \"g\" {\n  assert  = true\n  message = \"m\"\n}\n"},
		{"not built: evaluation", one(), first + "evaluation {\n  properties = [\"evals/*\"]\n}\n"},
		{"task: unknown input", two(), first + `phase "b" { task = "Read {in:xx} and {in:x}." }`},
		{"task: nothing carried yet", one().phase("b", []string{"log"}, []string{"log"}), first + `phase "b" { task = "Read {in:log}." }`},
		{"task: an unknown skill", two(), first + `phase "b" { task = "Use {skill:helper}." }`},
		{"task: no token", two(), first + `phase "b" { task = "Use {in:} or {Out}." }`},
		{"task: a token that agents alone have", two(), first + `phase "b" { task = "Call {broker.url}." }`},
		{"check: a token without a value", one(), "phase \"a\" {\n  inputs = []\n  check \"good\" { argv = [\"good\", \"{broker.token}\"] }\n}\n"},
		{"check: a path of this machine", one(), "phase \"a\" {\n  inputs = []\n  check \"good\" { argv = [\"good\", \"/home/me/x\"] }\n}\n"},
		{"budget: check's wall out of range", one(), "phase \"a\" {\n  inputs = []\n  check \"good\" {\n    argv = [\"good\"]\n    budget { turns = 2000000 }\n  }\n}\n"},
		{"task: a value of the shell", two(), first + "phase \"b\" { task = \"Go to ${HOME} and run.\" }\n"},
		{"task: a directive", two(), first + "phase \"b\" { task = \"Go %{if} and run.\" }\n"},
		{"sandbox: egress without hosts", one(), first + "sandbox { network = \"egress\" }\n"},
		{"sandbox: hosts without egress", one(), first + "sandbox { egress_hosts = [\"lab.example\"] }\n"},
		{"sandbox: too much memory", one(), first + "sandbox { memory = \"64TiB\" }\n"},
		{"submit attempts: too many", one(), "phase \"a\" {\n  inputs          = []\n  submit_attempts = 100\n}\n"},
	}
}

func brokenPredicates() []broken {
	var out []broken
	for _, until := range []string{
		`output.doc`,
		`check.next`,
		`check.next.exitcode == 0`,
		`check.next.exit_code.x == 0`,
		`check.next.stdout.x == ""`,
		`output.doc.json.a[0.5] == 1`,
		`output.doc.json.*.a == 1`,
		`output.doc.json[*].a == 1`,
		`(output.doc).json.a == 1`,
		`-output.doc.json.n == 1`,
		`iteration && output.doc.exists`,
		`!iteration`,
		`"a-${iteration}" == "a-1"`,
		`length(output.doc.json.a, 1) == 1`,
		`exists(iteration >= 1)`,
		`exists(1)`,
		`contains(["a", 1], output.notes.lines)`,
		`contains(iteration, 1)`,
		`contains(check.next.stdout, 1)`,
		`matches(check.next.stdout, output.doc.json.p)`,
		`matches(iteration, "x")`,
		`matches(check.nxt.stdout, "x")`,
		`alltrue(output.doc.json.a)`,
		`alltrue([for r in output.doc.json.a : alltrue([for q in r.b : q.c])])`,
		`alltrue([for r in iteration : r.b])`,
		`alltrue([for r in output.doc.json.a : 1])`,
		`alltrue([for k, r in output.doc.json.a : r.b])`,
		`worker.state == "settled"`,
		`worker.status == true`,
		`local.missing == output.doc.json.a`,
		`output.doc.json.a == local.list`,
		`[1, 2] == output.doc.json.a`,
		`output-doc.exists`,
		`output.doc.json.a == 1e400`,
		`output.doc.json.a == 1 / 2`,
		`output.doc.json.a == "x" ? true : false`,
		`upper(output.doc.json.a) == "X"`,
		`var.where == output.doc.json.a`,
		`input.in.exists`,
		`null`,
	} {
		p, policy := loopWith(until)
		policy = strings.Replace(policy, "word  = \"done\"", "word  = \"done\"\n  list  = [1]", 1) + "\nvariable \"where\" {\n  type    = path\n  default = \"skills\"\n}\n"
		out = append(out, broken{"predicate: " + until, p, policy})
	}
	several := rounds()
	return append(out,
		broken{"predicate: one worker of several", several, first + "loop \"both\" {\n  phases         = [\"l\", \"m\"]\n  max_iterations = 3\n  until          = worker.status == \"settled\"\n}\n"},
		broken{"predicate: iteration of a branch", fork(), first + "branch \"pick\" { accept = iteration > 1 }\n"},
		broken{"predicate: an alternative's own check", fork(), first + "branch \"pick\" {\n  accept = check.good.exit_code == 0\n  phase \"b1\" {\n    check \"good\" { argv = [\"good\"] }\n  }\n}\n"},
	)
}
