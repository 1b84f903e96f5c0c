include  = ["defaults.hcl", "tools.hcl"]
assembly = "${var.corpus}/skills/pipeline-nextflow-to-cwl/_assembly.json"

input "nextflow-source" {
  path = "inputs/demo-nf"
}

phase "summarize-nextflow" {
  inputs = ["nextflow-source"] # the skill declares none
  task   = "Summarize the pipeline in {in:nextflow-source}."
}

phase "summary-to-cwl-template" {
  inputs = ["summary-nextflow", "nextflow-cwl-interface", "nextflow-cwl-data-flow"]
}

loop "tools" { # one tool in each iteration: summarize it, implement it, validate
  phases         = ["summarize-cwl-tool", "implement-cwl-tool-step", "validate-cwl"]
  max_iterations = 30
  until          = check.valid.exit_code == 0 && !output.cwl-workflow-draft.yaml.has_todo

  phase "summarize-cwl-tool" {
    inputs = ["summary-nextflow", "cwl-workflow-draft"]
  }

  check "valid" {
    tool   = "cwltool"
    argv   = ["cwltool", "--validate", "{in:cwl-workflow-draft}"]
    assert = check.valid.exit_code <= 1 # a draft may be invalid before the last tool
  }
}

phase "validate-cwl#2" {
  check "validates" {
    tool = "cwltool"
    argv = ["cwltool", "--validate", "{in:cwl-workflow-draft}"]
  }
}

phase "run-workflow-test" {
  inputs = ["cwl-workflow-draft", "cwl-workflow-test"]
}
