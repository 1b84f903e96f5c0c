include  = ["defaults.hcl", "tools.hcl"]
assembly = "${var.corpus}/skills/pipeline-paper-to-cwl/_assembly.json"

input "paper" {
  path = "inputs/methods.md"
}

input "cwl-test-plan" { # a gap of the pipeline: no phase of it produces this
  path = "inputs/line-count.cwl-test-plan.md"
}

input "test-data-refs" { # what the branch falls back to
  path = "inputs/line-count.test-data-refs.json"
}

phase "summarize-paper" {
  inputs = ["paper"] # the skill declares none
  task   = "Summarize the methods in {in:paper}."
}

phase "summary-to-cwl-template" {
  inputs = ["freeform-summary", "freeform-cwl-design"]
}

loop "tools" { # one tool in each iteration: summarize it, implement it, validate
  phases         = ["summarize-cwl-tool", "implement-cwl-tool-step", "validate-cwl"]
  max_iterations = 30
  until          = check.valid.exit_code == 0 && !output.cwl-workflow-draft.yaml.has_todo

  phase "summarize-cwl-tool" {
    inputs = ["freeform-summary", "cwl-workflow-draft"]
  }

  check "valid" {
    tool   = "cwltool"
    argv   = ["cwltool", "--validate", "{in:cwl-workflow-draft}"]
    assert = check.valid.exit_code <= 1 # a draft may be invalid before the last tool
  }
}

branch "test-data-resolution" {
  accept    = length(output.test-data-refs.json.refs) > 0
  otherwise = input.test-data-refs
  phase "find-test-data" {
    not_applicable = ["summary-nextflow", "summary-cwl", "freeform-galaxy-interface", "nextflow-galaxy-interface", "cwl-galaxy-interface"]
  }
}

phase "validate-cwl#2" {
  check "validates" {
    tool = "cwltool"
    argv = ["cwltool", "--validate", "{in:cwl-workflow-draft}"]
  }
}

phase "run-workflow-test" {
  inputs = ["cwl-workflow-draft", "cwl-workflow-test", "test-data-refs"]
}
