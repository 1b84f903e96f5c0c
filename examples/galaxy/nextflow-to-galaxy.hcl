include  = ["defaults.hcl", "tools.hcl"]
assembly = "${var.corpus}/skills/pipeline-nextflow-to-galaxy/_assembly.json"

input "nextflow-source" {
  path = "inputs/demo-nf"
}

input "test-data-refs" { # what the branch falls back to
  path = "inputs/line-count.test-data-refs.json"
}

phase "summarize-nextflow" {
  inputs = ["nextflow-source"] # the skill declares none
  task   = "Summarize the pipeline in {in:nextflow-source}."
}

phase "compare-against-iwc-exemplar" {
  not_applicable = ["cwl-galaxy-interface", "cwl-galaxy-data-flow",
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
    not_applicable = ["freeform-summary", "summary-cwl", "freeform-galaxy-interface", "cwl-galaxy-interface"]
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
