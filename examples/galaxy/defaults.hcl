# What the seven pipelines of the Galaxy Workflow Foundry share.
#
#   foundry plan -var corpus=PATH/TO/galaxy-foundry examples/galaxy/cwl-to-galaxy.hcl

variable "corpus" {
  type        = path
  description = "the folder with skills/ and recorded/"
}

skills = "${var.corpus}/skills"

provider "anthropic" {
  api        = "anthropic-messages"
  base_url   = "https://api.anthropic.com"
  credential = "ANTHROPIC_API_KEY" # a name, never a value

  model "claude-sonnet-5" { # only listed models exist; USD per million tokens
    price      = { input = "3.00", output = "15.00", cache_read = "0.30", cache_write = "3.75" }
    max_output = 64000
  }
}

# The worker is a test stub until an agent's adapter is built: it settles and
# writes nothing, so these policies are for `plan` and its review.
harness "worker" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "scripts/idle.json"
  provider  = "anthropic"
  model     = "claude-sonnet-5"
}

sandbox {
  mode   = "container"
  image  = "builtin"
  memory = "2GiB"
  cpu    = 1
  pids   = 256
  tmp    = "256MiB"
}

budget { # the whole run
  wall     = "4h"
  cost_usd = "60.00"
  tokens   = 12000000
}

defaults { # every phase, unless it says otherwise
  harness = "worker"

  budget {
    wall       = "10m"
    turns      = 60
    tool_calls = 200
    tokens     = 400000
    cost_usd   = "3.00"
    output     = "64MiB"
    files      = 64
  }
}
