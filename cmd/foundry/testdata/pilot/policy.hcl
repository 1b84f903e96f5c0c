# The first phases of nextflow-to-galaxy with the real Pi. Its provider plays a
# script: no account, no network.
variable "corpus" { type = path }
variable "script" { type = path }
variable "pi" { type = string }

skills   = "${var.corpus}/skills"
assembly = "${var.corpus}/skills/pipeline-nextflow-to-galaxy/_assembly.json"

provider "scripted" {
  api        = "anthropic-messages"
  credential = "PILOT_KEY"
  script     = var.script

  model "claude-sonnet-5" {
    price      = { input = "3.00", output = "15.00", cache_read = "0.30", cache_write = "3.75" }
    max_output = 64000
  }
}

harness "worker" {
  adapter  = "pi"
  version  = var.pi
  provider = "scripted"
  model    = "claude-sonnet-5"
  thinking = "low"
  tools    = ["read", "bash", "edit", "write"]
}

sandbox {
  mode        = "local"
  network     = "provider"
  credentials = ["PILOT_KEY"]
  memory      = "2GiB"
  cpu         = 2
  pids        = 256
  tmp         = "256MiB"
}

budget {
  wall     = "30m"
  cost_usd = "10.00"
  tokens   = 2000000
}

defaults {
  harness = "worker"
  budget {
    wall       = "3m"
    turns      = 20
    tool_calls = 20
    tokens     = 200000
    cost_usd   = "1.00"
    output     = "4MiB"
    files      = 16
  }
}

tool "foundry" { by = "schema" }
tool "gxwf" { unavailable = "not in this test" }
tool "planemo" { unavailable = "not in this test" }

artifact "open-requirements-ledger" { required = "optional" }
artifact "iwc-exemplar-gxformat2" { required = "optional" }

input "nextflow-source" { path = "source" }
input "test-data-refs" { path = "fallback.json" }

phase "summarize-nextflow" {
  inputs = ["nextflow-source"]
  task   = "Summarize the pipeline in {in:nextflow-source}."
}

phase "compare-against-iwc-exemplar" {
  not_applicable = ["cwl-galaxy-interface", "cwl-galaxy-data-flow",
  "freeform-galaxy-interface", "freeform-galaxy-data-flow"]
}

loop "advance-galaxy-draft-step" {
  max_iterations = 2
  until          = iteration == 2
}

branch "test-data-resolution" {
  accept    = length(output.test-data-refs.json.refs) > 0
  otherwise = input.test-data-refs
  phase "find-test-data" {
    not_applicable = ["freeform-summary", "summary-cwl", "freeform-galaxy-interface", "cwl-galaxy-interface"]
  }
}

phase "validate-galaxy-workflow" {
  inputs = ["galaxy-workflow"]
  check "is-workflow" {
    argv         = ["/bin/busybox", "grep", "-q", "^class: GalaxyWorkflow$", "{in:galaxy-workflow}"]
    trusted_host = true
  }
}

phase "run-workflow-test" {
  inputs = ["galaxy-workflow", "galaxy-workflow-test", "test-data-refs"]
}
