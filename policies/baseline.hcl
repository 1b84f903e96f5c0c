# What every plan should keep to.

guard "no-shell" {
  assert  = alltrue([for n in plan.nodes : !n.sandbox.allow_shell])
  message = "A shell as the program of a step runs whatever text reaches it. Name the program that is meant, and take out allow_shell."
}

guard "no-fetch" {
  assert  = alltrue([for n in plan.nodes : !n.sandbox.allow_fetch])
  message = "A program that fetches code when it runs (npx, uvx) makes the plan say nothing of what is run. Put the code into an image, and take out allow_fetch."
}

guard "image-by-digest" {
  assert = alltrue([for n in plan.nodes :
    n.sandbox.mode != "container" || n.sandbox.image == "builtin" || contains(n.sandbox.image, "@sha256:")
  ])
  message = "What a tag stands for changes. Name the image by its digest: `foundry image ls` shows it."
}

guard "finite-budgets" {
  assert = (
    plan.budget.wall_seconds > 0 && plan.budget.cost_micro_usd > 0 && plan.budget.tokens > 0 &&
    alltrue([for n in plan.nodes : n.budget.wall_seconds > 0])
  )
  message = "The run and every step have a bound on time, and the run has one on tokens and cost. Write them."
}

guard "no-bridge-with-credential" {
  assert = alltrue([for n in plan.nodes :
    n.sandbox.network != "bridge" || (
      length(n.sandbox.credentials) == 0 && length(n.sandbox.worker_credentials) == 0 &&
      !contains([for h in plan.harnesses : h.name if h.auth_store != ""], n.harness)
    )
  ])
  message = "A worker that reaches any host and has a credential, or a login of its own, can send it anywhere. Give it the network \"provider\", or no credential."
}

guard "no-host-checks" {
  assert  = alltrue([for n in plan.nodes : n.kind != "check" || (n.sandbox.mode == "container" && !n.check.trusted_host)])
  message = "A check outside a container runs on this machine, over files that a worker wrote. Give it an image, and take out trusted_host."
}
