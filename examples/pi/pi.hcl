# Two phases with the real Pi. Its provider plays script.json, so that no account
# is needed; docs/pi.md says what to change for a real one.
assembly = "skills/pipeline-minutes/_assembly.json"
skills   = "skills"

variable "pi" {
  type        = string
  default     = "1.6.0"
  description = "the version of Pi"
}

variable "script" {
  type        = path
  default     = "script.json"
  description = "what the provider answers"
}

input "minutes" {
  path = "inputs/minutes.md"
}

provider "scripted" {
  api    = "anthropic-messages"
  script = var.script # in place of base_url and credential

  model "claude-sonnet-5" { # USD per million tokens
    price      = { input = "3.00", output = "15.00", cache_read = "0.30", cache_write = "3.75" }
    max_output = 64000
  }
}

harness "worker" {
  adapter  = "pi"
  version  = var.pi
  provider = "scripted"
  model    = "claude-sonnet-5"
  thinking = "low"
  tools    = ["bash", "edit", "read", "write"]
}

sandbox {
  mode    = "local"
  network = "provider" # the broker, and nothing else
  memory  = "2GiB"
  cpu     = 1
  pids    = 256
  tmp     = "256MiB"
}

budget { # the whole run
  wall     = "10m"
  cost_usd = "2.00"
  tokens   = 400000
}

defaults { # every phase, unless it says otherwise
  harness = "worker"

  budget {
    wall       = "2m"
    turns      = 10
    tool_calls = 20
    tokens     = 100000
    cost_usd   = "1.00"
    output     = "1MiB"
    files      = 8
  }
}

phase "list-decisions" {
  inputs = ["minutes"] # the skill declares none, so the policy must
  task   = "List the decisions in {in:minutes}."
}
