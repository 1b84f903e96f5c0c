//go:build unix

package local

import (
	"os"
	"testing"

	"foundry/sandbox"
	"foundry/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	sandboxtest.WorkerMain()
	if len(os.Args) == 4 && os.Args[1] == "local-test-controller" {
		controllerMain(os.Args[2], os.Args[3])
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Run(t, func(*testing.T) sandbox.Runtime { return New() }, exe)
}
