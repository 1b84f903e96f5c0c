//go:build unix && !linux

package local

func controllerMain(run, dir string) {}
