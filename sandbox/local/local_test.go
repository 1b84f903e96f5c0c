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
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Run(t, func(*testing.T) sandbox.Runtime { return New() }, exe)
}
