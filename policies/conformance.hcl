# What a run must be so that its result says something of the published skills.

guard "container" {
  assert  = alltrue([for n in plan.nodes : n.sandbox.mode == "container"])
  message = "The local sandbox is no boundary: a worker there may have read what no other machine has. Write mode = \"container\"."
}

guard "real-image" {
  assert  = alltrue([for n in plan.nodes : n.kind != "agent" || contains(n.sandbox.image, "@sha256:")])
  message = "The builtin image holds no agent. Name the image of the agent by its digest: `foundry image build` makes one."
}

guard "activation-required" {
  assert  = alltrue([for n in plan.nodes : n.kind != "agent" || n.require_activation])
  message = "A worker that does not prove that it used its skill proves nothing of the skill. Write require_activation = true."
}

guard "one-submission" {
  assert  = alltrue([for n in plan.nodes : n.kind != "agent" || n.submit_attempts == 1])
  message = "A worker that is told what is wrong with its artifact and tries again shows what the validator knows, not what the skill does. Write submit_attempts = 1."
}

guard "assembly-order" {
  assert  = plan.order == "assembly"
  message = "The published pipeline has an order. Write order = \"assembly\"."
}
