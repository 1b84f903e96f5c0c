//go:build !linux

package build

import "syscall"

// apart gives a program a group of its own.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
