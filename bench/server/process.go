package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a measured program that runs as a process.
type Process struct {
	Addr string
	cmd  *exec.Cmd
}

// Start starts a program that ends up in [Run], and waits for its address.
func Start(ctx context.Context, program string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	out := bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		p.Stop()
		return nil, fmt.Errorf("server: %s printed %q in place of its address: %v", program, line, err)
	}
	p.Addr = addr
	go io.Copy(io.Discard, out) // a full pipe must not block the server
	return p, nil
}

// Stop kills the process.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	_ = p.cmd.Wait()         // always reports the kill
}

// CPU is the processor time that the process has used.
func (p *Process) CPU() (time.Duration, error) { return CPUTime(p.cmd.Process.Pid) }

// CPUTime is the processor time, user and system, that a process has used so far, by the clock that
// Linux keeps for each process.
func CPUTime(pid int) (time.Duration, error) {
	const scheduled = 2 // the kind of clock, see CPUCLOCK_SCHED in the kernel
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("server: the processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
