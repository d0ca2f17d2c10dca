package process

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/wskit/wskit/internal/process"
)

// StartRedis starts a redis-server on a free port of 127.0.0.1 that keeps nothing on disk, and waits until it answers.
// The caller stops it.
func StartRedis(ctx context.Context) (*Process, error) {
	port, release, err := process.ReservePort()
	if err != nil {
		return nil, err
	}
	defer release() // it listens by then
	addr := net.JoinHostPort("127.0.0.1", port)
	cmd := exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", os.TempDir(), "--save", "", "--appendonly", "no")
	process.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("redis-server: %w; install it first", err)
	}
	p := &Process{Addr: addr, cmd: cmd}
	for end := time.Now().Add(startGuard); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = ping(addr); err == nil {
			return p, nil
		}
	}
	p.Stop()
	return nil, fmt.Errorf("redis-server does not answer: %w", err)
}

// ping returns an error unless a Redis server answers at the address.
func ping(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}
