# The first five phases of cwl-to-galaxy, played from the artifacts that an
# agent once wrote:
#
#   foundry apply --yes -var corpus=PATH/TO/galaxy-foundry --sandbox container \
#     --through cwl-summary-to-galaxy-template examples/galaxy/cwl-to-galaxy.replay.hcl
#
# Phases 1 to 4 succeed. Phase 5 fails, and that is the truth: the recorded
# draft does not satisfy the schema that its skill publishes.
include  = ["defaults.hcl"]
assembly = "${var.corpus}/skills/pipeline-cwl-to-galaxy/_assembly.json"

harness "replay" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "scripts/salmon.json"
  recorded  = "${var.corpus}/recorded/salmon-rnaseq-cwl-galaxy-5step"
}

# The recorded journey needs none of the tools, so their probes are waived.
tool "foundry" { by = "schema" }
tool "gxwf" { unavailable = "the journey is played" }
tool "planemo" { unavailable = "the journey is played" }
tool "cwltool" { unavailable = "the journey is played" }
tool "cwl-utils" { unavailable = "the journey is played" }

# Neither was recorded.
artifact "open-requirements-ledger" { required = "optional" }
artifact "iwc-exemplar-gxformat2" { required = "optional" }

input "cwl-source" {
  path = "inputs/word-count"
}

input "test-data-refs" {
  path = "inputs/word-count.test-data-refs.json"
}

phase "summarize-cwl" {
  harness = "replay"
  inputs  = ["cwl-source"]
}
phase "cwl-summary-to-galaxy-interface" { harness = "replay" }
phase "cwl-summary-to-galaxy-data-flow" { harness = "replay" }
phase "compare-against-iwc-exemplar" {
  harness = "replay"
  not_applicable = ["nextflow-galaxy-interface", "nextflow-galaxy-data-flow",
  "freeform-galaxy-interface", "freeform-galaxy-data-flow"]
}
phase "cwl-summary-to-galaxy-template" { harness = "replay" }

loop "advance-galaxy-draft-step" {
  max_iterations = 40
  until          = check.next-step.json.draft == false

  check "next-step" {
    tool = "gxwf"
    argv = ["gxwf", "draft-next-step", "--json", "{in:galaxy-workflow-draft}"]
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
  check "validates" {
    tool = "gxwf"
    argv = ["gxwf", "validate", "{in:galaxy-workflow}"]
  }
}

phase "run-workflow-test" {
  inputs = ["galaxy-workflow", "galaxy-workflow-test", "test-data-refs"]
}
