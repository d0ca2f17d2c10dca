// Package process starts server processes for one measurement, and reads what they use.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

// Process is a server process.
type Process struct {
	// Addr is the address that it has printed.
	Addr string
	cmd  *exec.Cmd
}

// startGuard only ends the wait for a process that hangs: one of the lowest priority may start slowly on a busy
// machine.
const startGuard = time.Minute

// announced is how a server prints its address.
var announced = regexp.MustCompile(`(?:listening on |http://)(\S+)`)

// Start runs a program that prints "listening on ADDR" or "http://ADDR", and waits for that. The caller stops it.
func Start(ctx context.Context, program string, args ...string) (*Process, error) {
	p, _, stdout, err := start(ctx, program, args)
	if err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if addr := announced.FindStringSubmatch(lines.Text()); addr != nil {
				address <- addr[1]
				break
			}
		}
		close(address)
		_, _ = io.Copy(io.Discard, stdout) // a full pipe must not block the server
	}()
	select {
	case addr, ok := <-address:
		if !ok {
			p.Stop()
			return nil, errors.New("the server ended before it printed its address")
		}
		p.Addr = addr
		return p, nil
	case <-time.After(startGuard):
		p.Stop()
		return nil, fmt.Errorf("the server printed no address within %v", startGuard)
	}
}

// start runs a program. What it prints has to be read.
func start(ctx context.Context, program string, args []string) (p *Process, in io.Writer, out io.Reader, err error) {
	p = &Process{cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Stderr = os.Stderr
	if in, err = p.cmd.StdinPipe(); err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	return p, in, out, err
}

// Terminate sends the process SIGTERM.
func (p *Process) Terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// Stop kills the process by its own id and reaps it.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	_ = p.cmd.Wait()         // always reports the kill
}
