package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/adapters/redis/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func TestBroker(t *testing.T) {
	s := redistest.Start(t)
	pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
		brokers := make([]pubsub.Broker, n)
		for i := range brokers {
			brokers[i] = newBroker(t, s, redis.BrokerOptions{})
		}
		return brokers
	})
}

func newBroker(t *testing.T, s *redistest.Server, opts redis.BrokerOptions) *redis.Broker {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	b := redis.NewBroker(client, opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}
