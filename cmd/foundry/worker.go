package main

import (
	"io"

	"foundry/harness"
	"foundry/harness/contract"
	"foundry/harness/worker"
)

// worker is what runs inside a sandbox. It is no command for people, so it
// takes its arguments without the command line's library.
func (a *app) worker(args []string) int {
	return worker.Main(args, a.stdin, a.stdout, a.stderr, selfTest)
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
