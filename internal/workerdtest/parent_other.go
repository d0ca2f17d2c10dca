//go:build !linux

package workerdtest

import "os/exec"

func dieWithParent(*exec.Cmd) {}
