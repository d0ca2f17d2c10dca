//go:build unix

package process

import (
	"fmt"
	"os"
	"syscall"
)

// Stop pauses a process that this one has started, until [Continue]; its connections stay open. When Stop returns, no
// thread of the process runs any more: the signal alone takes effect a little later.
func Stop(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && !status.Stopped():
			return fmt.Errorf("process %d has ended", p.Pid)
		default:
			return err
		}
	}
}

// Continue resumes a process that was stopped.
func Continue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
