package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/process"
)

// server is a redis-server of our own.
type server struct {
	addr  string
	dir   string
	cmd   *exec.Cmd
	admin *redis.Client
}

func start() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp("", "bench-redis")
	if err != nil {
		return nil, err
	}
	s := &server{addr: addr, dir: dir, admin: redis.NewClient(&redis.Options{Addr: addr})}
	s.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	process.DieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("redis-server: %w; install it first", err)
	}
	for range 500 {
		if err = s.admin.Ping(context.Background()).Err(); err == nil {
			return s, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("redis-server does not answer: %w", err)
}

func (s *server) stop() {
	s.admin.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// figure reads a number of INFO.
func (s *server) figure(ctx context.Context, section, name string) (n float64) {
	info, _ := s.admin.Info(ctx, section).Result()
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			_, _ = fmt.Sscanf(rest, "%f", &n)
		}
	}
	return n
}

// fresh empties the server and its figures.
func (s *server) fresh(ctx context.Context) error {
	if err := s.admin.FlushAll(ctx).Err(); err != nil {
		return err
	}
	return s.admin.ConfigResetStat(ctx).Err()
}
