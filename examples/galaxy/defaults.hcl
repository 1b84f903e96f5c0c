# What the seven pipelines of the Galaxy Workflow Foundry share.
#
#   foundry plan --var corpus=PATH/TO/galaxy-foundry examples/galaxy/cwl-to-galaxy.hcl
#
# With the real agent, in an image that `foundry image build --adapter pi
# --version 0.84.4` prints the reference of:
#
#   foundry plan --var corpus=… --harness worker=pi --sandbox-image foundry-pi:0.84.4@sha256:… \
#     --sandbox-network provider examples/galaxy/cwl-to-galaxy.hcl

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

# Without another word the worker is a test stub that settles and writes nothing:
# enough for `plan` and its review.
harness "worker" {
  adapter   = "scripted"
  version   = "1"
  test_stub = true
  script    = "scripts/idle.json"
  provider  = "anthropic"
  model     = "claude-sonnet-5"
}

harness "pi" {
  adapter  = "pi"
  version  = "0.84.4"
  provider = "anthropic"
  model    = "claude-sonnet-5"
  thinking = "medium"
  tools    = ["read", "bash", "edit", "write", "grep", "find", "ls"]
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
