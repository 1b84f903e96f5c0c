include  = ["defaults.hcl", "tools.hcl"]
assembly = "${var.corpus}/skills/pipeline-update-interview-to-galaxy/_assembly.json"

input "galaxy-workflow-source" {
  path = "inputs/starting-workflow.gxwf.yml"
}

input "interview" {
  path = "inputs/update-answers.md"
}

input "test-data-refs" { # a gap of the pipeline: no phase of it produces this
  path = "inputs/line-count.test-data-refs.json"
}

phase "summarize-galaxy-workflow" {
  inputs = ["galaxy-workflow-source"] # the skill declares none
  task   = "Summarize the workflow {in:galaxy-workflow-source}."
}

phase "interview-to-galaxy-workflow-changeset" {
  inputs = ["interview"]
  task   = "The answers of the interview are in {in:interview}."
}

loop "advance-galaxy-draft-step" {
  max_iterations = 40
  until          = check.next-step.json.draft == false

  check "next-step" {
    tool = "gxwf"
    argv = ["gxwf", "draft-next-step", "--json", "{in:galaxy-workflow-draft}"]
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
