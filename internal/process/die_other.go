//go:build !linux

package process

import "os/exec"

// DieWithParent does nothing: only Linux offers it.
func DieWithParent(*exec.Cmd) {}
