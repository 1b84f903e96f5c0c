//go:build !linux

// Command containers measures containers, which need Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "containers need Linux")
	os.Exit(1)
}
