package workerdtest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the process killed when the test's process ends, however that
// ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
