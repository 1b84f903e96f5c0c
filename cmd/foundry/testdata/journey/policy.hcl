# cwl-to-galaxy, all twelve phases, played from recorded and corrected artifacts.
variable "corpus" { type = path }
variable "recorded" { type = path }
variable "tools" { type = string }

skills   = "${var.corpus}/skills"
assembly = "${var.corpus}/skills/pipeline-cwl-to-galaxy/_assembly.json"

harness "replay" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
  recorded  = var.recorded
}

sandbox {
  mode = "container"
}

budget {
  wall     = "1h"
  cost_usd = "10.00"
  tokens   = 100000
}

defaults {
  harness = "replay"
  budget {
    wall       = "1m"
    turns      = 5
    tool_calls = 5
    tokens     = 1000
    cost_usd   = "0.10"
    output     = "4MiB"
    files      = 16
  }
}

tool "foundry" { by = "schema" }
tool "cwltool" { unavailable = "not in this test" }
tool "cwl-utils" { unavailable = "not in this test" }
tool "gxwf" { unavailable = "not in this test" }
tool "planemo" { unavailable = "not in this test" }

artifact "open-requirements-ledger" { required = "optional" }
artifact "iwc-exemplar-gxformat2" { required = "optional" }

input "cwl-source" { path = "source" }
input "test-data-refs" { path = "fallback.json" }

phase "summarize-cwl" { inputs = ["cwl-source"] }

phase "compare-against-iwc-exemplar" {
  not_applicable = ["nextflow-galaxy-interface", "nextflow-galaxy-data-flow", "freeform-galaxy-interface", "freeform-galaxy-data-flow"]
}

loop "advance-galaxy-draft-step" {
  max_iterations = 5
  until          = check.remaining.exit_code == 1

  check "remaining" { # grep finds no step that is left to do
    image  = var.tools
    argv   = ["/bin/busybox", "grep", "-c", "STEP-LEFT", "{in:galaxy-workflow-draft}"]
    assert = check.remaining.exit_code <= 1
  }
}

branch "test-data-resolution" {
  accept    = length(output.test-data-refs.json.refs) > 0
  otherwise = input.test-data-refs
  phase "find-test-data" {
    not_applicable = ["freeform-summary", "summary-nextflow", "freeform-galaxy-interface", "nextflow-galaxy-interface"]
  }
}

phase "validate-galaxy-workflow" {
  inputs = ["galaxy-workflow"]
  check "is-workflow" {
    image = var.tools
    argv  = ["/bin/busybox", "grep", "-q", "^class: GalaxyWorkflow$", "{in:galaxy-workflow}"]
  }
}

phase "run-workflow-test" {
  inputs = ["galaxy-workflow", "galaxy-workflow-test", "test-data-refs"]
}
