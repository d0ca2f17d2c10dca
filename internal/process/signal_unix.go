//go:build unix

package process

import (
	"os"
	"syscall"
)

// Stop pauses a process until [Continue]; its connections stay open.
func Stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Continue resumes a process that was stopped.
func Continue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
