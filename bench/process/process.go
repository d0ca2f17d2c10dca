// Package process starts server processes for one measurement, and reads what they use.
package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is a server process.
type Process struct {
	// Addr is the address that it has printed.
	Addr string
	cmd  *exec.Cmd
}

// Start runs a program that prints "listening on ADDR", and waits for that. The caller stops it.
func Start(ctx context.Context, program string, args ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd}

	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				address <- addr
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
	case <-time.After(10 * time.Second):
		p.Stop()
		return nil, errors.New("the server printed no address within 10 s")
	}
}

// Stop kills the process by its own id and reaps it.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	_ = p.cmd.Wait()         // always reports the kill
}
