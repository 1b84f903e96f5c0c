assembly = "skills/pipeline-look/_assembly.json"
skills   = "skills"

harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
}

budget {
  wall     = "10m"
  cost_usd = "1.00"
  tokens   = 1000
}

defaults {
  harness = "stub"
  budget {
    wall       = "1m"
    turns      = 1
    tool_calls = 1
    tokens     = 1
    cost_usd   = "0.01"
    output     = "1MiB"
    files      = 8
  }
}

phase "make" { inputs = [] }
