include  = ["defaults.hcl", "tools.hcl"]
assembly = "${var.corpus}/skills/pipeline-cwl-to-galaxy/_assembly.json"

input "cwl-source" {
  path = "inputs/word-count" # a folder beside this file
}

input "test-data-refs" { # what the branch falls back to
  path = "inputs/word-count.test-data-refs.json"
}

phase "summarize-cwl" {
  inputs = ["cwl-source"] # the skill declares none
  task   = "Summarize the workflow in {in:cwl-source}."
}

phase "compare-against-iwc-exemplar" {
  not_applicable = ["nextflow-galaxy-interface", "nextflow-galaxy-data-flow",
  "freeform-galaxy-interface", "freeform-galaxy-data-flow"]
}

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
    tool   = "gxwf"
    argv   = ["gxwf", "validate", "{in:galaxy-workflow}"]
    assert = check.validates.exit_code == 0
  }
}

phase "run-workflow-test" {
  inputs = ["galaxy-workflow", "galaxy-workflow-test", "test-data-refs"]
}
