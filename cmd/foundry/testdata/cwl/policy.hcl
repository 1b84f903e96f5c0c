variable "image" { type = string }
variable "script" { type = path }

assembly = "skills/pipeline-cwl/_assembly.json"
skills   = "skills"

harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = var.script
}

sandbox { mode = "container" }

budget {
  wall     = "10m"
  cost_usd = "1.00"
  tokens   = 1000
}

defaults {
  harness = "stub"
  budget {
    wall       = "2m"
    turns      = 1
    tool_calls = 1
    tokens     = 1
    cost_usd   = "0.01"
    output     = "1MiB"
    files      = 8
  }
}

tool "cwltool" { image = var.image }

phase "write-tool" {
  inputs = []
  check "valid" {
    tool = "cwltool"
    argv = ["cwltool", "--validate", "{in:cwl-tool}"]
  }
}
