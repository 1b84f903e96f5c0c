# What may be run of a change that nobody has reviewed.

guard "no-credential" {
  assert = (
    alltrue([for n in plan.nodes : length(n.sandbox.credentials) == 0 && length(n.sandbox.worker_credentials) == 0]) &&
    alltrue([for h in plan.harnesses : h.auth_store == ""])
  )
  message = "A change from outside may be written to send a credential away. Give the steps none."
}

guard "no-network" {
  assert  = alltrue([for n in plan.nodes : n.sandbox.network == "none"])
  message = "A change from outside reaches nobody. Write network = \"none\"."
}

guard "no-real-agent" {
  assert  = alltrue([for h in plan.harnesses : h.test_stub])
  message = "A real agent follows what a change from outside tells it, and spends. Let the test stub play a script: --harness NAME=STUB."
}
