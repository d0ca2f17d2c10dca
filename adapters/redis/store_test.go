package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/adapters/redis/internal/redistest"
	"github.com/wskit/wskit/limit/limittest"
)

// clientOf is a client as redis.Open makes it.
func clientOf(t testing.TB, s *redistest.Server) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestStore(t *testing.T) {
	server := redistest.Start(t)
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		clock := limittest.NewClock()
		return limittest.Subject{Store: redis.NewStore(clientOf(t, server), redis.Options{Now: clock.Now}), Clock: clock}
	})
}
