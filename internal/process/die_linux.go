package process

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the system kill the process of cmd when this process ends,
// however it ends. It must be called before cmd is started. Other systems than Linux
// do not offer this: there the process stays when a test is killed.
func DieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
