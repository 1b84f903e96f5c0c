package main

import (
	"io"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/harness/worker"
	"foundry/harness/worker/probe"
	"foundry/harness/worker/relay"
)

// worker is what runs inside a sandbox. It is no command for people, so it
// takes its arguments without the command line's library.
func (a *app) worker(args []string) int {
	if len(args) > 0 && args[0] == "relay" {
		return relay.Main(args[1:], a.stderr)
	}
	return worker.Main(args, a.stdin, a.stdout, a.stderr, worker.Late{SelfTest: selfTest, Probe: probe.Document})
}

func selfTest() []contract.AdapterReport {
	var list []harness.Adapter
	for _, ad := range adapters() {
		list = append(list, ad)
	}
	return harness.SelfTest(list)
}

func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
