package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/bench/process"
)

// server is a redis-server of our own.
type server struct {
	addr    string
	process *process.Process
	admin   *redis.Client
}

func start(ctx context.Context) (*server, error) {
	p, err := process.StartRedis(ctx)
	if err != nil {
		return nil, err
	}
	return &server{addr: p.Addr, process: p, admin: redis.NewClient(&redis.Options{Addr: p.Addr})}, nil
}

func (s *server) stop() {
	s.admin.Close()
	s.process.Stop()
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
