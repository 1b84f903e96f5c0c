# One of each: a loop of two iterations that its check ends, a branch whose
# second alternative is accepted, a plain phase that reads both.
variable "tools" { type = string }

assembly = "skills/pipeline-kill/_assembly.json"
skills   = "skills"

harness "stub" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "script.json"
}

sandbox {
  mode = "container"
}

budget {
  wall     = "2h"
  cost_usd = "10.00"
  tokens   = 100000
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

tool "busybox" { image = var.tools }

input "refs" { path = "fallback.json" }

loop "grow" {
  max_iterations = 4
  until          = check.grown.exit_code == 0

  check "grown" {
    image  = var.tools
    argv   = ["/bin/busybox", "grep", "-c", "grown", "{in:state}"]
    assert = check.grown.exit_code <= 1
  }
}

branch "pick" {
  accept    = length(output.refs.json.refs) > 0
  otherwise = input.refs
}
