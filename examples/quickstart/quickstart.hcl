# Three phases of a small pipeline, played by a script: no account, no container
# and no agent are needed to see a plan compile and run.
assembly = "skills/pipeline-release-notes/_assembly.json"
skills   = "skills"

input "change-notes" {
  path = "inputs/changes" # a folder beside this file
}

harness "replay" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "scripts/release-notes.json"
}

budget { # the whole run
  wall     = "10m"
  cost_usd = "1.00"
  tokens   = 100000
}

defaults { # every phase, unless it says otherwise
  harness = "replay"

  budget {
    wall       = "1m"
    turns      = 20
    tool_calls = 50
    tokens     = 50000
    cost_usd   = "0.50"
    output     = "1MiB"
    files      = 16
  }
}

phase "collect-changes" {
  inputs = ["change-notes"] # the skill declares none, so the policy must
  task   = "List every change that a note in {in:change-notes} describes."
}
