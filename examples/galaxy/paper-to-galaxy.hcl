include  = ["defaults.hcl", "tools.hcl"]
assembly = "${var.corpus}/skills/pipeline-paper-to-galaxy/_assembly.json"

input "paper" {
  path = "inputs/methods.md"
}

input "test-data-refs" { # what the branch falls back to
  path = "inputs/line-count.test-data-refs.json"
}

phase "summarize-paper" {
  inputs = ["paper"] # the skill declares none
  task   = "Summarize the methods in {in:paper}."
}

phase "compare-against-iwc-exemplar" {
  not_applicable = ["cwl-galaxy-interface", "cwl-galaxy-data-flow",
  "nextflow-galaxy-interface", "nextflow-galaxy-data-flow"]
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
    not_applicable = ["summary-nextflow", "summary-cwl", "nextflow-galaxy-interface", "cwl-galaxy-interface"]
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
