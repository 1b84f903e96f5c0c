//go:build unix && !linux

package sandboxtest

import "errors"

// bomb needs Linux.
func bomb(int, int) error { return errors.New("fork bombs are built for Linux alone") }
